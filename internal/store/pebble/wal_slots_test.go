package pebble

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// However many WAL files wait for a flush, each has a mark: Open reports any of them that is
// missing.
func TestEachWALHasAMark(t *testing.T) {
	const wals = 22 // as many as Pebble allows before writes wait
	release := make(chan struct{})
	crashable := disktest.NewCrashable()
	disk := disktest.Inject(crashable, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-release
		}
		return nil
	})
	e := mustOpen(t, Options{FS: disk, Dir: "d", IdleFlush: -1})
	for n := range wals {
		if err := set(e, fmt.Sprint("key ", n), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if _, err := e.db.AsyncFlush(); err != nil {
			t.Fatal(err)
		}
	}
	killed := crashable.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	close(release)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	names := filesOf(t, killed, "*.log")
	if len(names) < wals {
		t.Fatalf("there are %d WAL files", len(names))
	}
	for _, name := range append(names[:wals:wals], "") {
		mem := cloneFolder(t, &agedFolder{disk: killed})
		if name != "" {
			if err := mem.Remove("d/" + name); err != nil {
				t.Fatal(err)
			}
		}
		e, err := Open(Options{FS: mem, Dir: "d"})
		if (name != "") != errors.Is(err, store.ErrCorrupt) {
			t.Errorf("without %q: %v", name, err)
		}
		if err == nil {
			_ = e.Close()
		}
	}
}

// Pebble waits when the capacities of memtables and large batches reach its limit. The first
// memtables are smaller, each half as large as the next, and a batch that is written by
// itself has at least about half of a memtable.
func TestMarksAreEnoughForPebble(t *testing.T) {
	small := 0
	for bytes := maxMemtableBytes; bytes > 256<<10; bytes /= 2 {
		small++
	}
	if most := small + 2*pebbleFactor*maxMemtables + 2; most > walguard.MaxWALs {
		t.Errorf("there may be %d WAL files, but only %d have marks", most, walguard.MaxWALs)
	}
}
