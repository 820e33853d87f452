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

// A power cut loses no acknowledged write, on either of two file systems.
func TestPowerCutLosesNoAcknowledgedWrite(t *testing.T) {
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
						before[i] = w.expectation().acked
					}
					disk.cut()
					s.kill()
				})
				for i, w := range all {
					// A machine without power acknowledges nothing. Here the
					// server runs for a moment longer, in which a sync in
					// flight may return success.
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
				reportFaults(t, faults)
			}
			g.count("records", checkStream(t, s.door, g.Int()))
			s.kill()
		})
	}
}

// The control: a cut does lose writes that did not wait for the disk.
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
			t.Error("nothing was lost although writes did not wait for the disk")
		})
	}
}

// disk is a file system in a file.
type disk struct {
	t     testing.TB
	image string
	dir   string
}

const diskBytes = 512 << 20 // a sparse file

// newDisk creates and mounts a disk, or skips the test where that is
// impossible.
func newDisk(t testing.TB, kind string) *disk {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs." + kind)
	if os.Getuid() != 0 || err != nil {
		t.Skipf("the power cut rig needs root and mkfs.%s (package e2fsprogs or xfsprogs)", kind)
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
		t.Skipf("the power cut rig needs loop devices: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", d.dir).Run() })
	return d
}

// cut shuts the file system down at once. Unwritten data, its own journal
// included, is lost.
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
		d.t.Errorf("the file system cannot be shut down: %v", errno)
	}
}

// remount mounts the disk again, like a reboot.
func (d *disk) remount() {
	d.t.Helper()
	for _, args := range []string{"umount " + d.dir, "mount -o loop " + d.image + " " + d.dir} {
		var out []byte
		var err error
		for range 50 { // a loop device is released shortly after its user ends
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
