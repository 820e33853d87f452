package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/virtualtime"
)

// limitedDisk is a disk in memory with a limit of what its files take. Compactions can be
// held up, as on a disk that is slower than the writes.
type limitedDisk struct {
	*vfs.MemFS
	limit     atomic.Int64
	compacted atomic.Int64 // bytes written by compactions

	mu   sync.Mutex
	held chan struct{} // compactions wait until it is closed; may be nil
}

const limitedDiskBytes = 64 << 20

func newLimitedDisk() *limitedDisk {
	d := &limitedDisk{MemFS: vfs.NewMem()}
	d.limit.Store(limitedDiskBytes)
	return d
}

// holdCompactions makes compactions wait until the result is called.
func (d *limitedDisk) holdCompactions() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held = held
	return sync.OnceFunc(func() { close(held) })
}

func (d *limitedDisk) used() (bytes int64) {
	names, _ := d.List("d")
	for _, name := range names {
		if info, err := d.Stat(d.PathJoin("d", name)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

func (d *limitedDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	avail := uint64(max(0, d.limit.Load()-d.used()))
	return vfs.DiskUsage{TotalBytes: limitedDiskBytes, AvailBytes: avail, UsedBytes: limitedDiskBytes - avail}, nil
}

func (d *limitedDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == categoryCompaction {
		d.mu.Lock()
		held := d.held
		d.mu.Unlock()
		if held != nil {
			<-held
		}
	}
	f, err := d.MemFS.Create(name, category)
	return &limitedFile{f, d, category == categoryCompaction}, err
}

func (d *limitedDisk) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.ReuseForWrite(before, name, category)
	return &limitedFile{f, d, false}, err
}

type limitedFile struct {
	vfs.File
	disk         *limitedDisk
	byCompaction bool
}

func (f *limitedFile) Write(p []byte) (int, error) {
	if f.disk.used()+int64(len(p)) > f.disk.limit.Load() {
		return 0, syscall.ENOSPC
	}
	if f.byCompaction {
		f.disk.compacted.Add(int64(len(p)))
	}
	return f.File.Write(p)
}

// spread returns keys in an order in which each table spans all of them.
func spread(i int) string {
	return "k" + string(binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15))
}

// fillSpread writes items of 8 KB from number first on, until a write is rejected or there
// are end. It returns the number of the first that is not written.
func fillSpread(t *testing.T, e *Engine, first, end int) (next int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{byte(first)})
	value := make([]byte, 8<<10)
	for i := first; i < end; i++ {
		_, _ = random.Read(value)
		err := set(e, spread(i), value)
		if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBehind) {
			return i
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return end
}

const manyItems = 4 * limitedDiskBytes / (8 << 10)

// fillLimited opens an engine with 5 MB of compacted items, and fills level 0 as far as
// writes are accepted.
func fillLimited(t *testing.T, disk *limitedDisk) (e *Engine, items int, release func()) {
	t.Helper()
	e = mustOpen(t, Options{FS: disk, Dir: "d", Durability: Relaxed, IdleFlush: 20 * time.Millisecond, DiskCheck: 5 * time.Millisecond, memtableBytes: 1 << 20})
	t.Cleanup(func() { _ = e.Close() })
	items = fillSpread(t, e, 0, 640)
	if err := errors.Join(e.db.Flush(), e.db.Compact(t.Context(), []byte("k"), []byte("l"), false)); err != nil {
		t.Fatal(err)
	}
	release = disk.holdCompactions()
	t.Cleanup(release)
	if disk.limit.Load() == limitedDiskBytes {
		disk.limit.Store(disk.used() + 24<<20)
	}
	return e, fillSpread(t, e, items, manyItems), release
}

// resumes waits until an ordinary write is accepted.
func resumes(t *testing.T, e *Engine) {
	t.Helper()
	soon(t, "writes are accepted again", func() bool { return set(e, "a", []byte("1")) == nil })
}

// soon polls a condition for two minutes: Pebble repeats a compaction that failed after half
// a minute.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A disk becomes full while compactions are behind. There is space left to compact level 0,
// and deletes free space.
func TestFullDiskUnderLoad(t *testing.T) {
	disk := newLimitedDisk()
	e, items, release := fillLimited(t, disk)
	if items == manyItems {
		t.Fatal("the control: no write is rejected")
	}
	release()
	soon(t, "level 0 is compacted", func() bool { return e.db.Metrics().Levels[0].Sublevels < maxSublevels/2 })
	deleteSpread(t, e, items)
	resumes(t, e)
}

// deleteSpread deletes items. Each delete is accepted.
func deleteSpread(t *testing.T, e *Engine, n int) {
	t.Helper()
	ctx := store.Freeing(t.Context())
	for i := range n {
		soon(t, "a delete is accepted", func() bool { return remove(ctx, e, spread(i)) == nil })
	}
}

// stuckEngine returns an engine whose level 0 does not fit into the free space a second
// time, as other programs have used that. Four fifths of it fit: a compaction that Pebble
// chooses may leave out some of the tables with deletes, and has to write more then.
func stuckEngine(t *testing.T) (e *Engine, items int) {
	t.Helper()
	disk := newLimitedDisk()
	disk.limit.Store(1 << 30)
	e, items, release := fillLimited(t, disk)
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	size := e.db.Metrics().Levels[0].TablesSize
	disk.limit.Store(disk.used() + size/3)
	soon(t, "WAL files are not kept for reuse", func() bool {
		names, _ := disk.List("d")
		return countSuffix(names, ".log") <= int(e.db.Metrics().WAL.Files)+1
	})
	disk.limit.Store(disk.used() - int64(e.disk.held.bytes()) + size/5*4)
	release()
	soon(t, "a compaction finds no space", func() bool { return disk.compacted.Load() > size/5 })
	return e, items
}

func countSuffix(names []string, suffix string) (n int) {
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			n++
		}
	}
	return n
}

// deleteInOrder deletes items in the order of their keys, a part at a time. Each part is
// flushed, so the newest tables of level 0 have deletes of few keys each.
func deleteInOrder(t *testing.T, e *Engine, n int) {
	t.Helper()
	var keys [][]byte
	for i := range n {
		keys = append(keys, []byte(spread(i)))
	}
	slices.SortFunc(keys, bytes.Compare)
	for part := range slices.Chunk(keys, n/24) {
		soon(t, "deletes are accepted", func() bool {
			return e.Update(store.Freeing(t.Context()), part, func(tx store.Tx) error {
				for _, k := range part {
					tx.Delete(k)
				}
				return nil
			}) == nil
		})
		if err := e.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// A layer of tables above level 0 has no keys. So it changes nothing that can be read, and hides
// no key that an Update writes at the same time: most are not latched.
func TestLayerAboveLevelZeroHasNoKeys(t *testing.T) {
	disk := newLimitedDisk()
	e := mustOpen(t, Options{FS: disk, Dir: "d", DiskCheck: time.Hour, PrefixBytes: 1})
	t.Cleanup(func() { _ = e.Close() })
	release := disk.holdCompactions()
	defer release()
	for _, key := range []string{"b", "a", "c"} {
		if err := errors.Join(set(e, key, []byte("1")), e.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	before := newestTable(t, e).FileNum
	e.reclaim.deletes.Store(e.reclaim.covered)
	e.coverDeletes(t.Context(), e.reclaim.covered)
	if n := newestTable(t, e).FileNum; n != before {
		t.Errorf("there is a new table %d, although nothing was deleted", n)
	}
	e.coverDeletes(t.Context(), e.reclaim.deletes.Add(1))
	newest := newestTable(t, e)
	if p := newest.Properties; newest.FileNum == before || p.NumEntries+p.NumDeletions > 0 {
		t.Errorf("the newest table is %d, after %d; it has %d keys, of which %d are deleted", newest.FileNum, before, p.NumEntries, p.NumDeletions)
	}
	if start, end := newest.Smallest.UserKey, newest.Largest.UserKey; string(start) != "a" || string(end) != string([]byte{store.Reserved}) {
		t.Errorf("it spans the keys from %q to %q", start, end)
	}
	release()
	if err := errors.Join(e.db.Compact(t.Context(), []byte("a"), []byte("z"), false), e.Check(t.Context())); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if v, err := e.Get(t.Context(), store.Strong, []byte(key)); err != nil || string(v[0]) != "1" {
			t.Errorf("%s: %q, %v", key, v, err)
		}
	}
}

// newestTable returns the newest table of level 0.
func newestTable(t *testing.T, e *Engine) (newest pebble.SSTableInfo) {
	t.Helper()
	levels, err := e.db.SSTables(pebble.WithProperties())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range levels[0] {
		if table.FileNum > newest.FileNum {
			newest = table
		}
	}
	return newest
}

// Deletes free space although level 0 does not fit into it.
func TestDeletesWithoutSpaceForCompactions(t *testing.T) {
	for name, free := range map[string]func(t *testing.T, e *Engine, items int){
		"items":    deleteSpread,
		"in order": deleteInOrder,
		"in order, after few at a time": func(t *testing.T, e *Engine, items int) {
			for e.db.Metrics().Levels[0].Sublevels < hardFactor*maxSublevels {
				if err := errors.Join(e.coverLevelZero(), e.db.Flush()); err != nil {
					t.Fatal(err)
				}
			}
			deleteInOrder(t, e, items)
		},
		"range": func(t *testing.T, e *Engine, _ int) {
			soon(t, "the description of a table is deleted", func() bool {
				return remove(store.Freeing(t.Context()), e, "description") == nil
			})
			if err := e.DeleteRange(t.Context(), []byte("k"), []byte("l")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, items := stuckEngine(t)
			free(t, e, items)
			resumes(t, e)
		})
	}
}

// A range whose compaction had to wait for too long is compacted later.
func TestReclaimRepeatsCompactionsThatWaited(t *testing.T) {
	disk := newLimitedDisk()
	e := mustOpen(t, Options{FS: disk, Dir: "d", DiskCheck: time.Hour})
	t.Cleanup(func() { _ = e.Close() })
	fillSpread(t, e, 0, 100)
	for _, held := range []bool{false, true} {
		e.reclaim.patience, e.reclaim.skipped = time.Hour, false
		release := func() {}
		if held {
			e.reclaim.patience = time.Millisecond
			release = disk.holdCompactions()
			fillSpread(t, e, 100, 200) // there is something to compact
		}
		e.disk.set(isFull, true)
		e.compactUntilSpace(t.Context())
		if e.reclaim.skipped != held {
			t.Errorf("compactions are held: %v; some were skipped: %v", held, e.reclaim.skipped)
		}
		release()
		e.disk.set(isFull, false)
	}
}

// A compaction that reads more than is free is attempted rarely after it has failed. Others
// are not affected.
func TestCompactionWithoutSpaceIsRarelyRepeated(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := newCompactionSpace()
		attempt := func(level int, bytes, free uint64, err error) (written bool) {
			const id, path = 1, "d/000001.sst"
			info := pebble.CompactionInfo{JobID: id, Input: []pebble.LevelInfo{{Tables: []pebble.TableInfo{{Size: bytes / 2}, {Size: bytes / 2}}}}}
			info.Output.Level = level
			s.begin(info)
			s.created(pebble.TableCreateInfo{JobID: id, Path: path})
			written = s.mayWrite(path, free)
			if !written {
				err = syscall.ENOSPC
			}
			info.Err = err
			s.end(info)
			return written
		}
		const minutes = 60
		attempts := 0
		for range minutes * 30 {
			if attempt(5, 100, 99, syscall.ENOSPC) {
				attempts++
			}
			if !attempt(5, 100, 100, syscall.ENOSPC) {
				t.Fatal("a compaction that fits is refused")
			}
			time.Sleep(2 * time.Second)
		}
		if attempts < 5 || attempts > minutes {
			t.Errorf("%d attempts in %d minutes", attempts, minutes)
		}
		if !s.pausing() || attempt(5, 100, 99, nil) || !attempt(6, 100, 99, nil) {
			t.Error("the control: the pause is of compactions to the same level")
		}
		s.reset()
		if s.pausing() || !attempt(5, 100, 99, nil) || !attempt(5, 100, 99, nil) {
			t.Error("there is a pause after a range was deleted, or after a success")
		}
		if len(s.jobs)+len(s.files) > 0 {
			t.Errorf("%v and %v are left", s.jobs, s.files)
		}
	})
}

// A compaction that is refused writes nothing.
func TestRefusedCompactionWritesNothing(t *testing.T) {
	mem := vfs.NewMem()
	mem.TestingSetDiskUsage(vfs.DiskUsage{TotalBytes: diskBytes, AvailBytes: maxReserveBytes})
	d := newDisk(Options{FS: mem, Dir: "d", DiskCheck: time.Hour}.withDefaults())
	fs := &diskFS{mem, d, newSpareFiles(mem)}
	write := func() error {
		t.Helper()
		const id, name = 1, "000001.sst"
		info := pebble.CompactionInfo{JobID: id, Input: []pebble.LevelInfo{{Tables: []pebble.TableInfo{{Size: maxReserveBytes}}}}}
		d.compacts.begin(info)
		f, err := fs.Create(name, categoryCompaction)
		if err != nil {
			t.Fatal(err)
		}
		d.compacts.created(pebble.TableCreateInfo{JobID: id, Path: name})
		_, err = f.Write([]byte("block"))
		info.Err = syscall.ENOSPC
		d.compacts.end(info)
		return errors.Join(err, f.Close())
	}
	if err := write(); err != nil {
		t.Errorf("the first attempt: %v", err)
	}
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the second attempt: %v", err)
	}
}
