package workload

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// At most MaxShapes shapes are counted separately, the rest together. No request
// is lost when many are counted concurrently.
func TestShapesAreBounded(t *testing.T) {
	r := NewRecorder(time.Now())
	const all, workers = 10_000, 4
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range all {
				r.Counter(Shape{Operation: "Query", Table: "t", Form: fmt.Sprint("a", i, " = ?")}).Observe(1, 2)
			}
		})
	}
	wg.Wait()
	report := r.Report()
	if len(report.Shapes) != MaxShapes {
		t.Errorf("%d shapes are counted separately, want %d", len(report.Shapes), MaxShapes)
	}
	sum := report.Other.Requests
	for _, c := range report.Shapes {
		sum += c.Requests
	}
	if sum != workers*all || report.Other.Requests == 0 || report.Other.Scanned != 2*report.Other.Requests {
		t.Errorf("%d of %d requests are counted, %+v of them together", sum, workers*all, report.Other)
	}
}

// The fingerprint depends on everything that a shape depends on, and on nothing
// else.
func TestFingerprint(t *testing.T) {
	r := NewRecorder(time.Now())
	seen := make(map[Fingerprint]string)
	for _, c := range []struct {
		shape      Shape
		expression string
		names      map[string]string
	}{
		{shape: Shape{Operation: "GetItem", Table: "a"}},
		{shape: Shape{Operation: "PutItem", Table: "a"}},
		{shape: Shape{Operation: "GetItem", Table: "b"}},
		{shape: Shape{Operation: "GetItem", Table: "a", Consistent: true}},
		{shape: Shape{Operation: "GetItem", Table: "a", Condition: true}},
		{shape: Shape{Operation: "GetItem", Table: "a", Filter: true}},
		{shape: Shape{Operation: "GetItem", Table: "a", Index: "b"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "b"},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v"},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v", names: map[string]string{"#x": "p"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v", names: map[string]string{"#x": "q"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v AND #y = :w", names: map[string]string{"#x": "p", "#y": "q"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v AND #y = :w", names: map[string]string{"#x": "q", "#y": "p"}},
	} {
		f := r.Fingerprint(&c.shape, c.expression, c.names)
		text := fmt.Sprintf("%+v", c)
		if other, ok := seen[f]; ok {
			t.Errorf("%s has the fingerprint of %s", text, other)
		}
		seen[f] = text
	}
	s := Shape{Operation: "Query", Table: "a"}
	if r.Fingerprint(&s, "#x = :v", map[string]string{"#x": "p"}) != r.Fingerprint(&s, "#x = :v", map[string]string{"#x": "p", "#unused": "q"}) {
		t.Error("a name that the expression does not use changes the fingerprint")
	}
}

// A full set of the cache replaces one of its entries; readers see a counter that
// belongs to the fingerprint, or none.
func TestFingerprintCache(t *testing.T) {
	r := NewRecorder(time.Now())
	counters := make([]Counter, 2*cacheWays)
	var wg sync.WaitGroup
	for i := range counters {
		wg.Go(func() {
			f := Fingerprint(i*cacheSets + 7)
			for range 1000 {
				if c := r.Cached(f); c == nil {
					r.Cache(f, &counters[i])
				} else if c != &counters[i] {
					t.Errorf("fingerprint %d has the counter of another", f)
				}
			}
		})
	}
	wg.Wait()
	cached := 0
	for i := range counters {
		if r.Cached(Fingerprint(i*cacheSets+7)) != nil {
			cached++
		}
	}
	if cached == 0 || cached > cacheWays {
		t.Errorf("%d entries are in one set, want 1 to %d", cached, cacheWays)
	}
}
