package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// testRoom has a limit, and records what is reserved.
type testRoom struct{ limit, used, most int }

func (r *testRoom) Reserve(bytes int) bool {
	if r.used+bytes > r.limit {
		return false
	}
	r.Force(bytes)
	return true
}

func (r *testRoom) Force(bytes int) {
	r.used += bytes
	r.most = max(r.most, r.used)
}

func (r *testRoom) Return(bytes int) { r.used -= bytes }

func (r *testRoom) Free(bytes int) { r.used -= bytes }

func (r *testRoom) Commit() { r.limit = math.MaxInt }

func wideItem(i int) item.Item {
	return item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(i)), "g": item.String("g"), "large": item.String(strings.Repeat("x", 390<<10))})
}

func replaceWide(i int) Write {
	it := wideItem(i)
	return Write{Table: "Wide", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}
}

// touchWide is a small update of a large item.
func touchWide(i int) Write {
	key := item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(i))})
	return Write{Table: "Wide", Key: key, Update: true, Effect: func(before item.Item) (item.Item, error) { return before.With("g", item.String("h")), nil }}
}

// A large update reserves memory for the items and the index entries that it writes,
// also if the request is small, and returns it. Without memory it has no effect.
// A small update reserves nothing.
func TestLargeUpdatesReserveMemory(t *testing.T) {
	d := inMemory(t)
	createWideTable(t, d)
	room := &testRoom{limit: 1 << 30}
	ctx := context.WithValue(t.Context(), buffer.RoomKey{}, buffer.Room(room))
	tiny := wideItem(0).Without("large")
	if _, err := d.Write(ctx, Write{Table: "Wide", Key: tiny, Fit: (*schema.Table).CheckItem, Effect: Replace(tiny)}); err != nil || room.most != 0 {
		t.Errorf("a small write reserves %d bytes (%v)", room.most, err)
	}
	const written = 21 * 390 << 10 // of one item and its entries
	for name, w := range map[string]func(i int) Write{"a put": replaceWide, "an update": touchWide} {
		for _, n := range []int{1, 5} {
			var writes []Write
			for i := range n {
				put(t, d, "Wide", wideItem(i))
				writes = append(writes, w(i))
			}
			*room = testRoom{limit: 1 << 30}
			if _, err := d.Transact(ctx, nil, writes...); err != nil || room.most < n*written || room.most > 4*n*written || room.used != 0 {
				t.Errorf("%s of %d items reserves %d MB, and %d MB are left (%v)", name, n, room.most>>20, room.used>>20, err)
			}
			before := stored(t, d, writes[0].Key)
			*room = testRoom{limit: n * written / 2}
			if _, err := d.Transact(ctx, nil, writes...); !errors.Is(err, buffer.ErrNoRoom) || room.used != 0 || !stored(t, d, writes[0].Key).Equal(before) {
				t.Errorf("%s of %d items without memory returns %v, and %d MB are left", name, n, err, room.used>>20)
			}
		}
	}
	expectFaults(t, d)
}

func stored(t *testing.T, d *DB, it item.Item) item.Item {
	t.Helper()
	table, err := d.Table("Wide")
	if err != nil {
		t.Fatal(err)
	}
	items, err := d.Get(t.Context(), Get{Table: "Wide", Consistent: true}, table.Key.Of(it))
	if err != nil {
		t.Fatal(err)
	}
	return items[0]
}

// A batch that would be too large for one update is written in several, and needs
// the memory of one.
func TestLargeBatchesAreSplit(t *testing.T) {
	engine := &countingEngine{Engine: newEngine(t, pebble.InMemory())}
	d := newDB(t, engine, Options{})
	createWideTable(t, d)
	room := &testRoom{limit: 1 << 30}
	ctx := context.WithValue(t.Context(), buffer.RoomKey{}, buffer.Room(room))
	var writes []Write
	for i := range 25 {
		writes = append(writes, replaceWide(i))
	}
	engine.n.Store(0)
	done, err := d.WriteBatch(ctx, writes...)
	if err != nil || len(done) != len(writes) {
		t.Fatalf("%d of %d writes are done: %v", len(done), len(writes), err)
	}
	if n := engine.n.Load(); n < 4 || room.most > 2*maxBatchUpdate || room.used != 0 {
		t.Errorf("the batch takes %d updates of up to %d MB, and %d MB are left", n, room.most>>20, room.used>>20)
	}
	for i := range writes {
		if !stored(t, d, writes[i].Key).Equal(writes[i].Key) || !done[i].After.Equal(writes[i].Key) {
			t.Errorf("item %d is not the one that was written", i)
		}
	}
	expectFaults(t, d)
}

// A batch of which a later update is rejected for now returns what was written before.
func TestLaterUpdateOfABatchIsRejected(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int // updates that succeed
	}{
		{nil, 25},
		{store.ErrBehind, 1},
		{store.ErrConflict, 1},
		{store.ErrFull, 1},
		{store.ErrCorrupt, 0},
	} {
		engine := &rejectingEngine{Engine: newEngine(t, pebble.InMemory())}
		d := newDB(t, engine, Options{})
		createWideTable(t, d)
		var writes []Write
		for i := range 25 {
			writes = append(writes, replaceWide(i))
		}
		engine.reject(c.err, 1)
		done, err := d.WriteBatch(t.Context(), writes...)
		done = slices.DeleteFunc(done, func(o Outcome) bool { return o.Table == nil }) // the last ones
		switch {
		case c.want == 25 && (err != nil || len(done) != 25), c.want == 1 && (err != nil || len(done) == 0 || len(done) >= 25):
			t.Errorf("%v: %d of 25 writes are done, %v", c.err, len(done), err)
		case c.want == 0 && !errors.Is(err, c.err):
			t.Errorf("%v is returned as %v", c.err, err)
		}
		for i := range done {
			if !stored(t, d, writes[i].Key).Equal(writes[i].Key) {
				t.Errorf("%v: item %d is not stored", c.err, i)
			}
		}
		engine.reject(nil, 0) // so that the database can be closed
	}
}

// rejectingEngine rejects the updates of items after the first ones, if it has an error.
type rejectingEngine struct {
	store.Engine
	mu    sync.Mutex
	err   error
	after int
}

func (e *rejectingEngine) reject(err error, after int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err, e.after = err, after
}

func (e *rejectingEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.next(ctx); err != nil {
		return err
	}
	return e.Engine.Update(ctx, keys, fn)
}

func (e *rejectingEngine) next(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil || lead.Background(ctx) {
		return nil
	}
	if e.after == 0 {
		return e.err
	}
	e.after--
	return nil
}

// A transaction of updates whose items have more than 4 MB is rejected, and one of
// less succeeds with the maximum number of indexes and a change log, whatever the
// items were before it.
func TestTransactionsOfLargeItems(t *testing.T) {
	d := inMemory(t)
	createWideTable(t, d)
	if _, err := d.SetRecovery(t.Context(), "Wide", 1); err != nil {
		t.Fatal(err)
	}
	for i := range 100 { // not in the indexes yet
		put(t, d, "Wide", wideItem(i).Without("g"))
	}
	update := func(n int) (writes []Write) {
		for i := range n {
			writes = append(writes, touchWide(i))
		}
		return writes
	}
	_, err := d.Transact(t.Context(), nil, update(11)...)
	expect(t, "11 updates of 390 KB", err, apierror.TransactionTooLarge().Error())
	if _, err := d.Transact(t.Context(), nil, update(10)...); err != nil {
		t.Errorf("10 updates of 390 KB: %v", err)
	}
	// 100 items of 390 KB become smaller, and ten of them have 4 MB with the rest.
	small := func(i int) Write {
		it := wideItem(i).Without("large").Without("g")
		return Write{Table: "Wide", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}
	}
	worst := update(10)
	for i := 10; i < 100; i++ {
		worst = append(worst, small(i))
	}
	if _, err := d.Transact(t.Context(), nil, worst...); err != nil {
		t.Errorf("the largest transaction: %v", err)
	}
	expectFaults(t, d)
}

// roomyEngine reports reads of several keys for which too little room is reserved.
type roomyEngine struct {
	store.Engine
	t    *testing.T
	room *testRoom
}

func (e *roomyEngine) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	if len(keys) > 1 && e.room.used < len(keys)*item.MaxSize {
		e.t.Errorf("%d keys are read with room for %d bytes", len(keys), e.room.used)
	}
	return e.Engine.Get(ctx, c, keys...)
}

// Reads reserve the memory of large items, and before each read of several keys that of
// the largest items. Small items are read without room, large ones are not.
func TestReadsReserveMemory(t *testing.T) {
	room := &testRoom{}
	d := newDB(t, &roomyEngine{newEngine(t, pebble.InMemory()), t, room}, Options{})
	createWideTable(t, d)
	var large, absent []item.Item
	for i := range 20 {
		put(t, d, "Wide", wideItem(i))
		large = append(large, item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(i))}))
		absent = append(absent, item.Make(map[string]item.Value{"id": item.String(fmt.Sprint("absent", i))}))
	}
	ctx := context.WithValue(t.Context(), buffer.RoomKey{}, buffer.Room(room))
	for _, c := range []struct {
		name  string
		keys  []item.Item
		limit int
		used  int // at least
		err   error
	}{
		{"large items", large, 1 << 30, 20 * 390 << 10, nil},
		{"large items, some room", large, 3 << 20, 5 * 390 << 10, buffer.ErrNoRoom},
		{"large items, no room", large, 0, 0, buffer.ErrNoRoom},
		{"absent items", absent, 1 << 30, 0, nil},
		{"absent items, no room", absent, 0, 0, nil},
	} {
		*room = testRoom{limit: c.limit}
		memory := buffer.TallyOf(ctx, len(c.keys), 1<<30)
		items, err := d.GetWithin(ctx, Get{Table: "Wide", Memory: &memory}, 1<<30, c.keys...)
		if !errors.Is(err, c.err) || err == nil && len(items) != len(c.keys) || room.used < c.used || room.used > 2*c.used || room.used > c.limit {
			t.Errorf("%s: %d items and %d bytes reserved (%v), want %d at least and %v", c.name, len(items), room.used, err, c.used, c.err)
		}
	}
}

// A batch that is written in several updates is rejected before the first of them if a
// later item is too large with its entries in local indexes. The control: without that
// item all are written.
func TestBatchOfATooLargeItemWritesNothing(t *testing.T) {
	d := inMemory(t)
	id := []schema.Attribute{{Name: "id", Type: item.S}}
	def := schema.Table{Name: "Local", Key: schema.Key{Partition: id, Sort: []schema.Attribute{{Name: "k", Type: item.S}}}}
	for i, name := range []string{"a", "b", "c", "d", "e", "g"} {
		x := schema.Index{Name: "index-" + name, Key: schema.Key{Partition: id, Sort: []schema.Attribute{{Name: name, Type: item.S}}}, Projection: schema.Projection{Kind: schema.ProjectAll}}
		if x.Global = i == 5; x.Global {
			x.Key = schema.Key{Partition: x.Key.Sort}
		}
		def.AddIndex(x)
	}
	create(t, d, def)
	writes := func(n int) (all []Write) {
		for i := range 25 {
			it := item.Make(map[string]item.Value{"id": item.String("id"), "k": item.String(fmt.Sprint(i)), "large": item.String(strings.Repeat("x", 390<<10))})
			if i == n {
				it = it.With("a", item.String("a"))
			}
			all = append(all, Write{Table: "Local", Key: it, Fit: (*schema.Table).CheckBatchItem, Effect: Replace(it)})
		}
		return all
	}
	all := writes(24)
	if n := d.firstUpdate(all); n == len(all) {
		t.Fatal("the batch is written in one update")
	}
	_, err := d.WriteBatch(t.Context(), all...)
	expect(t, "a batch with a too large item", err, apierror.ItemTooLarge().Error())
	count := func() int {
		page, err := d.Range(t.Context(), Range{Table: "Local", CountOnly: true, Keep: func(item.Item) (bool, bool) { return true, false }})
		if err != nil {
			t.Fatal(err)
		}
		return page.Count
	}
	if n := count(); n != 0 {
		t.Errorf("%d items or more are written", n)
	}
	if done, err := d.WriteBatch(t.Context(), writes(-1)...); err != nil || len(done) != 25 || count() == 0 {
		t.Errorf("the control: %d items are written (%v)", len(done), err)
	}
}
