package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

var crashes = flag.Int("crashes", 40, "crashes that TestCrash simulates, each with its own seed")

// A crash at any moment loses nothing that was acknowledged or shown.
func TestCrash(t *testing.T) {
	for seed := range uint64(*crashes) {
		o := Options{}
		if seed%2 == 1 { // during compactions, too
			o.compactInterval, o.compactMinBytes = time.Millisecond, 1
			o.manifestBytes = 500
		}
		lost := crash(t, seed, o)
		if lost != (losses{}) {
			t.Errorf("seed %d: lost %+v", seed, lost)
		}
	}
}

// The control: TestCrash detects an engine that acknowledges writes before they are durable.
func TestCrashWhenRelaxed(t *testing.T) {
	expectLoss(t, Options{Durability: Relaxed}, func(l losses) int { return l.acknowledged })
}

// The control: TestCrash detects readers that do not wait.
func TestCrashWhenReadersDoNotWait(t *testing.T) {
	expectLoss(t, Options{skipDurableWait: true}, func(l losses) int { return l.shown })
}

func expectLoss(t *testing.T, o Options, of func(losses) int) {
	for seed := range uint64(40) {
		if of(crash(t, seed, o)) > 0 {
			return
		}
	}
	t.Error("no crash lost anything")
}

// losses counts the keys whose value is older than before the crash.
type losses struct {
	acknowledged int // an Update had returned
	shown        int // a reader had seen it
	torn         int // two keys that are always written together differ
	stamps       int // a stamp or the horizon is smaller than before
}

const (
	crashWriters = 8
	crashReaders = 6
	crashKeys    = crashWriters + 1 // each writer's own, and one that all write
)

// crash runs writers and readers, clones the disk at some moment, and compares it with what
// they had observed up to then. All values are counters that only grow.
func crash(t *testing.T, seed uint64, o Options) losses {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	mem := disktest.NewCrashable()
	var syncTime atomic.Int64 // zero until the engine is open
	o.Dir, o.IdleFlush, o.memtableBytes, o.PrefixBytes = "d", 5*time.Millisecond, 256<<10, len("group 0 of many")
	o.FS = disktest.Inject(mem, func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData:
			time.Sleep(time.Duration(syncTime.Load()))
		}
		return nil
	})
	e := mustOpen(t, o)
	syncTime.Store(int64(time.Duration(r.IntN(1500)) * time.Microsecond))

	w := &observer{engine: e}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range crashWriters {
		all.Go(func() { w.write(ctx, t, i) })
	}
	for i := range crashReaders {
		r := rand.New(rand.NewPCG(seed, uint64(100+i)))
		all.Go(func() { w.read(ctx, t, r) })
	}
	time.Sleep(time.Duration(2000+r.IntN(10_000)) * time.Microsecond)
	before := w.observed() // taken before the crash: what follows does not count
	disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 50, 100}[r.IntN(4)], RNG: r})
	stop()
	all.Wait()
	if err := e.Close(); err != nil {
		t.Errorf("seed %d: close: %v", seed, err)
	}
	return before.compare(t, seed, Options{FS: disk, Dir: "d", Key: o.Key})
}

// observer records what the engine acknowledged and showed.
type observer struct {
	engine              *Engine
	acknowledged, shown [crashKeys]atomic.Uint64
	stamp               atomic.Uint64 // of a commit, or below a horizon
}

// The keys of a group share a prefix of PrefixBytes.
func crashKey(i int) []byte  { return fmt.Appendf(nil, "group %d of many keys: %d", i%2, i) }
func crashTwin(i int) []byte { return fmt.Appendf(nil, "group %d of many keys: twin %d", i%2, i) }

func raise(to *atomic.Uint64, n uint64) {
	for old := to.Load(); old < n; old = to.Load() {
		to.CompareAndSwap(old, n)
	}
}

func count(v []byte) uint64 {
	if v == nil {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func (w *observer) write(ctx context.Context, t *testing.T, i int) {
	for n := 0; ctx.Err() == nil; n++ {
		if n%2 == 1 {
			w.increment(t, crashKeys-1)
		} else {
			w.increment(t, i)
		}
	}
}

// increment also writes the twin of the key, which is undeclared, and a large value, so that
// memtables are flushed.
func (w *observer) increment(t *testing.T, i int) {
	var n uint64
	var stamp store.Stamp
	err := w.engine.Update(context.Background(), [][]byte{crashKey(i)}, func(tx store.Tx) error {
		stamp = tx.Stamp()
		v, _ := tx.Get(crashKey(i))
		n = count(v) + 1
		v = binary.BigEndian.AppendUint64(nil, n)
		tx.Set(crashKey(i), v)
		tx.Set(crashTwin(i), v)
		tx.Set(fmt.Appendf(nil, "x %d", i), make([]byte, 2000))
		return nil
	})
	if err != nil {
		t.Errorf("update: %v", err)
		return
	}
	raise(&w.acknowledged[i], n)
	raise(&w.stamp, uint64(stamp))
}

var errShown = errors.New("shown")

// read reads keys in all possible ways.
func (w *observer) read(ctx context.Context, t *testing.T, r *rand.Rand) {
	for ctx.Err() == nil {
		i := r.IntN(crashKeys)
		var v []byte
		var err error
		switch r.IntN(6) {
		case 0:
			v, err = w.get(crashKey(i))
		case 1:
			v, err = w.get(crashTwin(i))
		case 2:
			v, err = w.abort(crashKey(i))
		case 3:
			v, err = w.view(crashKey(i))
		case 4:
			var h store.Stamp
			h, err = w.engine.Horizon(context.Background())
			raise(&w.stamp, uint64(h-1))
		case 5:
			v, err = w.readRange(crashKey(i), r.IntN(2) == 0)
		}
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		raise(&w.shown[i], count(v))
		time.Sleep(50 * time.Microsecond)
	}
}

func (w *observer) get(key []byte) ([]byte, error) {
	v, err := w.engine.Get(context.Background(), store.Strong, key)
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

// abort reads a value in an Update that then returns an error.
func (w *observer) abort(key []byte) (v []byte, err error) {
	err = w.engine.Update(context.Background(), [][]byte{key}, func(tx store.Tx) error {
		v, _ = tx.Get(key)
		return errShown
	})
	if !errors.Is(err, errShown) {
		return nil, err
	}
	return v, nil
}

func (w *observer) view(key []byte) ([]byte, error) {
	s, err := w.engine.Snapshot(context.Background())
	if err != nil {
		return nil, err
	}
	v, err := s.Get(context.Background(), key)
	if err != nil {
		return nil, err
	}
	return v[0], s.Close()
}

// readRange reads a value in a range of one prefix, or of all keys.
func (w *observer) readRange(key []byte, onePrefix bool) (v []byte, err error) {
	var end []byte
	if onePrefix {
		end = append(bytes.Clone(key), 0)
	}
	err = w.engine.ReadRange(context.Background(), store.Range{Start: key, End: end}, func(p store.Pair) bool {
		if bytes.Equal(p.Key, key) { // otherwise it is absent
			v = bytes.Clone(p.Value)
		}
		return false
	})
	return v, err
}

// observation is a copy of what an observer has recorded.
type observation struct {
	acknowledged, shown [crashKeys]uint64
	stamp               uint64
}

func (w *observer) observed() (o observation) {
	for i := range crashKeys {
		o.acknowledged[i], o.shown[i] = w.acknowledged[i].Load(), w.shown[i].Load()
	}
	o.stamp = w.stamp.Load()
	return o
}

// compare opens what the disk held, with a clock an hour behind.
func (before observation) compare(t *testing.T, seed uint64, o Options) (lost losses) {
	t.Helper()
	o.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	e, err := Open(o)
	if err != nil {
		t.Fatalf("seed %d: open after the crash: %v", seed, err)
	}
	defer e.Close()
	for i := range crashKeys {
		v, err := e.Get(context.Background(), store.Strong, crashKey(i), crashTwin(i))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		n := count(v[0])
		if n < before.acknowledged[i] {
			lost.acknowledged++
		}
		if n < before.shown[i] {
			lost.shown++
		}
		if n != count(v[1]) {
			lost.torn++
		}
	}
	var stamp store.Stamp
	err = e.Update(context.Background(), nil, func(tx store.Tx) error {
		stamp = tx.Stamp()
		tx.Set(crashKey(0), []byte("after"))
		return nil
	})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if uint64(stamp) <= before.stamp {
		lost.stamps++
	}
	return lost
}
