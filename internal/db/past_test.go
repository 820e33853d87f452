package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// untilRead repeats a read of the past while it has not read all changes.
func untilRead(t testing.TB, read func() error) (repeated int) {
	t.Helper()
	for ; ; repeated++ {
		err := read()
		if unread := (*history.Unread)(nil); errors.As(err, &unread) && repeated < 10_000 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return repeated
	}
}

// pastPages returns the items of a range, page by page, with a limit.
func pastPages(t testing.TB, d *DB, r Range) (items []string) {
	t.Helper()
	for {
		var page Page
		untilRead(t, func() (err error) {
			page, err = d.Range(t.Context(), r)
			return err
		})
		for _, it := range page.Items {
			items = append(items, item.Map(it).String())
		}
		if r.After = page.Last; r.After == nil {
			return items
		}
	}
}

// writeWithExpiry writes items of one writer, in transactions, some with a time to live.
func writeWithExpiry(ctx context.Context, t *testing.T, d *DB, writer int, r *rand.Rand) {
	for ctx.Err() == nil {
		var writes []Write
		for _, n := range r.Perm(10)[:1+r.IntN(4)] {
			k := key(fmt.Sprintf("w%d-%d", writer, n/5), n)
			w := Write{Table: "Orders", Key: k, Effect: Remove}
			if r.IntN(4) > 0 {
				it := k.With("b", num(r.IntN(50))).With("c", item.String(strings.Repeat("x", r.IntN(300))))
				if r.IntN(5) > 0 {
					it = it.With("a", item.String(fmt.Sprint(r.IntN(4))))
				}
				if r.IntN(4) == 0 {
					it = it.With("expires", num(int(time.Now().Unix())+r.IntN(20)))
				}
				w.Effect = Replace(it)
			}
			writes = append(writes, w)
		}
		if _, err := d.Transact(t.Context(), nil, writes...); err != nil {
			t.Errorf("write: %v", err)
			return
		}
		time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
	}
}

// pastLimits are limits of the memory and of the work of a read of the past.
var pastLimits = []struct {
	name                 string
	rangeBytes, logBytes int
}{
	{"usual", 8 << 20, 64 << 20},
	{"little memory", 4 << 10, 64 << 20},
	{"little work", 8 << 20, 20 << 10},
	{"little of both", 4 << 10, 20 << 10},
}

// Items, queries and scans at random seconds equal those of a table that was restored to
// that second, on the table and on its indexes, while the table is being written.
func TestPastEqualsRestores(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	virtualtime.Test(t, func(t *testing.T) {
		d := inMemory(t)
		def := orders("Orders")
		create(t, d, def)
		put(t, d, "Orders", key("before", 1).With("a", item.String("1")).With("b", num(3)))
		if err := d.SetTimeToLive(t.Context(), "Orders", "expires"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := d.SetRecovery(t.Context(), "Orders", 35); err != nil {
			t.Fatal(err)
		}
		enabled := time.Now().Truncate(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for writer := range 4 {
			own := rand.New(rand.NewPCG(*seed, uint64(writer)+2))
			writers.Go(func() { writeWithExpiry(ctx, t, d, writer, own) })
		}
		time.Sleep(60 * time.Second)
		r := rand.New(rand.NewPCG(*seed, 1))
		items, existed, differ := 0, 0, 0
		const restores = 10
		for i := range restores {
			limits := pastLimits[i%len(pastLimits)]
			d.past.RangeBytes, d.past.LogBytes = limits.rangeBytes, limits.logBytes
			span := int(time.Since(enabled)/time.Second) - 1
			at := enabled.Add(time.Duration(r.IntN(span)) * time.Second)
			name := fmt.Sprintf("Restored%d", i)
			restoreTo(t, d, "Orders", name, at)
			want := contentsOf(t, d, name)
			now := contentsOf(t, d, "Orders")
			for range 10 {
				n := r.IntN(10)
				k := key(fmt.Sprintf("w%d-%d", r.IntN(4), n/5), n)
				var got item.Item
				untilRead(t, func() (err error) {
					got, err = d.GetOneAt(t.Context(), Get{Table: "Orders"}, k, at)
					return err
				})
				text := item.Map(k).String()
				gotText := ""
				if got != nil {
					gotText = item.Map(got).String()
					existed++
				}
				if gotText != want[text] {
					t.Errorf("seed %d, %s: item %s at second %v is\n%s\nwant\n%s", *seed, limits.name, text, at.Sub(enabled), gotText, want[text])
				}
				if items++; want[text] != now[text] {
					differ++
				}
			}
			compare := func(what string, r Range) {
				t.Helper()
				past, restored := r, r
				past.Table, past.At, restored.Table = "Orders", at, name
				if got, want := pastPages(t, d, past), pastPages(t, d, restored); !slices.Equal(got, want) {
					t.Errorf("seed %d, %s: %s at second %v is\n%s\nwant\n%s", *seed, limits.name, what, at.Sub(enabled), strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			limit := 1 + r.IntN(20)
			compare("the table", Range{Limit: limit})
			compare("a segment", Range{Limit: limit, Segment: r.IntN(3), Segments: 3})
			for _, x := range def.Indexes {
				compare("index "+x.Name, Range{Index: x.Name, Limit: limit})
			}
			reverse := r.IntN(2) == 0
			for writer := range 4 {
				part := []item.Value{item.String(fmt.Sprintf("w%d-%d", writer, r.IntN(2)))}
				compare("a partition", Range{Partition: part, Limit: limit, Reverse: reverse})
				compare("a part of a partition", Range{Partition: part, Bound: keyspace.Bound{Op: keyspace.GreaterOrEqual, Values: []item.Value{num(3)}}, Reverse: reverse})
				compare("a partition of index local", Range{Index: "local", Partition: part, Limit: limit, Reverse: reverse, Whole: reverse})
				compare("a partition of index all", Range{Index: "all", Partition: []item.Value{item.String(fmt.Sprint(writer))}, Limit: limit, Reverse: reverse})
			}
			time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
		}
		stop()
		writers.Wait()
		t.Logf("%d items at random seconds, of which %d existed and %d are different now", items, existed, differ)
		if items != 100 || existed < 20 || differ < 20 {
			t.Errorf("the test compares too little")
		}
	})
}

// A read with a bound of work makes progress, also over keys that did not exist then, and
// a page of the past after the first does not read the log again.
func TestPastIsReadInSteps(t *testing.T) {
	var nanos atomic.Int64
	nanos.Store(time.Unix(1_800_000_000, 0).UnixNano())
	now := func() time.Time { return time.Unix(0, nanos.Load()).UTC() }
	storage := pebble.InMemory()
	storage.Now = now
	d := newDB(t, newEngine(t, storage), Options{Clock: clock.Given(now)})
	create(t, d, ordersWithoutIndexes("Orders"))
	if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
		t.Fatal(err)
	}
	nanos.Add(int64(time.Second))
	want := map[string]bool{}
	for i := range 20 {
		it := key(fmt.Sprint(i), 1)
		put(t, d, "Orders", it)
		want[item.Map(it).String()] = true
	}
	at := now().Truncate(time.Second)
	nanos.Add(int64(2 * time.Second))
	for i := range 3000 {
		put(t, d, "Orders", key(fmt.Sprint(i), 1).With("c", item.String("later")))
	}
	nanos.Add(int64(2 * time.Second))
	d.past.RangeBytes, d.past.LogBytes = 20_000, 50_000
	got, repeated, pages := map[string]bool{}, 0, 0
	for r := (Range{Table: "Orders", At: at, Limit: 3}); ; pages++ {
		var page Page
		repeated += untilRead(t, func() (err error) {
			page, err = d.Range(t.Context(), r)
			return err
		})
		for _, it := range page.Items {
			got[item.Map(it).String()] = true
		}
		if r.After = page.Last; r.After == nil {
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the table had %d items, want %d", len(got), len(want))
	}
	if repeated == 0 {
		t.Error("no read of the past needed more than one request")
	}
	t.Logf("%d pages, %d repeated requests", pages, repeated)

	d.past.RangeBytes, d.past.LogBytes = 8<<20, 8<<20
	if _, err := d.Range(t.Context(), Range{Table: "Orders", At: at, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	d.past.LogBytes = 1 // enough for nothing, but the first slot is known
	page, err := d.Range(t.Context(), Range{Table: "Orders", At: at, Limit: 2})
	if err != nil || page.Scanned != 2 {
		t.Errorf("a repeated page: %d items, %v", page.Scanned, err)
	}
}

// What can be read of the past follows from recovery and streams.
func TestPastBounds(t *testing.T) {
	var nanos atomic.Int64
	nanos.Store(time.Date(2026, 11, 15, 12, 0, 0, 5e8, time.UTC).UnixNano())
	now := func() time.Time { return time.Unix(0, nanos.Load()).UTC() }
	wait := func(d time.Duration) { nanos.Add(int64(d)) }
	storage := pebble.InMemory()
	storage.Now = now
	d := newDB(t, newEngine(t, storage), Options{Clock: clock.Given(now)})
	create(t, d, ordersWithoutIndexes("Orders"))
	k := key("1", 1)
	try := func(what string, at time.Time, want error) {
		t.Helper()
		if _, err := d.GetOneAt(t.Context(), Get{Table: "Orders"}, k, at.Truncate(time.Second)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	put(t, d, "Orders", k.With("c", item.String("first")))
	wait(time.Second)
	try("without recovery", now().Add(-time.Second), history.ErrNoRecovery)
	if _, err := d.ReadHistory(t.Context(), ItemHistory{Table: "Orders", Key: k, Limit: 10}); !errors.Is(err, history.ErrNoRecovery) {
		t.Errorf("history without recovery: %v", err)
	}
	if _, err := d.UpdateTable(t.Context(), "Orders", func(t *schema.Table) error {
		t.EnableStream("KEYS_ONLY", d.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	streamed := now()
	wait(2 * time.Second)
	put(t, d, "Orders", k.With("c", item.String("second")))
	wait(2 * time.Second)
	try("with a stream", streamed, nil)
	try("before the stream", streamed.Add(-time.Second), history.ErrNotRestorable)
	try("a second that is not over", now(), history.ErrNotRestorable)
	if it, err := d.GetOneAt(t.Context(), Get{Table: "Orders"}, k, streamed.Truncate(time.Second)); err != nil || !it.Equal(k.With("c", item.String("first"))) {
		t.Errorf("the item was %v, %v", item.Map(it), err)
	}
	if _, err := d.SetRecovery(t.Context(), "Orders", 2); err != nil {
		t.Fatal(err)
	}
	recovered := now()
	try("recovery does not shorten what a stream keeps", streamed, nil)
	wait(30 * time.Hour)
	if err := d.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	try("a day after the stream", streamed, history.ErrNotRestorable)
	try("recovery keeps more than a day", recovered, nil)
	wait(24 * time.Hour)
	try("after the recovery window", recovered, history.ErrNotRestorable)

	if _, err := d.DeleteTable(t.Context(), "Orders"); err != nil {
		t.Fatal(err)
	}
	create(t, d, ordersWithoutIndexes("Orders"))
	try("a table that was created again", now().Add(-time.Hour), history.ErrNoRecovery)
}

// The history of an item has its changes, the newest first, page by page.
func TestItemHistory(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := inMemory(t)
		create(t, d, orders("Orders"))
		if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
			t.Fatal(err)
		}
		k := key("one", 1)
		var want []string
		for i := range 30 {
			time.Sleep(time.Second)
			for n := range 5 {
				put(t, d, "Orders", key(fmt.Sprint("other", n), i))
			}
			ctx := context.WithValue(t.Context(), BillKey{}, &Bill{By: fmt.Sprint("user", i%2)})
			w := Write{Table: "Orders", Key: k, Effect: Replace(k.With("b", num(i)))}
			if i == 20 {
				w.Effect = Remove
			}
			if _, err := d.Write(ctx, w); err != nil {
				t.Fatal(err)
			}
			kind := "MODIFY"
			switch i {
			case 0, 21:
				kind = "INSERT"
			case 20:
				kind = "REMOVE"
			}
			want = append(want, fmt.Sprint(kind, " user", i%2))
		}
		slices.Reverse(want)
		d.past.LogBytes = 2000
		var got []string
		looked, pages := 0, 0
		for h := (ItemHistory{Table: "Orders", Key: k, Limit: 7}); ; pages++ {
			page, err := d.ReadHistory(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Found {
				got = append(got, page.Found[i].Kind()+" "+page.Found[i].By)
			}
			looked += page.Looked
			if h.Before = page.Next; h.Before == nil {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the history is\n%v\nwant\n%v", got, want)
		}
		if pages < 4 || looked > 180 {
			t.Errorf("%d pages have looked at %d records", pages, looked)
		}
	})
}

// The net changes of a window are found, with what has become of the items.
func TestFindUndone(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := inMemory(t)
		create(t, d, ordersWithoutIndexes("Orders"))
		if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
			t.Fatal(err)
		}
		it := func(i int, c string) item.Item { return key(fmt.Sprint(i), 1).With("c", item.String(c)) }
		for i := range 300 {
			put(t, d, "Orders", it(i, "before"))
		}
		time.Sleep(2 * time.Second)
		from := time.Now().Truncate(time.Second)
		for i := range 250 {
			put(t, d, "Orders", it(i, "once"))
			put(t, d, "Orders", it(i, "window"))
		}
		remove(t, d, "Orders", key("260", 1))
		put(t, d, "Orders", it(1000, "new"))
		put(t, d, "Orders", it(1001, "for a moment"))
		remove(t, d, "Orders", key("1001", 1))
		to := time.Now().Truncate(time.Second)
		time.Sleep(2 * time.Second)
		put(t, d, "Orders", it(7, "later"))
		put(t, d, "Orders", it(8, "before"))
		time.Sleep(2 * time.Second)
		d.past.RangeBytes, d.past.LogBytes = 10_000, 30_000
		undone, conflicts, already, pages := 0, 0, 0, 0
		for u := (Undo{Table: "Orders", From: from, To: to, Limit: MaxUndone}); ; pages++ {
			var page UndonePage
			untilRead(t, func() (err error) {
				page, err = d.FindUndone(t.Context(), u)
				return err
			})
			already += page.Already
			for i := range page.Items {
				if page.Items[i].Unchanged() {
					undone++
				} else {
					conflicts++
				}
			}
			if u.After = page.Last; u.After == nil {
				break
			}
		}
		if undone != 250 || conflicts != 1 || already != 1 || pages < 2 {
			t.Errorf("%d items to undo, %d conflicts, %d already as they were, in %d pages; want 250, 1 and 1", undone, conflicts, already, pages+1)
		}
		page, err := d.FindUndone(t.Context(), Undo{Table: "Orders", Key: key("260", 1), From: from, To: to, Limit: MaxUndone})
		if err != nil || len(page.Items) != 1 || page.Items[0].After != nil || !page.Items[0].Before.Equal(it(260, "before")) {
			t.Errorf("one item: %+v, %v", page.Items, err)
		}
		if _, err := d.FindUndone(t.Context(), Undo{Table: "Orders", From: from, To: time.Now(), Limit: 1}); !errors.Is(err, history.ErrNotRestorable) {
			t.Errorf("a window that is not over: %v", err)
		}
	})
}

// As many reads of the past run at a time as may.
func TestPastIsBusy(t *testing.T) {
	d := inMemory(t)
	create(t, d, ordersWithoutIndexes("Orders"))
	if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
		t.Fatal(err)
	}
	var open []*history.Reader
	for range d.past.Running {
		r, err := d.openPast(t.Context(), &schema.Table{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	if _, err := d.openPast(t.Context(), &schema.Table{}, time.Time{}); !errors.Is(err, history.ErrBusy) {
		t.Errorf("one more read: %v", err)
	}
	for _, r := range open {
		r.Close()
	}
	if r, err := d.openPast(t.Context(), &schema.Table{}, time.Time{}); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
}

// That there were no items at a time says nothing about a later one, nor about a second
// that is not over.
func TestPastWithoutItems(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := inMemory(t)
		create(t, d, ordersWithoutIndexes("Orders"))
		if _, err := d.SetRecovery(t.Context(), "Orders", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Range(t.Context(), Range{Table: "Orders", At: time.Now().Truncate(time.Second)}); !errors.Is(err, history.ErrNotRestorable) {
			t.Errorf("a second that is not over: %v", err)
		}
		for want := range 4 {
			time.Sleep(2 * time.Second)
			page, err := d.Range(t.Context(), Range{Table: "Orders", At: time.Now().Truncate(time.Second).Add(-time.Second)})
			if err != nil || page.Count != want {
				t.Errorf("there are %d items, %v, want %d", page.Count, err, want)
			}
			put(t, d, "Orders", key(fmt.Sprint(want), 1))
		}
	})
}
