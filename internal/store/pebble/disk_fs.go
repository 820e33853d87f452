package pebble

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskFS is a file system below the one that guards the WAL. It keeps compactions out of
// the part of the reserve that flushes need, delays work that failed before, and keeps
// file descriptors for the database when connections have taken all others.
type diskFS struct {
	vfs.FS
	disk  *disk
	spare *spareFiles
}

// Unwrap returns the file system below, for which Pebble asks.
func (f *diskFS) Unwrap() vfs.FS { return f.FS }

// The categories of files that Pebble creates.
const (
	categoryWAL        = "pebble-wal"
	categoryFlush      = "pebble-memtable-flush"
	categoryCompaction = "pebble-compaction"
)

// Create creates a file.
func (f *diskFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category == categoryFlush || category == categoryCompaction {
		f.disk.failures.wait()
	}
	file, err := retryNoFiles(f.spare, func() (vfs.File, error) { return f.FS.Create(name, category) })
	if err != nil {
		return nil, err
	}
	switch category {
	case categoryWAL:
		return &preallocatedFile{file, f.disk}, nil
	case categoryCompaction:
		return &compactionFile{File: file, name: name, disk: f.disk}, nil
	}
	return file, nil
}

// Open opens a file for reading.
func (f *diskFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return retryNoFiles(f.spare, func() (vfs.File, error) { return f.FS.Open(name, opts...) })
}

// OpenDir opens a folder.
func (f *diskFS) OpenDir(name string) (vfs.File, error) {
	return retryNoFiles(f.spare, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

// ReuseForWrite turns an obsolete WAL file into a new one.
func (f *diskFS) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(before, name, category)
	if err != nil {
		return nil, err
	}
	return &preallocatedFile{file, f.disk}, nil
}

// preallocatedFile is a WAL file. Pebble allocates space for a whole memtable in advance.
type preallocatedFile struct {
	vfs.File
	disk *disk
}

// Preallocate allocates space, unless it is short or not to be allocated.
func (f *preallocatedFile) Preallocate(offset, length int64) error {
	if f.disk.sparse || f.disk.low.Load() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// compactionFile is a table that a compaction writes. It is not allowed to use up the
// reserve: the compaction fails, and its tables are removed.
type compactionFile struct {
	vfs.File
	name    string
	disk    *disk
	checked bool
	written int64 // since the last check
}

// Write appends to the file.
func (f *compactionFile) Write(p []byte) (int, error) {
	f.written += int64(len(p))
	if !f.checked || f.written > f.disk.maxBytes.Load()/4 {
		f.checked, f.written = true, 0
		if !f.disk.canCompact() || !f.disk.canCompactTo(f.name) {
			return 0, &fs.PathError{Op: "compact to", Path: f.name, Err: syscall.ENOSPC}
		}
	}
	return f.File.Write(p)
}

// spareFiles are file descriptors that are kept for the database.
type spareFiles struct {
	wanted int

	mu    sync.Mutex
	files []*os.File
}

// newSpareFiles returns the spare files of a file system, none if it is in memory.
func newSpareFiles(fs vfs.FS) *spareFiles {
	if vfs.Root(fs) != vfs.Default {
		return new(spareFiles)
	}
	return &spareFiles{wanted: numSpareFiles}
}

const (
	numSpareFiles = 4
	// noFilesPause is the pause before an attempt to open a file when there was no
	// descriptor for it, and noFilesAttempts is how often it is tried.
	noFilesPause    = 20 * time.Millisecond
	noFilesAttempts = 10
)

// isNoFiles reports whether there is no file descriptor left.
func isNoFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// take opens spare files, as far as possible.
func (s *spareFiles) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.files) < s.wanted {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		s.files = append(s.files, f)
	}
}

// release closes one spare file, or none if all are closed.
func (s *spareFiles) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.files); n > 0 {
		_ = s.files[n-1].Close()
		s.files = s.files[:n-1]
	}
}

// close closes all of them.
func (s *spareFiles) close() {
	for range s.wanted {
		s.release()
	}
}

// retryNoFiles opens a file. When there is no descriptor for it, it releases a spare one
// and tries again, a few times: other files may be closed meanwhile.
func retryNoFiles(spare *spareFiles, open func() (vfs.File, error)) (vfs.File, error) {
	for attempt := 1; ; attempt++ {
		f, err := open()
		if !isNoFiles(err) || attempt == noFilesAttempts {
			return f, err
		}
		spare.release()
		time.Sleep(noFilesPause)
	}
}
