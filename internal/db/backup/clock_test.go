package backup

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
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

// Backups that fail while a test advances the clock are the error of Advance.
func TestAdvanceReportsFailedBackups(t *testing.T) {
	f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 1})
	manual := clock.NewManual(time.Now())
	on := clock.Controlled(manual)
	d, err := db.Open(t.Context(), f.engine, db.Options{Clock: on, OpenBackup: Contents(f.place)})
	if err != nil {
		t.Fatal(err)
	}
	h := &backupFixture{DB: d, Store: Open(t.Context(), d, f.place, Options{Log: f.log.Logger(), Schedule: f.schedule})}
	defer func() {
		h.Store.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	h.fill(t, "Orders", 1, 10)
	if err := manual.Advance(t.Context(), 90*time.Minute); err != nil {
		t.Errorf("without a fault: %v", err)
	}
	f.place.full.Store(true)
	if err := manual.Advance(t.Context(), time.Hour); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "scheduled backup: table Orders") {
		t.Errorf("with a full disk: %v", err)
	}
	f.place.full.Store(false)
	if err := manual.Advance(t.Context(), time.Hour); err != nil {
		t.Errorf("with space again: %v", err)
	}
	on.Begin()
	go func() {
		defer on.End()
		on.Wait(t.Context(), clock.Waiting{For: time.Minute})
		h.fail(t.Context(), &job{Manifest: Manifest{ID: timeid.New(on.Now()), Name: "mine"}}, errFaultyPlace)
	}()
	if err := manual.Advance(t.Context(), 2*time.Minute); !errors.Is(err, errFaultyPlace) {
		t.Errorf("with a backup on request that fails: %v", err)
	}
}
