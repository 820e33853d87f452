package standby

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// A new copy that cannot be opened at first is opened later, and not made again. The standby can be
// promoted as soon as it can be opened, and otherwise remains a standby.
func TestCopyThatCannotBeOpened(t *testing.T) {
	for _, hadCopy := range []bool{false, true} {
		for _, promotes := range []bool{false, true} {
			t.Run(fmt.Sprintf("had a copy %v, promotes %v", hadCopy, promotes), func(t *testing.T) {
				failToOpen(t, hadCopy, promotes)
			})
		}
	}
}

func failToOpen(t *testing.T, hadCopy, promotes bool) {
	dir := filepath.Join(t.TempDir(), "data")
	if hadCopy {
		writeDir(t, dir, "id")
	}
	server := newScripted()
	o := optionsFor(dir, server)
	var fails atomic.Bool
	o.Engine.FS = disktest.Inject(vfs.Default, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && op.Path == filepath.Join(dir, "stator.pid") && fails.Load() {
			return syscall.EMFILE
		}
		return nil
	})
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	<-server.copied
	fails.Store(true)
	close(server.send)
	for !strings.Contains(f.Status().Error, syscall.EMFILE.Error()) {
		time.Sleep(time.Millisecond)
	}
	if promotes {
		if _, err := f.Promote(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("Promote: %v", err)
		}
	}
	fails.Store(false)
	if !promotes {
		for f.Status().State != Following {
			time.Sleep(time.Millisecond)
		}
	}
	e, err := f.Promote()
	if err != nil {
		t.Fatal(err)
	}
	if f.state.Slot != "new" || server.copies.Load() != 1 {
		t.Errorf("the copy of slot %q is promoted after %d copies", f.state.Slot, server.copies.Load())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
