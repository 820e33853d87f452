package transfer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store"
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

// unavailablePlace is a place that cannot be used for now.
type unavailablePlace struct{ blob.Place }

func (unavailablePlace) Create(context.Context, string) (blob.Writer, error) {
	return nil, store.ErrUnavailable
}

// Jobs that are interrupted while a test advances the clock are the error of Advance.
func TestAdvanceReportsInterruptedJobs(t *testing.T) {
	manual := clock.NewManual(time.Now())
	on := clock.Controlled(manual)
	storage := pebble.InMemory()
	storage.Now = on.Now
	e, err := pebble.Open(storage)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), e, db.Options{Clock: on})
	if err != nil {
		t.Fatal(err)
	}
	place, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	transfers, err := Open(t.Context(), d, map[string]blob.Place{"files": unavailablePlace{place}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		transfers.Close()
		if err := errors.Join(d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}()
	on.Begin()
	go func() {
		defer on.End()
		on.Wait(t.Context(), clock.Waiting{For: time.Minute})
		r := &jobRunner{Store: transfers, claimed: make(map[string]bool)}
		r.runJob(t.Context(), Job{ID: "none", Export: &Export{}})
	}()
	if err := manual.Advance(t.Context(), 2*time.Minute); !errors.Is(err, errSuperseded) {
		t.Errorf("with a job of another server: %v", err)
	}
	h := &transferFixture{DB: d, Store: transfers}
	if _, err := transfers.StartExport(t.Context(), Job{Table: "Things", TableID: h.create(t, "Things").ID, Bucket: "files", Format: JSON, Export: &Export{Time: on.Now(), End: on.Now().Add(time.Millisecond)}}); err != nil {
		t.Fatal(err)
	}
	if err := manual.Advance(t.Context(), time.Minute); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with a bucket that is not available: %v", err)
	}
}
