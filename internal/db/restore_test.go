package db

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

var (
	seconds = flag.Int("seconds", 20, "number of seconds to which a table is restored")
	seed    = flag.Uint64("restore-seed", 0, "seed of the history; defaults to a random one")
)

// sameSchema returns a define function for a restore that only renames the table.
func sameSchema(name string) func(schema.Table) (schema.Table, error) {
	return func(t schema.Table) (schema.Table, error) {
		return schema.Table{Name: name, Key: t.Key, Attributes: t.Attributes, Indexes: t.Indexes, LastIndex: t.LastIndex}, nil
	}
}

// restoreTo restores a table and waits until it is active.
func restoreTo(t testing.TB, d *DB, source, target string, at time.Time) {
	t.Helper()
	desc, err := d.RestoreToSecond(t.Context(), source, at, sameSchema(target))
	if err != nil {
		t.Fatalf("restore %s to %v: %v", source, at, err)
	}
	if desc.Status != schema.Creating || !desc.Restored.Running {
		t.Errorf("during the restore the table is %s, %+v", desc.Status, desc.Restored)
	}
	waitRestored(t, d, target)
}

func waitRestored(t testing.TB, d *DB, table string) {
	t.Helper()
	for {
		now, err := d.Describe(table)
		if err != nil {
			t.Fatal(err)
		}
		if !now.Restored.Running {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// contentsOf returns the items of a table by their keys, as text.
func contentsOf(t testing.TB, d *DB, table string) map[string]string {
	t.Helper()
	view, err := d.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	def, err := view.Table(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for it, err := range view.Items(t.Context(), def.ID) {
		if err != nil {
			t.Fatal(err)
		}
		found[item.Map(def.Key.Of(it)).String()] = item.Map(it).String()
	}
	return found
}

func checkSound(t testing.TB, d *DB) {
	t.Helper()
	reports, err := d.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Faults > 0 {
			t.Errorf("table %s: %v", r.Table, r.First)
		}
	}
}

// writeLog records the writes to a table.
type writeLog struct {
	mu     sync.Mutex
	events []writeEvent
}

type writeEvent struct {
	at       time.Time
	key, now string // as text; now is empty after a delete
}

func (h *writeLog) record(key, now item.Item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := writeEvent{at: time.Now(), key: item.Map(key).String()}
	if now != nil {
		e.now = item.Map(now).String()
	}
	h.events = append(h.events, e)
}

// stateAt returns the items of the table at the end of a second.
func (h *writeLog) stateAt(second time.Time) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := make(map[string]string)
	for _, e := range h.events {
		switch {
		case !e.at.Before(second.Add(time.Second)):
		case e.now == "":
			delete(state, e.key)
		default:
			state[e.key] = e.now
		}
	}
	return state
}

// keepWriting writes the items of one writer, in transactions of one to four, until
// the context ends.
func (h *writeLog) keepWriting(ctx context.Context, t *testing.T, d *DB, writer int, r *rand.Rand) {
	for ctx.Err() == nil {
		var writes []Write
		var after []item.Item
		for _, n := range r.Perm(8)[:1+r.IntN(4)] {
			k := key(fmt.Sprintf("w%d-%d", writer, n/2), n)
			w := Write{Table: "Orders", Key: k, Effect: Remove}
			var it item.Item
			if r.IntN(4) > 0 {
				it = k.With("a", item.String(fmt.Sprint(r.IntN(5)))).With("b", num(r.IntN(50))).With("c", item.String(strings.Repeat("x", r.IntN(300))))
				w.Effect = Replace(it)
			}
			writes, after = append(writes, w), append(after, it)
		}
		if _, err := d.Transact(t.Context(), nil, writes...); err != nil {
			t.Errorf("write: %v", err)
			return
		}
		for i := range writes {
			h.record(writes[i].Key, after[i])
		}
		time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
	}
}

// A restore to any second has the items as of the end of that second, while the
// table is being written, and the restored table passes Verify.
func TestRestoreToAnySecond(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	virtualtime.Test(t, func(t *testing.T) {
		d := inMemory(t)
		create(t, d, orders("Orders"))
		h := new(writeLog)
		r := rand.New(rand.NewPCG(*seed, 1))
		before := key("before", 1).With("a", item.String("written before recovery"))
		put(t, d, "Orders", before)
		h.record(key("before", 1), before)
		time.Sleep(3 * time.Second)
		if _, err := d.SetRecovery(t.Context(), "Orders", 35); err != nil {
			t.Fatal(err)
		}
		enabled := time.Now().Truncate(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for writer := range 6 {
			own := rand.New(rand.NewPCG(*seed, uint64(writer)+2))
			writers.Go(func() { h.keepWriting(ctx, t, d, writer, own) })
		}
		time.Sleep(90 * time.Second)
		distinct := 0
		for i := range *seconds {
			span := int(time.Since(enabled)/time.Second) - 1
			at := enabled.Add(time.Duration(r.IntN(span)) * time.Second)
			name := fmt.Sprintf("Restored%d", i)
			restoreTo(t, d, "Orders", name, at)
			got := contentsOf(t, d, name)
			if want := h.stateAt(at); !maps.Equal(got, want) {
				t.Errorf("seed %d: at second %v the table is\n%v\nwant\n%v", *seed, at.Sub(enabled), formatState(got), formatState(want))
			}
			// The control: the neighbouring seconds have other items.
			if !maps.Equal(got, h.stateAt(at.Add(-time.Second))) || !maps.Equal(got, h.stateAt(at.Add(time.Second))) {
				distinct++
			}
			time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
		}
		stop()
		writers.Wait()
		t.Logf("ledger: %d seconds", *seconds)
		if distinct < *seconds*9/10 {
			t.Errorf("only %d of %d seconds differ from their neighbours", distinct, *seconds)
		}
		restoreTo(t, d, "Orders", "Latest", time.Time{})
		if got, want := contentsOf(t, d, "Latest"), contentsOf(t, d, "Orders"); !maps.Equal(got, want) {
			t.Errorf("the latest state is\n%v\nwant\n%v", formatState(got), formatState(want))
		}
		checkSound(t, d)
	})
}

func formatState(state map[string]string) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(state)) {
		lines = append(lines, state[k])
	}
	return strings.Join(lines, "\n")
}

// Only seconds within the recovery window can be restored, and extending the window
// does not make older seconds restorable again.
func TestRestoreWindow(t *testing.T) {
	var nanos atomic.Int64
	nanos.Store(time.Date(2026, 11, 15, 12, 0, 0, 5e8, time.UTC).UnixNano())
	now := func() time.Time { return time.Unix(0, nanos.Load()).UTC() }
	wait := func(d time.Duration) { nanos.Add(int64(d)) }
	storage := pebble.InMemory()
	storage.Now = now
	d := newDB(t, newEngine(t, storage), Options{Clock: clock.Given(now)})
	create(t, d, orders("Orders"))
	try := func(at time.Time) error {
		_, err := d.RestoreToSecond(t.Context(), "Orders", at, func(schema.Table) (schema.Table, error) { return schema.Table{}, errors.New("allowed") })
		if err != nil && err.Error() == "allowed" {
			return nil
		}
		return err
	}
	if err := try(time.Time{}); !errors.Is(err, history.ErrNoRecovery) {
		t.Errorf("without recovery: %v, want %v", err, history.ErrNoRecovery)
	}
	set := func(days int) {
		if _, err := d.SetRecovery(t.Context(), "Orders", days); err != nil {
			t.Fatal(err)
		}
	}
	set(2)
	enabled := now().Truncate(time.Second)
	day := 24 * time.Hour
	wait(day)
	for at, want := range map[time.Time]error{
		enabled:                   nil,
		enabled.Add(-time.Second): history.ErrNotRestorable,
		now().Add(-time.Second):   nil,
		now():                     history.ErrNotRestorable,
		now().Add(time.Hour):      history.ErrNotRestorable,
		time.Unix(0, 0):           history.ErrNotRestorable,
	} {
		if err := try(at.Truncate(time.Second)); !errors.Is(err, want) {
			t.Errorf("a day later, to %v: %v, want %v", at, err, want)
		}
	}
	wait(3 * day)
	if err := try(enabled.Add(day)); !errors.Is(err, history.ErrNotRestorable) {
		t.Errorf("to three days ago: %v, want %v", err, history.ErrNotRestorable)
	}
	set(35)
	if err := try(enabled.Add(day)); !errors.Is(err, history.ErrNotRestorable) {
		t.Errorf("to three days ago, after the window was extended: %v, want %v", err, history.ErrNotRestorable)
	}
	if err := try(enabled.Add(2*day + time.Second)); err != nil {
		t.Errorf("to two days ago: %v", err)
	}
	set(0)
	set(35)
	if err := try(now().Add(-time.Hour)); !errors.Is(err, history.ErrNotRestorable) {
		t.Errorf("to an hour before recovery was enabled again: %v, want %v", err, history.ErrNotRestorable)
	}
}

// A database that is closed during a restore starts it again, and the table is not
// usable before it is complete.
func TestRestoreResumesAfterRestart(t *testing.T) {
	o := pebble.Options{Dir: t.TempDir(), Durability: pebble.Relaxed}
	e := newEngine(t, o)
	d := newDB(t, e, Options{})
	create(t, d, orders("Orders"))
	if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		put(t, d, "Orders", key(fmt.Sprint(i%40), i).With("a", item.String("x")).With("b", num(i)))
	}
	want := contentsOf(t, d, "Orders")
	// A half filled table, as a crash leaves it.
	def, _ := sameSchema("Restored")(orders("Orders"))
	source, _ := d.Describe("Orders")
	def.Restored = schema.Restored{Table: "Orders", TableID: source.ID, At: time.Now().Truncate(time.Second), Running: true}
	d.stop()
	d.work.Wait()
	d.leader.Close() // so that the restore is not run
	if _, err := d.CreateTable(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	half, _ := d.find("Restored")
	if err := d.loadItems(t.Context(), half, strayItems(1500), func(int) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), Get{Table: "Restored", Consistent: true}, key("1", 1)); err == nil {
		t.Error("a table can be read during its restore")
	}
	if _, err := d.Write(t.Context(), Write{Table: "Restored", Key: key("1", 1), Effect: Remove}); err == nil {
		t.Error("a table can be written during its restore")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	d = newDB(t, newEngine(t, o), Options{})
	waitRestored(t, d, "Restored")
	if got := contentsOf(t, d, "Restored"); !maps.Equal(got, want) {
		t.Errorf("the restored table has %d items, want %d", len(got), len(want))
	}
	checkSound(t, d)
	desc, _ := d.Describe("Restored")
	if n := desc.Counts[0].Items; n != int64(len(want)) {
		t.Errorf("the restored table counts %d items, want %d", n, len(want))
	}
}

// strayItems returns items that a restore must remove.
func strayItems(n int) iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		for i := range n {
			if !yield(key(fmt.Sprint("half", i%7), i).With("a", item.String("stray")), nil) {
				return
			}
		}
	}
}

// A restore whose source fails permanently removes its table. Temporary failures are
// retried.
func TestFailedRestoreLeavesNothing(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := newEngine(t, pebble.InMemory())
		attempts := 0
		d := newDB(t, e, Options{OpenBackup: func(context.Context, string) (*Contents, error) {
			attempts++
			items := func(yield func(item.Item, error) bool) {
				for it := range strayItems(2500) {
					if !yield(it, nil) {
						return
					}
				}
				if attempts < 3 {
					yield(nil, store.ErrUnavailable)
				} else {
					yield(nil, fmt.Errorf("file: %w", store.ErrCorrupt))
				}
			}
			return &Contents{Items: func(context.Context) iter.Seq2[item.Item, error] { return items }, Close: func() error { return nil }}, nil
		}})
		def := orders("Restored")
		def.Restored = schema.Restored{Table: "Orders", Backup: "b", At: time.Now()}
		if _, err := d.RestoreBackup(t.Context(), def); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := d.Describe("Restored"); err == nil || attempts != 3 {
			t.Errorf("after %d attempts Describe returns %v, want an error after 3", attempts, err)
		}
		snap, err := e.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Close()
		for pair := range snap.Scan(t.Context(), store.Range{Start: []byte("i"), End: []byte("j")}) {
			t.Fatalf("the failed restore leaves the key %x", pair.Key)
		}
	})
}

// A restore that fails while a test advances the clock, for now or for good, is the error of Advance.
func TestAdvanceReportsFailedRestores(t *testing.T) {
	for _, why := range []error{store.ErrUnavailable, store.ErrCorrupt} {
		manual := clock.NewManual(time.Now())
		storage := pebble.InMemory()
		storage.Now = manual.Now
		var attempts atomic.Int64
		d := newDB(t, newEngine(t, storage), Options{Clock: clock.Controlled(manual), OpenBackup: func(context.Context, string) (*Contents, error) {
			if attempts.Add(1) <= 2 {
				return nil, store.ErrUnavailable // the first attempt may be before Advance
			}
			return nil, why
		}})
		def := orders("Restored")
		def.Restored = schema.Restored{Table: "Orders", Backup: "b", At: time.Now()}
		if _, err := d.RestoreBackup(t.Context(), def); err != nil {
			t.Fatal(err)
		}
		if err := manual.Advance(t.Context(), 20*time.Second); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, why) || !strings.Contains(err.Error(), "restore of table Restored") {
			t.Errorf("%v: Advance returns %v", why, err)
		}
	}
}

// At most 50 restores are in progress or wait, however many are requested at once. When
// they are complete, others are accepted.
func TestRestoresInProgress(t *testing.T) {
	opened := make(chan struct{})
	none := func(context.Context) iter.Seq2[item.Item, error] { return func(func(item.Item, error) bool) {} }
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{OpenBackup: func(ctx context.Context, _ string) (*Contents, error) {
		select {
		case <-opened:
			return &Contents{Items: none, Close: func() error { return nil }}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	restore := func(name string) error {
		def := orders(name)
		def.Restored = schema.Restored{Table: "Orders", Backup: "b", At: time.Now()}
		_, err := d.RestoreBackup(t.Context(), def)
		return err
	}
	var accepted, rejected atomic.Int64
	var requests sync.WaitGroup
	for i := range 60 {
		requests.Go(func() {
			var fault *apierror.Error
			switch err := restore(fmt.Sprint("Restored", i)); {
			case err == nil:
				accepted.Add(1)
			case errors.As(err, &fault) && fault.Code == "LimitExceededException":
				rejected.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	requests.Wait()
	if accepted.Load() != 50 || rejected.Load() != 10 {
		t.Errorf("of 60 restores %d are accepted and %d rejected, want 50 and 10", accepted.Load(), rejected.Load())
	}
	close(opened)
	waitFor(t, func() bool {
		return !slices.ContainsFunc(d.all(), func(t *table) bool { return t.Restored.Running })
	})
	if err := restore("Another"); err != nil {
		t.Errorf("after the others are complete, a restore returns %v", err)
	}
}

func twoServers(t *testing.T) (sa, sb *leadtest.Server, a, b *DB) {
	fleet := leadtest.New(newEngine(t, pebble.InMemory()))
	sa, sb = fleet.Join(), fleet.Join()
	sa.Lead(true)
	return sa, sb, newDB(t, sa, Options{}), newDB(t, sb, Options{})
}

func createRecoverable(t *testing.T, d *DB, name string) {
	t.Helper()
	create(t, d, orders(name))
	if _, err := d.SetRecovery(t.Context(), name, 1); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreThroughAFollower(t *testing.T) {
	sa, sb, a, b := twoServers(t)
	createRecoverable(t, a, "One")
	createRecoverable(t, a, "Two")
	put(t, a, "One", key("one", 1))
	put(t, a, "Two", key("two", 2))
	restoreTo(t, b, "One", "Copy", time.Time{})
	if _, err := b.DeleteTable(t.Context(), "Copy"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RestoreToSecond(t.Context(), "One", time.Time{}, sameSchema("Copy")); err != nil {
		t.Errorf("a second restore to the same name: %v", err)
	} else {
		waitRestored(t, b, "Copy")
		if _, err := b.DeleteTable(t.Context(), "Copy"); err != nil {
			t.Fatal(err)
		}
	}
	sa.Lead(false)
	sb.Lead(true)
	restoreTo(t, a, "Two", "Copy", time.Time{})
	found, err := a.Get(t.Context(), Get{Table: "Copy", Consistent: true}, key("one", 1), key("two", 2))
	if err != nil {
		t.Fatal(err)
	}
	if found[0] != nil || found[1] == nil {
		t.Errorf("the copy of Two has the items of One: %v", contentsOf(t, a, "Copy"))
	}
}

func TestRestoreAfterLosingLeadership(t *testing.T) {
	fleet := leadtest.New(newEngine(t, pebble.InMemory()))
	sa, sb := fleet.Join(), fleet.Join()
	sa.Lead(true)
	stopped, resume, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	stop, end := sync.OnceFunc(func() { close(stopped) }), sync.OnceFunc(func() { close(ended) })
	contents := func(wait bool) func(context.Context, string) (*Contents, error) {
		return func(context.Context, string) (*Contents, error) {
			return &Contents{
				Items: func(context.Context) iter.Seq2[item.Item, error] {
					return func(yield func(item.Item, error) bool) {
						if wait {
							stop()
							<-resume
						}
						yield(key("a", 1).With("c", item.String("from the backup")), nil)
					}
				},
				Close: func() error {
					if wait {
						end()
					}
					return nil
				},
			}, nil
		}
	}
	a := newDB(t, sa, Options{OpenBackup: contents(true)})
	b := newDB(t, sb, Options{OpenBackup: contents(false)})
	def := orders("Copy")
	def.Restored = schema.Restored{Table: "Source", Backup: "backup", At: time.Now()}
	if _, err := a.RestoreBackup(t.Context(), def); err != nil {
		t.Fatal(err)
	}
	<-stopped
	sa.Lead(false) // the others treat a as dead,
	sb.Lead(true)
	waitRestored(t, b, "Copy")
	if err := sa.Miss(t.Context()); err != nil { // and it joins again
		t.Fatal(err)
	}
	newer := key("a", 1).With("c", item.String("from a customer")).With("a", item.String("x"))
	put(t, b, "Copy", newer)
	close(resume)
	<-ended
	found, err := b.Get(t.Context(), Get{Table: "Copy", Consistent: true}, key("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	if !found[0].Equal(newer) {
		t.Errorf("an acknowledged write was replaced by %v", item.Map(found[0]))
	}
	checkSound(t, b)
}

func TestRestoreToASecondThatJustEnded(t *testing.T) {
	var nanos atomic.Int64
	var armed atomic.Bool
	var act func()
	second := time.Now().Truncate(time.Second).Add(-time.Hour)
	nanos.Store(second.UnixNano())
	now := func() time.Time {
		if armed.CompareAndSwap(true, false) {
			act()
		}
		return time.Unix(0, nanos.Load()).UTC()
	}
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{Clock: clock.Given(now)})
	createRecoverable(t, d, "Orders")
	nanos.Store(second.Add(10*time.Second + 998*time.Millisecond).UnixNano())
	act = func() { // between taking the view and reading the clock
		put(t, d, "Orders", key("late", 1))
		nanos.Store(second.Add(11*time.Second + time.Millisecond).UnixNano())
	}
	armed.Store(true)
	_, err := d.RestoreToSecond(t.Context(), "Orders", second.Add(10*time.Second), sameSchema("Copy"))
	armed.Store(false)
	if err != nil {
		return // rejecting the second as too late is correct too
	}
	waitRestored(t, d, "Copy")
	if n := len(contentsOf(t, d, "Copy")); n != 1 {
		t.Errorf("the copy has %d items, want 1", n)
	}
}
