package pebble

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/logtest"
)

// A compaction of level 0 that meets damage is repeated with pauses that grow, and reported
// once. Flushes do not wait for it.
func TestCompactionOfDamagedTableIsRepeatedWithPauses(t *testing.T) {
	mem := vfs.NewMem()
	e := mustOpen(t, Options{FS: mem, Dir: "d", IdleFlush: -1})
	fill(t, e, 500)
	if err := errors.Join(e.db.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	flip(t, mem, newest(t, mem, ".sst"), func(size int) int { return size / 2 })
	var log logtest.Log
	e = mustOpen(t, Options{FS: mem, Dir: "d", IdleFlush: -1, Log: log.Logger()})
	defer e.Close()
	flushAround := func() { // a table whose keys are before and after those of the damaged one
		t.Helper()
		if err := errors.Join(set(e, "a", []byte("v")), set(e, "z", []byte("v")), e.db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	flushAround()
	const attempts = 6
	eventually(t, "compactions fail", func() bool { return e.Damage().Compactions >= attempts })
	if passed, least := time.Since(began), (1+2+4+8+16)*minFailurePause; passed < least {
		t.Errorf("%d compactions failed within %v, and their pauses are %v", attempts, passed, least)
	}
	if d := e.Damage(); d.Files != 1 {
		t.Errorf("the damage is %+v", d)
	}
	for _, text := range []string{"stored data is corrupt", "background error"} {
		if n := strings.Count(log.String(), text); n != 1 {
			t.Errorf("%q is logged %d times", text, n)
		}
	}
	if e.disk.failures.pausing() {
		t.Error("flushes wait")
	}
	flushAround()
}
