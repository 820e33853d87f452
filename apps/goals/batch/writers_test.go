package batch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gocloud.dev/blob/fileblob"

	"github.com/stator-db/stator/apps/goals"
)

// A run that fails in the stage of the rewards leaves neither open files nor temporary
// ones in the state, which the schedule would repeat every five minutes.
func TestFailedRewardsLeaveNoFiles(t *testing.T) {
	b := newBank(t)
	folder := t.TempDir()
	state, err := fileblob.OpenBucket(folder, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.options.State.Close(); err != nil {
		t.Fatal(err)
	}
	b.options.State = state
	b.saving("2026-04-30", 50000, 50000)
	count := func() int {
		files, err := filepath.Glob(filepath.Join(folder, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if open, err := os.ReadDir("/proc/self/fd"); err == nil { // on Linux
			for _, f := range open {
				if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && filepath.Dir(filepath.Dir(name)) == folder {
					t.Errorf("%s is open", name)
				}
			}
		}
		return len(files)
	}
	first := 0
	for i := range 3 {
		if _, err := b.run("2026-04-30", func(o *Options) {
			o.Reward = func(context.Context, []goals.Reward) error { return errors.New("Kafka does not respond") }
		}); err == nil {
			t.Fatal("the run is finished")
		}
		if n := count(); i == 0 {
			first = n
		} else if n != first {
			t.Errorf("after run %d: %d files, want %d", i+1, n, first)
		}
	}
}
