package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/commit"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// crashableEngine is an engine that can crash.
type crashableEngine struct {
	*Engine
	t   *testing.T
	r   *rand.Rand
	o   Options
	mem disktest.Crashable
}

func newCrashable(t *testing.T, seed uint64) *crashableEngine {
	mem := disktest.NewCrashable()
	c := &crashableEngine{t: t, r: rand.New(rand.NewPCG(seed, 7)), mem: mem, o: Options{Dir: "d", FS: mem, IdleFlush: 5 * time.Millisecond, memtableBytes: 256 << 10}}
	c.Engine = mustOpen(t, c.o)
	return c
}

// crash ends the engine as a crash would, and opens what is left of it.
func (c *crashableEngine) crash() {
	c.t.Helper()
	left := c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[c.r.IntN(3)], RNG: c.r})
	_ = c.Close()
	c.mem = disktest.Crashable{MemFS: left}
	c.o.FS = c.mem
	c.Engine = mustOpen(c.t, c.o)
}

// pairs returns all pairs of an engine that are not its own.
func pairs(t *testing.T, e *Engine) map[string]string {
	t.Helper()
	snap, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	all := make(map[string]string)
	for p, err := range snap.Scan(t.Context(), store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(p.Key)] = string(p.Value)
	}
	return all
}

// copyOf makes a standby of an engine, with its position as the state.
func copyOf(t *testing.T, primary, standby *Engine, slot string) (position, consistent store.Stamp) {
	t.Helper()
	snap, start, consistent, err := primary.Attach(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if err := standby.Load(t.Context(), snap.Scan(t.Context(), store.Range{}), start, func(bool) []byte { return encodeStamp(start) }); err != nil {
		t.Fatal(err)
	}
	return start, consistent
}

func encodeStamp(s store.Stamp) []byte { return binary.BigEndian.AppendUint64(nil, uint64(s)) }

// feedWrites writes seeded Updates, of two keys that always change together, and deletes.
func feedWrites(t *testing.T, e *Engine, r *rand.Rand, writer, n int) {
	for range n {
		k := r.IntN(300)
		key, twin := fmt.Appendf(nil, "k%03d", k), fmt.Appendf(nil, "twin%03d", k)
		value := fmt.Appendf(nil, "%d-%d-%s", writer, r.Uint64(), strings.Repeat("x", r.IntN(300)))
		err := e.Update(context.Background(), [][]byte{key}, func(tx store.Tx) error {
			if r.IntN(4) == 0 {
				tx.Delete(key)
				tx.Delete(twin)
			} else {
				tx.Set(key, value)
				tx.Set(twin, value)
			}
			return nil
		})
		if err == nil && r.IntN(20) == 0 {
			err = set(e, fmt.Sprintf("range/%d", r.IntN(9)), value)
			if err == nil && r.IntN(3) == 0 { // while others write to the range
				err = e.DeleteRange(context.Background(), []byte("range/"), []byte("range0"))
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// checkTwins reports keys that were written together and differ.
func checkTwins(t *testing.T, all map[string]string) {
	t.Helper()
	for k := range 300 {
		if all[fmt.Sprintf("k%03d", k)] != all[fmt.Sprintf("twin%03d", k)] {
			t.Errorf("key %d and its twin differ", k)
		}
	}
}

// Whatever is written, and whichever side crashes, the standby has at every moment a
// prefix of the commits, and all of them in the end.
func TestFeed(t *testing.T) {
	for seed := range uint64(12) {
		if got, want := follow(t, seed, false); !mapsEqual(got, want) {
			t.Errorf("seed %d: the standby has %d keys, and differs from the %d of the server", seed, len(got), len(want))
		}
	}
}

// The control: TestFeed detects that one change is lost.
func TestFeedWithoutAChange(t *testing.T) {
	for seed := range uint64(2) {
		if got, want := follow(t, seed, true); mapsEqual(got, want) {
			t.Errorf("seed %d: the lost change was not detected", seed)
		}
	}
}

func mapsEqual(a, b map[string]string) bool {
	return len(a) == len(b) && fmt.Sprint(a) == fmt.Sprint(b)
}

func follow(t *testing.T, seed uint64, lose bool) (got, want map[string]string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	primary, standby := newCrashable(t, seed), newCrashable(t, seed+1000)
	defer func() { _ = primary.Close() }()
	defer func() { _ = standby.Close() }()
	feedWrites(t, primary.Engine, r, 0, 50)
	var position, consistent store.Stamp
	for round := range 6 {
		var writers sync.WaitGroup
		for i := range 4 {
			w := rand.New(rand.NewPCG(seed, uint64(round*10+i+100)))
			writers.Go(func() { feedWrites(t, primary.Engine, w, i, 40) })
		}
		if round == 0 {
			position, consistent = copyOf(t, primary.Engine, standby.Engine, "slot")
		}
		for range 1 + r.IntN(8) {
			position = pull(t, primary.Engine, standby.Engine, position, r.IntN(3000), false)
			if position >= consistent {
				checkTwins(t, pairs(t, standby.Engine))
			}
		}
		writers.Wait()
		if r.IntN(2) == 0 {
			primary.crash()
		}
		if r.IntN(2) == 0 {
			standby.crash()
			state, err := standby.StandbyState()
			if err != nil || !bytes.Equal(state, encodeStamp(position)) {
				t.Fatalf("seed %d: after a crash the state is %x, %v, want %d", seed, state, err, position)
			}
		}
	}
	if err := set(primary.Engine, "written once", []byte("v")); err != nil {
		t.Fatal(err)
	}
	want = pairs(t, primary.Engine)
	for last := store.Stamp(0); last != position; {
		last = position
		position = pull(t, primary.Engine, standby.Engine, position, 1<<30, lose)
	}
	for name, e := range map[string]*Engine{"server": primary.Engine, "standby": standby.Engine} {
		if err := e.Check(t.Context()); err != nil {
			t.Errorf("seed %d: the %s: %v", seed, name, err)
		}
	}
	return pairs(t, standby.Engine), want
}

// pull applies the next changes. It loses the last of them if lose is set.
func pull(t *testing.T, primary, standby *Engine, from store.Stamp, maxBytes int, lose bool) store.Stamp {
	t.Helper()
	changes, next, horizon, err := primary.Changes(t.Context(), "slot", from, maxBytes, 0)
	if err != nil || next > horizon {
		t.Fatalf("changes from %d to %d of %d: %v", from, next, horizon, err)
	}
	if lose && len(changes) > 0 {
		changes = changes[:len(changes)-1]
	}
	if err := standby.Apply(t.Context(), changes, next, encodeStamp(next)); err != nil {
		t.Fatal(err)
	}
	return next
}

// blockingUsage is a disk that holds up the first Update which checks its free space.
type blockingUsage struct {
	vfs.FS
	on              atomic.Bool
	asked, released chan struct{}
}

func (f *blockingUsage) GetDiskUsage(string) (vfs.DiskUsage, error) {
	isUpdate := bytes.Contains(debug.Stack(), []byte("(*Engine).apply(")) // not the engine's own check
	if isUpdate && f.on.CompareAndSwap(true, false) {
		close(f.asked)
		<-f.released
	}
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// An Update that looked whether to record before records begin, and is applied after
// that, is in the snapshot. It is held up where it checks the disk, which is in between.
func TestRecordsBeginAfterUpdates(t *testing.T) {
	fs := &blockingUsage{FS: vfs.NewMem(), asked: make(chan struct{}), released: make(chan struct{})}
	e := mustOpen(t, Options{Dir: "d", FS: fs, DiskCheck: time.Hour})
	defer func() { _ = e.Close() }()
	fs.on.Store(true)
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Update(context.Background(), nil, func(tx store.Tx) error {
			e.disk.maxBytes.Store(-1) // so that it checks the disk
			tx.Set([]byte("a"), []byte("b"))
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-fs.asked
	running.Go(func() {
		for !e.feed.on.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // without waiting, the snapshot is taken meanwhile
		close(fs.released)
	})
	snap, err := e.beginRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	running.Wait()
	if got, err := snap.Get(t.Context(), []byte("a")); err != nil || string(got[0]) != "b" {
		t.Errorf("the snapshot has %q, %v", got, err)
	}
	if recorded, err := e.feedBytes(0, ^store.Stamp(0)); err != nil || recorded > 0 {
		t.Errorf("the Update was recorded, so this tests nothing: %d bytes, %v", recorded, err)
	}
}

// The stamps of a promoted standby are larger than those that its server gave out, and
// the state is gone for good.
func TestPromotedStamps(t *testing.T) {
	primary, standby := newCrashable(t, 1), newCrashable(t, 2)
	defer func() { _ = primary.Close() }()
	defer func() { _ = standby.Close() }()
	clock := time.Now().Add(time.Hour) // the server's clock is ahead
	primary.now = func() time.Time { return clock }
	position, _ := copyOf(t, primary.Engine, standby.Engine, "slot")
	var last store.Stamp
	if err := primary.Update(t.Context(), nil, func(tx store.Tx) error {
		tx.Set([]byte("a"), []byte("b"))
		last = tx.Stamp()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	pull(t, primary.Engine, standby.Engine, position, 1<<20, false)
	if err := standby.EndStandby(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := standby.Update(t.Context(), nil, func(tx store.Tx) error {
			if tx.Stamp() <= last {
				t.Errorf("the stamp %d is not larger than %d", tx.Stamp(), last)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		standby.crash()
		if state, err := standby.StandbyState(); err != nil || state != nil {
			t.Errorf("the state is %q, %v", state, err)
		}
	}
}

// The records take no more than their bound: then the slot is dropped, with an error in
// the log, and the standby learns that it needs a copy.
func TestFeedBound(t *testing.T) {
	var log logtest.Log
	e := mustOpen(t, Options{Dir: t.TempDir(), FeedBytes: 100 << 10, Log: log.Logger()})
	defer func() { _ = e.Close() }()
	snap, start, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	for i := range 300 {
		if err := set(e, fmt.Sprint(i), bytes.Repeat([]byte("x"), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for e.feed.on.Load() {
		time.Sleep(time.Millisecond)
	}
	for !strings.Contains(log.String(), "level=ERROR msg=\"changes are no longer kept for the standby") {
		time.Sleep(time.Millisecond)
	}
	if a := e.Attached(); a != (Attachment{}) {
		t.Errorf("the slot is %+v", a)
	}
	if _, _, _, err := e.Changes(t.Context(), "slot", start, 1<<20, 0); !errors.Is(err, ErrNoSlot) {
		t.Errorf("changes without a slot: %v", err)
	}
	if kept, err := e.feedBytes(0, ^store.Stamp(0)); err != nil || kept > 0 {
		t.Errorf("%d bytes are kept, %v", kept, err)
	}
}

// A standby is not given changes as if they were all, if some were removed, or if it has
// changes that the engine does not have.
func TestFeedPositions(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, start, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	if err := set(e, "a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	changes, next, _, err := e.Changes(t.Context(), "slot", start, 1<<20, time.Minute)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%v, %v", changes, err)
	}
	if _, _, _, err := e.Changes(t.Context(), "slot", next, 1<<20, 0); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		slot string
		from store.Stamp
	}{"another slot": {"other", next}, "removed": {"slot", start}, "ahead": {"slot", next + 1<<40}} {
		if _, _, _, err := e.Changes(t.Context(), c.slot, c.from, 1<<20, 0); !errors.Is(err, ErrNoSlot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRelaxedHasNoStandby(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), Durability: Relaxed})
	defer func() { _ = e.Close() }()
	if _, _, _, err := e.Attach(t.Context(), "slot"); !errors.Is(err, ErrNotDurable) {
		t.Errorf("Attach: %v", err)
	}
}

// A slot does not survive a run in which writes are not durable: the standby could have
// changes that are lost.
func TestRelaxedRunDropsTheSlot(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	e := mustOpen(t, o)
	snap, start, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	for _, d := range []Durability{Relaxed, Durable} {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		o.Durability = d
		e = mustOpen(t, o)
		if a := e.Attached(); a.Slot != "" || e.feed.on.Load() {
			t.Errorf("durability %v: the slot is %q", d, a.Slot)
		}
	}
	if _, _, _, err := e.Changes(t.Context(), "slot", start, 1<<20, 0); !errors.Is(err, ErrNoSlot) {
		t.Errorf("Changes: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// usageFS is a disk whose free space is set.
type usageFS struct {
	vfs.FS
	free atomic.Uint64
}

func (f *usageFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: f.free.Load()}, nil
}

// The changes for a standby are removed before the disk is so full that writes are rejected,
// and none are kept until there is space again.
func TestFeedLeavesSpaceForWrites(t *testing.T) {
	fs := &usageFS{FS: vfs.NewMem()}
	fs.free.Store(1 << 29)
	e := mustOpen(t, Options{Dir: "d", FS: fs, DiskCheck: 5 * time.Millisecond})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	if err := set(e, "a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	keep := reserve(1 << 30)
	for _, c := range []struct {
		name     string
		free     uint64
		attached bool
	}{{"enough", 2 * keep, true}, {"little", keep + keep*3/8, false}} {
		fs.free.Store(c.free - e.disk.held.bytes())
		for e.disk.free.Load() != c.free {
			time.Sleep(time.Millisecond)
		}
		if err := set(e, "a", []byte(c.name)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for e.feed.on.Load() != c.attached {
			time.Sleep(time.Millisecond)
		}
	}
	if _, _, _, err := e.Attach(t.Context(), "slot"); !errors.Is(err, ErrNoSpace) {
		t.Errorf("Attach: %v", err)
	}
	if err := set(e, "a", []byte("still")); err != nil {
		t.Error(err)
	}
}

// The lag is the size of the changes that the standby has not acknowledged, also after a
// restart, and the time since it had all.
func TestLagOfAStandby(t *testing.T) {
	c := newCrashable(t, 1)
	defer func() { _ = c.Close() }()
	snap, from, _, err := c.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	write := func(n int) {
		for i := range n {
			if err := set(c.Engine, fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const each = 32 + 1 + 1 + 1 + 1 + 100 // of a record
	wait := func(records int) {
		for c.Attached().Bytes != int64(records*each) { // after a restart they are counted in the background
			time.Sleep(time.Millisecond)
		}
	}
	next := func() {
		t.Helper()
		var err error
		if _, from, _, err = c.Changes(t.Context(), "slot", from, 3*each, 0); err != nil {
			t.Fatal(err)
		}
	}
	write(8)
	wait(8) // nothing is acknowledged
	next()  // 0 to 2
	wait(8) // sent, but not acknowledged
	next()  // 3 to 5
	wait(5) // the first reply is acknowledged
	c.crash()
	wait(8) // after a restart nothing is known to be acknowledged
	next()  // 6 and 7
	wait(2) // the second reply is acknowledged
	behind := c.Attached().Fresh
	next()
	if a := c.Attached(); a.Bytes != 0 || !a.Fresh.After(behind) {
		t.Errorf("a standby that has all: %+v", a)
	}
	write(1)
	wait(1) // one more
}

// A copy is loaded however far Pebble is behind.
func TestLoadWaitsForPebble(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), memtableBytes: 64 << 10, DiskCheck: 10 * time.Millisecond})
	defer func() { _ = e.Close() }()
	const n = 2000
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 20_000)
	for i := range value {
		value[i] = byte(r.Uint32())
	}
	err := e.Load(t.Context(), func(yield func(store.Pair, error) bool) {
		for i := range n {
			if !yield(store.Pair{Key: fmt.Appendf(nil, "%08d", i*7919%n), Value: value}, nil) {
				return
			}
		}
	}, 1, func(bool) []byte { return []byte("state") })
	if err != nil {
		t.Fatal(err)
	}
	if got := len(pairs(t, e)); got != n {
		t.Errorf("%d pairs, want %d", got, n)
	}
}

// A slot whose removal was interrupted does not exist after a crash: Updates since then were
// not recorded.
func TestInterruptedDetach(t *testing.T) {
	c := newCrashable(t, 3)
	defer func() { _ = c.Close() }()
	snap, start, _, err := c.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	if err := set(c.Engine, "recorded", []byte("v")); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	begun, end := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { // while it is in flight, records may be added
		_ = c.Update(context.Background(), nil, func(tx store.Tx) error {
			close(begun)
			<-end
			return nil
		})
	})
	<-begun
	if err := c.Detach(cancelled, "slot"); !errors.Is(err, context.Canceled) {
		t.Errorf("Detach: %v", err)
	}
	close(end)
	running.Wait()
	if err := set(c.Engine, "not recorded", []byte("v")); err != nil {
		t.Fatal(err)
	}
	c.crash()
	changes, _, _, err := c.Changes(t.Context(), "slot", start, 1<<20, 0)
	if !errors.Is(err, ErrNoSlot) {
		t.Errorf("the slot has %d changes, %v, but not all", len(changes), err)
	}
	for { // the records are of no use
		kept, err := c.feedBytes(0, ^store.Stamp(0))
		if err != nil {
			t.Fatal(err)
		}
		if kept == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
}

// A DeleteRange is applied between the Updates with smaller and those with larger stamps, as
// on the standby.
func TestFeedOrdersDeletes(t *testing.T) {
	primary, standby := newCrashable(t, 4), newCrashable(t, 5)
	defer func() { _ = primary.Close() }()
	defer func() { _ = standby.Close() }()
	if err := set(primary.Engine, "k/before", []byte("v")); err != nil {
		t.Fatal(err)
	}
	position, _ := copyOf(t, primary.Engine, standby.Engine, "slot")
	begun, release := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		if err := primary.Update(context.Background(), nil, func(tx store.Tx) error {
			close(begun)
			<-release
			tx.Set([]byte("k/smaller"), []byte("v"))
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	before := primary.inFlight.Newest()
	running.Go(func() {
		primary.deleting.Lock() // DeleteRange itself waits for the Updates that began before it reads
		defer primary.deleting.Unlock()
		if err := primary.deleteRecorded(context.Background(), []byte("k/"), []byte("k0")); err != nil {
			t.Error(err)
		}
	})
	for primary.inFlight.Newest() == before {
		time.Sleep(time.Millisecond)
	}
	running.Go(func() {
		if err := set(primary.Engine, "k/larger", []byte("v")); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(50 * time.Millisecond) // each could be applied meanwhile
	close(release)
	running.Wait()
	pull(t, primary.Engine, standby.Engine, position, 1<<20, false)
	got, want := pairs(t, standby.Engine), pairs(t, primary.Engine)
	if !mapsEqual(got, want) || len(want) != 1 {
		t.Errorf("the standby has %v, and the server %v", got, want)
	}
}

// A standby is not said to have an Update that has returned while one with a smaller stamp was
// in flight: it is not sent before that one.
func TestFreshnessWithUpdatesInFlight(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, from, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	begun, end := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = e.Update(context.Background(), nil, func(tx store.Tx) error {
			close(begun)
			<-end
			tx.Set([]byte("first"), []byte("v"))
			return nil
		})
	})
	<-begun
	if err := set(e, "second", []byte("v")); err != nil {
		t.Fatal(err)
	}
	returned := time.Now()
	newest, err := e.Returned()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		changes, next, horizon, err := e.Changes(t.Context(), "slot", from, 1<<20, 0)
		if err != nil || len(changes) > 0 || next != horizon {
			t.Fatalf("%d changes up to %d of %d, %v", len(changes), next, horizon, err)
		}
		if fresh := e.Attached().Fresh; fresh.After(returned) {
			t.Errorf("the standby is said to have everything %s after an Update that it lacks", fresh.Sub(returned))
		}
		if next >= newest {
			t.Errorf("the Update that has returned is before %d, which the standby of %d does not lack", newest, next)
		}
		from = next
	}
	close(end)
	running.Wait()
	for range 2 {
		if _, from, _, err = e.Changes(t.Context(), "slot", from, 1<<20, 0); err != nil {
			t.Fatal(err)
		}
	}
	if fresh := e.Attached().Fresh; !fresh.After(returned) || from < newest {
		t.Errorf("a standby that has all before %d of %d is said to have everything of %s, want after %s", from, newest, fresh, returned)
	}
}

// The slot is reported while the disk does not answer.
func TestAttachedDoesNotWait(t *testing.T) {
	var blocks atomic.Bool
	blocked, release := make(chan struct{}, 100), make(chan struct{})
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && blocks.Load() {
			select {
			case blocked <- struct{}{}:
			default:
			}
			<-release
		}
		return nil
	})
	e := mustOpen(t, Options{Dir: "d", FS: fs})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	blocks.Store(true)
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Detach(context.Background(), "slot"); err != nil {
			t.Error(err)
		}
	})
	<-blocked
	for e.feed.mu.TryLock() { // Detach holds it until the disk answers
		e.feed.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	if a := e.Attached(); a.Slot != "slot" {
		t.Errorf("the slot is %+v", a)
	}
	blocks.Store(false)
	close(release)
	running.Wait()
	if a := e.Attached(); a.Slot != "" {
		t.Errorf("after it was removed, the slot is %+v", a)
	}
}

// A copy that is loaded is not given up because Pebble is behind at its end.
func TestLoadWaitsForPebbleAtItsEnd(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), DiskCheck: time.Hour})
	defer func() { _ = e.Close() }()
	var behind atomic.Bool
	e.disk.backlog.open(func() *pebble.Metrics {
		m := new(pebble.Metrics)
		if behind.Load() {
			m.Levels[0].Sublevels = maxSublevels + 1
		}
		return m
	}, 64<<20, 64<<20)
	err := e.Load(t.Context(), func(yield func(store.Pair, error) bool) {
		yield(store.Pair{Key: []byte("a"), Value: []byte("b")}, nil)
	}, 1, func(complete bool) []byte {
		if !complete {
			return []byte("unfinished")
		}
		behind.Store(true)
		e.disk.check()
		time.AfterFunc(e.disk.backlog.patience*3/2, func() { // when the first attempt has ended
			behind.Store(false)
			e.disk.check()
		})
		return []byte("state")
	})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := e.StandbyState(); err != nil || string(state) != "state" {
		t.Errorf("the state is %q, %v", state, err)
	}
}

// A slot whose records were removed since they were too many is not dropped.
func TestSlotIsKeptIfThereIsSpaceAgain(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	e.dropSlot(t.Context())
	if a := e.Attached(); a.Slot != "slot" {
		t.Errorf("the slot is %+v", a)
	}
}

// A request for a new copy that is given up leaves no records of the old slot.
func TestInterruptedAttach(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	if err := set(e, "recorded", []byte("v")); err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = e.Update(context.Background(), nil, func(tx store.Tx) error {
			close(begun)
			<-end
			return nil
		})
	})
	<-begun
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	running.Go(func() {
		for e.feed.on.Load() { // it then waits for the Update
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		close(end)
	})
	snap, _, _, err = e.Attach(cancelled, "other")
	if err == nil { // it may have found nothing to wait for
		_ = snap.Close()
		err = e.Detach(t.Context(), "other")
	} else if errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		t.Error(err)
	}
	running.Wait()
	if kept, err := e.feedBytes(0, ^store.Stamp(0)); err != nil || kept > 0 {
		t.Errorf("%d bytes are kept, %v", kept, err)
	}
}

// The space of a slot is free soon after it is removed, also if Pebble has no reason to flush.
func TestRemovedSlotFreesSpace(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), memtableBytes: 256 << 10, IdleFlush: -1})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 10_000)
	for i := range 200 {
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		if err := set(e, fmt.Sprint(i), value); err != nil {
			t.Fatal(err)
		}
	}
	used := func() uint64 {
		bytes, err := e.db.EstimateDiskUsage(feedKey(0), feedEnd)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if used() < 1_000_000 {
		t.Fatalf("the records take %d bytes", used())
	}
	if err := e.Detach(t.Context(), "slot"); err != nil {
		t.Fatal(err)
	}
	for used() > 100_000 {
		time.Sleep(10 * time.Millisecond)
	}
}

// Records of an earlier process are counted also if the standby has some of them, which are
// removed, before the count in the background has begun.
func TestRecordsAreCountedBeforeSomeAreRemoved(t *testing.T) {
	c := newCrashable(t, 6)
	defer func() { _ = c.Close() }()
	snap, from, _, err := c.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	for i := range 8 {
		if err := set(c.Engine, fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)); err != nil {
			t.Fatal(err)
		}
	}
	const each = 32 + 1 + 1 + 1 + 1 + 100 // of a record
	if _, from, _, err = c.Changes(t.Context(), "slot", from, 3*each, 0); err != nil {
		t.Fatal(err)
	}
	c.crash()
	count := func() {
		t.Helper()
		c.feed.mu.Lock()
		defer c.feed.mu.Unlock()
		if err := c.countRecords(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count()
	c.feed.mu.Lock()
	c.feed.counted = false // as if that had not been done
	c.feed.bytes.Store(0)
	c.feed.mu.Unlock()
	if _, _, _, err := c.Changes(t.Context(), "slot", from, 1<<20, 0); err != nil {
		t.Fatal(err)
	}
	count()
	if kept := c.feed.bytes.Load(); kept != 5*each {
		t.Errorf("%d bytes are counted, want %d", kept, 5*each)
	}
}

// A standby has at every moment all Updates that had returned when it was known to have
// everything.
func TestFreshnessUnderLoad(t *testing.T) {
	e := mustOpen(t, Options{Dir: "d", FS: vfs.NewMem()})
	defer func() { _ = e.Close() }()
	snap, from, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	var mu sync.Mutex
	returned := make(map[string]time.Time)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 500 {
				key := fmt.Sprintf("%d/%d", w, i)
				if err := set(e, key, []byte("v")); err != nil {
					t.Error(err)
				}
				mu.Lock()
				returned[key] = time.Now()
				mu.Unlock()
			}
		})
	}
	var fresh commit.Freshness
	has := make(map[string]bool)
	for done := false; !done; {
		sent := time.Now()
		newest, err := e.Returned()
		if err != nil {
			t.Fatal(err)
		}
		changes, next, _, err := e.Changes(t.Context(), "slot", from, 1000, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			_ = decodeEdits(c.Edits, func(_ byte, key, _ []byte) error {
				has[string(key)] = true
				return nil
			})
		}
		from = next
		fresh.Observe(sent, newest, next)
		mu.Lock()
		for key, at := range returned {
			if at.Before(fresh.Known()) && !has[key] {
				t.Errorf("the standby lacks %s, which had returned %s before", key, fresh.Known().Sub(at))
				break
			}
		}
		done = len(has) == 4*500 || t.Failed()
		mu.Unlock()
	}
	writers.Wait()
	if t.Failed() {
		return
	}
	last := time.Now()
	for range 2 {
		newest, err := e.Returned()
		if err != nil {
			t.Fatal(err)
		}
		_, next, _, err := e.Changes(t.Context(), "slot", from, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		from = next
		fresh.Observe(time.Now(), newest, next)
	}
	if fresh.Known().Before(last) {
		t.Errorf("a standby that has everything is known to have that of %s, want %s", fresh.Known(), last)
	}
}
