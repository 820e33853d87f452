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

// A crash of the machine at any moment, after which some or none of what was
// not synced is on disk, takes nothing back and leaves no halves.
func TestCrashTakesNothingBack(t *testing.T) {
	g := newRig(t)
	for n := range g.rounds(12) {
		acked, records, faults := crash(g, uint64(n), pebble.Durable)
		g.count("crashes", 1)
		g.count("acknowledged", acked)
		g.count("records", records)
		complain(t, faults)
	}
}

// The control: what was not waited for is found to be lost.
func TestCrashRigFindsLosses(t *testing.T) {
	g := newRig(t)
	for n := range 20 {
		_, _, faults := crash(g, uint64(n), pebble.Relaxed)
		g.count("crashes", 1)
		if g.count("faults", len(faults)); len(faults) > 0 {
			return
		}
	}
	t.Error("nothing was lost although nothing was waited for")
}

const crashWorkers = 8

var errCrashed = errors.New("the machine has crashed")

// crash lets some work, takes what the disk holds at some moment, and compares
// that with what the workers had been told before.
func crash(g *rig, n uint64, durability pebble.Durability) (acked, records int, faults []string) {
	g.Helper()
	r := rand.New(rand.NewPCG(g.seed, n))
	mem := disktest.NewCrashable()
	var syncTime atomic.Int64 // none until the table is there
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
	if err := h.engine.DeleteRange(g.Context(), []byte{0xfe}, []byte{0xfe, 0}); err != nil { // a sync, also of what was relaxed
		g.Fatal(err)
	}
	syncTime.Store(int64(time.Duration(r.IntN(1500)) * time.Microsecond))

	var crashed atomic.Bool
	all := crew(crashWorkers, g.seed+n)
	before := make([]told, len(all))
	var left vfs.FS
	work(all, func(target string, body []byte) (int, []byte, error) {
		if crashed.Load() {
			return 0, nil, errCrashed
		}
		return h.door(target, body)
	}, func() {
		time.Sleep(time.Duration(2+r.IntN(30)) * time.Millisecond)
		for i, w := range all {
			before[i] = w.told() // what is told from here on does not count
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
		told := w.told() // with all that was asked for
		told.acked = before[i].acked
		acked += told.acked
		if _, ok := told.fits(found); !ok {
			faults = append(faults, fmt.Sprintf("crash %d: %s has %v, after %s", n, w.name, found, told))
		}
	}
	h.expectSound(g)
	stream := streamOf(g, h.door)
	return acked, len(stream), append(faults, replay(stream, present(g, h.door))...)
}
