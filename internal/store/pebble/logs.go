package pebble

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// logs is the file system as Pebble sees it, which watches over its logs: by
// them acknowledged writes survive. Its manifests are logs too, of tables.
//
// When there is no space for them it waits, where Pebble would end. When they
// cannot be written for another reason, or their folder not be synced, it ends
// the process and says why, where Pebble would panic with its locks held.
type logs struct {
	vfs.FS
	marks  *marks
	disk   *disk
	broken func(doing, name string, err error)
}

// Unwrap is for Pebble, which asks what lies below.
func (l *logs) Unwrap() vfs.FS { return l.FS }

func (l *logs) number(name string) (uint64, bool) {
	n, _, ok := wal.ParseLogFilename(l.PathBase(name))
	return uint64(n), ok
}

// Open is called for the logs that have to be read after a crash.
func (l *logs) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if n, ok := l.number(name); ok {
		if err := l.marks.check(l.FS, name, n); err != nil {
			return nil, err
		}
	}
	return l.FS.Open(name, opts...)
}

// Create makes a file.
func (l *logs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	n, isLog := l.number(name)
	if !isLog && !strings.Contains(l.PathBase(name), "MANIFEST") {
		return l.FS.Create(name, category)
	}
	var f vfs.File
	err := l.disk.waitForSpace(func() (err error) {
		f, err = l.FS.Create(name, category)
		return err
	})
	if err != nil {
		l.broken("make", name, err)
		return nil, err
	}
	if !isLog {
		return &manifest{f, l.disk}, nil
	}
	return l.watch(f, name, n), nil
}

// ReuseForWrite makes a log of one that is not needed any more, or else a new
// one.
func (l *logs) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(before, name, category)
	n, ok := l.number(name)
	if !ok {
		return f, err
	}
	if err != nil {
		_ = l.Remove(before) // it may have its new name already
		return l.Create(name, category)
	}
	return l.watch(f, name, n), nil
}

func (l *logs) watch(f vfs.File, name string, number uint64) vfs.File {
	return &logFile{File: f, logs: l, name: name, slot: l.marks.slot(number)}
}

// manifest is one, or the marker that names it. Pebble ends the process when it
// cannot be written.
type manifest struct {
	vfs.File
	disk *disk
}

// Write waits for space.
func (f *manifest) Write(p []byte) (n int, err error) {
	err = f.disk.waitForSpace(func() error {
		more, err := f.File.Write(p[n:])
		n += more
		return err
	})
	return n, err
}

// OpenDir opens a folder to sync it.
func (l *logs) OpenDir(name string) (vfs.File, error) {
	f, err := l.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &logDir{f, l, name}, nil
}

// logDir is a folder. A log, or another file, is only there for sure when it is
// synced.
type logDir struct {
	vfs.File
	logs *logs
	name string
}

// Sync makes the names in the folder durable.
func (d *logDir) Sync() error {
	err := d.File.Sync()
	if err != nil {
		d.logs.broken("sync", d.name, err)
	}
	return err
}

// logFile is a log that is written. Pebble writes and syncs one at a time.
type logFile struct {
	vfs.File
	logs    *logs
	name    string
	slot    int
	written atomic.Int64
}

// Write appends to the log.
func (f *logFile) Write(p []byte) (n int, err error) {
	err = f.logs.disk.waitForSpace(func() error {
		more, err := f.File.Write(p[n:])
		n += more
		return err
	})
	f.written.Add(int64(n))
	if err != nil {
		f.logs.broken("write", f.name, err)
	}
	return n, err
}

// Sync makes durable what was written.
func (f *logFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData makes durable what was written.
func (f *logFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *logFile) sync(how func() error) error {
	end := f.written.Load()
	if err := how(); err != nil {
		f.logs.broken("sync", f.name, err)
		return err
	}
	f.logs.marks.synced(f.slot, end)
	return nil
}

// Close ends the log.
func (f *logFile) Close() error {
	err := f.File.Close()
	if err != nil {
		f.logs.broken("close", f.name, err)
	}
	return err
}
