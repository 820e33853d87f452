package pebble

import (
	"context"
	"errors"
	"fmt"
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

// A new folder has the newest format from the start: its marker was never moved. In a folder
// with other files Pebble decides.
func TestNewFolderHasNewestFormat(t *testing.T) {
	newest := pebble.FormatNewest.String()
	for _, c := range []struct{ name, other, want string }{
		{"a new folder", "", "marker.format-version.000001." + newest},
		{"a folder with another file", "d/something", "marker.format-version.000011." + newest},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			if c.other != "" {
				if err := mem.MkdirAll("d", 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, mem, c.other, nil)
			}
			e := mustOpen(t, Options{FS: mem, Dir: "d", AllowOtherFiles: true})
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

// After a crash at any step of its creation, a folder can be opened and written, and has all
// acknowledged writes.
func TestCrashDuringCreation(t *testing.T) {
	steps, lost := crashAtEachStep(t, Options{}, setOne)
	if lost != 0 {
		t.Errorf("%d of %d crashes lost an acknowledged write", lost, steps)
	}
}

// The control: the test above detects an engine that acknowledges too early.
func TestCrashDuringCreationWhenRelaxed(t *testing.T) {
	if steps, lost := crashAtEachStep(t, Options{Durability: Relaxed}, setOne); lost == 0 {
		t.Errorf("none of %d crashes lost anything", steps)
	}
}

// The same holds for each step of flushes, compactions, and changes to a new manifest, in
// several sessions.
func TestCrashDuringRotationOfManifests(t *testing.T) {
	for _, manifestBytes := range []int64{0, 1, 300} {
		o := Options{manifestBytes: manifestBytes, memtableBytes: 256 << 10}
		steps, lost := crashAtEachStep(t, o, func(t *testing.T, o Options, acknowledge func(key string)) {
			for session := range 3 {
				e := mustOpen(t, o)
				for n := range 3 {
					key := fmt.Sprintf("k %d %d", session, n)
					if err := errors.Join(set(e, key, []byte("v")), set(e, "all", []byte(key))); err != nil {
						t.Fatal(err)
					}
					acknowledge(key)
					if err := e.db.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				if err := e.db.Compact(context.Background(), []byte("a"), []byte("z"), false); err != nil {
					t.Fatal(err)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
		if lost != 0 || steps < 200 {
			t.Errorf("%d of %d crashes lost an acknowledged write", lost, steps)
		}
	}
}

// setOne creates a folder and writes one key.
func setOne(t *testing.T, o Options, acknowledge func(key string)) {
	e := mustOpen(t, o)
	if err := set(e, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	acknowledge("k")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// clone is what a crash leaves of a disk.
type clone struct {
	disk         *vfs.MemFS
	acknowledged []string // keys
	before       string   // the path of the next operation
	unsynced     int      // per cent
}

// crashAtEachStep runs work, and clones the disk before each operation, with all or none of
// the unsynced data. It does not clone with a part of it: Pebble does not survive a disk that
// lost the name of a manifest, whose bytes are synced, and kept that of the marker that was
// created after it.
func crashAtEachStep(t *testing.T, o Options, work func(t *testing.T, o Options, acknowledge func(key string))) (steps, lost int) {
	t.Helper()
	mem := disktest.NewCrashable()
	var mu sync.Mutex
	var clones []clone
	var acknowledged []string
	crash := func(before string) {
		mu.Lock()
		defer mu.Unlock()
		for _, percent := range []int{0, 100} {
			disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(0, 0))})
			clones = append(clones, clone{disk, slices.Clip(acknowledged), before, percent})
		}
	}
	o.Dir, o.IdleFlush = "d", -1
	o.FS = disktest.Inject(mem, func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			crash(op.Path)
		}
		return nil
	})
	work(t, o, func(key string) {
		mu.Lock()
		acknowledged = append(acknowledged, key)
		mu.Unlock()
	})
	crash("the end")
	for i, c := range clones {
		if c.isLost(t, i) {
			lost++
		}
	}
	return len(clones), lost
}

// isLost opens what a crash left, and reports whether an acknowledged key is missing.
func (c *clone) isLost(t *testing.T, step int) (lost bool) {
	t.Helper()
	e, err := Open(Options{FS: c.disk, Dir: "d", memtableBytes: 256 << 10})
	if err != nil {
		t.Errorf("crash %d, before %s, with %d %% of the unsynced data: %v", step, c.before, c.unsynced, err)
		return false
	}
	for _, key := range c.acknowledged {
		v, err := e.Get(context.Background(), store.Strong, []byte(key))
		if err != nil {
			t.Errorf("crash %d: %v", step, err)
		}
		lost = lost || err == nil && string(v[0]) != "v"
	}
	if err := set(e, "again", []byte("v")); err != nil {
		t.Errorf("crash %d: %v", step, err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("crash %d: %v", step, err)
	}
	return lost
}

// A folder whose parents are created with it still exists after a crash.
func TestCrashAfterFoldersAreCreated(t *testing.T) {
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
		t.Errorf("the acknowledged value is %q, %v", v, err)
	}
}
