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
