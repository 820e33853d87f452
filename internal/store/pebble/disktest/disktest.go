// Package disktest is disks that fail and crash as a test wants them to.
package disktest

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Inject has a function decide about each operation of a disk.
func Inject(disk vfs.FS, decide func(errorfs.Op) error) vfs.FS {
	return &injected{errorfs.Wrap(disk, errorfs.InjectorFunc(decide)), decide}
}

type injected struct {
	vfs.FS
	decide func(errorfs.Op) error
}

// ReuseForWrite closes a gap of errorfs, which lets go of a log that is used
// again.
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

// Crashable is a disk in memory that can be cloned as a crash would leave it,
// while it is in use.
type Crashable struct{ *vfs.MemFS }

// NewCrashable makes an empty one.
func NewCrashable() Crashable { return Crashable{vfs.NewCrashableMem()} }

// ReuseForWrite is MemFS's, which waits for ever if a clone begins meanwhile: it
// locks for reading twice, and a clone waits in between.
func (c Crashable) ReuseForWrite(before, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.Rename(before, name); err != nil {
		return nil, err
	}
	return c.OpenReadWrite(name, category)
}
