package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// newEngine opens an engine. With the same options it opens the same data.
func newEngine(t testing.TB, o pebble.Options) *pebble.Engine {
	t.Helper()
	if o.BacklogWait == 0 { // on a busy machine flushes take longer than the default
		o.BacklogWait = time.Minute
	}
	e, err := pebble.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// newDB opens a database on an engine.
func newDB(t testing.TB, e store.Engine, o Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return d
}

// inMemory opens a database in memory.
func inMemory(t testing.TB) *DB {
	t.Helper()
	return newDB(t, newEngine(t, pebble.InMemory()), Options{})
}

// orders defines a table with a sort key, a local index and two global ones, of
// which one has a partition key of two attributes.
func orders(name string) schema.Table {
	attr := func(name string, t item.Type) schema.Attribute { return schema.Attribute{Name: name, Type: t} }
	return schema.Table{
		Name: name,
		Key:  schema.Key{Partition: []schema.Attribute{attr("id", item.S)}, Sort: []schema.Attribute{attr("at", item.N)}},
		Indexes: []schema.Index{
			{Name: "local", ID: 1, Key: schema.Key{Partition: []schema.Attribute{attr("id", item.S)}, Sort: []schema.Attribute{attr("a", item.S)}},
				Projection: schema.Projection{Kind: schema.ProjectKeys}},
			{Name: "all", ID: 2, Global: true, Key: schema.Key{Partition: []schema.Attribute{attr("a", item.S)}, Sort: []schema.Attribute{attr("b", item.N)}},
				Projection: schema.Projection{Kind: schema.ProjectAll}},
			{Name: "two", ID: 3, Global: true, Key: schema.Key{Partition: []schema.Attribute{attr("a", item.S), attr("at", item.N)}},
				Projection: schema.Projection{Kind: schema.ProjectInclude, Names: []string{"c"}}},
		},
	}
}

func create(t testing.TB, d *DB, def schema.Table) Description {
	t.Helper()
	desc, err := d.CreateTable(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

// num returns a number as a value.
func num(n int) item.Value {
	number, err := item.ParseNumber(fmt.Sprint(n))
	if err != nil {
		panic(err)
	}
	return item.Num(number)
}

// key returns the key of an item of the table orders.
func key(id string, at int) item.Item {
	return item.Make(map[string]item.Value{"id": item.String(id), "at": num(at)})
}

// put writes one item.
func put(t testing.TB, d *DB, table string, it item.Item) Outcome {
	t.Helper()
	return write(t, d, Write{Table: table, Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)})
}

func remove(t testing.TB, d *DB, table string, it item.Item) Outcome {
	t.Helper()
	return write(t, d, Write{Table: table, Key: it, Effect: Remove})
}

func write(t testing.TB, d *DB, w Write) Outcome {
	t.Helper()
	done, err := d.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return done[0]
}

// expect fails unless the text of err is want. An empty want means no error.
func expect(t testing.TB, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: the error is %v, want none", what, err)
	case want != "" && (err == nil || err.Error() != want):
		t.Errorf("%s: the error is\n%v, want\n%s", what, err, want)
	}
}

// countStored counts the keys that an engine stores between two keys.
func countStored(t testing.TB, e store.Engine, start, end []byte) int {
	t.Helper()
	snap, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	n := 0
	for _, err := range snap.Scan(t.Context(), store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

const (
	noTable = "ResourceNotFoundException: Requested resource not found"
	inUse   = "ResourceInUseException: Attempt to change a resource which is still in use: "
)

// The state of a table depends on the time since its last change.
func TestTableLifecycle(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		ctx := t.Context()
		const delay = time.Minute
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{TableDelay: delay})
		status := func(want schema.State) {
			t.Helper()
			desc, err := d.Describe("Orders")
			if err != nil || desc.Status != want {
				t.Errorf("the table is %s, %v, want %s", desc.Status, err, want)
			}
		}
		change := func(*schema.Table) error { return nil }

		desc := create(t, d, orders("Orders"))
		if desc.Status != schema.Creating || desc.UUID == "" || !desc.Created.Equal(time.Now()) {
			t.Errorf("CreateTable returns %+v", desc)
		}
		status(schema.Creating)
		_, err := d.Table("Orders")
		expect(t, "use of a new table", err, noTable)
		_, err = d.Write(ctx, Write{Table: "Orders", Key: key("a", 1), Effect: Replace(key("a", 1))})
		expect(t, "write to a new table", err, noTable)
		_, err = d.Get(ctx, Get{Table: "Orders", Consistent: true}, key("a", 1))
		expect(t, "read of a new table", err, noTable)
		_, err = d.Range(ctx, Range{Table: "Orders"})
		expect(t, "scan of a new table", err, noTable)
		_, err = d.CreateTable(ctx, orders("Orders"))
		expect(t, "creation of a new table", err, inUse+"Table is being created: Orders")
		_, err = d.UpdateTable(ctx, "Orders", change)
		expect(t, "update of a new table", err, inUse+"Table is being created: Orders")
		_, err = d.DeleteTable(ctx, "Orders")
		expect(t, "deletion of a new table", err, inUse+"Table is being created: Orders")

		time.Sleep(delay - time.Nanosecond)
		status(schema.Creating)
		time.Sleep(time.Nanosecond)
		status(schema.Active)
		put(t, d, "Orders", key("a", 1))
		_, err = d.CreateTable(ctx, orders("Orders"))
		expect(t, "creation of a table that exists", err, "ResourceInUseException: Table already exists: Orders")

		desc, err = d.UpdateTable(ctx, "Orders", func(def *schema.Table) error {
			def.DeletionProtection = true
			return nil
		})
		if err != nil || desc.Status != schema.Updating || !desc.DeletionProtection {
			t.Errorf("UpdateTable returns %+v, %v", desc, err)
		}
		put(t, d, "Orders", key("a", 2))
		_, err = d.UpdateTable(ctx, "Orders", change)
		expect(t, "update of a table being updated", err, inUse+"Table IOPS are currently being updated. Table: Orders")
		_, err = d.DeleteTable(ctx, "Orders")
		expect(t, "deletion of a table being updated", err, inUse+"Table: Orders is in the process of being updated.")
		time.Sleep(delay)
		status(schema.Active)

		_, err = d.DeleteTable(ctx, "Orders")
		expect(t, "deletion of a protected table", err,
			"ValidationException: Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		status(schema.Active)
		if _, err = d.UpdateTable(ctx, "Orders", func(def *schema.Table) error {
			def.DeletionProtection, def.State = false, schema.Active // at once
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		status(schema.Active)

		desc, err = d.DeleteTable(ctx, "Orders")
		if err != nil || desc.Status != schema.Deleting || desc.Counts[0].Items != 2 {
			t.Errorf("DeleteTable returns %+v, %v", desc, err)
		}
		status(schema.Deleting)
		_, err = d.Table("Orders")
		expect(t, "use of a table being deleted", err, noTable)
		_, err = d.Write(ctx, Write{Table: "Orders", Key: key("a", 3), Effect: Replace(key("a", 3))})
		expect(t, "write to a table being deleted", err, noTable)
		_, err = d.UpdateTable(ctx, "Orders", change)
		expect(t, "update of a table being deleted", err, inUse+"Table is being deleted: Orders")
		_, err = d.DeleteTable(ctx, "Orders")
		expect(t, "deletion of a table being deleted", err, inUse+"Table is being deleted: Orders")

		time.Sleep(delay - time.Nanosecond)
		status(schema.Deleting)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, err = d.Describe("Orders")
		expect(t, "description of a deleted table", err, noTable+": Table: Orders not found")
		start, end := keyspace.TableSpan(desc.ID)
		if n := countStored(t, d.engine, start, end); n != 0 {
			t.Errorf("%d keys of the deleted table are left", n)
		}
		again := create(t, d, orders("Orders"))
		if again.ID == desc.ID || again.UUID == desc.UUID {
			t.Errorf("the new table has the id or UUID of the old one: %d, %s", again.ID, again.UUID)
		}
	})
}

// Without a delay a table is usable as soon as CreateTable returns.
func TestTableLifecycleWithoutDelay(t *testing.T) {
	d := inMemory(t)
	for i := range 5 {
		if desc := create(t, d, orders("Orders")); desc.Status != schema.Creating {
			t.Errorf("CreateTable returns the status %s, want %s", desc.Status, schema.Creating)
		}
		page, err := d.Range(t.Context(), Range{Table: "Orders"})
		if err != nil || page.Scanned != 0 {
			t.Fatalf("round %d: a new table has %d items, %v", i, page.Scanned, err)
		}
		put(t, d, "Orders", key("a", 1).With("a", item.String("x")))
		if desc, err := d.UpdateTable(t.Context(), "Orders", func(*schema.Table) error { return nil }); err != nil || desc.Status != schema.Updating {
			t.Errorf("UpdateTable returns the status %s, %v, want %s", desc.Status, err, schema.Updating)
		}
		if desc, err := d.Describe("Orders"); err != nil || desc.Status != schema.Active || desc.Counts[0].Items != 1 {
			t.Errorf("the table is %s with %d items, %v", desc.Status, desc.Counts[0].Items, err)
		}
		if desc, err := d.DeleteTable(t.Context(), "Orders"); err != nil || desc.Status != schema.Deleting {
			t.Errorf("DeleteTable returns the status %s, %v, want %s", desc.Status, err, schema.Deleting)
		}
		_, err = d.Describe("Orders")
		expect(t, "description of a deleted table", err, noTable+": Table: Orders not found")
	}
}

func TestUnknownTable(t *testing.T) {
	d := inMemory(t)
	ctx := t.Context()
	const named = noTable + ": Table: None not found"
	_, err := d.Describe("None")
	expect(t, "Describe", err, named)
	_, err = d.DeleteTable(ctx, "None")
	expect(t, "DeleteTable", err, named)
	_, err = d.UpdateTable(ctx, "None", func(*schema.Table) error { return nil })
	expect(t, "UpdateTable", err, named)
	err = d.SetTags(ctx, "None", func(tags []schema.Tag) ([]schema.Tag, error) { return tags, nil })
	expect(t, "SetTags", err, named)
	_, err = d.Table("None")
	expect(t, "Table", err, noTable)
	_, err = d.Get(ctx, Get{Table: "None", Consistent: true}, key("a", 1))
	expect(t, "Get", err, noTable)
	_, err = d.Range(ctx, Range{Table: "None"})
	expect(t, "Range", err, noTable)
	_, err = d.Write(ctx, Write{Table: "None", Key: key("a", 1), Effect: Remove})
	expect(t, "Write", err, noTable)
}

func TestTables(t *testing.T) {
	d := inMemory(t)
	for _, name := range []string{"c", "a", "b", "B"} {
		create(t, d, orders(name))
	}
	for _, c := range []struct {
		after string
		limit int
		want  []string
		more  bool
	}{
		{"", 10, []string{"B", "a", "b", "c"}, false},
		{"", 4, []string{"B", "a", "b", "c"}, false},
		{"", 3, []string{"B", "a", "b"}, true},
		{"a", 1, []string{"b"}, true},
		{"aa", 10, []string{"b", "c"}, false},
		{"c", 10, nil, false},
	} {
		if got, more := d.Tables(c.after, c.limit); !slices.Equal(got, c.want) || more != c.more {
			t.Errorf("Tables(%q, %d) = %q, %v, want %q, %v", c.after, c.limit, got, more, c.want, c.more)
		}
	}
}

// A rejected change has no effect, and an accepted one survives a restart. Neither
// modifies a description that was returned before.
func TestDescriptionsAreReplaced(t *testing.T) {
	o := pebble.InMemory()
	e := newEngine(t, o)
	d := newDB(t, e, Options{})
	create(t, d, orders("Orders"))
	held, err := d.Table("Orders")
	if err != nil {
		t.Fatal(err)
	}
	rejected := errors.New("no")
	_, err = d.UpdateTable(t.Context(), "Orders", func(def *schema.Table) error {
		def.Indexes[0].Name, def.Class = "other", "other"
		return rejected
	})
	if !errors.Is(err, rejected) {
		t.Errorf("UpdateTable returns %v, want %v", err, rejected)
	}
	if now, _ := d.Table("Orders"); now != held || now.Indexes[0].Name != "local" {
		t.Errorf("after the rejected change the table is %+v", now)
	}
	if _, err = d.UpdateTable(t.Context(), "Orders", func(def *schema.Table) error {
		def.Indexes[0].Throughput.Read = 5
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetTags(t.Context(), "Orders", func(tags []schema.Tag) ([]schema.Tag, error) {
		return append(tags, schema.Tag{Key: "k", Value: "v"}), nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetTags(t.Context(), "Orders", func(tags []schema.Tag) ([]schema.Tag, error) {
		tags[0].Value = "other"
		return nil, rejected
	}); !errors.Is(err, rejected) {
		t.Errorf("SetTags returns %v, want %v", err, rejected)
	}
	if held.Indexes[0].Throughput.Read != 0 || len(held.Tags) != 0 {
		t.Errorf("the earlier description has become %+v", held)
	}
	d, _ = reopen(t, d, e, o)
	now, err := d.Table("Orders")
	if err != nil || now.Indexes[0].Throughput.Read != 5 || len(now.Tags) != 1 || now.Tags[0].Value != "v" || now.UUID != held.UUID {
		t.Errorf("after a restart the table is %+v, %v", now, err)
	}
}

// reopen closes a database and its engine and opens both again.
func reopen(t testing.TB, d *DB, e *pebble.Engine, o pebble.Options) (*DB, *pebble.Engine) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = newEngine(t, o)
	return newDB(t, e, Options{}), e
}

// The id of a table is never reused, not even after a restart.
func TestTableIDs(t *testing.T) {
	o := pebble.Options{Dir: t.TempDir()}
	e := newEngine(t, o)
	d := newDB(t, e, Options{})
	seen := make(map[uint32]bool)
	for round := range 3 {
		for _, name := range []string{"aaa", "bbb"} {
			desc := create(t, d, orders(name))
			if seen[desc.ID] || desc.ID == 0 {
				t.Errorf("round %d: the id %d was used before", round, desc.ID)
			}
			seen[desc.ID] = true
			if _, err := d.DeleteTable(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		d, e = reopen(t, d, e, o)
	}
}

// A deletion that a shutdown interrupts is completed after a restart.
func TestDeletionResumesAfterRestart(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		const delay = time.Minute
		e := newEngine(t, pebble.InMemory())
		d := newDB(t, e, Options{TableDelay: delay})
		desc := create(t, d, orders("Orders"))
		time.Sleep(delay)
		put(t, d, "Orders", key("a", 1).With("a", item.String("x")).With("b", num(1)))
		if _, err := d.DeleteTable(t.Context(), "Orders"); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		// Another table is no longer in the catalog, but has an item left.
		other := orders("Other")
		other.ID = 99
		left := keyspace.Item(nil, &other, key("a", 1))
		if err := e.Update(t.Context(), [][]byte{left}, func(tx store.Tx) error {
			tx.Set(left, codec.EncodeItem(key("a", 1)))
			tx.Set(keyspace.Dropped(99), []byte{1})
			return nil
		}); err != nil {
			t.Fatal(err)
		}

		d = newDB(t, e, Options{TableDelay: delay})
		synctest.Wait()
		if now, err := d.Describe("Orders"); err != nil || now.Status != schema.Deleting {
			t.Errorf("after a restart the table is %s, %v", now.Status, err)
		}
		start, end := keyspace.TableSpan(99)
		if n := countStored(t, e, start, end); n != 0 {
			t.Errorf("%d items of the dropped table are left", n)
		}
		time.Sleep(delay)
		synctest.Wait()
		_, err := d.Describe("Orders")
		expect(t, "description", err, noTable+": Table: Orders not found")
		start, end = keyspace.TableSpan(desc.ID)
		dropped, last := keyspace.DroppedSpan()
		if n := countStored(t, e, start, end) + countStored(t, e, dropped, last); n != 0 {
			t.Errorf("%d items and records are left", n)
		}
	})
}

// A table that is deleted during writes leaves no item, and a new table of the same
// name is empty.
func TestDeletionDuringWrites(t *testing.T) {
	d := inMemory(t)
	ctx := t.Context()
	var ids []uint32
	for range 10 {
		desc := create(t, d, orders("Orders"))
		create(t, d, orders("Second"))
		ids = append(ids, desc.ID)
		var written atomic.Int64
		var writers sync.WaitGroup
		enough := make(chan struct{})
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					it := key(fmt.Sprint(w, "-", i), i).With("a", item.String("x")).With("b", num(i))
					other := it.With("id", item.String(fmt.Sprint("other-", w, "-", i)))
					// The same table before and after another one.
					_, err := d.Write(ctx,
						Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)},
						Write{Table: "Second", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)},
						Write{Table: "Orders", Key: other, Fit: (*schema.Table).CheckItem, Effect: Replace(other)})
					if err != nil {
						var fault *apierror.Error
						if !errors.As(err, &fault) || fault.Code != "ResourceNotFoundException" {
							t.Error(err)
						}
						return
					}
					if written.Add(1) == 20 {
						close(enough)
					}
				}
			})
		}
		<-enough
		if _, err := d.DeleteTable(ctx, "Orders"); err != nil {
			t.Fatal(err)
		}
		writers.Wait() // each of them gets ResourceNotFoundException
		page, err := d.Range(ctx, Range{Table: create(t, d, orders("Orders")).Name})
		if err != nil || page.Scanned != 0 {
			t.Errorf("the new table has %d items, %v", page.Scanned, err)
		}
		for _, name := range []string{"Orders", "Second"} {
			if _, err := d.DeleteTable(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.removeItems(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if start, end := keyspace.TableSpan(id); countStored(t, d.engine, start, end) > 0 {
			t.Errorf("items of table %d are left", id)
		}
	}
}

// fullEngine rejects up to a thousand updates while it is full.
type fullEngine struct {
	store.Engine
	full     atomic.Bool
	rejected atomic.Int64
}

func (e *fullEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if e.full.Load() && e.rejected.Add(1) < 1000 {
		return store.ErrFull
	}
	return e.Engine.Update(ctx, keys, fn)
}

// A deletion that fails is retried at intervals.
func TestDeletionIsRetriedOnAFullDisk(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		const delay = time.Minute
		e := &fullEngine{Engine: newEngine(t, pebble.InMemory())}
		d := newDB(t, e, Options{TableDelay: delay})
		create(t, d, orders("Orders"))
		time.Sleep(delay)
		if _, err := d.DeleteTable(t.Context(), "Orders"); err != nil {
			t.Fatal(err)
		}
		e.full.Store(true)
		time.Sleep(delay + 10*time.Second)
		if n := e.rejected.Load(); n == 0 || n > 20 {
			t.Errorf("the deletion was tried %d times in ten seconds, want 1 to 20", n)
		}
		e.full.Store(false)
		time.Sleep(10 * time.Second)
		_, err := d.Describe("Orders")
		expect(t, "description", err, noTable+": Table: Orders not found")
	})
}

// Open fails if the description or the counts of a table cannot be decoded.
func TestCorruptDescription(t *testing.T) {
	for name, value := range map[string]string{
		"an unknown format": "\x02{}",
		"invalid JSON":      "\x01{",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, pebble.InMemory())
			setRaw(t, e, keyspace.Catalog("Orders"), []byte(value))
			if _, err := Open(t.Context(), e, Options{}); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("Open returns %v, want %v", err, store.ErrCorrupt)
			}
		})
	}
	e := newEngine(t, pebble.InMemory())
	d := newDB(t, e, Options{})
	desc := create(t, d, orders("Orders"))
	setRaw(t, e, keyspace.ItemCount(desc.ID), []byte("short"))
	if _, err := Open(t.Context(), e, Options{}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Open with truncated counts returns %v, want %v", err, store.ErrCorrupt)
	}
}

func setRaw(t testing.TB, e store.Engine, key, value []byte) {
	t.Helper()
	if err := e.Update(t.Context(), [][]byte{key}, func(tx store.Tx) error {
		tx.Set(key, value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A DeleteTable whose context is cancelled deletes the table completely or not at
// all.
func TestCancelledDeletionIsNotHalfDone(t *testing.T) {
	e := newEngine(t, pebble.InMemory())
	var hook atomic.Pointer[func()]
	now := func() time.Time {
		if h := hook.Load(); h != nil {
			(*h)()
		}
		return time.Now()
	}
	d := newDB(t, e, Options{Clock: clock.Given(now)})
	create(t, d, orders("Orders"))
	ctx, cancel := context.WithCancel(t.Context())
	stop := func() { cancel() } // while the update of the catalog runs
	hook.Store(&stop)
	_, _ = d.DeleteTable(ctx, "Orders") // with or without an error
	hook.Store(nil)
	it := key("a", 1)
	if _, err := d.Write(t.Context(), Write{Table: "Orders", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}); err != nil {
		return // the table is deleted, which is correct too
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := newDB(t, e, Options{})
	found, err := again.Get(t.Context(), Get{Table: "Orders", Consistent: true}, it)
	if err != nil || found[0] == nil {
		t.Errorf("a committed write is lost after a restart: %v, %v", found, err)
	}
}

// A client that disconnects while it enables recovery leaves no table that records
// changes for nobody.
func TestCancelledRecordingIsComplete(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.alterRecorded(ctx, "Orders", func(t *schema.Table) error {
		cancel()
		t.Recovery = schema.Recovery{Enabled: true, Since: d.Now(), Days: 1}
		return nil
	})
	if table, _ := d.find("Orders"); err != nil || table.Recording || !table.Recovery.Enabled {
		t.Errorf("%v: recording %v, recovery %v", err, table.Recording, table.Recovery.Enabled)
	}
	if _, err := d.SetRecovery(t.Context(), "Orders", 0); err != nil {
		t.Fatal(err)
	}
	if table, _ := d.find("Orders"); table.Logs() {
		t.Error("changes are recorded although recovery is disabled")
	}
}
