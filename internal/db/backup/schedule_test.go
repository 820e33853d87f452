package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/timeid"
	"github.com/stator-db/stator/internal/virtualtime"
)

// scheduledServers are servers that share a database, a place and a schedule.
type scheduledServers struct {
	t        *testing.T
	engine   store.Engine
	fleet    *leadtest.Fleet
	place    *faultyPlace
	schedule Schedule
	ahead    time.Duration // of the clocks of servers that are started
	log      logtest.Log
}

// faultyPlace is a place in memory with faults: it is full, damages items files when they
// are read, does not remove them, loses the earlier manifests when another one is written, or
// reports an error for sets that it has stored.
type faultyPlace struct {
	blob.Place
	full, damaged, keepsItems, losesManifests, failsSets atomic.Bool
}

func (p *faultyPlace) Remove(ctx context.Context, name string) error {
	if p.keepsItems.Load() && strings.HasSuffix(name, suffixItems) {
		return errFaultyPlace
	}
	return p.Place.Remove(ctx, name)
}

var errFaultyPlace = errors.New("a fault of the place")

// storedWriter reports an error although the file is stored.
type storedWriter struct{ blob.Writer }

func (w storedWriter) Commit() error { return errors.Join(w.Writer.Commit(), errFaultyPlace) }

func (p *faultyPlace) Create(ctx context.Context, name string) (blob.Writer, error) {
	if p.losesManifests.Load() && strings.HasSuffix(name, suffixManifest) {
		names, err := p.Names(ctx)
		for _, other := range names {
			if strings.HasSuffix(other, suffixManifest) {
				err = errors.Join(err, p.Place.Remove(ctx, other))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if p.failsSets.Load() && strings.HasSuffix(name, suffixSet) {
		w, err := p.Place.Create(ctx, name)
		return storedWriter{w}, err
	}
	return (&limitedPlace{Place: p.Place, left: map[bool]int{false: 1 << 40}[p.full.Load()]}).Create(ctx, name)
}

func (p *faultyPlace) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := p.Place.Open(ctx, name)
	if err != nil || !p.damaged.Load() || !strings.HasSuffix(name, suffixItems) {
		return r, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	b[len(b)/2] ^= 4
	return io.NopCloser(bytes.NewReader(b)), err
}

func newScheduledServers(t *testing.T, s Schedule) *scheduledServers {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	place, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(engine.Close(), place.Close()); err != nil {
			t.Error(err)
		}
	})
	return &scheduledServers{t: t, engine: engine, fleet: leadtest.New(engine), place: &faultyPlace{Place: place}, schedule: s}
}

// start starts a server, which leads or not.
func (f *scheduledServers) start(leads bool) (*backupFixture, *leadtest.Server) {
	f.t.Helper()
	server := f.fleet.Join()
	server.Lead(leads)
	ahead := f.ahead
	now := clock.Given(func() time.Time { return time.Now().Add(ahead) })
	d, err := db.Open(f.t.Context(), server, db.Options{Clock: now, OpenBackup: Contents(f.place), ExpiryInterval: 24 * time.Hour})
	if err != nil {
		f.t.Fatal(err)
	}
	h := &backupFixture{DB: d, Store: Open(f.t.Context(), d, f.place, Options{Log: f.log.Logger(), Schedule: f.schedule})}
	h.close = func() {
		h.Store.Close()
		if err := d.Close(); err != nil {
			f.t.Error(err)
		}
	}
	return h, server
}

// created returns how long after start the sets were made, the newest first.
func (h *backupFixture) created(t *testing.T, start time.Time) (ages []time.Duration) {
	t.Helper()
	status, err := h.ScheduleStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range status.Sets {
		ages = append(ages, set.Created.Sub(start).Round(time.Minute))
	}
	return ages
}

func checkAges(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("sets were made after %v, want %v", got, want)
	}
}

// Backups are made at the interval, only by the leader, and the newest are kept. Each
// set is all tables at one moment, and restores them. A restart, and another leader,
// continue the schedule.
func TestSchedule(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 2})
		h, first := f.start(true)
		other, second := f.start(false)
		defer other.close()
		start := time.Now()
		time.Sleep(time.Minute)
		checkAges(t, h.created(t, start), 0) // before there is a table
		h.fill(t, "Orders", 40, 100)
		h.fill(t, "Carts", 3, 10)
		want := h.contents(t, "Orders")
		time.Sleep(time.Hour)
		checkAges(t, h.created(t, start), time.Hour, 0)
		time.Sleep(time.Hour)
		checkAges(t, other.created(t, start), 2*time.Hour, time.Hour)

		h.close() // for half an interval
		first.Lead(false)
		time.Sleep(30 * time.Minute)
		second.Lead(true)
		time.Sleep(29 * time.Minute)
		checkAges(t, other.created(t, start), 2*time.Hour, time.Hour)
		time.Sleep(2 * time.Minute)
		checkAges(t, other.created(t, start), 3*time.Hour, 2*time.Hour)

		engine, err := pebble.Open(pebble.InMemory())
		if err != nil {
			t.Fatal(err)
		}
		d, err := db.Open(t.Context(), engine, db.Options{OpenBackup: Contents(f.place)})
		if err != nil {
			t.Fatal(err)
		}
		if err := RestoreAll(t.Context(), f.place, d, "", slog.New(slog.DiscardHandler), func(Manifest) {}); err != nil {
			t.Fatal(err)
		}
		if got := (&backupFixture{DB: d}).contents(t, "Orders"); !maps.Equal(got, want) {
			t.Errorf("the set restores %d items of %d", len(got), len(want))
		}
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
}

// After a long stop one backup is made at once. A backup from the future, made before
// the clock was set back, does not delay the next.
func TestScheduleAfterAStop(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 10})
		h, _ := f.start(true)
		start := time.Now()
		time.Sleep(time.Minute)
		id, err := h.ID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.close()
		time.Sleep(10*time.Hour - time.Minute)
		h, _ = f.start(true)
		time.Sleep(time.Minute)
		checkAges(t, h.created(t, start), 10*time.Hour, 0)
		h.close()
		future := backupSet{Format: format, ID: "99999999999999-00000000", Number: 7, Created: time.Now().Add(1000 * time.Hour), Database: id}
		if err := writeRecord(t.Context(), f.place, future.ID+suffixSet, future); err != nil {
			t.Fatal(err)
		}
		h, _ = f.start(true)
		defer h.close()
		time.Sleep(time.Hour + time.Minute)
		checkAges(t, h.created(t, start), 11*time.Hour, 1010*time.Hour+time.Minute, 10*time.Hour, 0)
	})
}

// The sets that were made last are kept, and the last one is restored, also if the
// clock was ahead or behind while some were made.
func TestScheduleWithAWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{1000 * time.Hour, -1000 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 3})
				items := int64(0)
				for i, ahead := range []time.Duration{0, ahead, 0} {
					f.ahead = ahead
					h, _ := f.start(true)
					if i == 0 {
						h.fill(t, "Orders", 0, 10)
					}
					for range 2 {
						items++ // so that the number of items tells when a set was made
						h.put(t, "Orders", int(items), 10)
						time.Sleep(61 * time.Minute)
					}
					status, err := h.ScheduleStatus(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					var got []int64
					for _, set := range slices.Backward(status.Sets) {
						got = append(got, set.Items)
					}
					if len(got) != f.schedule.Keep || !slices.IsSorted(got) || got[0] < items-2 || got[2] != items {
						t.Errorf("with a clock that is %v ahead, the sets with %v items are kept, want those with up to %d", ahead, got, items)
					}
					if newest, _, err := newestSet(t.Context(), f.place, ""); err != nil || newest.Items != items {
						t.Errorf("with a clock that is %v ahead, the set that would be restored is %+v, %v", ahead, newest, err)
					}
					h.close()
				}
			})
		})
	}
}

// Old sets are removed by age, but never the newest.
func TestScheduleMaxAge(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 100, MaxAge: 150 * time.Minute})
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", 5, 10)
		start := time.Now()
		time.Sleep(6*time.Hour + time.Minute)
		checkAges(t, h.created(t, start), 6*time.Hour, 5*time.Hour, 4*time.Hour)
		f.place.full.Store(true)
		time.Sleep(5 * time.Hour)
		checkAges(t, h.created(t, start), 6*time.Hour, 5*time.Hour, 4*time.Hour)
	})
}

// A backup that is damaged on its way, or whose disk is full, is reported, leaves no
// file, and replaces no earlier backup. The database goes on, and so does the
// schedule.
func TestScheduledBackupFails(t *testing.T) {
	for _, c := range []struct {
		name, want string
		fault      func(p *faultyPlace) *atomic.Bool
	}{
		{"damage", "is damaged near", func(p *faultyPlace) *atomic.Bool { return &p.damaged }},
		{"full disk", "no space left on device", func(p *faultyPlace) *atomic.Bool { return &p.full }},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 1})
				h, _ := f.start(true)
				defer h.close()
				h.fill(t, "Orders", 50, 100)
				start := time.Now()
				time.Sleep(61 * time.Minute)
				before, err := f.place.Names(t.Context())
				if err != nil || len(before) != 3 {
					t.Fatalf("the files are %v, %v", before, err)
				}
				c.fault(f.place).Store(true)
				time.Sleep(5 * time.Hour)
				if after, err := f.place.Names(t.Context()); err != nil || !slices.Equal(after, before) {
					t.Errorf("the files are %v, %v, want %v", after, err, before)
				}
				status, err := h.ScheduleStatus(t.Context())
				if err != nil || status.Failed == nil || !strings.Contains(status.Failed.Error, c.want) {
					t.Errorf("the status is %+v, %v", status, err)
				}
				if !strings.Contains(f.log.String(), "level=ERROR msg=\"scheduled backup failed; earlier backups are kept\"") {
					t.Errorf("the log is\n%s", &f.log)
				}
				h.put(t, "Orders", 60, 100)
				c.fault(f.place).Store(false)
				time.Sleep(time.Hour)
				status, err = h.ScheduleStatus(t.Context())
				if err != nil || status.Failed != nil || len(status.Sets) != 1 || !status.Sets[0].Created.After(start.Add(5*time.Hour)) || status.Sets[0].Items != 60 {
					t.Errorf("without the fault the status is %+v, %v", status, err)
				}
			})
		})
	}
}

// A set of which a backup was removed while the next one was made is not complete.
func TestScheduledBackupIsRemovedMeanwhile(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 3})
		h, _ := f.start(true)
		defer h.close()
		time.Sleep(time.Minute) // the first set has no tables
		h.fill(t, "Carts", 3, 10)
		h.fill(t, "Orders", 5, 10)
		f.place.losesManifests.Store(true)
		time.Sleep(time.Hour)
		status, err := h.ScheduleStatus(t.Context())
		if err != nil || len(status.Sets) != 1 || status.Failed == nil || !strings.Contains(status.Failed.Error, "of table Carts was removed") {
			t.Errorf("the status is %+v, %v", status, err)
		}
		if !strings.Contains(f.log.String(), "level=ERROR msg=\"scheduled backup failed; earlier backups are kept\"") {
			t.Errorf("the log is\n%s", &f.log)
		}
		if files := namesAt(t, f.place); len(files) != 1 {
			t.Errorf("the files are %v, want the first set", files)
		}
		f.place.losesManifests.Store(false)
		time.Sleep(time.Hour)
		status, err = h.ScheduleStatus(t.Context())
		if err != nil || status.Failed != nil || status.Sets[0].Items != 8 {
			t.Errorf("without the fault the status is %+v, %v", status, err)
		}
	})
}

// An index of the table that lacks an entry differs from the index of the restored
// table, and is found.
func TestScheduledBackupComparesIndexes(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 1})
		h, _ := f.start(true)
		defer h.close()
		time.Sleep(time.Minute)
		h.fill(t, "Orders", 20, 10)
		start, end := keyspace.IndexSpan(1, 2)
		var entry []byte
		if err := f.engine.ReadRange(t.Context(), store.Range{Start: start, End: end, Reverse: true}, func(p store.Pair) bool {
			entry = bytes.Clone(p.Key)
			return false
		}); err != nil || entry == nil {
			t.Fatal("no entry", err)
		}
		if err := f.engine.Update(t.Context(), nil, func(tx store.Tx) error {
			tx.Delete(entry)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		status, err := h.ScheduleStatus(t.Context())
		if err != nil || status.Failed == nil || !strings.Contains(status.Failed.Error, "index global has more than the table's 19") {
			t.Errorf("the status is %+v, %v", status, err)
		}
	})
}

// A set from which a backup was deleted does not replace an earlier set, and neither
// sets nor backups of others are removed.
func TestScheduleKeepsWholeSets(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 1})
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", 5, 10)
		own := h.backUp(t, "Orders")
		foreign := backupSet{Format: format, ID: "00000000000001-00000000", Database: "another"}
		if err := writeRecord(t.Context(), f.place, foreign.ID+suffixSet, foreign); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.Sleep(61 * time.Minute)
		checkAges(t, h.created(t, start), time.Hour)
		all, err := h.List(t.Context())
		if err != nil || len(all) != 2 || all[0].ID != own.ID {
			t.Fatalf("%v, %v", all, err)
		}
		sets, _, err := h.sets(t.Context(), all[1].Database)
		if err != nil || len(sets) != 1 {
			t.Fatalf("%v, %v", sets, err)
		}
		broken := *sets[0]
		broken.ID, broken.Backups = broken.ID[:22]+"z", []string{"00000000000002-00000000"}
		if err := h.removeOldSets(t.Context(), []*backupSet{sets[0], &broken}); err != nil {
			t.Error(err)
		}
		if again, _, err := h.sets(t.Context(), all[1].Database); err != nil || len(again) != 1 {
			t.Errorf("a set that is not whole removed the earlier one: %v, %v", again, err)
		}
		if _, err := readSet(t.Context(), f.place, foreign.ID+suffixSet); err != nil {
			t.Errorf("the set of another database: %v", err)
		}
	})
}

// A set that cannot be read is reported. It, and the backups that may belong to it, are
// kept, and the schedule goes on with the other sets.
func TestUnreadableSet(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 2})
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", 5, 10)
		start := time.Now()
		time.Sleep(61 * time.Minute)
		status, err := h.ScheduleStatus(t.Context())
		if err != nil || len(status.Sets) != 2 || status.Unreadable != nil || unreadableSets(t, h.Metrics()) != 0 {
			t.Fatalf("the status is %+v, %v", status, err)
		}
		damaged := status.Sets[0].ID + suffixSet
		before := namesAt(t, f.place)
		w, err := f.place.Create(t.Context(), damaged)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "{}"); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		checkAges(t, h.created(t, start), 4*time.Hour, 3*time.Hour)
		status, err = h.ScheduleStatus(t.Context())
		if err != nil || len(status.Unreadable) != 1 || status.Unreadable[0].File != damaged || !strings.Contains(status.Unreadable[0].Error, "checksum") {
			t.Errorf("the status is %+v, %v", status, err)
		}
		if n := unreadableSets(t, h.Metrics()); n != 1 {
			t.Errorf("the metrics count %v sets that cannot be read", n)
		}
		if !strings.Contains(f.log.String(), "cannot read a backup set; it and its backups are kept") {
			t.Errorf("the log is\n%s", &f.log)
		}
		after := namesAt(t, f.place)
		for _, name := range before {
			if strings.HasPrefix(name, damaged[:14]) && !slices.Contains(after, name) {
				t.Errorf("%s, which is or may be of the damaged set, was removed", name)
			}
		}
	})
}

func unreadableSets(t *testing.T, all []metrics.Metric) float64 {
	t.Helper()
	i := slices.IndexFunc(all, func(m metrics.Metric) bool { return m.Name == "stator_backup_sets_unreadable" })
	if i < 0 {
		t.Fatalf("the metrics are %v", all)
	}
	return all[i].Samples[0].Value
}

func namesAt(t *testing.T, place blob.Place) []string {
	t.Helper()
	names, err := place.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A backup that a server has written before it stopped, without completing the set,
// is removed. Backups that were made before the last set are not unfinished: an operator
// has copied them to the place. Neither are any if there is no set, if the number of
// their set is that of another place, or if only the clock says that they are later.
func TestUnfinishedSet(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 5})
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", 5, 10)
		time.Sleep(2*time.Hour + time.Minute)
		all, err := h.List(t.Context())
		if err != nil || len(all) < 2 {
			t.Fatalf("there are %d backups, %v", len(all), err)
		}
		unfinished, earlier, elsewhere := all[len(all)-1], all[len(all)-2], all[len(all)-2].Manifest
		elsewhere.ID, elsewhere.Set = timeid.New(elsewhere.Created), 100
		ahead := unfinished.Manifest
		ahead.ID, ahead.Set = timeid.New(ahead.Created), 1
		for _, m := range []*Manifest{&elsewhere, &ahead} {
			if err := writeRecord(t.Context(), f.place, m.ID+suffixManifest, m); err != nil {
				t.Fatal(err)
			}
		}
		database, records := unfinished.Database, f.removeSets(t)
		if err := h.removeUnfinished(t.Context(), database, nil); err != nil {
			t.Fatal(err)
		}
		if again, err := h.List(t.Context()); err != nil || len(again) != len(all)+2 {
			t.Errorf("without a set, %d backups are left of %d, %v", len(again), len(all)+2, err)
		}
		newest := records[len(records)-2] // the set before the one that is unfinished
		newest.Backups = nil
		if err := writeRecord(t.Context(), f.place, newest.ID+suffixSet, newest); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		names := namesAt(t, f.place)
		for id, want := range map[string]bool{unfinished.ID: false, earlier.ID: true, elsewhere.ID: true, ahead.ID: true} {
			if slices.Contains(names, id+suffixManifest) != want {
				t.Errorf("backup %s is kept: %v; the files are %v", id, !want, names)
			}
		}
	})
}

// removeSets removes the records of all sets, and returns them in order.
func (f *scheduledServers) removeSets(t *testing.T) (sets []*backupSet) {
	t.Helper()
	for _, name := range namesAt(t, f.place) {
		if !strings.HasSuffix(name, suffixSet) {
			continue
		}
		set, err := readSet(t.Context(), f.place, name)
		if err := errors.Join(err, f.place.Remove(t.Context(), name)); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	return sets
}

// A set whose record is stored although the place reports an error has no backups:
// they are removed. It is not listed, and the next backup does not wait for a period.
func TestSetThatIsStoredWithAnError(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: 24 * time.Hour, Keep: 5})
		f.place.failsSets.Store(true)
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", 5, 10)
		start := time.Now()
		time.Sleep(time.Minute)
		status, err := h.ScheduleStatus(t.Context())
		if err != nil || status.Failed == nil || len(status.Sets) > 0 {
			t.Errorf("the status is %+v, %v", status, err)
		}
		if names := namesAt(t, f.place); len(names) > 0 {
			t.Errorf("the files are %v", names)
		}
		f.place.failsSets.Store(false)
		time.Sleep(scheduleRetry)
		checkAges(t, h.created(t, start), scheduleRetry)
	})
}

// While a file of an old set cannot be removed, the set is listed; afterwards all its
// files are removed.
func TestSetThatCannotBeRemoved(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newScheduledServers(t, Schedule{Every: time.Hour, Keep: 1})
		h, _ := f.start(true)
		defer h.close()
		h.fill(t, "Orders", 5, 10)
		start := time.Now()
		time.Sleep(61 * time.Minute)
		f.place.keepsItems.Store(true)
		time.Sleep(time.Hour)
		checkAges(t, h.created(t, start), 2*time.Hour, time.Hour)
		f.place.keepsItems.Store(false)
		time.Sleep(time.Hour)
		checkAges(t, h.created(t, start), 3*time.Hour)
		if names := namesAt(t, f.place); len(names) != 3 {
			t.Errorf("the files are %v, want the items, the manifest and the record of one set", names)
		}
	})
}

// The comparison of a backup finds every difference from its table, and none if
// there is none.
func TestComparison(t *testing.T) {
	place := openFolder(t, t.TempDir())
	h := open(t, t.TempDir(), place)
	h.fill(t, "Orders", 50, 300)
	if err := h.SetTimeToLive(t.Context(), "Orders", "at"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.SetRecovery(t.Context(), "Orders", 7); err != nil {
		t.Fatal(err)
	}
	view, err := h.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	table, err := view.Table(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	var items []item.Item
	for it, err := range view.Items(t.Context(), table.ID) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, bytes.Clone(it))
	}
	for i, c := range []struct {
		name, want string
		change     func(m *Manifest, items []item.Item) []item.Item
	}{
		{"no difference", "", func(_ *Manifest, items []item.Item) []item.Item { return items }},
		{"the last item is missing", "ends after 49 items", func(_ *Manifest, items []item.Item) []item.Item { return items[:49] }},
		{"the first item is missing", "another item at position 1", func(_ *Manifest, items []item.Item) []item.Item { return items[1:] }},
		{"an item is there twice", "another item at position 4", func(_ *Manifest, items []item.Item) []item.Item {
			return slices.Insert(items, 3, items[2])
		}},
		{"an item more", "more than the table's 50", func(_ *Manifest, items []item.Item) []item.Item { return append(items, items[3]) }},
		{"an item differs", "another item at position 8", func(_ *Manifest, items []item.Item) []item.Item {
			items[7] = item.Make(map[string]item.Value{"id": item.String("x"), "at": item.String("y")})
			return items
		}},
		{"an index is missing", "description", func(m *Manifest, items []item.Item) []item.Item {
			m.Table.Indexes = m.Table.Indexes[:1]
			return items
		}},
		{"a tag differs", "description", func(m *Manifest, items []item.Item) []item.Item {
			m.Table.Tags = []schema.Tag{{Key: "k", Value: "w"}}
			return items
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Manifest{Format: format, ID: "0000000000000" + string(rune('0'+i)) + "-00000000", Table: *table.Clone()}
			changed := c.change(&m, slices.Clone(items))
			w, err := place.Create(t.Context(), m.items())
			if err != nil {
				t.Fatal(err)
			}
			if err := writeFile(w, &m, func(yield func(item.Item, error) bool) {
				for _, it := range changed {
					if !yield(it, nil) {
						return
					}
				}
			}, func(int64) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Commit(), writeRecord(t.Context(), place, m.ID+suffixManifest, &m)); err != nil {
				t.Fatal(err)
			}
			check := copyCheck{place: place, view: view, table: table, id: m.ID, now: time.Now, log: slog.New(slog.DiscardHandler)}
			err = check.run(t.Context())
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, new(*Mismatch)) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("run: %v, want %q", err, c.want)
			}
		})
	}
}

// The items that are restored for the comparison and their index entries together are
// bounded: a table with indexes has fewer of its items restored.
func TestComparisonRestoresABoundedPart(t *testing.T) {
	place := openFolder(t, t.TempDir())
	h := open(t, t.TempDir(), place)
	h.fill(t, "Orders", 80, 100_000)
	b := h.backUp(t, "Orders")
	view, err := h.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for indexes := range 3 {
		table := *b.Table.Clone()
		table.Indexes = table.Indexes[:indexes]
		c := copyCheck{place: place, view: view, table: &table, id: b.ID, now: time.Now, log: slog.New(slog.DiscardHandler)}
		contents, err := c.firstItems(t.Context(), b.ID)
		if err != nil {
			t.Fatal(err)
		}
		restored := int64(0)
		for it, err := range contents.Items(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			restored += int64(it.Size())
		}
		if most := min(b.Bytes, scratchBytes/int64(1+indexes)); restored > most || restored < most*9/10 {
			t.Errorf("with %d indexes %d bytes of items are restored, want about %d", indexes, restored, most)
		}
	}
	c := copyCheck{place: place, view: view, table: &b.Table, id: b.ID, now: time.Now, log: slog.New(slog.DiscardHandler)}
	if err := c.run(t.Context()); err != nil {
		t.Error(err)
	}
}
