package db

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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
)

var (
	buildCount   = flag.Int("build.items", 20_000, "items in the table whose index is built under writers")
	buildDir     = flag.String("build.dir", "", "folder for that table; memory unless set")
	buildCrashes = flag.Int("build.crashes", 2, "crashes in mid-build")
	buildPause   = flag.Duration("build.pause", 2*time.Millisecond, "pause of each writer between two writes")
	buildSeed    = flag.Uint64("build.seed", 0, "seed of the builds; a new one unless set")
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

// partsTable is a table without indexes.
func partsTable() schema.Table {
	return schema.Table{Name: "Parts", Key: schema.Key{Partition: []schema.Attribute{{Name: "id", Type: item.S}}}}
}

func partKey(n int) item.Item {
	return item.Make(map[string]item.Value{"id": item.String(fmt.Sprintf("part-%07d", n))})
}

// lateIndex is an index that is added to a table of items.
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

// lateEntry is what the index late should hold of an item, worked out in
// another way than the database's.
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

// randomPart is an item as it may be before there is an index: seven of ten
// fit it.
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

// goodPart is an item that a table with the index takes.
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

// loadParts fills the table.
func loadParts(t testing.TB, d *DB, r *rand.Rand, count int) {
	t.Helper()
	create(t, d, partsTable())
	const together = 100
	for n := 0; n < count; n += together {
		var writes []Write
		for i := n; i < min(n+together, count); i++ {
			it := randomPart(r, i)
			writes = append(writes, Write{Table: "Parts", Key: it, Fit: (*schema.Table).CheckItem, Effect: Replace(it)})
		}
		if _, err := d.Write(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
}

// writeParts lets writers put, change and delete parts until the returned
// function is called, which tells how many writes there were.
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
					// The item was there before the index and does not fit it.
				case errors.As(err, &fault) && fault.Code == "ResourceNotFoundException", errors.Is(err, context.Canceled), errors.Is(err, store.ErrClosed):
					return
				default:
					t.Errorf("a write beside the build: %v", err)
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

// randomWrite is a put, a delete, or an update that moves an item within the
// index, takes it out, or leaves it where it is.
func randomWrite(r *rand.Rand, count int) Write {
	n := r.IntN(count + count/10) // some are new
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

// addIndex begins a build as UpdateTable does.
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

// waitIndexes returns when no index is coming or going.
func waitIndexes(t testing.TB, d *DB) {
	t.Helper()
	for {
		moving := false
		for _, x := range tableOf(t, d, "Parts").Indexes {
			moving = moving || x.State != ""
		}
		if !moving {
			return
		}
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// checkLateIndex fails unless the index late holds what it should of each
// item, by a count of our own, by the scrub and by the tally.
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
	if count := desc.Counts[x.ID]; err != nil || count != (Count{items, size}) {
		t.Errorf("the index is told to have %+v, %v, but has %d items and %d bytes", count, err, items, size)
	}
}

// scanParts goes through the items of the table of parts or of an index of it.
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

// An index that is built while others write agrees with its table, entry by
// entry, and is never seen otherwise once it is active.
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
	t.Logf("%d items loaded in %v; built in %v, %.0f items/s, beside %d writes, %.0f writes/s", *buildCount,
		loaded.Round(time.Millisecond), built.Round(time.Millisecond), float64(*buildCount)/built.Seconds(), written, float64(written)/built.Seconds())
	checkLateIndex(t, d)
}

// Writes between the moment when the build reads an item and the moment when
// it puts the entry in, of every kind there is.
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
		part(0),                   // as it was
		part(1).With("d", num(2)), // the entry needs no change, but is not there
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
		t.Errorf("in mid-build the index is told to have %+v, %v", desc.Counts[x.ID], err)
	}
	g.release()
	waitIndexes(t, d)
	checkLateIndex(t, d)
	if r := verifyOne(t, d); r.Entries["late"] != 5 {
		t.Errorf("the index has %d entries, want 5", r.Entries["late"])
	}
}

// The notes of when items expire are put in by the same steps.
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
		t.Error("an item that was written beside the build has no note of when it expires")
	}
}

// A scrub at any moment of a build finds no faults.
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

// A scrub takes tables as they are at its moment, too.
func TestVerifyWhileAnIndexBecomesActive(t *testing.T) {
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 0)
	d := newDB(t, g, Options{})
	loadParts(t, d, rand.New(rand.NewPCG(logSeed(t), 0)), 100)
	addIndex(t, d, lateIndex())
	<-g.reached
	ready := func() {
		g.release()
		waitIndexes(t, d)
	}
	g.afterSnapshot.Store(&ready)
	expectFaults(t, d)
	checkLateIndex(t, d)
}

// gatedEngine is an engine that stops before a step of a build.
type gatedEngine struct {
	store.Engine
	steps   atomic.Int64 // of builds so far
	stopAt  int64        // the step to stop before
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

// newGatedEngine makes a gate that stands after some steps.
func newGatedEngine(e store.Engine, after int64) *gatedEngine {
	return &gatedEngine{Engine: e, stopAt: after, reached: make(chan struct{}), opened: make(chan struct{})}
}

func (g *gatedEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	kind := keyspace.Build(0, 0)[0]
	if len(keys) > 1 && bytes.IndexByte(firstBytes(keys), kind) >= 0 && g.steps.Add(1) == g.stopAt+1 {
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

// An index is CREATING, then backfilling, then active; meanwhile its count
// tells how far it came, and it can be stopped and goes on where it was.
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
		t.Errorf("in mid-build the index is %q, backfilling %v", x.State, x.Backfilling)
	}
	if desc, err := d.Describe("Parts"); err != nil || desc.Status != schema.Active || desc.Counts[x.ID].Items >= count {
		t.Errorf("in mid-build the table is told as %+v, %v", desc, err)
	}
	stop()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	// Some items change while nobody builds; then the build goes on.
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
		t.Errorf("after 7 steps of about 20 the build needed %d more", steps)
	}
	if start, end := keyspace.BuildSpan(tableOf(t, d, "Parts").ID); countStored(t, d.engine, start, end) != 0 {
		t.Error("a note of the build is left behind")
	}
	checkLateIndex(t, d)
}

// A crash in mid-build leaves a table whose build goes on.
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
			g.release() // the crash comes while the build runs
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

// An index that is deleted while others write is gone, and one that is made
// again under its name has nothing of it.
func TestIndexAddedAndDeletedDuringWrites(t *testing.T) {
	seed := logSeed(t)
	d := inMemory(t)
	const count = 1000
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), count)
	stop := writeParts(t, d, seed, count)
	table := tableOf(t, d, "Parts").ID
	for round := range 4 {
		x := lateIndex()
		if round%2 == 0 { // it has another key and carries more
			x.Key = schema.Key{Partition: []schema.Attribute{{Name: "c", Type: item.S}}}
			x.Projection = schema.Projection{Kind: schema.ProjectAll}
		}
		addIndex(t, d, x)
		waitIndexes(t, d)
		if round < 3 {
			made, _ := tableOf(t, d, "Parts").Index("late")
			dropIndex(t, d, "late")
			waitIndexes(t, d)
			if start, end := keyspace.IndexSpan(table, made.ID); countStored(t, d.engine, start, end) != 0 {
				t.Errorf("entries of the deleted index are left behind in round %d", round)
			}
			desc, err := d.Describe("Parts")
			if _, kept := desc.Counts[made.ID]; err != nil || kept {
				t.Errorf("the deleted index is still counted in round %d, %v", round, err)
			}
		}
	}
	stop()
	checkLateIndex(t, d)
}

// A table that is dropped in mid-build leaves nothing behind.
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
		// The step goes on before, while or after the table is dropped.
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
				t.Errorf("%d keys from %x are left behind", countStored(t, g, start, end), start)
			}
		}
		if countStored(t, g, keyspace.Tally(id), append(keyspace.Tally(id), 0)) != 0 {
			t.Error("the count of the table is left behind")
		}
		// And the builder is free for others.
		loadParts(t, d, r, buildItems)
		addIndex(t, d, lateIndex())
		waitIndexes(t, d)
		checkLateIndex(t, d)
	}
}

// waitDrops returns when the items of dropped tables are gone.
func waitDrops(t testing.TB, d *DB) {
	t.Helper()
	start, end := keyspace.DroppedSpan()
	for countStored(t, d.engine, start, end) > 0 {
		time.Sleep(time.Millisecond)
	}
}
