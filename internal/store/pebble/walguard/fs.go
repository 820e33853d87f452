// Package walguard is a file system that guards Pebble's WAL files and manifests.
package walguard

import (
	"errors"
	"hash/crc32"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// FS is the file system as Pebble sees it. It guards the WAL, by which acknowledged
// writes survive a crash, and the manifests, which list the tables.
//
// When there is no space for them it waits, where Pebble would end the process. When they
// cannot be written for another reason, or their folder cannot be synced, it calls Failed
// before Pebble panics with its locks held. When Pebble opens a WAL file to replay it, FS
// checks that the file can be read up to its sync mark. It marks manifests too;
// SyncMarks.CheckFolder checks them.
type FS struct {
	vfs.FS
	Marks *SyncMarks
	// WaitForSpace calls try again for as long as it fails for want of space.
	WaitForSpace func(try func() error) error
	// Failed is called when a guarded file or folder fails.
	Failed func(doing, name string, err error)
	// Synced, if set, is called with the time that a sync of the WAL took.
	Synced func(took time.Duration)
}

// Unwrap returns the file system below, for which Pebble asks.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// walNumber returns the number of a WAL file; not ok for other files.
func (f *FS) walNumber(name string) (number uint64, ok bool) {
	n, _, ok := wal.ParseLogFilename(f.PathBase(name))
	return uint64(n), ok
}

// Open opens a file for reading. Pebble opens WAL files to replay them after a crash.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if n, ok := f.walNumber(name); ok {
		if err := f.Marks.check(f.FS, name, n); err != nil {
			return nil, err
		}
	}
	return f.FS.Open(name, opts...)
}

// Create creates a file.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	n, isWAL := f.walNumber(name)
	if !isWAL && !strings.Contains(f.PathBase(name), "MANIFEST") {
		return f.FS.Create(name, category)
	}
	number, isManifest := manifestNumber(f.PathBase(name))
	if !isWAL && !isManifest {
		// Pebble syncs the folder once, after it has created a manifest and the marker that
		// names it. A disk that keeps the marker alone could not be opened.
		if err := f.syncDir(f.PathDir(name)); err != nil {
			return nil, err
		}
	}
	var file vfs.File
	err := f.WaitForSpace(func() (err error) {
		file, err = f.FS.Create(name, category)
		return err
	})
	if err != nil {
		f.Failed("create", name, err)
		return nil, err
	}
	if isWAL {
		return f.guard(file, name, n), nil
	}
	m := &manifestFile{File: file, waitForSpace: f.WaitForSpace}
	if isManifest {
		m.marks = f.Marks
		f.Marks.beginManifest(number)
	}
	return m, nil
}

// syncDir makes the names in a folder durable.
func (f *FS) syncDir(name string) error {
	var dir vfs.File
	err := f.WaitForSpace(func() (err error) { // or for a file descriptor
		dir, err = f.OpenDir(name)
		return err
	})
	if err != nil {
		f.Failed("open", name, err)
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ReuseForWrite turns an obsolete WAL file into a new one, or creates one if that fails.
func (f *FS) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(before, name, category)
	n, ok := f.walNumber(name)
	if !ok {
		return file, err
	}
	if err != nil {
		_ = f.Remove(before) // it may have its new name already
		return f.Create(name, category)
	}
	return f.guard(file, name, n), nil
}

func (f *FS) guard(file vfs.File, name string, number uint64) vfs.File {
	return &walFile{File: file, fs: f, name: name, slot: f.Marks.slot(number)}
}

// manifestFile is a manifest, or the marker that names the current one. Pebble ends the
// process when it cannot be written. Pebble writes and syncs one manifest at a time.
type manifestFile struct {
	vfs.File
	waitForSpace func(try func() error) error
	marks        *SyncMarks // nil for a marker, or after an error
	end          int64
	crc          uint32
}

// Write appends to the file. It waits for space.
func (f *manifestFile) Write(p []byte) (n int, err error) {
	crc := crc32.Update(f.crc, castagnoli, p) // before Write, which changes p in some tests
	err = f.waitForSpace(func() error {
		more, err := f.File.Write(p[n:])
		n += more
		return err
	})
	if err != nil {
		f.marks = nil // it is unknown what the file has
	}
	f.end, f.crc = f.end+int64(n), crc
	return n, err
}

// Sync makes everything written so far durable, and its mark.
func (f *manifestFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData makes everything written so far durable, and its mark.
func (f *manifestFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *manifestFile) sync(sync func() error) error {
	if err := sync(); err != nil {
		return err
	}
	if f.marks != nil {
		f.marks.manifestSynced(f.end, f.crc)
	}
	return nil
}

// OpenDir opens a folder to sync it.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedDir{dir, f, name}, nil
}

// guardedDir is a folder. A new file in it is durable only when the folder is synced.
type guardedDir struct {
	vfs.File
	fs   *FS
	name string
}

// Sync makes the names in the folder durable.
func (d *guardedDir) Sync() error {
	err := d.File.Sync()
	if err != nil {
		d.fs.Failed("sync", d.name, err)
	}
	return err
}

// walFile is a WAL file that is being written. Pebble writes and syncs one at a time.
type walFile struct {
	vfs.File
	fs      *FS
	name    string
	slot    int
	written atomic.Int64
}

// Write appends to the file.
func (f *walFile) Write(p []byte) (n int, err error) {
	err = f.fs.WaitForSpace(func() error {
		more, err := f.File.Write(p[n:])
		n += more
		return err
	})
	f.written.Add(int64(n))
	if err != nil {
		f.fs.Failed("write", f.name, err)
	}
	return n, err
}

// Sync makes everything written so far durable.
func (f *walFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData makes everything written so far durable.
func (f *walFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *walFile) sync(sync func() error) error {
	end, begun := f.written.Load(), time.Now()
	if err := sync(); err != nil {
		f.fs.Failed("sync", f.name, err)
		return err
	}
	if f.fs.Synced != nil {
		f.fs.Synced(time.Since(begun))
	}
	f.fs.Marks.synced(f.slot, end)
	return nil
}

// Close closes the file.
func (f *walFile) Close() error {
	err := f.File.Close()
	if err != nil {
		f.fs.Failed("close", f.name, err)
	}
	return err
}
