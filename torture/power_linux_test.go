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
	"unsafe"
)

// A power cut takes nothing back that was acknowledged, on either of two file
// systems.
func TestPowerCutTakesNothingBack(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			g := newRig(t)
			disk := newDisk(t, kind)
			data := filepath.Join(disk.dir, "data")
			s := start(t, data, "--log=error")
			createWork(t, s.door)
			all := crew(workers, g.Uint64())
			for n := range g.rounds(2) {
				before := make([]int, len(all))
				work(all, s.door, func() {
					time.Sleep(loadTime)
					for i, w := range all {
						before[i] = w.told().acked
					}
					disk.cut()
					s.kill()
				})
				for i, w := range all {
					// A machine without power acknowledges nothing. Here the
					// server lives on for a moment, in which a sync that was
					// under way may return as if all were well.
					g.count("acknowledged after the cut", w.acked-before[i])
					w.acked = before[i]
				}
				disk.remount()
				if n%8 == 1 {
					if out, err := verify(t, data); err != nil {
						t.Errorf("verify: %v\n%s", err, out)
					}
					g.count("scrubs", 1)
				}
				s = start(t, data, "--log=error")
				acked, faults := settleAll(t, all, s.door)
				g.count("cuts", 1)
				g.count("acknowledged", acked)
				complain(t, faults)
			}
			g.count("records", checkStream(t, s.door, g.Int()))
			s.kill()
		})
	}
}

// The control: a cut does take back what was not waited for.
func TestPowerCutRigFindsLosses(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			g := newRig(t)
			disk := newDisk(t, kind)
			data := filepath.Join(disk.dir, "data")
			for range 5 {
				s := start(t, data, "--log=error", "--durability=relaxed")
				_ = s.call("DeleteTable", object{"TableName": "Work"}, nil)
				createWork(t, s.door)
				all := crew(workers, g.Uint64())
				work(all, s.door, func() { time.Sleep(loadTime); disk.cut(); s.kill() })
				disk.remount()
				s = start(t, data, "--log=error", "--durability=relaxed")
				g.count("cuts", 1)
				if s.call("DescribeTable", object{"TableName": "Work"}, nil) != nil {
					g.count("tables lost", 1)
					s.kill()
					return
				}
				acked, faults := settleAll(t, all, s.door)
				s.kill()
				g.count("acknowledged", acked)
				if g.count("faults", len(faults)); len(faults) > 0 {
					return
				}
			}
			t.Error("nothing was lost although nothing was waited for")
		})
	}
}

// disk is a file system of its own, in a file.
type disk struct {
	t     testing.TB
	image string
	dir   string
}

const diskBytes = 512 << 20 // the file has holes where nothing is

// newDisk makes and mounts a disk, or skips the test where that is impossible.
func newDisk(t testing.TB, kind string) *disk {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs." + kind)
	if os.Getuid() != 0 || err != nil {
		t.Skipf("a disk to cut the power of needs root and mkfs.%s (package e2fsprogs or xfsprogs)", kind)
	}
	dir := t.TempDir()
	d := &disk{t: t, image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "disk")}
	if err := errors.Join(os.Mkdir(d.dir, 0o700), os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, diskBytes)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", d.image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput(); err != nil {
		t.Skipf("a disk to cut the power of needs loop devices: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", d.dir).Run() })
	return d
}

// cut ends the file system at once. What it has not written to the disk yet,
// its own log included, is lost.
func (d *disk) cut() {
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer f.Close()
	const shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN
	noLogFlush := uint32(2)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&noLogFlush))); errno != 0 {
		d.t.Errorf("the disk cannot be cut off: %v", errno)
	}
}

// remount brings the disk back, as a start of the machine would.
func (d *disk) remount() {
	d.t.Helper()
	for _, args := range []string{"umount " + d.dir, "mount -o loop " + d.image + " " + d.dir} {
		var out []byte
		var err error
		for range 50 { // a loop device goes a moment after its user
			words := strings.Fields(args)
			if out, err = exec.Command(words[0], words[1:]...).CombinedOutput(); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			d.t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
}
