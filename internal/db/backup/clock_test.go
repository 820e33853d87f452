package backup

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/timeid"
)

// While the wall clock is stepped, the files of a new backup and a scheduled backup
// are not old enough to be removed. The control is a clock that is not checked.
func TestStepMakesNothingStale(t *testing.T) {
	for _, step := range []time.Duration{26 * time.Hour, -2 * time.Hour} {
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
			place, err := blob.Open(t.Context(), "mem://")
			if err != nil {
				t.Fatal(err)
			}
			backups := Open(t.Context(), d, place, Options{Log: slog.New(slog.DiscardHandler), Schedule: Schedule{MaxAge: 25 * time.Hour}})
			id := timeid.New(c.Now())

			set := &backupSet{Created: c.Now()}
			s.Pass(time.Second)
			s.Step(step)
			if old := backups.isTooOld(set); old != (!checked && step > 0) {
				t.Errorf("step %v, checked %v: a new set is too old: %v", step, checked, old)
			}
			if stale := backups.isStale(id); stale != (!checked && step > 0) {
				t.Errorf("step %v, checked %v: a new backup is stale: %v", step, checked, stale)
			}
			s.Step(-step)
			s.Pass(25 * time.Hour)
			if !backups.isStale(id) {
				t.Errorf("step %v, checked %v: a day later it is not stale", step, checked)
			}
			backups.Close()
			if err := errors.Join(d.Close(), e.Close(), place.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}
