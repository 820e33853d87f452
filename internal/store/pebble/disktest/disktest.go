// Package disktest provides disks that fail and crash under the control of a test.
package disktest

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Inject returns a disk on which decide is called for each operation, which fails with its
// error.
func Inject(disk vfs.FS, decide func(errorfs.Op) error) vfs.FS {
	return &injected{errorfs.Wrap(disk, errorfs.InjectorFunc(decide)), decide}
}

type injected struct {
	vfs.FS
	decide func(errorfs.Op) error
}

// ReuseForWrite closes a gap of errorfs, which does not wrap a file that is reused.
func (i *injected) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := i.FS.ReuseForWrite(before, name, category)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(f, errorfs.InjectorFunc(func(op errorfs.Op) error {
		op.Path = name
		return i.decide(op)
	})), nil
}

// Crashable is a disk in memory that can be cloned while it is in use, as a crash would leave
// it.
type Crashable struct{ *vfs.MemFS }

// NewCrashable returns an empty disk.
func NewCrashable() Crashable { return Crashable{vfs.NewCrashableMem()} }

// ReuseForWrite replaces that of MemFS, which deadlocks if a clone begins meanwhile: it locks
// for reading twice, and a clone waits in between.
func (c Crashable) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.Rename(before, name); err != nil {
		return nil, err
	}
	return c.OpenReadWrite(name, category)
}
