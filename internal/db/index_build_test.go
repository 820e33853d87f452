package db

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/virtualtime"
)

var (
	buildCount   = flag.Int("build.items", 20_000, "items in the table whose index is built during writes")
	buildDir     = flag.String("build.dir", "", "folder for that table; defaults to memory")
	buildCrashes = flag.Int("build.crashes", 2, "crashes during a build")
	buildPause   = flag.Duration("build.pause", 2*time.Millisecond, "pause of each writer between two writes")
	buildSeed    = flag.Uint64("build.seed", 0, "seed of the builds; defaults to a random one")
)

const buildWriters = 16

func logSeed(t testing.TB) uint64 {
	seed := *buildSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-build.seed=%d", seed)
	return seed
}

// partsTable defines a table without indexes.
func partsTable() schema.Table {
	return schema.Table{Name: "Parts", Key: schema.Key{Partition: []schema.Attribute{{Name: "id", Type: item.S}}}}
}

func partKey(n int) item.Item {
	return item.Make(map[string]item.Value{"id": item.String(fmt.Sprintf("part-%07d", n))})
}

// lateIndex defines an index that is added to a table with items.
func lateIndex() schema.Index {
	return schema.Index{
		Name: "late", Global: true, State: schema.Creating,
		Key: schema.Key{
			Partition: []schema.Attribute{{Name: "a", Type: item.S}},
			Sort:      []schema.Attribute{{Name: "b", Type: item.S}},
		},
		Projection: schema.Projection{Kind: schema.ProjectInclude, Names: []string{"c"}},
	}
}

// lateEntry returns the entry of an item in the index late, and whether it has one.
// It does not use the code of the database.
func lateEntry(it item.Item) (item.Item, bool) {
	entry := make(map[string]item.Value)
	for name, v := range it.All() {
		if name != "d" {
			entry[name] = v
		}
	}
	a, b := entry["a"], entry["b"]
	ok := a != nil && a.Type() == item.S && len(a.Bytes()) > 0 && len(a.Bytes()) <= 2048 &&
		b != nil && b.Type() == item.S && len(b.Bytes()) > 0 && len(b.Bytes()) <= 1024
	return item.Make(entry), ok
}

// randomPart returns an item as it may be before the index exists: seven of ten
// items fit the index.
func randomPart(r *rand.Rand, n int) item.Item {
	it := goodPart(r, n)
	switch r.IntN(20) {
	case 0:
		return it.With("a", num(1))
	case 1:
		return it.With("b", item.List(item.String("x")))
	case 2:
		return it.Without("a")
	case 3:
		return it.With("b", item.String(""))
	case 4:
		return it.With("b", item.String(strings.Repeat("b", 1025+r.IntN(4000))))
	case 5:
		return it.With("a", item.String(strings.Repeat("a", 2049+r.IntN(4000))))
	}
	return it
}

// goodPart returns an item that fits the index.
func goodPart(r *rand.Rand, n int) item.Item {
	it := partKey(n).With("c", item.String(fmt.Sprint(r.IntN(1000)))).With("d", item.String(strings.Repeat("d", r.IntN(40))))
	if r.IntN(8) > 0 {
		it = it.With("a", item.String(fmt.Sprint("a", r.IntN(50))))
	}
	if r.IntN(8) > 0 {
		it = it.With("b", item.String(fmt.Sprint("b", r.IntN(50))))
	}
	return it
}

// loadParts creates the table and fills it.
func loadParts(t testing.TB, d *DB, r *rand.Rand, count int) {
	t.Helper()
	create(t, d, partsTable())
	const batch = 100
	for n := 0; n < count; n += batch {
		var writes []Write
		for i := n; i < min(n+batch, count); i++ {
			it := randomPart(r, i)
			writes = append(writes, Write{Table: "Parts", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)})
		}
		if _, err := d.Write(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
}

// writeParts starts writers that put, update and delete parts. stop ends them and
// returns the number of writes.
func writeParts(t testing.TB, d *DB, seed uint64, count int) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	var written atomic.Int64
	for w := range buildWriters {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		writers.Go(func() {
			for ctx.Err() == nil {
				_, err := d.Write(ctx, randomWrite(r, count))
				var fault *apierror.Error
				switch {
				case err == nil:
					written.Add(1)
				case errors.As(err, &fault) && fault.Code == "ValidationException":
					// The item is older than the index and does not fit it.
				case errors.As(err, &fault) && fault.Code == "ResourceNotFoundException", errors.Is(err, context.Canceled), errors.Is(err, store.ErrClosed):
					return
				default:
					t.Errorf("a write during the build: %v", err)
					return
				}
				time.Sleep(*buildPause)
			}
		})
	}
	return func() int64 {
		cancel()
		writers.Wait()
		return written.Load()
	}
}

// randomWrite returns a put, a delete, or an update that moves an item within the
// index, removes it from the index, or does not affect the index.
func randomWrite(r *rand.Rand, count int) Write {
	n := r.IntN(count + count/10) // some items are new
	it := goodPart(r, n)
	change := func(f func(item.Item) item.Item) Write {
		return Write{Table: "Parts", Key: partKey(n), Update: true, Effect: func(before item.Item) (item.Item, error) {
			if before == nil {
				before = partKey(n)
			}
			return f(before), nil
		}}
	}
	a, c := item.String(fmt.Sprint("a", r.IntN(50))), item.String(fmt.Sprint(r.IntN(1000)))
	switch r.IntN(8) {
	case 0, 1:
		return Write{Table: "Parts", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)}
	case 2:
		return Write{Table: "Parts", Key: partKey(n), Effect: Remove}
	case 3, 4:
		return change(func(before item.Item) item.Item { return before.With("a", a) })
	case 5:
		return change(func(before item.Item) item.Item { return before.Without("a") })
	case 6:
		return change(func(before item.Item) item.Item { return before.With("c", c) })
	}
	return change(func(before item.Item) item.Item { return before.With("d", c) }) // not in the index
}

// addIndex adds an index, which starts a build.
func addIndex(t testing.TB, d *DB, x schema.Index) {
	t.Helper()
	if _, err := d.UpdateTable(t.Context(), "Parts", func(def *schema.Table) error { def.AddIndex(x); return nil }); err != nil {
		t.Fatal(err)
	}
}

func dropIndex(t testing.TB, d *DB, name string) {
	t.Helper()
	if _, err := d.UpdateTable(t.Context(), "Parts", func(def *schema.Table) error {
		x, _ := def.Index(name)
		x.State = schema.Deleting
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// waitIndexes waits until no index is being created or deleted.
func waitIndexes(t testing.TB, d *DB) {
	t.Helper()
	for {
		changing := false
		for _, x := range tableOf(t, d, "Parts").Indexes {
			changing = changing || x.State != ""
		}
		if !changing {
			return
		}
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// checkLateIndex compares the index late with the items of the table, runs Verify,
// and compares the count of the index.
func checkLateIndex(t testing.TB, d *DB) {
	t.Helper()
	want := make(map[string]item.Item)
	for it := range scanParts(t, d, "") {
		if entry, ok := lateEntry(it); ok {
			id, _ := it.Get("id")
			want[string(id.Bytes())] = entry
		}
	}
	wanted, wrong := len(want), 0
	size, items := int64(0), int64(0)
	for entry := range scanParts(t, d, "late") {
		id, _ := entry.Get("id")
		if expected, ok := want[string(id.Bytes())]; !ok || !expected.Equal(entry) {
			wrong++
		}
		delete(want, string(id.Bytes()))
		items++
		size += int64(entry.Size())
	}
	if wrong > 0 || len(want) > 0 {
		t.Errorf("of %d entries %d are wrong and %d are missing", wanted, wrong, len(want))
	}
	expectFaults(t, d)
	x, _ := tableOf(t, d, "Parts").Index("late")
	desc, err := d.Describe("Parts")
	if count := desc.Counts[x.ID]; err != nil || count != (Count{Items: items, Bytes: size}) {
		t.Errorf("the count of the index is %+v, %v, but it has %d items and %d bytes", count, err, items, size)
	}
}

// scanParts iterates over the items of the table Parts, or over an index of it.
func scanParts(t testing.TB, d *DB, index string) func(yield func(item.Item) bool) {
	return func(yield func(item.Item) bool) {
		r := Range{Table: "Parts", Index: index}
		for {
			page, err := d.Range(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				if !yield(it) {
					return
				}
			}
			if r.After = page.Last; r.After == nil {
				return
			}
		}
	}
}

// An index that is built during writes has the entries of its table's items when it
// becomes active.
func TestIndexBuildDuringWrites(t *testing.T) {
	seed := logSeed(t)
	o := pebble.InMemory()
	if *buildDir != "" {
		o = pebble.Options{Dir: *buildDir}
	}
	d := newDB(t, newEngine(t, o), Options{})
	began := time.Now()
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), *buildCount)
	loaded := time.Since(began)
	stop := writeParts(t, d, seed, *buildCount)
	began = time.Now()
	addIndex(t, d, lateIndex())
	waitIndexes(t, d)
	built := time.Since(began)
	written := stop()
	t.Logf("%d items loaded in %v; built in %v, %.0f items/s, during %d writes, %.0f writes/s", *buildCount,
		loaded.Round(time.Millisecond), built.Round(time.Millisecond), float64(*buildCount)/built.Seconds(), written, float64(written)/built.Seconds())
	checkLateIndex(t, d)
}

// Writes of every kind, between when the build reads an item and when it writes the
// entry, leave a correct index.
func TestWritesDuringABuildStep(t *testing.T) {
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 0)
	d := newDB(t, g, Options{})
	create(t, d, partsTable())
	part := func(n int) item.Item {
		return partKey(n).With("a", item.String("a")).With("b", item.String("b")).With("c", num(1)).With("d", num(1))
	}
	for n := range 7 {
		write(t, d, Write{Table: "Parts", Key: part(n), Fit: (*schema.Table).CheckItem, Effect: Replace(part(n))})
	}
	addIndex(t, d, lateIndex())
	<-g.reached
	for n, after := range []item.Item{
		part(0),                   // unchanged
		part(1).With("d", num(2)), // the entry would not change, but does not exist yet
		part(2).With("c", num(2)),
		part(3).With("a", item.String("moved")),
		part(4).Without("a"),
	} {
		write(t, d, Write{Table: "Parts", Key: partKey(n), Update: true, Effect: Replace(after)})
	}
	write(t, d, Write{Table: "Parts", Key: partKey(5), Effect: Remove})
	write(t, d, Write{Table: "Parts", Key: partKey(6), Effect: Remove})
	write(t, d, Write{Table: "Parts", Key: part(6), Fit: (*schema.Table).CheckItem, Effect: Replace(part(6))})
	x, _ := tableOf(t, d, "Parts").Index("late")
	if desc, err := d.Describe("Parts"); err != nil || desc.Counts[x.ID].Items < 0 || desc.Counts[x.ID].Bytes < 0 {
		t.Errorf("during the build the count of the index is %+v, %v", desc.Counts[x.ID], err)
	}
	g.release()
	waitIndexes(t, d)
	checkLateIndex(t, d)
	if r := verifyOne(t, d); r.Entries["late"] != 5 {
		t.Errorf("the index has %d entries, want 5", r.Entries["late"])
	}
}

// Expiry records are backfilled by the same steps.
func TestWriteDuringAnExpiryBackfillStep(t *testing.T) {
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 0)
	d := newDB(t, g, Options{})
	create(t, d, partsTable())
	part := partKey(1).With("until", num(int(time.Now().Add(time.Hour).Unix())))
	write(t, d, Write{Table: "Parts", Key: part, Fit: (*schema.Table).CheckItem, Effect: Replace(part)})
	if err := d.SetTimeToLive(t.Context(), "Parts", "until"); err != nil {
		t.Fatal(err)
	}
	<-g.reached
	write(t, d, Write{Table: "Parts", Key: partKey(1), Update: true, Effect: Replace(part.With("c", num(1)))})
	g.release()
	for tableOf(t, d, "Parts").TimeToLive.Filling {
		time.Sleep(time.Millisecond)
	}
	if start, end := keyspace.ExpiriesSpan(tableOf(t, d, "Parts").ID); countStored(t, g, start, end) != 1 {
		t.Error("an item that was written during the backfill has no expiry record")
	}
}

// Verify finds no faults at any moment of a build.
func TestVerifyDuringBuild(t *testing.T) {
	seed := logSeed(t)
	d := inMemory(t)
	const count = 1000
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), count)
	stop := writeParts(t, d, seed, count)
	for range 3 {
		addIndex(t, d, lateIndex())
		for building := true; building; {
			x, ok := tableOf(t, d, "Parts").Index("late")
			building = !ok || x.State != ""
			expectFaults(t, d)
		}
		dropIndex(t, d, "late")
		expectFaults(t, d)
		waitIndexes(t, d)
	}
	stop()
}

// Verify reads the definitions of tables from its snapshot too.
func TestVerifyWhileAnIndexBecomesActive(t *testing.T) {
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 0)
	d := newDB(t, g, Options{})
	loadParts(t, d, rand.New(rand.NewPCG(logSeed(t), 0)), 100)
	addIndex(t, d, lateIndex())
	<-g.reached
	activate := func() {
		g.release()
		waitIndexes(t, d)
	}
	g.afterSnapshot.Store(&activate)
	expectFaults(t, d)
	checkLateIndex(t, d)
}

// gatedEngine is an engine that blocks one step of a build until it is released.
type gatedEngine struct {
	store.Engine
	steps   atomic.Int64 // of builds, so far
	stopAt  int64        // steps before the one that is blocked
	reached chan struct{}
	opened  chan struct{}
	once    sync.Once

	afterSnapshot atomic.Pointer[func()] // called once, after the next snapshot
}

func (g *gatedEngine) Snapshot(ctx context.Context) (store.Snapshot, error) {
	snap, err := g.Engine.Snapshot(ctx)
	if f := g.afterSnapshot.Swap(nil); f != nil {
		(*f)()
	}
	return snap, err
}

// newGatedEngine returns an engine that blocks the build after some steps.
func newGatedEngine(e store.Engine, after int64) *gatedEngine {
	return &gatedEngine{Engine: e, stopAt: after, reached: make(chan struct{}), opened: make(chan struct{})}
}

func (g *gatedEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	kind, catalog := keyspace.Build(0, 0)[0], keyspace.Catalog("")[0]
	if len(keys) > 1 && keys[0][0] != catalog && bytes.IndexByte(firstBytes(keys), kind) >= 0 && g.steps.Add(1) == g.stopAt+1 {
		close(g.reached)
		select {
		case <-g.opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.Engine.Update(ctx, keys, fn)
}

func firstBytes(keys [][]byte) []byte {
	first := make([]byte, len(keys))
	for i, k := range keys {
		first[i] = k[0]
	}
	return first
}

func (g *gatedEngine) release() { g.once.Do(func() { close(g.opened) }) }

// An index is CREATING and backfilling until it is active. Its count shows the
// progress. A build that is stopped resumes where it was.
func TestBuildResumesAfterRestart(t *testing.T) {
	seed := logSeed(t)
	const count = 20 * buildItems
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 7)
	d := newDB(t, g, Options{})
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), count)
	stop := writeParts(t, d, seed, count)
	addIndex(t, d, lateIndex())
	<-g.reached
	x, _ := tableOf(t, d, "Parts").Index("late")
	if x.State != schema.Creating || !x.Backfilling {
		t.Errorf("during the build the index is %q, backfilling %v", x.State, x.Backfilling)
	}
	if desc, err := d.Describe("Parts"); err != nil || desc.Status != schema.Active || desc.Counts[x.ID].Items >= count {
		t.Errorf("during the build the table is %+v, %v", desc, err)
	}
	stop()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	// Some items change while the build is blocked. Then it continues.
	again := newGatedEngine(g.Engine, 2)
	d = newDB(t, again, Options{})
	<-again.reached
	if x, _ = tableOf(t, d, "Parts").Index("late"); x.State != schema.Creating || !x.Backfilling {
		t.Errorf("after a restart the index is %q, backfilling %v", x.State, x.Backfilling)
	}
	stop = writeParts(t, d, seed+1, count)
	time.Sleep(20 * time.Millisecond)
	again.release()
	waitIndexes(t, d)
	stop()
	if x, _ = tableOf(t, d, "Parts").Index("late"); x.State != "" || x.Backfilling {
		t.Errorf("afterwards the index is %q, backfilling %v", x.State, x.Backfilling)
	}
	// Writers add up to a tenth of the items.
	if steps := again.steps.Load(); steps > 20+3-7 {
		t.Errorf("after 7 steps of about 20 the build took %d more, want at most 16", steps)
	}
	if start, end := keyspace.BuildSpan(tableOf(t, d, "Parts").ID); countStored(t, d.engine, start, end) != 0 {
		t.Error("a record of the build is left")
	}
	checkLateIndex(t, d)
}

// A build resumes after a crash.
func TestBuildResumesAfterCrash(t *testing.T) {
	seed := logSeed(t)
	const count = 8 * buildItems
	r := rand.New(rand.NewPCG(seed, 0))
	for range *buildCrashes {
		mem := disktest.NewCrashable()
		g := newGatedEngine(newEngine(t, pebble.Options{FS: mem, Dir: "d"}), int64(r.IntN(6)))
		d := newDB(t, g, Options{})
		loadParts(t, d, r, count)
		stop := writeParts(t, d, seed, count)
		addIndex(t, d, lateIndex())
		<-g.reached
		if r.IntN(2) == 0 {
			g.release() // the crash happens while the build runs
			for steps := g.steps.Load(); g.steps.Load() == steps && g.steps.Load() < 6; {
				time.Sleep(50 * time.Microsecond)
			}
		}
		disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		g.release()
		stop()
		if err := errors.Join(d.Close(), g.Close()); err != nil {
			t.Fatal(err)
		}

		d = newDB(t, newEngine(t, pebble.Options{FS: disk, Dir: "d"}), Options{})
		stop = writeParts(t, d, seed+2, count)
		waitIndexes(t, d)
		stop()
		checkLateIndex(t, d)
	}
}

// An index that is deleted during writes leaves no entries, and a new index of the
// same name has none of the old one.
func TestIndexAddedAndDeletedDuringWrites(t *testing.T) {
	seed := logSeed(t)
	d := inMemory(t)
	const count = 1000
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), count)
	stop := writeParts(t, d, seed, count)
	table := tableOf(t, d, "Parts").ID
	for round := range 4 {
		x := lateIndex()
		if round%2 == 0 { // a different key and projection
			x.Key = schema.Key{Partition: []schema.Attribute{{Name: "c", Type: item.S}}}
			x.Projection = schema.Projection{Kind: schema.ProjectAll}
		}
		addIndex(t, d, x)
		waitIndexes(t, d)
		if round < 3 {
			old, _ := tableOf(t, d, "Parts").Index("late")
			dropIndex(t, d, "late")
			waitIndexes(t, d)
			if start, end := keyspace.IndexSpan(table, old.ID); countStored(t, d.engine, start, end) != 0 {
				t.Errorf("round %d: entries of the deleted index are left", round)
			}
			desc, err := d.Describe("Parts")
			if _, kept := desc.Counts[old.ID]; err != nil || kept {
				t.Errorf("round %d: the deleted index is still counted, %v", round, err)
			}
		}
	}
	stop()
	checkLateIndex(t, d)
}

// A table that is deleted during a build leaves no data.
func TestTableDeletedDuringBuild(t *testing.T) {
	seed := logSeed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	const count = 6 * buildItems
	for range 3 {
		g := newGatedEngine(newEngine(t, pebble.InMemory()), int64(r.IntN(4)))
		d := newDB(t, g, Options{})
		loadParts(t, d, r, count)
		stop := writeParts(t, d, seed, count)
		id := tableOf(t, d, "Parts").ID
		addIndex(t, d, lateIndex())
		<-g.reached
		// The step continues before, while or after the table is deleted.
		var holder sync.WaitGroup
		wait := time.Duration(r.IntN(2000)) * time.Microsecond
		holder.Go(func() {
			time.Sleep(wait)
			g.release()
		})
		if r.IntN(2) == 0 {
			holder.Wait()
		}
		if _, err := d.DeleteTable(t.Context(), "Parts"); err != nil {
			t.Fatal(err)
		}
		holder.Wait()
		stop()
		waitDrops(t, d)
		for _, span := range []func(uint32) (start, end []byte){keyspace.TableSpan, keyspace.CollectionSpan, keyspace.BuildSpan} {
			if start, end := span(id); countStored(t, g, start, end) != 0 {
				t.Errorf("%d keys from %x are left", countStored(t, g, start, end), start)
			}
		}
		if countStored(t, g, keyspace.ItemCount(id), append(keyspace.ItemCount(id), 0)) != 0 {
			t.Error("the count of the table is left")
		}
		// The builder can build other indexes.
		loadParts(t, d, r, buildItems)
		addIndex(t, d, lateIndex())
		waitIndexes(t, d)
		checkLateIndex(t, d)
	}
}

// waitDrops waits until the items of dropped tables are removed.
func waitDrops(t testing.TB, d *DB) {
	t.Helper()
	start, end := keyspace.DroppedSpan()
	for countStored(t, d.engine, start, end) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// failingEndEngine fails the first update that ends a build, and counts the batches.
type failingEndEngine struct {
	store.Engine
	batches atomic.Int64
	failed  atomic.Bool
}

var errPlantedEnd = errors.New("planted")

func (e *failingEndEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	switch kind := keyspace.Build(0, 0)[0]; {
	case bytes.Equal(keys[0], keyspace.Catalog("Parts")):
		if e.batches.Load() > 0 && e.failed.CompareAndSwap(false, true) {
			return errPlantedEnd
		}
	case slices.ContainsFunc(keys[1:], func(k []byte) bool { return k[0] == kind }):
		e.batches.Add(1)
	}
	return e.Engine.Update(ctx, keys, fn)
}

// A build whose last step fails, after all items, does not begin again.
func TestFailedEndOfABuildRepeatsNoBatch(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, d *DB){
		"index": func(t *testing.T, d *DB) { addIndex(t, d, lateIndex()) },
		"expiry": func(t *testing.T, d *DB) {
			if err := d.SetTimeToLive(t.Context(), "Parts", "ttl"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				e := &failingEndEngine{Engine: newEngine(t, pebble.InMemory())}
				d := newDB(t, e, Options{})
				loadParts(t, d, rand.New(rand.NewPCG(1, 0)), 3*buildItems)
				begin(t, d)
				waitUntil(t, "that the build is complete", func() bool {
					is := tableOf(t, d, "Parts")
					x, ok := is.Index("late")
					return !is.TimeToLive.Filling && (!ok || x.State == "")
				})
				if n := e.batches.Load(); !e.failed.Load() || n != 3 {
					t.Errorf("the end failed: %v, and there were %d batches, want 3", e.failed.Load(), n)
				}
				if start, end := keyspace.BuildSpan(tableOf(t, d, "Parts").ID); countStored(t, d.engine, start, end) != 0 {
					t.Error("a record of the build is left")
				}
			})
		})
	}
}

// cancellingEngine cancels a context after each broadcast, and sends nothing for a
// context that has ended.
type cancellingEngine struct {
	store.Engine
	cancel atomic.Pointer[context.CancelFunc]
}

func (e *cancellingEngine) Broadcast(ctx context.Context, message []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := e.Engine.Broadcast(ctx, message)
	if cancel := e.cancel.Load(); cancel != nil {
		(*cancel)()
	}
	return err
}

// Background work that is cancelled between the two rounds of a broadcast does not
// leave the table blocked.
func TestCancelledWaitForWritersBlocksNoRequest(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := &cancellingEngine{Engine: newEngine(t, pebble.InMemory())}
		d := newDB(t, e, Options{})
		create(t, d, orders("Orders"))
		id := tableOf(t, d, "Orders").ID
		ctx, cancel := context.WithCancel(t.Context())
		e.cancel.Store(&cancel)
		_, ok, err := d.syncWriters(ctx, "Orders", id)
		if ctx.Err() == nil {
			t.Error("the context was not cancelled")
		}
		began := time.Now()
		put(t, d, "Orders", fullItem("p", 1))
		if waited := time.Since(began); waited != 0 || !ok || err != nil {
			t.Errorf("the wait for writers returned %v, %v; afterwards a write waited %v", ok, err, waited)
		}
	})
}
