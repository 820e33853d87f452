package pebble

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/virtualtime"
)

// The levels are compacted when little is written, and enough was since the last time.
func TestCompactionWhenIdle(t *testing.T) {
	const gb = 1 << 30
	virtualtime.Test(t, func(t *testing.T) {
		var compactions atomic.Int64
		var fail atomic.Bool
		u := &idleCompaction{interval: 10 * time.Second, minBytes: gb}
		u.levels = func() []int64 { return []int64{1 << 20, 0, 0, 0, 0, gb, 9 * gb} }
		u.compact = func(context.Context, int64) bool {
			compactions.Add(1)
			return !fail.Load()
		}
		stop := background(u.run)
		expect := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := compactions.Load(); got != want {
				t.Errorf("%s: %d compactions, want %d", when, got, want)
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
		fail.Store(true)
		u.wrote(gb + gb/2)
		time.Sleep(35 * time.Second)
		expect("while it fails", 3)
		fail.Store(false)
		time.Sleep(time.Hour)
		expect("when it succeeds again", 4)
		stop()
	})
}

func TestCompactionIsDue(t *testing.T) {
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

// A compaction leaves one level, with all keys in it.
func TestCompactionLeavesOneLevel(t *testing.T) {
	e := twoLevels(t, Options{FS: vfs.NewMem(), compactInterval: time.Millisecond})
	eventually(t, "one level", func() bool { return levelsOf(e) == 1 })
	for i := range compactItems {
		if v, err := cloneValue(e.db.Get(fillKey(i))); err != nil || len(v) != fillSize {
			t.Fatalf("item %d has %d bytes (%v)", i, len(v), err)
		}
	}
}

func TestCompactionNeedsSpace(t *testing.T) {
	for _, c := range []struct {
		name   string
		fs     vfs.FS
		levels int
	}{
		{"there is space", vfs.NewMem(), 1}, // the control
		{"there is little space", &cramped{FS: vfs.NewMem()}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := twoLevels(t, Options{FS: c.fs, compactInterval: -1})
			if done := e.compact(t.Context(), 1); done != (c.levels == 1) || levelsOf(e) != c.levels {
				t.Errorf("done: %v, with %d levels, want %d", done, levelsOf(e), c.levels)
			}
		})
	}
}

// An interrupted compaction continues where it stopped, although there are new keys before
// that.
func TestCompactionContinues(t *testing.T) {
	fs := &cramped{FS: vfs.NewMem()}
	e := twoLevels(t, Options{FS: fs, compactInterval: -1, DiskCheck: time.Hour})
	e.compaction.rangeBytes = compactItems * fillSize / 4
	stopAfterFirstRange(t, e, fs)
	if err := set(e, "a", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	fs.few.Store(1 << 30)
	if !e.compact(t.Context(), 1) || e.compaction.from != nil || levelsOf(e) != 2 {
		t.Errorf("the next range is at %q, with %d levels, want 2", e.compaction.from, levelsOf(e))
	}
	if !e.compact(t.Context(), 1) || levelsOf(e) != 1 {
		t.Errorf("%d levels the next time, want 1", levelsOf(e))
	}
}

// The block cache holds the same data afterwards.
func TestCompactionWarmsTheCache(t *testing.T) {
	for _, read := range []bool{true, false} {
		e := twoLevels(t, Options{FS: vfs.NewMem(), compactInterval: -1})
		if read {
			if err := e.warmCache(t.Context(), []byte{0}, []byte{0xff}); err != nil {
				t.Fatal(err)
			}
		}
		bytes, _ := e.compaction.due()
		if !e.compact(t.Context(), bytes) || levelsOf(e) != 1 {
			t.Fatalf("not compacted: %d levels", levelsOf(e))
		}
		if held := e.db.Metrics().BlockCache.Size; (held >= bytes/2) != read {
			t.Errorf("of %d bytes %d are cached; they were before: %v", bytes, held, read)
		}
	}
}

const compactItems = 300

// twoLevels opens a store and fills two levels of it.
func twoLevels(t *testing.T, o Options) *Engine {
	t.Helper()
	o.Dir, o.IdleFlush, o.compactMinBytes = "d", -1, 1
	e := mustOpen(t, o)
	t.Cleanup(func() { _ = e.Close() })
	inTwoLevels(t, e, func() { fill(t, e, compactItems) }, func() { fill(t, e, compactItems/2) })
	return e
}

// inTwoLevels writes first to the lowest level, and second to the one above.
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

// levelsOf returns how many levels have tables.
func levelsOf(e *Engine) (n int) {
	for _, bytes := range e.levelBytes() {
		if bytes > 0 {
			n++
		}
	}
	return n
}

// cramped is a disk that has little space, except for the first few checks.
type cramped struct {
	vfs.FS
	few atomic.Int64
}

func (c *cramped) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(1 << 40)
	if c.few.Add(-1) < 0 {
		free = maxReserveBytes + compactFreeBytes - 1
	}
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: 1 << 40}, nil
}

// stopAfterFirstRange interrupts a compaction after its first range. How often the space is
// checked until then varies, because flushes have it checked too.
func stopAfterFirstRange(t *testing.T, e *Engine, fs *cramped) {
	t.Helper()
	for few := int64(2); e.compaction.from == nil; few++ {
		fs.few.Store(few)
		if e.compact(t.Context(), 1) {
			t.Fatal("it was not interrupted")
		}
	}
}

// A compaction that stopped before a large partition continues there.
func TestCompactionContinuesAtALargePartition(t *testing.T) {
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
	stopAfterFirstRange(t, e, fs)
	fs.few.Store(1 << 30)
	if !e.compact(t.Context(), 1) {
		t.Errorf("it does not continue at %q", e.compaction.from)
	}
}

// A range that cannot be cut is not compacted without free space of its size.
func TestCompactionOfALargeRangeNeedsSpace(t *testing.T) {
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
		t.Errorf("a range of about %d bytes is compacted, with space for %d", usage, usage/4)
	}
	free(2 * usage)
	if !e.compact(t.Context(), 1) || levelsOf(e) != 1 {
		t.Error("with enough space it is not compacted")
	}
}
