package transfer

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
)

// While the wall clock is stepped, no job is old: its record is kept, and its token is
// not forgotten. The control is a clock that is not checked.
func TestStepEndsNoJob(t *testing.T) {
	for _, step := range []time.Duration{100 * 24 * time.Hour, -2 * time.Hour} {
		for _, checked := range []bool{true, false} {
			s := clocktest.New()
			c := clock.Given(s.Now)
			if checked {
				c = clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
			}
			storage := pebble.InMemory()
			storage.Now = c.Now
			e, err := pebble.Open(storage)
			if err != nil {
				t.Fatal(err)
			}
			d, err := db.Open(t.Context(), e, db.Options{Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			transfers, err := Open(t.Context(), d, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			first, err := transfers.StartExport(t.Context(), Job{Token: "t", Export: &Export{}})
			if err != nil {
				t.Fatal(err)
			}
			s.Pass(time.Second)
			s.Step(step)
			again, err := transfers.StartExport(t.Context(), Job{Token: "t", Export: &Export{}})
			if err != nil {
				t.Fatal(err)
			}
			harm := !checked && step > 0
			if (again.ID != first.ID) != harm {
				t.Errorf("step %v, checked %v: a repeated request started another export: %v", step, checked, again.ID != first.ID)
			}
			ended := Job{Status: Completed, Ended: first.Started}
			if transfers.isExpired(&ended) != harm {
				t.Errorf("step %v, checked %v: a new job is expired", step, checked)
			}
			transfers.Close()
			if err := errors.Join(d.Close(), e.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}
