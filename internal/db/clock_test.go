package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// steppedDB is a database in virtual time whose wall clock a test can step.
type steppedDB struct {
	*testing.T
	*DB
	engine *pebble.Engine
	full   atomic.Bool // the disk

	checked bool // against a monotonic clock
	start   time.Time
	ahead   atomic.Int64
	clock   atomic.Pointer[clock.Clock]
	restore int
}

func (w *steppedDB) wall() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// set sets by how much the wall clock is ahead.
func (w *steppedDB) set(ahead time.Duration) { w.ahead.Store(int64(ahead)) }

// open opens the database, as a start of a process does.
func (w *steppedDB) open() {
	o := clock.Options{Now: w.wall}
	if w.checked {
		o.Elapsed = func() time.Duration { return time.Since(w.start) }
	}
	w.clock.Store(clock.New(o))
	if w.engine == nil {
		storage := pebble.InMemory()
		storage.Now = func() time.Time { return w.clock.Load().Now() }
		w.engine = newEngine(w.T, storage)
		time.Sleep(2 * time.Second) // the stamps of a new engine are ahead of the clock
	}
	w.DB = newDB(w.T, &fullDisk{w.engine, &w.full}, Options{Clock: w.clock.Load(), TableDelay: time.Second})
}

// fullDisk rejects the updates that a full disk rejects, while it is full.
type fullDisk struct {
	store.Engine
	full *atomic.Bool
}

func (e *fullDisk) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if e.full.Load() && !store.IsFreeing(ctx) {
		return store.ErrFull
	}
	return e.Engine.Update(ctx, keys, fn)
}

func (w *steppedDB) restart() {
	w.Helper()
	if err := w.Close(); err != nil {
		w.Fatal(err)
	}
	w.open()
}

// newSteppedDB opens a database with a table that has all features that depend on
// the time.
func newSteppedDB(t *testing.T, checked bool) *steppedDB {
	w := &steppedDB{T: t, checked: checked, start: time.Now()}
	w.open()
	def := ordersWithoutIndexes("Orders")
	def.EnableStream("KEYS_ONLY", w.Now())
	create(t, w.DB, def)
	time.Sleep(2 * time.Second)
	if err := w.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.SetRecovery(t.Context(), "Orders", 1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	return w
}

// remove deletes an item.
func (w *steppedDB) remove(id string) {
	w.Helper()
	if _, err := w.Write(store.Freeing(w.Context()), Write{Table: "Orders", Key: key(id, 1), Effect: Replace(nil)}); err != nil {
		w.Fatal(err)
	}
}

func (w *steppedDB) put(id string) { w.Helper(); put(w.T, w.DB, "Orders", key(id, 1)) }

// idsAt returns the ids of the items at the end of a second of the database's clock.
func (w *steppedDB) idsAt(second time.Time) string {
	w.Helper()
	w.restore++
	name := fmt.Sprint("Restored", w.restore)
	if _, err := w.RestoreToSecond(w.Context(), "Orders", second.Truncate(time.Second), sameSchema(name)); err != nil {
		return err.Error()
	}
	waitRestored(w.T, w.DB, name)
	time.Sleep(2 * time.Second) // until it is active
	t, err := w.use(name)
	if err != nil {
		w.Fatal(err)
	}
	view, err := w.View(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer view.Close()
	var ids []string
	for it, err := range view.Items(w.Context(), t.ID) {
		if err != nil {
			w.Fatal(err)
		}
		id, _ := it.Get("id")
		ids = append(ids, string(id.Bytes()))
	}
	slices.Sort(ids)
	w.expectPast(second, ids)
	return strings.Join(ids, " ")
}

// expectPast compares a read of the table at a second with the ids of a restore.
func (w *steppedDB) expectPast(second time.Time, want []string) {
	w.Helper()
	page, err := w.Range(w.Context(), Range{Table: "Orders", At: second.Truncate(time.Second)})
	if err != nil {
		w.Fatalf("a restore to %v succeeds, but a read does not: %v", second, err)
	}
	var ids []string
	for _, it := range page.Items {
		id, _ := it.Get("id")
		ids = append(ids, string(id.Bytes()))
	}
	if slices.Sort(ids); !slices.Equal(ids, want) {
		w.Errorf("at %v a read has %v, and a restore %v", second, ids, want)
	}
}

// changes returns how many change records the table has.
func (w *steppedDB) changes() int {
	t, _ := w.find("Orders")
	start, end := keyspace.ChangesSpan(t.ID)
	return countStored(w.T, w.engine, start, end)
}

// applied reports whether a transaction with a token is applied, and not replayed.
func (w *steppedDB) applied(token string) bool {
	w.Helper()
	_, err := w.Transact(w.Context(), testToken(token, "x"), addOne(token))
	if err != nil && !errors.As(err, new(*Replayed)) {
		w.Fatal(err)
	}
	return err == nil
}

// A wall clock that is stepped for three seconds, in either direction, has no effect
// on anything that depends on the time. The control is a database that does not check
// its clock, and has the fault.
func TestShortStep(t *testing.T) {
	const ahead, back = 26 * time.Hour, -2 * time.Hour
	type scenario func(w *steppedDB, step time.Duration) (fault string)
	// during runs fn while the clock is stepped.
	during := func(w *steppedDB, step time.Duration, fn func()) {
		w.set(step)
		time.Sleep(1500 * time.Millisecond)
		fn()
		time.Sleep(1500 * time.Millisecond)
		w.set(0)
		time.Sleep(2 * time.Second)
	}
	for _, c := range []struct {
		name    string
		run     scenario
		control []time.Duration // the steps that do harm without the check
	}{
		{"table status", func(w *steppedDB, step time.Duration) (fault string) {
			during(w, step, func() {
				if d, err := w.Describe("Orders"); err != nil || d.Status != schema.Active {
					fault = fmt.Sprint("the table is ", d.Status)
				}
				if _, err := w.use("Orders"); err != nil {
					fault = err.Error()
				}
			})
			return fault
		}, nil}, // a table stays active without the check too: TestStatus in package schema
		{"time to live", func(w *steppedDB, step time.Duration) (fault string) {
			put(w.T, w.DB, "Orders", expiringItem("a", time.Now().Unix()+3600))
			during(w, step, func() {})
			if !hasItem(w.T, w.DB, "a") {
				return "the item was deleted early"
			}
			time.Sleep(time.Hour)
			if hasItem(w.T, w.DB, "a") {
				return "the item was not deleted later"
			}
			return ""
		}, []time.Duration{ahead}},
		{"token", func(w *steppedDB, step time.Duration) (fault string) {
			w.applied("a")
			during(w, step, func() {
				if w.applied("a") {
					fault = "a token was forgotten"
				}
			})
			return fault
		}, []time.Duration{ahead}},
		{"change log", func(w *steppedDB, step time.Duration) (fault string) {
			w.put("a")
			before := w.changes()
			during(w, step, func() {
				if err := w.Trim(w.Context()); err != nil {
					w.Error(err)
				}
			})
			if after := w.changes(); after < before {
				return fmt.Sprintf("%d of %d change records were trimmed", before-after, before)
			}
			return ""
		}, []time.Duration{ahead}},
		{"restore", func(w *steppedDB, step time.Duration) (fault string) {
			w.put("a")
			during(w, step, func() { w.put("b") })
			between := w.Now()
			time.Sleep(2 * time.Second)
			w.put("c")
			time.Sleep(2 * time.Second)
			if got := w.idsAt(w.Now().Add(-time.Second)); got != "a b c" {
				return "a restore to the last second has " + got
			}
			if got := w.idsAt(between); got != "a b" {
				return "a restore to an earlier second has " + got
			}
			return ""
		}, []time.Duration{ahead}},
		{"restore while it is stepped", func(w *steppedDB, step time.Duration) (fault string) {
			w.put("a")
			time.Sleep(time.Second)
			during(w, step, func() {
				w.put("b")
				time.Sleep(2 * time.Second)
				if got := w.idsAt(w.Now().Add(-time.Second)); got != "a b" {
					fault = "a restore to the last second has " + got
				}
			})
			return fault
		}, []time.Duration{back}},
	} {
		for _, step := range []time.Duration{ahead, back} {
			for _, checked := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%v/checked=%v", c.name, step, checked), func(t *testing.T) {
					virtualtime.Test(t, func(t *testing.T) {
						fault := c.run(newSteppedDB(t, checked), step)
						want := !checked && slices.Contains(c.control, step)
						if (fault != "") != want {
							t.Errorf("fault %q, want one: %v", fault, want)
						}
					})
				})
			}
		}
	}
}

// settled is longer than a step must persist to be accepted.
const settled = 16 * time.Minute

// A step back that persists is accepted: tables stay active, restores have every
// write that was acknowledged before their second, and tokens end ten minutes after
// they were recorded.
func TestAcceptedStepBack(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newSteppedDB(t, true)
		w.put("a")
		time.Sleep(2 * time.Second)
		before := w.Now()
		w.set(-2 * time.Hour)
		time.Sleep(settled - 2*time.Minute)
		w.put("b")
		w.applied("token")
		for w.LastStep() == nil {
			time.Sleep(time.Second)
		}
		if w.applied("token") {
			t.Error("a token was forgotten at the step")
		}
		if _, err := w.use("Orders"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		first := w.Now()
		time.Sleep(2 * time.Second)
		w.put("c")
		time.Sleep(2 * time.Second)
		if off := w.Now().Sub(w.wall()); off != 0 {
			t.Errorf("the clock is off by %v", off)
		}
		for _, c := range []struct {
			name   string
			second time.Time
			want   string
		}{{"the last second", w.Now().Add(-time.Second), "a b c token"}, {"a second after the step", first, "a b token"}} {
			if got := w.idsAt(c.second); got != c.want {
				t.Errorf("a restore to %s has %q, want %q", c.name, got, c.want)
			}
		}
		time.Sleep(TokenRetention)
		if !w.applied("token") {
			t.Error("a token was not forgotten ten minutes after it was recorded")
		}
		// When the clock shows the times before the step again, they are of this run.
		time.Sleep(before.Sub(w.Now()) + time.Minute)
		w.put("d")
		time.Sleep(2 * time.Second)
		if got := w.idsAt(before); got != "a b c token" {
			t.Errorf("a restore to a second that was shown twice has %q", got)
		}
		checkSound(t, w.DB)
	})
}

// A step ahead that persists is accepted: then items expire by it, and tokens still
// end ten minutes after they were recorded.
func TestAcceptedStepAhead(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newSteppedDB(t, true)
		put(t, w.DB, "Orders", expiringItem("soon", time.Now().Unix()+3600))
		put(t, w.DB, "Orders", expiringItem("later", time.Now().Unix()+36*3600))
		w.set(26 * time.Hour)
		time.Sleep(settled - 2*time.Minute)
		w.applied("token")
		if !hasItem(t, w.DB, "soon") {
			t.Error("an item expired before the step was accepted")
		}
		for w.LastStep() == nil {
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		if w.applied("token") {
			t.Error("a token was forgotten at the step")
		}
		if hasItem(t, w.DB, "soon") || !hasItem(t, w.DB, "later") {
			t.Error("items do not expire by the accepted time")
		}
		time.Sleep(TokenRetention)
		if !w.applied("token") {
			t.Error("a token was not forgotten ten minutes after it was recorded")
		}
	})
}

// After the clock was ahead for long and went back, stamps stay ahead of it. Restores
// and the change log are right nevertheless.
func TestStampsAheadOfTheClock(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newSteppedDB(t, true)
		w.put("a")
		time.Sleep(2 * time.Second)
		before := w.Now()
		for _, ahead := range []time.Duration{20 * time.Hour, 0} {
			w.set(ahead)
			time.Sleep(settled)
			w.put(fmt.Sprint("b", ahead.Hours()))
			time.Sleep(2 * time.Second)
		}
		between := w.Now()
		time.Sleep(2 * time.Second)
		w.put("c")
		time.Sleep(2 * time.Second)
		if err := w.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			second time.Time
			want   string
		}{{"the last second", w.Now().Add(-time.Second), "a b0 b20 c"}, {"a second in between", between, "a b0 b20"}, {"a second before", before, "a"}} {
			if got := w.idsAt(c.second); got != c.want {
				t.Errorf("a restore to %s has %q, want %q", c.name, got, c.want)
			}
		}
		if n := w.changes(); n != 4 {
			t.Errorf("there are %d change records, want 4", n)
		}
	})
}

// A step back is recorded on a full disk too, where items can be deleted.
func TestStepBackOnAFullDisk(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full=%v", full), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				w := newSteppedDB(t, true)
				w.put("a")
				w.put("b")
				time.Sleep(2 * time.Second)
				w.full.Store(full)
				w.set(-2 * time.Hour)
				w.restart()
				time.Sleep(10 * time.Second)
				w.remove("a")
				time.Sleep(2 * time.Second)
				between := w.Now()
				time.Sleep(2 * time.Second)
				w.remove("b")
				w.full.Store(false)
				time.Sleep(10 * time.Second)
				if got := w.idsAt(between); got != "b" {
					t.Errorf("a restore to a second between two deletes has %q, want %q", got, "b")
				}
			})
		})
	}
}

// A recovery that was enabled while the clock was ahead can be used when it is right
// again.
func TestRecoveryThatBeganAhead(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newSteppedDB(t, true)
		w.set(26 * time.Hour)
		time.Sleep(settled)
		for _, days := range []int{0, 1} {
			if _, err := w.SetRecovery(t.Context(), "Orders", days); err != nil {
				t.Fatal(err)
			}
		}
		w.set(0)
		time.Sleep(settled)
		w.put("a")
		time.Sleep(2 * time.Second)
		if got := w.idsAt(w.Now().Add(-time.Second)); got != "a" {
			t.Errorf("a restore has %q", got)
		}
	})
}

// After a restart, a clock that is behind the stored data neither hides tables nor
// takes writes from restores, and one that is far ahead deletes nothing at first.
func TestRestartWithAnotherTime(t *testing.T) {
	t.Run("behind", func(t *testing.T) {
		virtualtime.Test(t, func(t *testing.T) {
			w := newSteppedDB(t, true)
			w.put("a")
			w.applied("token")
			w.set(-2 * time.Hour)
			w.restart()
			if d, err := w.Describe("Orders"); err != nil || d.Status != schema.Active {
				t.Errorf("the table is %s, %v", d.Status, err)
			}
			if w.applied("token") {
				t.Error("a token was forgotten")
			}
			time.Sleep(2 * time.Second)
			first := w.Now()
			time.Sleep(2 * time.Second)
			w.put("b")
			time.Sleep(2 * time.Second)
			if got := w.idsAt(w.Now().Add(-time.Second)); got != "a b token" {
				t.Errorf("a restore to the last second has %q", got)
			}
			if got := w.idsAt(first); got != "a token" {
				t.Errorf("a restore to an earlier second has %q", got)
			}
			time.Sleep(TokenRetention)
			if !w.applied("token") {
				t.Error("a token was not forgotten")
			}
		})
	})
	for _, checked := range []bool{true, false} {
		t.Run(fmt.Sprintf("ahead/checked=%v", checked), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				w := newSteppedDB(t, checked)
				put(t, w.DB, "Orders", expiringItem("a", time.Now().Unix()+3600))
				w.applied("token")
				w.set(26 * time.Hour)
				w.restart()
				time.Sleep(5 * time.Second)
				if hasItem(t, w.DB, "a") != checked || w.applied("token") == checked {
					t.Errorf("with checks %v, the item exists: %v", checked, hasItem(t, w.DB, "a"))
				}
				time.Sleep(settled)
				if hasItem(t, w.DB, "a") {
					t.Error("an expired item is never deleted")
				}
			})
		})
	}
}

// Tokens that were recorded while the clock was ahead are removed from the store.
func TestTokensFromAClockAheadAreRemoved(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newSteppedDB(t, true)
		w.set(26 * time.Hour)
		w.restart()
		time.Sleep(settled)
		w.applied("token")
		w.set(0)
		w.restart()
		time.Sleep(TokenRetention + 2*tokenInterval)
		for _, kind := range []byte{keyspace.Token(nil)[0], keyspace.TokenDue(time.Now(), nil)[0]} {
			if n := countStored(t, w.engine, []byte{kind}, []byte{kind + 1}); n != 0 {
				t.Errorf("%d records %q are left", n, kind)
			}
		}
	})
}

// Two servers have a shared clock, and that of one is slightly ahead. A transaction is
// sent to that one, and repeated at once through the other, which also leads. The
// control is a clock that is not shared.
func TestTokenOfAServerAhead(t *testing.T) {
	for _, skew := range []time.Duration{0, 50 * time.Millisecond, 11 * time.Minute} {
		for _, shared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/shared=%v", skew, shared), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) {
					begun := time.Now()
					servers := leadtest.New(newEngine(t, pebble.InMemory()))
					join := func(skew time.Duration) (*DB, *leadtest.Server) {
						s := servers.Join()
						return newDB(t, s, Options{Clock: clock.New(clock.Options{
							Now:     func() time.Time { return time.Now().Add(skew) },
							Elapsed: func() time.Duration { return time.Since(begun) },
							Shared:  shared,
						})}), s
					}
					ahead, _ := join(skew)
					other, leader := join(0)
					leader.Lead(true)
					create(t, ahead, ordersWithoutIndexes("Orders"))
					time.Sleep(20 * time.Minute)
					for n := range 2 {
						id := fmt.Sprint("n", n)
						if _, err := ahead.Transact(t.Context(), testToken(id, "x"), addOne(id)); err != nil {
							t.Fatal(err)
						}
						if n == 1 {
							time.Sleep(2 * tokenInterval) // the leader removes tokens that are over
						} else {
							time.Sleep(10 * time.Millisecond)
						}
						_, err := other.Transact(t.Context(), testToken(id, "x"), addOne(id))
						replayed := errors.As(err, new(*Replayed))
						fault := !shared && skew > time.Duration(n)*2*tokenInterval
						if replayed == fault {
							t.Errorf("the repetition returns %v", err)
						}
					}
				})
			})
		}
	}
}

// The clock is slightly behind the newest data after a restart, by less than a step. A
// restore to a second has the writes that were acknowledged before its end.
func TestRestartSlightlyBehind(t *testing.T) {
	for _, behind := range []time.Duration{0, 500 * time.Millisecond, 1100 * time.Millisecond, 1900 * time.Millisecond, 2100 * time.Millisecond} {
		for _, part := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			t.Run(fmt.Sprintf("%v/%v", behind, part), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) {
					w := newSteppedDB(t, true)
					now := w.Now()
					time.Sleep(now.Truncate(time.Second).Add(20*time.Second + part).Sub(now))
					w.put("x")
					w.set(-behind)
					w.restart()
					w.put("y")
					at := w.Now()
					time.Sleep(20 * time.Second)
					if got := w.idsAt(at); !strings.Contains(got, "y") {
						t.Errorf("a restore to the second of y has %q", got)
					}
					if got := w.idsAt(w.Now().Add(-2 * time.Second)); got != "x y" {
						t.Errorf("a restore to a later second has %q", got)
					}
				})
			})
		}
	}
}

// LastStep returns the last step of the database's clock.
func (w *steppedDB) LastStep() *clock.Step { return w.clock.Load().LastStep() }

// clockModel is what a clock has shown, in order, and the items that existed then.
type clockModel struct {
	*steppedDB
	shown []struct {
		at  time.Time
		ids string
	}
	ids []string
}

// pass lets seconds pass, with a write before some of them.
func (m *clockModel) pass(seconds int, write bool) {
	for i := range seconds {
		if write && i%4 == 1 {
			id := fmt.Sprintf("%03d", len(m.ids))
			m.put(id)
			m.ids = append(m.ids, id)
		}
		// The write is within this second, and all of its end is shown.
		m.shown = append(m.shown, struct {
			at  time.Time
			ids string
		}{m.Now().Truncate(time.Second), strings.Join(m.ids, " ")})
		time.Sleep(time.Second)
	}
}

// expect compares restores to seconds with the last time that they were shown. A
// second that was not shown is that of the latest one before it.
func (m *clockModel) expect(seconds ...time.Time) {
	m.Helper()
	runs, err := m.ClockRuns(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	t, _ := m.find("Orders")
	earliest, _ := runs.Window(t.Recovery, m.Now())
	for _, second := range seconds {
		want, nearest := "", time.Time{}
		for _, s := range m.shown {
			if !s.at.After(second) && !s.at.Before(nearest) {
				want, nearest = s.ids, s.at
			}
		}
		if second.Before(earliest) {
			want = history.ErrNotRestorable.Error()
		}
		if got := m.idsAt(second); got != want {
			m.Errorf("a restore to %v has %q, want %q; shown: %v", second, got, want, m.shown)
		}
	}
}

// Restores to a second have the items that existed when the clock showed it last,
// whatever steps the clock has made, in a process or between two.
func TestRestoresAfterStepsOfTheClock(t *testing.T) {
	accept := func(m *clockModel, ahead time.Duration) {
		last := m.LastStep()
		for m.set(ahead); m.LastStep() == last; {
			m.pass(1, false)
		}
	}
	restart := func(m *clockModel, ahead time.Duration) { m.set(ahead); m.restart() }
	for how, step := range map[string]func(*clockModel, time.Duration){"accepted": accept, "restart": restart} {
		for _, steps := range [][]time.Duration{
			{0, 0},                                   // the control
			{-2 * time.Hour},                         // behind
			{2 * time.Hour},                          // ahead
			{-2 * time.Hour, 0},                      // behind, then right
			{2 * time.Hour, 0},                       // ahead, then right
			{-2 * time.Hour, -time.Hour, 0},          // right in two steps
			{2 * time.Hour, time.Hour, 0},            //
			{2 * time.Hour, 0, time.Minute},          // skips times that a run has skipped too
			{-30 * time.Second, -20 * time.Second},   // overlaps
			{-20 * time.Second, time.Hour},           // overlaps, then skips times
			{-2 * time.Hour, 0, -2 * time.Hour, 0},   // twice
			{2 * time.Hour, -2 * time.Hour, 0},       //
			{-40 * 24 * time.Hour, 0},                // further than history is kept
			{20 * time.Hour, 10 * time.Second, 0, 0}, //
		} {
			if how == "accepted" && (steps[0] == 0 || len(steps) == 4) {
				continue
			}
			t.Run(fmt.Sprint(how, steps), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) {
					m := &clockModel{steppedDB: newSteppedDB(t, true)}
					time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)))
					m.pass(15, true)
					for _, ahead := range steps {
						step(m, ahead)
						m.pass(13, true) // the last seconds are stored when the database is closed
					}
					every := 1
					if how == "accepted" {
						every = 7 // it takes more than 15 minutes
					}
					var seconds []time.Time
					for i, s := range m.shown {
						if i%every == 0 {
							seconds = append(seconds, s.at, s.at.Add(20*time.Second))
						}
					}
					seconds = slices.DeleteFunc(seconds, func(s time.Time) bool { return s.After(m.Now().Add(-2 * time.Second)) })
					m.expect(seconds...)
					checkSound(t, m.DB)
				})
			})
		}
	}
}

// Recovery does not begin earlier when the clock has been behind, although the clock
// showed no time after its begin.
func TestRecoveryDoesNotBeginEarlier(t *testing.T) {
	for _, back := range []time.Duration{0, -40 * 24 * time.Hour, -20 * 24 * time.Hour, -time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				w := newSteppedDB(t, true)
				time.Sleep(10 * time.Minute)
				began := w.Now()
				w.put("a")
				for _, days := range []int{0, 35} {
					if _, err := w.SetRecovery(t.Context(), "Orders", days); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Minute)
				for _, ahead := range []time.Duration{back, 0} {
					w.set(ahead)
					w.restart()
					time.Sleep(10 * time.Second)
				}
				for before, want := range map[time.Duration]string{5 * time.Minute: history.ErrNotRestorable.Error(), -5 * time.Minute: "a"} {
					if got := w.idsAt(began.Add(-before)); got != want {
						t.Errorf("a restore to %v before recovery has %q, want %q", before, got, want)
					}
				}
			})
		})
	}
}

// A recovery that was enabled while the clock was behind does not include times that
// the clock had shown before.
func TestRecoveryThatBeganBehind(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newSteppedDB(t, true)
		time.Sleep(5 * time.Minute)
		before := w.Now()
		time.Sleep(5 * time.Minute)
		w.put("a")
		w.set(-time.Hour)
		w.restart()
		for _, days := range []int{0, 1} {
			if _, err := w.SetRecovery(t.Context(), "Orders", days); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		w.set(0)
		w.restart()
		time.Sleep(10 * time.Second)
		if got := w.idsAt(before); got != history.ErrNotRestorable.Error() {
			t.Errorf("a restore to a second before recovery has %q", got)
		}
		if got := w.idsAt(w.Now().Add(-2 * time.Second)); got != "a" {
			t.Errorf("a restore has %q", got)
		}
	})
}
