package walguard

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const (
	dir       = "d"
	marksPath = dir + "/" + MarksName
)

// session is what Pebble does with its manifests while a folder is open.
type session struct {
	t     *testing.T
	fs    *FS
	marks *SyncMarks
}

// openSession checks a folder, as the engine does before Pebble opens it.
func openSession(t *testing.T, disk vfs.FS) (*session, Manifest, error) {
	t.Helper()
	marks := OpenMarks(disk, dir, slog.New(slog.DiscardHandler))
	m, err := marks.CheckFolder(disk, dir)
	if err != nil {
		return nil, m, errors.Join(err, marks.Close())
	}
	return &session{t, newFS(disk, marks, new([]string)), marks}, m, nil
}

func mustOpenSession(t *testing.T, disk vfs.FS) *session {
	t.Helper()
	s, _, err := openSession(t, disk)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writeManifest creates a manifest with some edits, and syncs it once.
func (s *session) writeManifest(name string, edits ...string) {
	s.t.Helper()
	f, err := s.fs.Create(dir+"/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		s.t.Fatal(err)
	}
	w := record.NewWriter(f)
	for _, edit := range edits {
		if _, err := w.WriteRecord([]byte(edit)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// setCurrent makes a manifest the current one.
func (s *session) setCurrent(name string) {
	s.t.Helper()
	marker, _, err := atomicfs.LocateMarker(s.fs, dir, manifestMarker)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(marker.Move(name), marker.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// replaceLostManifest returns a folder whose manifest 2 has the number of one that a power
// failure removed, together with its mark. The mark is not replaced if the operations of the
// second session on the file of marks fail.
func replaceLostManifest(t *testing.T, failing ...errorfs.OpKind) (*vfs.MemFS, error) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := mem.OpenDir("/")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		t.Fatal(err)
	}
	s := mustOpenSession(t, mem)
	s.writeManifest("MANIFEST-000001", "the first edit")
	s.setCurrent("MANIFEST-000001")
	s.writeManifest("MANIFEST-000002", "an edit that is lost")
	mem = mem.CrashClone(vfs.CrashCloneCfg{}) // before the folder was synced
	if names, err := mem.List(dir); err != nil || slices.Contains(names, "MANIFEST-000002") {
		t.Fatalf("the folder has %v, %v", names, err)
	}
	s, _, err = openSession(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Path == marksPath && slices.Contains(failing, op.Kind) {
			return errorfs.ErrInjected
		}
		return nil
	})))
	if err != nil {
		return mem, err
	}
	s.writeManifest("MANIFEST-000002", "another edit, of another length")
	s.setCurrent("MANIFEST-000002")
	return mem.CrashClone(vfs.CrashCloneCfg{}), nil
}

// The mark of a manifest that never became the current one says nothing about a later one
// with its number, also if the file of marks could not be opened, read, written or synced.
func TestMarkOfLostManifestIsDropped(t *testing.T) {
	for _, c := range []struct {
		name     string
		failing  []errorfs.OpKind
		verified bool
	}{
		{"nothing fails", nil, true},
		{"open fails", []errorfs.OpKind{errorfs.OpOpen}, false},
		{"read fails", []errorfs.OpKind{errorfs.OpFileReadAt}, false},
		{"write fails", []errorfs.OpKind{errorfs.OpFileWriteAt}, false},
		{"sync fails", []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, err := replaceLostManifest(t, c.failing...)
			if err != nil {
				t.Fatal(err)
			}
			_, m, err := openSession(t, mem)
			if err != nil || m.Verified != c.verified || !m.Whole {
				t.Errorf("%+v, %v, want verified: %v", m, err, c.verified)
			}
		})
	}
}

// Marks that can be neither replaced nor removed would be wrong later, so the folder is not
// opened.
func TestMarksThatCannotBeRemovedAreReported(t *testing.T) {
	_, err := replaceLostManifest(t, errorfs.OpFileWriteAt, errorfs.OpRemove)
	if !errors.Is(err, errorfs.ErrInjected) || pebble.IsCorruptionError(err) || !strings.Contains(err.Error(), MarksName) {
		t.Errorf("got %v", err)
	}
}

// Damage to a manifest that was synced once is reported, however it was opened before.
func TestDamageToManifestThatWasSyncedOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"a flipped bit", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		{"without its last edit", func(b []byte) []byte { return b[:len(b)-len("the second edit")-7] }},
		{"empty", func([]byte) []byte { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			if err := mem.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s := mustOpenSession(t, mem)
			const name = "MANIFEST-000001"
			s.writeManifest(name, "the first edit", "the second edit")
			s.setCurrent(name)
			if err := s.marks.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := mem.UnsafeGetFileDataBuffer(dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			b = c.damage(slices.Clone(b))
			f, err := mem.Create(dir+"/"+name, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, _, err := openSession(t, mem); !pebble.IsCorruptionError(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
