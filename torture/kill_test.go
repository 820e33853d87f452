package torture

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// loadTime is how long a server works before it is killed.
const loadTime = 250 * time.Millisecond

// killTime is longer in the long form, in which each kill should meet thousands of writes.
func killTime() time.Duration {
	if *long {
		return 3 * loadTime
	}
	return loadTime
}

// After a kill -9 all acknowledged writes exist, transactions are atomic and
// applied once, indexes agree with items, and replaying the stream gives the
// items.
func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	g := newRig(t)
	var data string
	var s *process
	var all []*worker
	const perFolder = 20 // the whole stream is read after each folder
	for n := range g.rounds(4) {
		if n%perFolder == 0 {
			if s != nil {
				g.count("records", checkStream(t, s.door, g.Int()))
				s.kill()
			}
			data = filepath.Join(t.TempDir(), "data")
			s = start(t, data, "--log=error")
			createWork(t, s.door)
			all = crew(workers, g.Uint64())
		}
		work(all, s.door, func() { time.Sleep(killTime()); s.kill() })
		if n%4 == 3 {
			if out, err := verify(t, data); err != nil {
				t.Errorf("verify: %v\n%s", err, out)
			}
			g.count("scrubs", 1)
		}
		s = start(t, data, "--log=error")
		g.count("items written", itemsAcked(all))
		acked, faults := settleAll(t, all, s.door)
		g.count("kills", 1)
		g.count("acknowledged", acked)
		reportFaults(t, faults)
	}
	g.count("records", checkStream(t, s.door, g.Int()))
}

// The control: losses are found when writes are acknowledged before they are
// on disk.
func TestKillRigFindsLosses(t *testing.T) {
	g := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	s := start(t, data, "--log=error", "--durability=relaxed")
	createWork(t, s.door)
	all := crew(workers, g.Uint64())
	for range 20 {
		work(all, s.door, func() { time.Sleep(loadTime); s.kill() })
		s = start(t, data, "--log=error", "--durability=relaxed")
		g.count("kills", 1)
		if lostTable(t, s.door) {
			g.count("tables lost", 1)
			return // and all acknowledged writes with it
		}
		acked, faults := settleAll(t, all, s.door)
		g.count("acknowledged", acked)
		if g.count("faults", len(faults)); len(faults) > 0 {
			return
		}
	}
	t.Error("nothing was lost although writes did not wait for the disk")
}

// lostTable reports whether the table of the workers does not exist.
func lostTable(t testing.TB, d door) bool {
	t.Helper()
	err := d.call("DescribeTable", object{"TableName": "Work"}, nil)
	if err != nil && !strings.Contains(err.Error(), "ResourceNotFoundException") {
		t.Fatal(err)
	}
	return err != nil
}

// The control finds a loss too when the table itself is lost: on a busy machine the
// server may be killed before the log of a relaxed server reaches the disk at all.
func TestLostTableIsFound(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	if !lostTable(t, s.door) {
		t.Error("a table that was never created is not lost")
	}
	createWork(t, s.door)
	if lostTable(t, s.door) {
		t.Error("a table that exists is lost")
	}
	s.kill()
}
