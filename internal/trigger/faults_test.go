package trigger

import (
	"testing"
	"time"

	"github.com/stator-db/stator/internal/inject"
	"github.com/stator-db/stator/internal/ops"
)

// With the fault, a batch that was accepted is delivered again, once; without it, it is not.
func TestDuplicateDelivery(t *testing.T) {
	for _, c := range []struct {
		rules []inject.Rule
		want  int // deliveries
	}{{nil, 1}, {[]inject.Rule{{Fault: inject.DuplicateDelivery, Table: "Orders"}}, 2}} {
		inVirtualTime(t, func(w *triggerTest) {
			faults := inject.New(w.service.DB.Clock().Elapsed)
			faults.Set(inject.Plan{Rules: c.rules})
			w.service = ops.New(ops.Parts{DB: w.service.DB, Faults: faults})
			w.put("a", 1)
			w.put("a", 2)
			w.start(Config{StartingPosition: TrimHorizon})
			time.Sleep(time.Second)
			got := w.requests()
			if len(got) != c.want {
				t.Fatalf("%d deliveries, want %d", len(got), c.want)
			}
			for _, d := range got {
				if len(d.records) != 2 {
					t.Errorf("a delivery has %d records, want 2", len(d.records))
				}
			}
			if _, total := faults.Log(0, inject.Kept); total != c.want-1 {
				t.Errorf("%d faults are recorded, want %d", total, c.want-1)
			}
		})
	}
}
