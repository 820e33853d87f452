package pebble

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// heldSpace is a file without contents that has space allocated, which no other program
// can use. Its removal gives the space to the database.
type heldSpace struct {
	fs   vfs.FS
	path string

	mu          sync.Mutex
	size        atomic.Uint64
	unsupported bool
}

const reserveName = "stator.reserve"

// bytes returns how much is held.
func (h *heldSpace) bytes() uint64 { return h.size.Load() }

// hold allocates space. Where the file system cannot do that, nothing is held.
func (h *heldSpace) hold(bytes uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unsupported || h.size.Load() > 0 {
		return
	}
	f, err := h.fs.Create(h.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return // it is tried again
	}
	if f.Fd() == vfs.InvalidFd {
		h.unsupported = true
	} else if err := allocate(f.Fd(), int64(bytes)); err == nil {
		h.size.Store(bytes)
	} else {
		h.unsupported = isUnsupported(err)
	}
	_ = f.Close()
	if h.size.Load() == 0 {
		_ = h.fs.Remove(h.path)
	}
}

// release gives the space back. It reports whether there was some.
func (h *heldSpace) release() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.fs.Remove(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		h.size.Store(0)
	}
	return err == nil && h.size.Swap(0) > 0
}

// check looks whether the file is still there: an operator may have removed it.
func (h *heldSpace) check() {
	if h.size.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.fs.Stat(h.path); errors.Is(err, fs.ErrNotExist) {
		h.size.Store(0)
	}
}
