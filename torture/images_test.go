package torture

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// The rigs of this file run small workloads on a disk in memory, and take images of the
// disk between its calls: what a crash at that moment can leave. Each image is opened
// and compared with what was acknowledged before it was taken.

// A crash between any two calls of the disk, also while the database opens after another
// crash, loses no acknowledged write and leaves no partial one.
func TestCrashImagesLoseNoWrite(t *testing.T) {
	g := newRig(t)
	g.parallel(2, func(n int) {
		crashRun{seed: g.seed + uint64(n), most: 4}.check(g)
	})
}

// A crash after each call of a fixed workload, from the creation of the folder until the
// database is closed, leaves a folder that can be opened, with all that was acknowledged,
// sound indexes and a complete stream.
func TestCrashAfterEachCall(t *testing.T) {
	g := newRig(t)
	g.parallel(1, func(n int) {
		crashRun{seed: uint64(n), most: 1, deep: *long}.check(g)
		g.count("workloads", 1)
	})
}

// The controls: both forms find the losses of writes that do not wait for the disk, and of
// a disk that ignores some syncs of the WAL.
func TestCrashImagesFindLosses(t *testing.T) {
	for _, c := range []struct {
		name string
		run  crashRun
	}{
		{"writes do not wait", crashRun{most: 4, durability: pebble.Relaxed}},
		{"writes do not wait, each call", crashRun{most: 1, durability: pebble.Relaxed}},
		{"some syncs are ignored", crashRun{most: 4, ignoreSyncs: true}},
		{"some syncs are ignored, each call", crashRun{most: 1, ignoreSyncs: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			for n := range uint64(20) {
				run := c.run
				run.seed, run.control = g.seed+n, true
				if faults := run.check(g); faults > 0 {
					g.count("faults", faults)
					return
				}
			}
			t.Error("nothing was lost")
		})
	}
}

// remainder says which part of the data that is not synced a crash leaves.
type remainder string

const (
	noData   remainder = "none of the unsynced data"
	someData remainder = "some of the unsynced data"
	allData  remainder = "all of the unsynced data"
	tornData remainder = "unsynced data up to some byte"
)

var remainders = []remainder{noData, someData, allData, tornData}

// crashRun is one workload and how images of its disk are taken.
type crashRun struct {
	seed        uint64
	most        int  // concurrent workers
	deep        bool // check indexes and stream of each image, not of some
	durability  pebble.Durability
	ignoreSyncs bool
	control     bool // faults are expected
}

// crashImage is what a crash left of the disk, and what had been acknowledged before it.
type crashImage struct {
	disk    disktest.Crashable
	call    int
	again   int // crashes before this one
	left    remainder
	created bool
	acked   []int // of each worker
}

func (i crashImage) String() string {
	return fmt.Sprintf("crash %d after call %d, with %s", i.again+1, i.call, i.left)
}

// check runs the workload and checks the images. It returns the number of faults, after
// it has reported them.
func (c crashRun) check(g *rig) (found int) {
	g.Helper()
	w := c.work(g)
	for _, worker := range w.all {
		g.count("acknowledged", worker.acked)
	}
	seen := imageSet{seed: maphash.MakeSeed(), found: make(map[uint64]imageContent)}
	for i := 0; i < len(w.images); i++ { // a check adds images of its own
		faults := w.checkImage(w.images[i], seen)
		if len(faults) > 0 && !c.control {
			g.Errorf("-torture.seed=%d, workload %d: %v: %s\nthe image is in %s", g.seed, c.seed, w.images[i],
				strings.Join(faults[:min(len(faults), 5)], "\n"), w.images[i].save(g, c.seed))
		}
		g.count("crashes", 1)
		if found += len(faults); found > 0 {
			break
		}
		w.images[i].disk.MemFS = nil // for the garbage collector
	}
	g.count("different images", len(seen.found))
	g.count("calls", w.calls)
	g.count("records", w.records)
	return found
}

// crashWork is a workload that ran, and the images of its disk.
type crashWork struct {
	crashRun
	all     []*worker
	created atomic.Bool

	mu      sync.Mutex
	calls   int
	images  []crashImage
	records int
}

// work runs the workload: it creates the table, changes items, opens the folder again,
// and changes items.
func (c crashRun) work(g *rig) *crashWork {
	g.Helper()
	r := rand.New(rand.NewPCG(c.seed, 1))
	mem := newSmallDisk(disktest.NewCrashable())
	w := &crashWork{crashRun: c, all: crew(1+r.IntN(c.most), c.seed)}
	disk := disktest.Inject(w.below(mem), func(op errorfs.Op) error {
		if changesDisk(op.Kind) {
			w.take(mem)
		}
		return nil
	})
	for range 2 {
		h, err := open(disk, "d", c.durability, quiet)
		if err != nil {
			g.Errorf("workload %d: open: %v", c.seed, err)
			return w
		}
		if !w.created.Load() {
			createWork(g, h.door)
			w.created.Store(true)
		}
		w.change(h.door, r)
		if err := h.close(); err != nil {
			g.Errorf("workload %d: close: %v", c.seed, err)
		}
	}
	w.take(mem)
	for _, worker := range w.all {
		if len(worker.faults) > 0 {
			g.Errorf("workload %d: %v", c.seed, worker.faults)
		}
	}
	return w
}

// change lets each worker send some requests, with pauses in which the memtable is flushed.
func (w *crashWork) change(d door, r *rand.Rand) {
	var running sync.WaitGroup
	for _, worker := range w.all {
		worker.door = d
		steps, pause := 2+r.IntN(6), r.IntN(6)
		running.Go(func() {
			for n := range steps {
				if n == pause {
					time.Sleep(4 * time.Millisecond)
				}
				if !worker.step() {
					return
				}
			}
		})
	}
	running.Wait()
}

// newSmallDisk returns a disk that says that it is small, so that memtables are small too.
func newSmallDisk(disk disktest.Crashable) disktest.Crashable {
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 64 << 20, TotalBytes: 64 << 20})
	return disk
}

// below returns the disk as the database sees it.
func (w *crashWork) below(mem disktest.Crashable) vfs.FS {
	if w.ignoreSyncs {
		return &ignoringSyncs{FS: mem}
	}
	return mem
}

// changesDisk reports whether operations of this kind change what a crash leaves.
func changesDisk(kind errorfs.OpKind) bool {
	switch kind {
	case errorfs.OpLock, errorfs.OpFileClose, errorfs.OpFileFlush, errorfs.OpFilePreallocate:
		return false
	}
	return kind.ReadOrWrite() == errorfs.OpIsWrite
}

// take takes images of a disk. What is acknowledged later does not count.
func (w *crashWork) take(mem disktest.Crashable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if !*long && !w.control && w.calls%10 != 0 {
		return
	}
	r := rand.New(rand.NewPCG(w.seed, uint64(1+w.calls)))
	for _, left := range remainders {
		w.images = append(w.images, w.image(mem, left, r))
	}
}

// image takes one image.
func (w *crashWork) image(mem disktest.Crashable, left remainder, r *rand.Rand) crashImage {
	i := crashImage{call: w.calls, left: left, created: w.created.Load()}
	for _, worker := range w.all {
		i.acked = append(i.acked, worker.expectation().acked)
	}
	i.disk = crashed(mem, left, r)
	return i
}

// crashed returns what a crash leaves of a disk in use.
func crashed(mem disktest.Crashable, left remainder, r *rand.Rand) disktest.Crashable {
	clone := func(percent int) disktest.Crashable {
		return disktest.Crashable{MemFS: mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: r})}
	}
	switch left {
	case tornData:
		return tear(clone(0), clone(100), r)
	case someData:
		return clone(1 + r.IntN(99))
	case allData:
		return clone(100)
	}
	return clone(0)
}

// tear returns the disk with all, except that each of its WALs has the unsynced bytes up
// to some byte only. before is the disk without unsynced data.
func tear(before, all disktest.Crashable, r *rand.Rand) disktest.Crashable {
	names, _ := all.List("d")
	slices.Sort(names)
	for _, name := range names {
		path := "d/" + name
		if filepath.Ext(name) != ".log" {
			continue
		}
		now, err := all.UnsafeGetFileDataBuffer(path)
		if err != nil {
			panic(err)
		}
		synced, _ := before.UnsafeGetFileDataBuffer(path) // nil if its creation is not synced
		same := 0
		for same < min(len(now), len(synced)) && now[same] == synced[same] {
			same++
		}
		cut := same + r.IntN(len(now)-same+1)
		torn := slices.Clone(now[:cut])
		if cut < len(synced) {
			torn = append(torn, synced[cut:]...)
		}
		if err := writeFile(all, path, torn); err != nil {
			panic(err)
		}
	}
	return all
}

func writeFile(disk vfs.FS, path string, text []byte) error {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// imageContent is what an image had when it was opened.
type imageContent struct {
	created bool
	items   map[string]state // of each worker
}

// imageSet has the content of each image that was opened. An equal image needs no second
// look: only what was acknowledged before it differs.
type imageSet struct {
	seed  maphash.Seed
	found map[uint64]imageContent
}

func (s imageSet) hash(disk disktest.Crashable) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	names, _ := disk.List("d")
	slices.Sort(names)
	for _, name := range names {
		h.WriteString(name)
		if info, err := disk.Stat("d/" + name); err != nil || info.IsDir() {
			continue
		}
		text, err := disk.UnsafeGetFileDataBuffer("d/" + name)
		if err != nil {
			panic(err)
		}
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
		h.Write(text)
	}
	return h.Sum64()
}

// checkImage opens an image, unless an equal one was opened, and compares.
func (w *crashWork) checkImage(i crashImage, seen imageSet) (faults []string) {
	hash := seen.hash(i.disk)
	content, ok := seen.found[hash]
	if !ok {
		content, faults = w.openImage(i, len(seen.found))
		seen.found[hash] = content
	}
	if len(faults) > 0 {
		return faults
	}
	if i.created && !content.created {
		return []string{"the table is lost"}
	}
	for n, worker := range w.all {
		expected := worker.expectation() // with all requested changes
		expected.acked = i.acked[n]
		found := content.items[worker.name]
		if _, ok := expected.fits(found); !ok {
			faults = append(faults, fmt.Sprintf("%s has %v, after %s", worker.name, found, expected))
		}
	}
	return faults
}

// openImage opens a copy of an image and reads all items. Of some images it checks indexes
// and stream; while some are opened, it takes an image of a second crash.
func (w *crashWork) openImage(i crashImage, n int) (c imageContent, faults []string) {
	h, err := open(w.crashesAgain(i, n), "d", w.durability, quiet)
	if err != nil {
		return c, []string{"open: " + err.Error()}
	}
	defer func() {
		if err := h.close(); err != nil {
			faults = append(faults, "close: "+err.Error())
		}
	}()
	if c.created = h.call("DescribeTable", object{"TableName": "Work"}, nil) == nil; !c.created {
		return c, nil
	}
	t := &failure{}
	defer func() {
		if p := recover(); p != nil {
			faults = append(faults, fmt.Sprint(p))
		} else if t.err != nil {
			faults = append(faults, t.err.Error())
		}
	}()
	c.items = itemsOf(t, h.door)
	if w.deep || n%8 == 0 {
		h.expectSound(t)
		stream := streamOf(t, h.door)
		w.records += len(stream)
		faults = replay(stream, present(t, h.door))
	}
	return c, faults
}

// crashesAgain returns a copy of an image's disk. Of some images it takes another image
// while the disk is changed, which is at first when the database is opened.
func (w *crashWork) crashesAgain(i crashImage, n int) vfs.FS {
	copied := newSmallDisk(disktest.Crashable{MemFS: i.disk.CrashClone(vfs.CrashCloneCfg{})})
	if n%8 != 5 || i.again > 1 {
		return copied
	}
	r := rand.New(rand.NewPCG(w.seed, uint64(i.call)))
	at, left := int64(1+r.IntN(40)), remainders[r.IntN(len(remainders))]
	var calls atomic.Int64
	return disktest.Inject(copied, func(op errorfs.Op) error {
		if changesDisk(op.Kind) && calls.Add(1) == at {
			again := i
			again.again, again.left, again.disk = i.again+1, left, crashed(copied, left, r)
			w.mu.Lock()
			w.images = append(w.images, again)
			w.mu.Unlock()
		}
		return nil
	})
}

// itemsOf returns the items of each worker.
func itemsOf(t testing.TB, d door) map[string]state {
	t.Helper()
	all := make(map[string]state)
	for _, it := range scanWork(t, d) {
		name := it["p"]["S"]
		if all[name] == nil {
			all[name] = state{}
		}
		all[name][it.number("k")] = version{it.number("v"), it.number("n")}
	}
	return all
}

// save writes an image to a folder of its own, which is kept.
func (i crashImage) save(t testing.TB, workload uint64) string {
	t.Helper()
	dir, err := os.MkdirTemp("", fmt.Sprintf("stator-crash-%d-", workload))
	if err == nil {
		_, err = vfs.Clone(i.disk, vfs.Default, "d", filepath.Join(dir, "d"))
	}
	if err != nil {
		t.Errorf("the image cannot be saved: %v", err)
	}
	return filepath.Join(dir, "d")
}

// ignoringSyncs is a disk that ignores one of three syncs of its WALs.
type ignoringSyncs struct {
	vfs.FS
	syncs atomic.Int64
}

func (d *ignoringSyncs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	return d.wrap(name, f, err)
}

func (d *ignoringSyncs) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(before, name, category)
	return d.wrap(name, f, err)
}

func (d *ignoringSyncs) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err == nil && filepath.Ext(name) == ".log" {
		f = &ignoringFile{f, d}
	}
	return f, err
}

type ignoringFile struct {
	vfs.File
	disk *ignoringSyncs
}

func (f *ignoringFile) Sync() error     { return f.unlessIgnored(f.File.Sync) }
func (f *ignoringFile) SyncData() error { return f.unlessIgnored(f.File.SyncData) }

func (f *ignoringFile) unlessIgnored(sync func() error) error {
	if f.disk.syncs.Add(1)%3 == 0 {
		return nil
	}
	return sync()
}
