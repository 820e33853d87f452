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

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
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
