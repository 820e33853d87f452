package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/timeid"
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

// A backup that is requested of the promoted server has its items: the old one, which has a table with
// the same UUID, does not write it, and neither shows it nor counts it among those in progress.
func TestPromotedServerWritesItsOwnBackups(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newFailover(t, Schedule{}, func(*backupFixture) {})
		gate := &leadtest.Gate{Place: f.place}
		promoted := f.start(f.promoted, gate, Schedule{})
		defer promoted.close()
		promoted.put(t, "Orders", 60, 10)
		held := gate.Hold(t, suffixItems)
		made, err := promoted.Create(t.Context(), "Orders", "a-backup")
		if err != nil {
			t.Fatal(err)
		}
		held()
		old := f.start(f.old, f.place, Schedule{})
		defer old.close()
		time.Sleep(3 * scanInterval)
		if _, err := old.Store.Get(t.Context(), made.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get at the old server: %v, want %v", err, ErrNotFound)
		}
		if all, err := old.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("List at the old server: %+v, %v", all, err)
		}
		gate.Release()
		if b := promoted.waitAvailable(t, made.ID); b.Items != 60 {
			t.Errorf("the backup has %d items, want 60", b.Items)
		}
		time.Sleep(3 * scanInterval)
		for _, h := range []*backupFixture{promoted, old} {
			if b, err := h.Store.Get(t.Context(), made.ID); err != nil || b.Items != 60 || h.Store.Verify(t.Context(), made.ID) != nil {
				t.Errorf("the complete backup is %+v, %v", b, err)
			}
		}
	})
}

// The record of a backup that an older version was asked for does not name its database. The
// server that has the table writes it.
func TestPendingBackupWithoutADatabase(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newFailover(t, Schedule{}, func(*backupFixture) {})
		old := f.start(f.old, f.place, Schedule{})
		defer old.close()
		d, err := old.Describe("Orders")
		if err != nil {
			t.Fatal(err)
		}
		now := old.Now()
		m := Manifest{Format: format, ID: timeid.New(now), Name: "a-backup", Created: now, Taken: now, Table: *d.Table}
		if err := writeRecord(t.Context(), f.place, m.ID+suffixCreating, &m); err != nil {
			t.Fatal(err)
		}
		if b := old.waitAvailable(t, m.ID); b.Items != oldItems {
			t.Errorf("the backup has %d items", b.Items)
		}
	})
}

// noSpaceEngine is an engine whose disk is full while full is set.
type noSpaceEngine struct {
	store.Engine
	full atomic.Bool
}

func (e *noSpaceEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if e.full.Load() {
		return store.ErrFull
	}
	return e.Engine.Update(ctx, keys, fn)
}

// A database that has no id yet is backed up although its own disk is full.
func TestBackupWithoutAnID(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{})
		e := &noSpaceEngine{Engine: f.engine}
		f.fleet = leadtest.New(e)
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", oldItems, 10)
		e.full.Store(true)
		defer e.full.Store(false)
		if _, err := h.ID(t.Context()); !errors.Is(err, store.ErrFull) {
			t.Errorf("ID: %v, want %v", err, store.ErrFull)
		}
		if b := h.backUp(t, "Orders"); b.Items != oldItems {
			t.Errorf("the backup has %d items", b.Items)
		}
	})
}

// At a place with sets of an old server and of the promoted one, the newest set may be stale. It is not
// restored unless its database is named, and the error names both with what they have.
func TestRestoreAtAPlaceOfTwoDatabases(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		const every = 10 * time.Minute
		s := Schedule{Every: every, Keep: 3}
		f := newFailover(t, s, func(*backupFixture) { time.Sleep(every + time.Minute) })
		newest := func(database string) (int64, string) {
			t.Helper()
			set, _, err := newestSet(t.Context(), f.place, database)
			if err != nil {
				return 0, err.Error()
			}
			return set.Items, ""
		}
		if items, why := newest(""); items != oldItems || why != "" {
			t.Errorf("with one database, the newest set has %d items, %s", items, why)
		}
		promoted := f.start(f.promoted, f.place, s)
		promoted.put(t, "Orders", 60, 10)
		time.Sleep(2*every + time.Minute)
		promoted.close()
		old := f.start(f.old, f.place, s)
		time.Sleep(2*every + time.Minute)
		old.close()
		old, promoted = f.start(f.old, f.place, Schedule{}), f.start(f.promoted, f.place, Schedule{})
		defer old.close()
		defer promoted.close()
		want := map[int64]string{}
		for items, h := range map[int64]*backupFixture{oldItems: old, 60: promoted} {
			id, err := h.ID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want[items] = id
		}
		_, why := newest("")
		if !strings.Contains(why, "--database") {
			t.Errorf("without a database: %q", why)
		}
		for items, id := range want {
			if !strings.Contains(why, fmt.Sprintf("%s: newest of 3: ", id)) || !strings.Contains(why, fmt.Sprintf(" %d items", items)) {
				t.Errorf("the error does not tell of the database %s with %d items: %s", id, items, why)
			}
			if got, why := newest(id); got != items {
				t.Errorf("the newest set of %s has %d items, %s, want %d", id, got, why, items)
			}
		}
		if _, why := newest("unknown"); !strings.Contains(why, "unknown") || !strings.Contains(why, ErrNoSet.Error()) {
			t.Errorf("of an unknown database: %q", why)
		}

		// An operator who makes a backup with stator backup has chosen.
		var stream bytes.Buffer
		if err := promoted.WriteAll(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		if err := ReadAll(t.Context(), &stream, f.place, time.Now(), func(Manifest) {}); err != nil {
			t.Fatal(err)
		}
		if set, _, err := newestSet(t.Context(), f.place, ""); err != nil || set.Number != 0 {
			t.Errorf("after stator backup: %+v, %v", set, err)
		}
		if items, why := newest(want[60]); items != 60 {
			t.Errorf("after stator backup, the newest set of the promoted server has %d items, %s", items, why)
		}
	})
}
