package pebble

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// slowDirs is a disk on which one sync of a folder waits to be released.
type slowDirs struct {
	vfs.FS
	armed            atomic.Bool
	entered, release chan struct{}
}

func (f *slowDirs) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	return slowDir{d, f}, err
}

type slowDir struct {
	vfs.File
	fs *slowDirs
}

func (d slowDir) Sync() error {
	if d.fs.armed.CompareAndSwap(true, false) {
		close(d.fs.entered)
		<-d.fs.release
	}
	return d.File.Sync()
}

// While Pebble creates a WAL file, it does not count it yet. The one before it has
// acknowledged writes and is not removed.
func TestWALIsKeptWhileItsSuccessorIsCreated(t *testing.T) {
	mem := vfs.NewMem()
	disk := &slowDirs{FS: mem, entered: make(chan struct{}), release: make(chan struct{})}
	e := mustOpen(t, Options{FS: disk, Dir: "d", IdleFlush: -1})
	key := []byte("k")
	if err := e.Update(t.Context(), [][]byte{key}, func(tx store.Tx) error { tx.Set(key, []byte("acknowledged")); return nil }); err != nil {
		t.Fatal(err)
	}
	disk.armed.Store(true)
	flushed := make(chan error, 1)
	go func() { flushed <- e.db.Flush() }() // begins a WAL file
	<-disk.entered
	e.removeObsoleteWALs(disk, "d", 0)
	killed := vfs.NewMem()
	if _, err := vfs.Clone(mem, killed, "d", "d"); err != nil {
		t.Fatal(err)
	}
	close(disk.release)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{FS: killed, Dir: "d"})
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	values, err := r.Get(t.Context(), store.Strong, key)
	if err != nil || string(values[0]) != "acknowledged" {
		t.Errorf("after a kill the value is %q, %v", values, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
