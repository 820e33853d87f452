package walguard

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const walName = "000007.log"

func noWait(try func() error) error { return try() }

// newFS guards a folder in memory. Failures are appended to failed.
func newFS(below vfs.FS, marks *SyncMarks, failed *[]string) *FS {
	return &FS{FS: below, Marks: marks, WaitForSpace: noWait, Failed: func(doing, name string, _ error) {
		*failed = append(*failed, doing+" "+name)
	}}
}

// writeWAL writes and syncs records to a WAL file, and returns its size.
func writeWAL(t *testing.T, fs vfs.FS, records int) int64 {
	t.Helper()
	f, err := fs.Create(walName, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	w := record.NewWriter(f)
	for i := range records {
		if _, err := w.WriteRecord(fmt.Appendf(nil, "record %d, of more bytes than the header of a chunk", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	size := w.Size()
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return size
}

// A WAL file that was truncated below its sync mark is not opened, also when the marks
// were read again. Without marks it is.
func TestTruncatedWALIsCorrupt(t *testing.T) {
	for _, c := range []struct {
		name    string
		reopen  bool
		marks   bool
		corrupt bool
	}{
		{"marks", false, true, true},
		{"marks that were read again", true, true, true},
		{"control: no marks", false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, log := vfs.NewMem(), slog.New(slog.DiscardHandler)
			marks := new(SyncMarks)
			if c.marks {
				marks = OpenMarks(mem, "", log)
			}
			var failed []string
			size := writeWAL(t, newFS(mem, marks, &failed), 100)
			if c.reopen {
				if err := marks.Close(); err != nil {
					t.Fatal(err)
				}
				marks = OpenMarks(mem, "", log)
			}
			guarded := newFS(mem, marks, &failed)
			if f, err := guarded.Open(walName); err != nil {
				t.Fatalf("the whole file: %v", err)
			} else {
				_ = f.Close()
			}
			data, err := mem.UnsafeGetFileDataBuffer(walName)
			if err != nil {
				t.Fatal(err)
			}
			clear(data[size/2:])
			_, err = guarded.Open(walName)
			if pebble.IsCorruptionError(err) != c.corrupt || (err != nil) != c.corrupt {
				t.Errorf("the damaged file: %v, want corrupt: %v", err, c.corrupt)
			}
			if len(failed) > 0 {
				t.Errorf("failures: %q", failed)
			}
		})
	}
}

// The oldest WAL file gives its slot to a new one.
func TestSlotsAreReused(t *testing.T) {
	marks := OpenMarks(vfs.NewMem(), "", slog.New(slog.DiscardHandler))
	seen := make(map[int]uint64)
	for n := uint64(1); n <= 3*MaxWALs; n++ {
		slot := marks.slot(n)
		if old := seen[slot]; n > MaxWALs && old != n-MaxWALs {
			t.Errorf("file %d takes the slot of file %d", n, old)
		}
		seen[slot] = n
	}
}

// Failures of guarded files are reported, of other files not.
func TestFailuresAreReported(t *testing.T) {
	below := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate {
			return errorfs.ErrInjected
		}
		return nil
	}))
	var failed []string
	fs := newFS(below, new(SyncMarks), &failed)
	for _, name := range []string{walName, "MANIFEST-000001", "000001.sst"} {
		if _, err := fs.Create(name, vfs.WriteCategoryUnspecified); !errors.Is(err, errorfs.ErrInjected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := fmt.Sprint(failed); got != "[create "+walName+" create MANIFEST-000001]" {
		t.Errorf("failures: %s", got)
	}
}

// Guarded files wait for space, and a write that was partly done continues where it was.
func TestWaitsForSpace(t *testing.T) {
	refuse := 2
	below := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite) && refuse > 0 {
			refuse--
			return syscall.ENOSPC
		}
		return nil
	}))
	var failed []string
	fs := newFS(below, new(SyncMarks), &failed)
	fs.WaitForSpace = func(try func() error) error {
		for {
			if err := try(); !errors.Is(err, syscall.ENOSPC) {
				return err
			}
		}
	}
	for _, name := range []string{walName, "MANIFEST-000001"} {
		refuse = 2
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		refuse = 2
		if n, err := f.Write([]byte("text")); n != 4 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		_ = f.Close()
	}
	if len(failed) > 0 {
		t.Errorf("failures: %q", failed)
	}
}

// After a crash the folder has each manifest that a marker names, whichever names that were
// not synced the disk has kept. The control is a disk that is not guarded.
func TestMarkerIsNotKeptWithoutItsManifest(t *testing.T) {
	const manifest, marker = "d/MANIFEST-000007", "d/marker.manifest.000001.MANIFEST-000007"
	for _, guarded := range []bool{true, false} {
		lost := false
		for seed := range uint64(40) {
			disk := vfs.NewCrashableMem()
			if err := disk.MkdirAll("d", 0o700); err != nil {
				t.Fatal(err)
			}
			var fs vfs.FS = disk
			var failed []string
			if guarded {
				fs = newFS(disk, new(SyncMarks), &failed)
			}
			for _, name := range []string{manifest, marker} {
				f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(f.Sync(), f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			left := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(seed, 0))})
			_, hasMarker := left.Stat(marker)
			_, hasManifest := left.Stat(manifest)
			lost = lost || hasMarker == nil && hasManifest != nil
			if len(failed) > 0 {
				t.Errorf("failed: %v", failed)
			}
		}
		if lost == guarded {
			t.Errorf("guarded %v: a marker is kept without its manifest: %v", guarded, lost)
		}
	}
}
