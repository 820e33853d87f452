package pebble

import (
	"errors"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// When marks cannot be written while the database is open, they do not stay as they are: the
// edits that follow would not be protected by them, and their tables would be deleted if the
// manifest is damaged there. The control keeps the file of marks.
func TestManifestIsProtectedAfterMarksFailed(t *testing.T) {
	for _, kept := range []bool{false, true} {
		mem := withFolder(t, vfs.NewMem())
		var failing atomic.Bool
		var log logtest.Log
		disk := disktest.Inject(mem, func(op errorfs.Op) error {
			if failing.Load() && path.Base(op.Path) == walguard.MarksName && (op.Kind == errorfs.OpFileWriteAt || kept && op.Kind == errorfs.OpRemove) {
				return errorfs.ErrInjected
			}
			return nil
		})
		e := mustOpen(t, Options{FS: disk, Dir: "d", IdleFlush: -1, Log: log.Logger(), Now: func() time.Time { return time.Unix(1, 0) }})
		if err := errors.Join(set(e, "b", []byte("1")), e.db.Flush()); err != nil {
			t.Fatal(err)
		}
		manifests := filesOf(t, mem, "MANIFEST-*")
		name := "d/" + manifests[len(manifests)-1]
		marked := len(readFile(t, mem, name))
		failing.Store(true)
		// The keys of both tables do not overlap, so they are not compacted.
		if err := errors.Join(set(e, "a", []byte("2")), e.db.Flush(), e.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "cannot record how far") {
			t.Errorf("the log is %s", log.String())
		}
		b := readFile(t, mem, name)
		b[marked+20] ^= 1
		write(t, mem, name, b)
		e, err := Open(Options{FS: mem, Dir: "d"})
		if refused := errors.Is(err, store.ErrCorrupt); refused == kept || kept && err != nil {
			t.Errorf("with marks that are kept: %v: %v", kept, err)
		}
		if err == nil {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
