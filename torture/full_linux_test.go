package torture

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// On a full disk writes are rejected soon and with a message, reads are
// served, and writes resume by themselves when there is space again.
func TestFullDiskRefusesWritesOnly(t *testing.T) {
	for _, c := range []struct {
		name string
		left int64 // free bytes on the disk
		idle bool  // no writes while it fills up
	}{
		{"less is left than is kept in reserve", 8 << 20, false}, {"nothing is left", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			dir := newTmpfs(t, "256m")
			g.goal("MB of disk", 64, diskMegabytes(t, dir), false)
			data := filepath.Join(dir, "data")
			s := start(t, data, "--log=error", "--backups", t.TempDir())
			createWork(t, s.door)
			all := crew(8, g.Uint64())
			for range g.rounds(1) {
				// The control: with free space they are not rejected.
				for _, w := range all {
					w.door = s.door
					for range 2 {
						if !w.step() {
							t.Fatalf("a write is rejected with free space: %v", w.faults)
						}
					}
				}
				if c.idle {
					time.Sleep(time.Second)
				}
				began := time.Now()
				full := keepFull(t, dir, c.left)
				if !c.idle {
					work(all, s.door, func() {})
				}
				for putOne(s.door) == nil {
					if time.Since(began) > 30*time.Second {
						t.Fatal("writes are not rejected")
					}
				}
				g.count("ms in total until all were rejected", int(time.Since(began).Milliseconds()))
				began = time.Now()
				if err := putOne(s.door); err == nil || !strings.Contains(err.Error(), "disk is almost full") {
					t.Errorf("a write returns %v", err)
				}
				g.count("ms in total for one rejected write", int(time.Since(began).Milliseconds()))
				for _, w := range all {
					found, err := w.read()
					if err != nil {
						t.Fatalf("a read on a full disk: %v", err)
					}
					if _, ok := w.expectation().fits(found); !ok {
						t.Errorf("%s has %v, after %s", w.name, found, w.expectation())
					}
				}
				if !s.alive() {
					t.Fatalf("the server has ended\n%s", s.log())
				}

				full()
				began = time.Now()
				for putOne(s.door) != nil {
					if time.Since(began) > 30*time.Second {
						t.Fatalf("writes do not resume\n%s", s.log())
					}
					time.Sleep(20 * time.Millisecond)
				}
				g.count("ms in total until writes resumed", int(time.Since(began).Milliseconds()))
				acked, faults := settleAll(t, all, s.door)
				g.count("acknowledged", acked)
				reportFaults(t, faults)
				g.count("times full", 1)
			}
			s.kill()
			s = start(t, data, "--log=error", "--backups", t.TempDir())
			_, faults := settleAll(t, all, s.door)
			reportFaults(t, faults)
			g.count("records", checkStream(t, s.door, g.Int()))
			s.kill()
		})
	}
}

// A server starts on a full disk, or reports why it does not.
func TestServerStartsOnAFullDisk(t *testing.T) {
	g := newRig(t)
	dir := newTmpfs(t, "64m")
	data := filepath.Join(dir, "data")
	s := start(t, data, "--log=error", "--backups", t.TempDir())
	createWork(t, s.door)
	all := crew(8, g.Uint64())
	full := keepFull(t, dir, 1<<20)
	work(all, s.door, func() {})
	s.kill()
	s, err := tryStart(t, data, "--log=error", "--backups", t.TempDir())
	full()
	if errors.Is(err, errHangs) {
		t.Fatalf("%.2000s", err)
	}
	if err != nil {
		s = start(t, data, "--log=error", "--backups", t.TempDir()) // there is space now
	}
	for end := time.Now().Add(30 * time.Second); putOne(s.door) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("writes do not resume")
		}
	}
	_, faults := settleAll(t, all, s.door)
	reportFaults(t, faults)
	s.kill()
}

func putOne(d door) error {
	return d.call("PutItem", object{"TableName": "Work", "Item": object{"p": text("other"), "k": num(1)}}, nil)
}

// keepFull fills a disk, and again whenever something is removed, until free
// is called.
func keepFull(t testing.TB, dir string, left int64) (free func()) {
	t.Helper()
	file := filepath.Join(dir, "ballast")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer f.Close()
		for {
			fillUp(t, f, left)
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		<-stopped
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

// newTmpfs mounts a small file system in memory, or skips the test.
func newTmpfs(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk needs root: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
	return dir
}

// fillUp writes to a file until left bytes are free on its disk.
func fillUp(t testing.TB, f *os.File, left int64) {
	for {
		var is syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &is); err != nil {
			t.Error(err)
			return
		}
		more := int64(is.Bavail)*is.Bsize - left
		if more <= 0 {
			return
		}
		_, err := f.Write(make([]byte, min(more, 1<<20)))
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// diskMegabytes returns the size of the file system of a folder.
func diskMegabytes(t testing.TB, dir string) float64 {
	t.Helper()
	var is syscall.Statfs_t
	if err := syscall.Statfs(dir, &is); err != nil {
		t.Fatal(err)
	}
	return float64(int64(is.Blocks)*is.Bsize) / (1 << 20)
}
