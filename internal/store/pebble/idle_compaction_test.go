package pebble

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Tables are merged when little is written, and enough was since the last time.
func TestTidyWaitsForQuiet(t *testing.T) {
	const gb = 1 << 30
	synctest.Test(t, func(t *testing.T) {
		var merges atomic.Int64
		var refuse atomic.Bool
		u := &idleCompaction{interval: 10 * time.Second, minBytes: gb}
		u.levels = func() []int64 { return []int64{1 << 20, 0, 0, 0, 0, gb, 9 * gb} }
		u.compact = func(context.Context, int64) bool {
			merges.Add(1)
			return !refuse.Load()
		}
		stop := background(u.run)
		expect := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := merges.Load(); got != want {
				t.Errorf("%s: merged %d times, want %d", when, got, want)
			}
		}
		time.Sleep(time.Hour)
		expect("without writes", 0)
		for range 100 {
			u.wrote(gb / 16)
			time.Sleep(5 * time.Second)
		}
		expect("while much is written", 0)
		for range 100 {
			u.wrote(idleBytes / 10)
			time.Sleep(5 * time.Second)
		}
		expect("while little is written", 1)
		time.Sleep(time.Hour)
		expect("much later", 1)
		u.wrote(4 * gb)
		time.Sleep(time.Hour)
		expect("when less than half is new", 1)
		refuse.Store(true)
		u.wrote(gb + gb/2)
		time.Sleep(35 * time.Second)
		expect("while it cannot be done", 3)
		refuse.Store(false)
		time.Sleep(time.Hour)
		expect("when it can again", 4)
		stop()
	})
}

func TestTidyIsDue(t *testing.T) {
	for _, c := range []struct {
		name    string
		levels  []int64
		written int64
		due     bool
	}{
		{"nothing", []int64{0, 0, 0}, 1000, false},
		{"one level", []int64{0, 0, 200}, 1000, false},
		{"two, and half is new", []int64{0, 20, 180}, 100, true},
		{"two, and less is new", []int64{0, 20, 180}, 99, false},
		{"two, and half is not in the last", []int64{40, 60, 100}, 0, true},
		{"too little", []int64{0, 20, 79}, 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &idleCompaction{minBytes: 100, levels: func() []int64 { return c.levels }}
			u.wrote(int(c.written))
			if _, due := u.due(); due != c.due {
				t.Errorf("due: %v", due)
			}
		})
	}
}

// One level is left of several, with everything in it.
func TestTidyEngineMergesLevels(t *testing.T) {
	e := twoLevels(t, Options{FS: vfs.NewMem(), compactInterval: time.Millisecond})
	eventually(t, "one level", func() bool { return levelsOf(e) == 1 })
	for i := range tidyItems {
		if v, err := cloneValue(e.db.Get(fillKey(i))); err != nil || len(v) != fillSize {
			t.Fatalf("item %d has %d bytes (%v)", i, len(v), err)
		}
	}
}

func TestTidyLeavesSpace(t *testing.T) {
	for _, c := range []struct {
		name   string
		fs     vfs.FS
		levels int
	}{
		{"there is space", vfs.NewMem(), 1}, // the control
		{"there is little", &cramped{FS: vfs.NewMem()}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := twoLevels(t, Options{FS: c.fs, compactInterval: -1})
			if over := e.compact(t.Context(), 1); over != (c.levels == 1) || levelsOf(e) != c.levels {
				t.Errorf("over: %v, with %d levels, want %d", over, levelsOf(e), c.levels)
			}
		})
	}
}

// Who is interrupted goes on where he was, though something is new before it.
func TestTidyGoesOn(t *testing.T) {
	fs := &cramped{FS: vfs.NewMem()}
	e := twoLevels(t, Options{FS: fs, compactInterval: -1, DiskCheck: time.Hour})
	e.compaction.rangeBytes = tidyItems * fillSize / 4
	fs.few.Store(2) // when it begins, and before the first piece
	if e.compact(t.Context(), 1) || e.compaction.from == nil {
		t.Fatalf("it is over, or was not begun: %q", e.compaction.from)
	}
	if err := set(e, "a", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	fs.few.Store(1 << 30)
	if !e.compact(t.Context(), 1) || e.compaction.from != nil || levelsOf(e) != 2 {
		t.Errorf("the next piece is at %q, with %d levels, want 2", e.compaction.from, levelsOf(e))
	}
	if !e.compact(t.Context(), 1) || levelsOf(e) != 1 {
		t.Errorf("%d levels the next time, want 1", levelsOf(e))
	}
}

// What the cache held it holds afterwards, and no more.
func TestTidyLeavesTheCache(t *testing.T) {
	for _, read := range []bool{true, false} {
		e := twoLevels(t, Options{FS: vfs.NewMem(), compactInterval: -1})
		if read {
			if err := e.warmCache(t.Context(), []byte{0}, []byte{0xff}); err != nil {
				t.Fatal(err)
			}
		}
		bytes, _ := e.compaction.due()
		if !e.compact(t.Context(), bytes) || levelsOf(e) != 1 {
			t.Fatalf("not merged: %d levels", levelsOf(e))
		}
		if held := e.db.Metrics().BlockCache.Size; (held >= bytes/2) != read {
			t.Errorf("of %d bytes %d are in the cache; they were: %v", bytes, held, read)
		}
	}
}

const tidyItems = 300

// twoLevels opens a store and fills two levels of it.
func twoLevels(t *testing.T, o Options) *Engine {
	t.Helper()
	o.Dir, o.IdleFlush, o.compactMinBytes = "d", -1, 1
	e := mustOpen(t, o)
	t.Cleanup(func() { _ = e.Close() })
	inTwoLevels(t, e, func() { fill(t, e, tidyItems) }, func() { fill(t, e, tidyItems/2) })
	return e
}

// inTwoLevels puts what is written first into the lowest level, and the rest above.
func inTwoLevels(t *testing.T, e *Engine, first, second func()) {
	t.Helper()
	first()
	if err := e.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	second()
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
}

// levelsOf is how many levels have tables.
func levelsOf(e *Engine) (n int) {
	for _, bytes := range e.levelBytes() {
		if bytes > 0 {
			n++
		}
	}
	return n
}

// cramped is a disk that has little space left, but for a few times.
type cramped struct {
	vfs.FS
	few atomic.Int64
}

func (c *cramped) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(1 << 40)
	if c.few.Add(-1) < 0 {
		free = reserveBytes + compactFreeBytes - 1
	}
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: 1 << 40}, nil
}

// A merge that ended before a large partition goes on there.
func TestTidyGoesOnAtALargePartition(t *testing.T) {
	fs := &cramped{FS: vfs.NewMem()}
	fs.few.Store(1 << 30)
	e := mustOpen(t, Options{FS: fs, Dir: "d", IdleFlush: -1, compactMinBytes: 1, compactInterval: -1, DiskCheck: time.Hour})
	defer e.Close()
	write := func() {
		fillGroup(t, e, "catalog", 1)
		fillGroup(t, e, "iAAAAAAA", 1500) // two partitions
		fillGroup(t, e, "iBBBBBBB", 1500)
		fillGroup(t, e, "u", 1)
	}
	inTwoLevels(t, e, write, write)
	usage, err := e.db.EstimateDiskUsage([]byte{0}, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	e.compaction.rangeBytes = usage / 8
	for few := int64(2); e.compaction.from == nil; few++ { // until it ends after the first piece
		fs.few.Store(few)
		if e.compact(t.Context(), 1) {
			t.Fatal("it was not interrupted")
		}
	}
	fs.few.Store(1 << 30)
	if !e.compact(t.Context(), 1) {
		t.Errorf("it does not go on at %q", e.compaction.from)
	}
}

// What cannot be cut is not merged without as much space as it has.
func TestTidyLeavesALargePieceWithoutSpace(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: diskBytes / 2})
	e := mustOpen(t, Options{FS: mem, Dir: "d", IdleFlush: -1, compactInterval: -1, compactMinBytes: 1})
	defer e.Close()
	write := func() {
		fillGroup(t, e, "iAAAAAAA", 3000) // one partition
		fillGroup(t, e, "u", 1)
	}
	inTwoLevels(t, e, write, write)
	usage, err := e.db.EstimateDiskUsage([]byte{0}, []byte{0xff})
	if err != nil {
		t.Fatal(err)
	}
	e.compaction.rangeBytes = usage / 32
	free := func(bytes uint64) {
		mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: reserve(diskBytes) + compactFreeBytes + bytes})
	}
	free(usage / 4)
	if e.compact(t.Context(), 1) || levelsOf(e) == 1 {
		t.Errorf("a piece of about %d bytes is merged, with space for %d", usage, usage/4)
	}
	free(2 * usage)
	if !e.compact(t.Context(), 1) || levelsOf(e) != 1 {
		t.Error("with enough space it is not merged")
	}
}
