package pebble

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// A new folder has the newest format from its first moment: its marker was
// never moved. In a folder with something else Pebble decides.
func TestNewFolderBeginsWithNewestFormat(t *testing.T) {
	newest := pebble.FormatNewest.String()
	for _, c := range []struct{ name, beside, want string }{
		{"a new folder", "", "marker.format-version.000001." + newest},
		{"a folder with something in it", "d/something", "marker.format-version.000011." + newest},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			if c.beside != "" {
				if err := mem.MkdirAll("d", 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, mem, c.beside, nil)
			}
			e := mustOpen(t, Options{FS: mem, Dir: "d"})
			defer e.Close()
			if names := formatMarkers(t, mem); !slices.Equal(names, []string{c.want}) {
				t.Errorf("the markers are %v, want %s", names, c.want)
			}
		})
	}
}

func formatMarkers(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "marker."+formatMarker) })
}

// A crash before any step of making a folder leaves one that can be opened and
// written, and that has what was acknowledged.
func TestCrashWhileFolderIsMade(t *testing.T) {
	steps, lost := crashAtEachStep(t, Options{})
	if lost != 0 {
		t.Errorf("%d of %d crashes took back what was acknowledged", lost, steps)
	}
}

// The control: the test above sees it when an engine acknowledges too early.
func TestCrashWhileFolderIsMadeWhenRelaxed(t *testing.T) {
	if steps, lost := crashAtEachStep(t, Options{Durability: Relaxed}); lost == 0 {
		t.Errorf("none of %d crashes took anything back", steps)
	}
}

// crashAtEachStep makes a folder and writes to it, and takes what the disk holds
// before each operation, with and without what is not synced. Parts of it are
// left out: Pebble does not survive a disk that has lost the name of a manifest,
// whose bytes are synced, and kept that of the marker that was made after it.
func crashAtEachStep(t *testing.T, o Options) (steps, lost int) {
	t.Helper()
	type moment struct {
		disk         *vfs.MemFS
		acknowledged bool
		before       string // the path of what comes next
		unsynced     int    // per cent
	}
	mem := disktest.NewCrashable()
	var mu sync.Mutex
	var moments []moment
	var acknowledged, over bool
	crash := func(before string) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		for _, percent := range []int{0, 100} {
			disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(0, 0))})
			moments = append(moments, moment{disk, acknowledged, before, percent})
		}
	}
	o.Dir, o.IdleFlush = "d", -1
	o.FS = disktest.Inject(mem, func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			crash(op.Path)
		}
		return nil
	})
	e := mustOpen(t, o)
	if err := set(e, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	acknowledged = true
	mu.Unlock()
	crash("the end")
	mu.Lock()
	over = true
	mu.Unlock()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for i, m := range moments {
		e, err := Open(Options{FS: m.disk, Dir: "d"})
		if err != nil {
			t.Errorf("crash %d, before %s, with %d %% of what is not synced: %v", i, m.before, m.unsynced, err)
			continue
		}
		v, err := e.Get(context.Background(), store.Strong, []byte("k"))
		if err != nil {
			t.Errorf("crash %d: %v", i, err)
		}
		if m.acknowledged && string(v[0]) != "v" {
			lost++
		}
		if err := set(e, "again", []byte("v")); err != nil {
			t.Errorf("crash %d: %v", i, err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("crash %d: %v", i, err)
		}
	}
	return len(moments), lost
}

// A folder below others that are made with it is still there after a crash.
func TestCrashAfterFoldersAreMade(t *testing.T) {
	mem := disktest.NewCrashable()
	e := mustOpen(t, Options{FS: mem, Dir: "/a/b/c", IdleFlush: -1})
	if err := set(e, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	disk := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, Options{FS: disk, Dir: "/a/b/c"})
	defer e.Close()
	if v, err := e.Get(context.Background(), store.Strong, []byte("k")); err != nil || string(v[0]) != "v" {
		t.Errorf("what was acknowledged is %q, %v", v, err)
	}
}
