package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// A crash of the machine at any moment, after which any part of the unsynced
// data is on disk, loses no acknowledged write and leaves no partial one.
func TestCrashLosesNoAcknowledgedWrite(t *testing.T) {
	g := newRig(t)
	for n := range g.rounds(12) {
		acked, records, faults := crash(g, uint64(n), pebble.Durable)
		g.count("crashes", 1)
		g.count("acknowledged", acked)
		g.count("records", records)
		reportFaults(t, faults)
	}
}

// The control: losses are found when writes do not wait for the disk.
func TestCrashRigFindsLosses(t *testing.T) {
	g := newRig(t)
	for n := range 20 {
		_, _, faults := crash(g, uint64(n), pebble.Relaxed)
		g.count("crashes", 1)
		if g.count("faults", len(faults)); len(faults) > 0 {
			return
		}
	}
	t.Error("nothing was lost although writes did not wait for the disk")
}

const crashWorkers = 8

var errCrashed = errors.New("the machine has crashed")

// crash runs workers, takes the content of the disk at some moment, and
// compares it with what had been acknowledged to the workers before.
func crash(g *rig, n uint64, durability pebble.Durability) (acked, records int, faults []string) {
	g.Helper()
	r := rand.New(rand.NewPCG(g.seed, n))
	mem := disktest.NewCrashable()
	var syncTime atomic.Int64 // zero until the table exists
	slow := disktest.Inject(mem, func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData:
			time.Sleep(time.Duration(syncTime.Load()))
		}
		return nil
	})
	h, err := open(slow, "d", durability, quiet)
	if err != nil {
		g.Fatal(err)
	}
	createWork(g, h.door)
	if err := h.engine.DeleteRange(g.Context(), []byte{0xfe}, []byte{0xfe, 0}); err != nil { // syncs relaxed writes too
		g.Fatal(err)
	}
	syncTime.Store(int64(time.Duration(r.IntN(1500)) * time.Microsecond))

	var crashed atomic.Bool
	all := crew(crashWorkers, g.seed+n)
	before := make([]expectation, len(all))
	var left vfs.FS
	work(all, func(target string, body []byte) (int, []byte, error) {
		if crashed.Load() {
			return 0, nil, errCrashed
		}
		return h.door(target, body)
	}, func() {
		time.Sleep(time.Duration(2+r.IntN(30)) * time.Millisecond)
		for i, w := range all {
			before[i] = w.expectation() // later acknowledgements do not count
		}
		left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 50, 100}[r.IntN(4)], RNG: r})
		crashed.Store(true)
	})
	if err := h.close(); err != nil {
		g.Errorf("close: %v", err)
	}

	h, err = open(left, "d", durability, quiet)
	if err != nil {
		g.Fatalf("open after crash %d: %v", n, err)
	}
	defer h.close()
	if h.call("DescribeTable", object{"TableName": "Work"}, nil) != nil {
		return 0, 0, []string{"the table is lost"}
	}
	for i, w := range all {
		faults = append(faults, w.faults...)
		w.door = h.door
		found, err := w.read()
		if err != nil {
			g.Fatal(err)
		}
		expected := w.expectation() // with all requested changes
		expected.acked = before[i].acked
		acked += expected.acked
		if _, ok := expected.fits(found); !ok {
			faults = append(faults, fmt.Sprintf("crash %d: %s has %v, after %s", n, w.name, found, expected))
		}
	}
	h.expectSound(g)
	stream := streamOf(g, h.door)
	return acked, len(stream), append(faults, replay(stream, present(g, h.door))...)
}
