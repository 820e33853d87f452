package workload

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
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
		{shape: Shape{Operation: "GetItem", Table: "a", Statement: true}},
		{shape: Shape{Operation: "GetItem", Table: "a", Index: "b"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "b"},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v"},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v", names: map[string]string{"#x": "p"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v", names: map[string]string{"#x": "q"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v AND #y = :w", names: map[string]string{"#x": "p", "#y": "q"}},
		{shape: Shape{Operation: "GetItem", Table: "a"}, expression: "#x = :v AND #y = :w", names: map[string]string{"#x": "q", "#y": "p"}},
	} {
		f := r.WithExpression(r.Fingerprint(&c.shape), c.expression, c.names)
		text := fmt.Sprintf("%+v", c)
		if other, ok := seen[f]; ok {
			t.Errorf("%s has the fingerprint of %s", text, other)
		}
		seen[f] = text
	}
	s := Shape{Operation: "Query", Table: "a"}
	f := r.Fingerprint(&s)
	if r.WithExpression(f, "#x = :v", map[string]string{"#x": "p"}) != r.WithExpression(f, "#x = :v", map[string]string{"#x": "p", "#unused": "q"}) {
		t.Error("a name that the expression does not use changes the fingerprint")
	}
}

// A full set of the cache replaces one of its entries; readers see a counter that
// belongs to the fingerprint, or none.
func TestFingerprintCache(t *testing.T) {
	r := NewRecorder(time.Now())
	counters := make([]Counter, 2*cacheWays)
	for i := range counters {
		counters[i].period = r.current.Load()
	}
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

// Prefixes of keys are part of the fingerprint, other parts of values are not.
func TestFingerprintOfPrefixes(t *testing.T) {
	r := NewRecorder(time.Now())
	f := r.Fingerprint(&Shape{Operation: "GetItem", Table: "a"})
	of := func(partition, sort string) Fingerprint {
		return r.WithPrefix(r.WithPrefix(f, item.String(partition)), item.String(sort))
	}
	if of("C#1", "O#1") != of("C#2", "O#2") || of("alice", "1") != of("bob", "2") {
		t.Error("a value changes the fingerprint")
	}
	if of("C#1", "O#1") == of("O#1", "C#1") || of("C#1", "O#1") == of("C#1", "P#1") || of("C#1", "1") == of("1", "C#1") {
		t.Error("prefixes do not change the fingerprint")
	}
	var one, other ActionSet
	for _, s := range []string{"C#1", "O#1", "C#2"} {
		one.Add(r.WithPrefix(f, item.String(s)))
	}
	for _, s := range []string{"O#9", "C#9"} {
		other.Add(r.WithPrefix(f, item.String(s)))
	}
	a, _ := one.Sum()
	if b, _ := other.Sum(); a != b {
		t.Error("the order or the number of actions changes the fingerprint")
	}
}

// A table has a bounded number of prefixes and names; the shapes of further ones are
// unknown, and those of other tables are not affected.
func TestTermsAreBounded(t *testing.T) {
	r := NewRecorder(time.Now())
	table, other := &schema.Table{Name: "a"}, &schema.Table{Name: "b"}
	letters := func(i int) string { return string([]byte{'A' + byte(i/26), 'A' + byte(i%26)}) }
	for i := range 2 * MaxNames {
		prefix, name := letters(i)+"#", letters(i)
		wantPrefix, wantName := prefix, name
		if i >= MaxPrefixes {
			wantPrefix = Unknown
		}
		if i >= MaxNames {
			wantName = unknownName
		}
		if got := r.Prefix(table, "PK", item.String(prefix+"1")); got != wantPrefix {
			t.Fatalf("prefix %d is %q, want %q", i, got, wantPrefix)
		}
		if got := r.Name(table, name); got != wantName {
			t.Fatalf("name %d is %q, want %q", i, got, wantName)
		}
	}
	if r.Prefix(table, "PK", item.String("AA#2")) != "AA#" || r.Prefix(table, "SK", item.String("ZZ#2")) != "ZZ#" || r.Prefix(other, "PK", item.String("ZZ#2")) != "ZZ#" {
		t.Error("a known prefix, one of another attribute or one of another table is unknown")
	}
	if r.Name(table, "alice@example.org") != unknownName || r.Name(table, "0199f0a1b2") != unknownName || r.Name(other, "address2") != "address2" {
		t.Error("a name is reported that may be a customer's data, or one is not that cannot")
	}
}

// A reset returns the counts and starts again. A counter that was looked up before the
// reset does not count requests after it, even if it is cached again.
func TestReset(t *testing.T) {
	r := NewRecorder(time.Unix(1, 0))
	shape := Shape{Operation: "GetItem", Table: "a"}
	f := r.Fingerprint(&shape)
	c := r.Counter(shape)
	c.Observe(1, 1)
	r.Cache(f, c)
	if got := r.Reset(time.Unix(2, 0)); len(got.Shapes) != 1 || got.Shapes[0].Requests != 1 || got.Since != time.Unix(1, 0) {
		t.Errorf("the reset returns %+v", got)
	}
	r.Cache(f, c)
	if r.Cached(f) != nil {
		t.Error("a counter of before the reset is cached")
	}
	if got := r.Report(); len(got.Shapes) != 0 || got.Since != time.Unix(2, 0) {
		t.Errorf("after the reset the report is %+v", got)
	}
	if sampled := r.Counter(shape).Observe(1, 1); !sampled {
		t.Error("the first request after the reset is not measured")
	}
}

// Actions are sorted, each is contained once, and their number is bounded.
func TestActions(t *testing.T) {
	put, check := Action{"Put", "C#", "O#", false}, Action{"ConditionCheck", "C#", "", true}
	text := Actions([]Action{put, check, put})
	if text != "ConditionCheck C# - if; Put C# O#" {
		t.Errorf("the actions are %q", text)
	}
	if all, complete := ParseActions(text); !complete || !slices.Equal(all, []Action{check, put}) {
		t.Errorf("they are parsed as %v, %t", all, complete)
	}
	var many []Action
	for i := range MaxActions + 1 {
		many = append(many, Action{"Put", string([]byte{'A' + byte(i), '#'}), "", false})
	}
	if all, complete := ParseActions(Actions(many)); complete || len(all) != MaxActions {
		t.Errorf("of too many actions %d are parsed, complete: %t", len(all), complete)
	}
}

// A text with unknown names or without its end is the same as any that it may be.
func TestSameText(t *testing.T) {
	for _, c := range []struct {
		shape, design string
		same          bool
	}{
		{"a = ?", "a = ?", true},
		{"a = ?", "b = ?", false},
		{"?? = ?", "a = ?", true},
		{"?? = ?", "a = ? AND b = ?", false},
		{"a = ? AND" + cut, "a = ? AND b = ?", true},
		{"a = ? AND" + cut, "b = ? AND a = ?", false},
		{"", "a", false},
	} {
		if SameText(c.shape, c.design) != c.same {
			t.Errorf("SameText(%q, %q) = %t", c.shape, c.design, !c.same)
		}
	}
}

// A text is complete if all names are known and its end is there.
func TestComplete(t *testing.T) {
	for text, want := range map[string]bool{"a, b": true, "": true, "a, ??": false, "a, b" + cut: false} {
		if Complete(text) != want {
			t.Errorf("Complete(%q) = %t", text, !want)
		}
	}
}

// BenchmarkFingerprint measures the fingerprint of a request by key.
func BenchmarkFingerprint(b *testing.B) {
	r := NewRecorder(time.Now())
	shape := Shape{Operation: "GetItem", Table: "shop"}
	partition, sort := item.String("CUSTOMER#0001"), item.String("ORDER#0001")
	b.ReportAllocs()
	for b.Loop() {
		r.WithPrefix(r.WithPrefix(r.Fingerprint(&shape), partition), sort)
	}
}

// The text of a shape names what distinguishes it from others.
func TestShapeText(t *testing.T) {
	for want, s := range map[string]Shape{
		"GetItem of shop, with the key C# PROFILE": {Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "PROFILE"},
		"a statement like Query of shop.GSI1 GSI1PK = ?, with a filter state = ?, with a projection a, b, consistent": {Operation: "Query", Table: "shop", Index: "GSI1",
			Form: "GSI1PK = ?", Filter: true, FilterText: "state = ?", Projection: "a, b", Consistent: true, Statement: true},
		"TransactWriteItems of shop (Put C# O# if)":                  {Operation: "TransactWriteItems", Table: "shop", Form: "Put", Actions: "Put C# O# if"},
		"PutItem of shop, with a condition attribute_not_exists(PK)": {Operation: "PutItem", Table: "shop", Condition: true, ConditionText: "attribute_not_exists(PK)"},
	} {
		if got := s.Text(); got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
	}
}

// The shapes of deleted tables make room for those of others. Those of a table that was
// created again, and those that were cached, are counted again.
func TestShapesOfDeletedTablesMakeRoom(t *testing.T) {
	r := NewRecorder(time.Now())
	exists := map[string]bool{"kept": true, "gone": true}
	r.Exists = func(table string) bool { return exists[table] }
	for i := range MaxShapes - 1 {
		r.Counter(Shape{Operation: "Query", Table: "gone", Form: fmt.Sprint("a", i, " = ?")}).Observe(1, 1)
	}
	kept, gone := Shape{Operation: "GetItem", Table: "kept"}, Shape{Operation: "Query", Table: "gone", Form: "a0 = ?"}
	f := r.Fingerprint(&gone)
	cached := r.Counter(gone)
	r.Cache(f, cached)
	r.Counter(kept).Observe(1, 1)
	exists["gone"] = false
	if n := len(r.Report().Shapes); n != MaxShapes {
		t.Errorf("after the table is deleted there are %d shapes, want all %d as long as there is room", n, MaxShapes)
	}
	put := Shape{Operation: "PutItem", Table: "kept"}
	r.Counter(put).Observe(0, 0)
	if report := r.Report(); len(report.Shapes) != 2 || report.Other.Requests != 0 {
		t.Errorf("%d shapes are left, want 2, and %d requests are counted together, want none", len(report.Shapes), report.Other.Requests)
	}
	r.Cache(f, cached) // a request that looked its counter up before
	if r.Cached(f) != nil {
		t.Error("a counter of the deleted table is cached")
	}
	exists["gone"] = true
	r.Counter(gone).Observe(1, 1)
	if report := r.Report(); len(report.Shapes) != 3 {
		t.Errorf("after the table is created again there are %d shapes, want 3", len(report.Shapes))
	}
}

// While there is room for no more shapes, few requests look for deleted tables.
func TestRoomIsLookedForSeldom(t *testing.T) {
	r := NewRecorder(time.Now())
	calls := 0
	r.Exists = func(string) bool { calls++; return true }
	for i := range MaxShapes + roomEvery {
		r.Counter(Shape{Operation: "Query", Table: "t", Form: fmt.Sprint("a", i, " = ?")}).Observe(1, 1)
	}
	if calls != 1 {
		t.Errorf("the table is looked up %d times, want once", calls)
	}
}
