package backup

import (
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// failover is an old server and a promoted standby of it, which use one place for backups. The table
// of the old server has oldItems, and that of the promoted one has more.
type failover struct {
	t             *testing.T
	old, promoted *pebble.Engine
	place         blob.Place
	log           logtest.Log
}

const oldItems = 5

// newFailover fills the old server, runs it for a while, and promotes a copy of its data.
func newFailover(t *testing.T, s Schedule, run func(old *backupFixture)) *failover {
	t.Helper()
	f := &failover{t: t, old: openInMemory(t), promoted: openInMemory(t)}
	place, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	f.place = place
	t.Cleanup(func() {
		if err := errors.Join(f.old.Close(), f.promoted.Close(), place.Close()); err != nil {
			t.Error(err)
		}
	})
	old := f.start(f.old, place, s)
	if _, err := old.ID(t.Context()); err != nil { // a standby asks for it before it copies
		t.Fatal(err)
	}
	old.fill(t, "Orders", oldItems, 10)
	run(old)
	old.close()
	f.promote()
	return f
}

func openInMemory(t *testing.T) *pebble.Engine {
	t.Helper()
	e, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// promote copies all pairs of the old engine, as a standby does, and ends that.
func (f *failover) promote() {
	f.t.Helper()
	snap, err := f.old.Snapshot(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer snap.Close()
	if err := f.promoted.Update(f.t.Context(), nil, func(tx store.Tx) error {
		for p, err := range snap.Scan(f.t.Context(), store.Range{}) {
			if err != nil {
				return err
			}
			tx.Set([]byte(string(p.Key)), []byte(string(p.Value)))
		}
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	if err := f.promoted.EndStandby(); err != nil {
		f.t.Fatal(err)
	}
}

// start starts a server.
func (f *failover) start(e *pebble.Engine, place blob.Place, s Schedule) *backupFixture {
	f.t.Helper()
	d, err := db.Open(f.t.Context(), e, db.Options{OpenBackup: Contents(place), ExpiryInterval: 24 * time.Hour})
	if err != nil {
		f.t.Fatal(err)
	}
	h := &backupFixture{DB: d, Store: Open(f.t.Context(), d, place, Options{Log: f.log.Logger(), Schedule: s})}
	h.close = func() {
		h.Store.Close()
		if err := d.Close(); err != nil {
			f.t.Error(err)
		}
	}
	return h
}

// setItems returns how many items the sets of a server have, the newest first.
func (h *backupFixture) setItems(t *testing.T) (items []int64) {
	t.Helper()
	status, err := h.ScheduleStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range status.Sets {
		items = append(items, set.Items)
	}
	return items
}

// checkWhole checks that all backups of all sets at the place exist.
func (f *failover) checkWhole() {
	f.t.Helper()
	if err := VerifyAll(f.t.Context(), f.place, func(v Verified) {
		if v.Fault != "" {
			f.t.Errorf("%s: %s", v.File, v.Fault)
		}
	}); err != nil {
		f.t.Error(err)
	}
}

// An old server that starts again after a failover, with stale data and the same place for backups,
// neither counts among the sets of the promoted one nor removes any of its backups.
func TestPromotedServerHasItsOwnSets(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		const every = 10 * time.Minute
		s := Schedule{Every: every, Keep: 3}
		f := newFailover(t, s, func(old *backupFixture) { time.Sleep(3*every + time.Minute) })
		gate := &leadtest.Gate{Place: f.place}
		promoted := f.start(f.promoted, gate, s)
		defer promoted.close()
		promoted.put(t, "Orders", 60, 10)
		time.Sleep(2*every + every/2)
		old := f.start(f.old, f.place, s)
		defer old.close()
		time.Sleep(6 * every)
		if n := len(promoted.setItems(t)); n != s.Keep {
			t.Errorf("the promoted server keeps %d sets, want %d", n, s.Keep)
		}
		for server, want := range map[*backupFixture]int64{promoted: 60, old: oldItems} {
			for _, items := range server.setItems(t) {
				if items != want {
					t.Errorf("the sets of the server with %d items have %v items", want, server.setItems(t))
				}
			}
		}
		f.checkWhole()

		held := gate.Hold(t, suffixSet)
		held() // the backups of the promoted server's next set are there, and the set is not
		time.Sleep(2 * every)
		gate.Release()
		time.Sleep(time.Second)
		f.checkWhole()
	})
}

// Backups that a customer made before the failover belong to both servers.
func TestPromotedServerHasEarlierBackups(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var made Backup
		f := newFailover(t, Schedule{}, func(old *backupFixture) { made = old.backUp(t, "Orders") })
		promoted := f.start(f.promoted, f.place, Schedule{})
		defer promoted.close()
		if all, err := promoted.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != made.ID {
			t.Errorf("the backups are %+v, %v", all, err)
		}
		if _, err := promoted.Restore(t.Context(), made.ID, as("Again")); err != nil || !promoted.waitRestored("Again") {
			t.Fatal("the backup cannot be restored", err)
		}
		if got := promoted.contents(t, "Again"); len(got) != oldItems {
			t.Errorf("the restored table has %d items", len(got))
		}
		if _, err := promoted.Delete(t.Context(), made.ID); err != nil {
			t.Error(err)
		}
	})
}
