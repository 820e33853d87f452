package pebble

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// Tables that the manifest does not name are kept if no mark proves that the manifest is as
// it was written. They are deleted if one does.
func TestUnknownTablesAreKept(t *testing.T) {
	aged := agedFolders(t, Options{}, 1)[2]
	for _, c := range []struct {
		name string
		// lose changes the marks.
		lose func(marks []byte) []byte
		kept bool
	}{
		{"marks", func(b []byte) []byte { return b }, false},
		{"one damaged copy", func(b []byte) []byte { b[512] ^= 1; return b }, false},
		{"two damaged copies", func(b []byte) []byte { b[512+7] ^= 1; b[1024+9] ^= 1; return b }, true},
		{"marks of WAL files only", func(b []byte) []byte { return b[:512] }, true},
		{"no marks", func([]byte) []byte { return nil }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := cloneFolder(t, &aged)
			tables := filesOf(t, mem, "*.sst")
			for _, name := range []string{"000900.sst", "000901.sst"} {
				write(t, mem, "d/"+name, readFile(t, mem, "d/"+tables[0]))
			}
			marks := "d/" + walguard.MarksName
			write(t, mem, marks, c.lose(readFile(t, mem, marks)))
			var log logtest.Log
			e := mustOpen(t, Options{FS: mem, Dir: "d", Log: log.Logger()})
			if outcome := aged.read(e); outcome != "without effect" {
				t.Error(outcome)
			}
			if err := set(e, "k", []byte("v")); err != nil {
				t.Error(err)
			}
			if err := errors.Join(e.db.Flush(), e.Close()); err != nil {
				t.Error(err)
			}
			names, _ := mem.List("d/" + quarantineDir)
			slices.Sort(names)
			if kept := slices.Equal(names, []string{"000900.sst", "000901.sst"}); kept != c.kept {
				t.Errorf("the quarantine has %v", names)
			}
			if warned := strings.Contains(log.String(), "000900.sst"); warned != c.kept {
				t.Errorf("the log is %s", log.String())
			}
			if got := len(readFile(t, mem, marks)); got != 3072 {
				t.Errorf("the file of marks has %d bytes", got)
			}
		})
	}
}

// A table in the quarantine is not overwritten.
func TestQuarantineKeepsAll(t *testing.T) {
	mem := withFolder(t, vfs.NewMem())
	for range 3 {
		write(t, mem, "d/000007.sst", []byte("x"))
		if err := moveTables(mem, "d", []string{"000007.sst"}); err != nil {
			t.Fatal(err)
		}
	}
	names, err := mem.List("d/" + quarantineDir)
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"000007.sst", "000007.sst.2", "000007.sst.3"}) {
		t.Errorf("%v, %v", names, err)
	}
}

// A flipped bit in a manifest without a mark, as of an older version, is refused as well.
func TestDamagedManifestWithoutMarkIsRefused(t *testing.T) {
	aged := agedFolders(t, Options{}, 1)[2]
	manifests := filesOf(t, aged.disk, "MANIFEST-*")
	name := "d/" + manifests[len(manifests)-1]
	refused := 0
	for n := range 40 {
		mem := cloneFolder(t, &aged)
		if err := mem.Remove("d/" + walguard.MarksName); err != nil {
			t.Fatal(err)
		}
		b := readFile(t, mem, name)
		r := rand.New(rand.NewPCG(1, uint64(n)))
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		write(t, mem, name, b)
		e, err := Open(Options{FS: mem, Dir: "d", IdleFlush: -1})
		if err != nil {
			refused++
			continue
		}
		if outcome := aged.read(e); outcome != "without effect" {
			t.Errorf("mutation %d: %s", n, outcome)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if refused < 35 {
		t.Errorf("%d of 40 are refused", refused)
	}
}

// A folder is refused if its marker names a manifest that another one has replaced.
func TestReplacedManifestIsRefused(t *testing.T) {
	aged := agedFolders(t, Options{}, 1)[2]
	mem := cloneFolder(t, &aged)
	manifests, markers := filesOf(t, mem, "MANIFEST-*"), filesOf(t, mem, "marker.manifest.*")
	if len(manifests) < 2 || len(markers) != 1 {
		t.Fatalf("the folder has %v, %v", manifests, markers)
	}
	to := strings.Replace(markers[0], manifests[len(manifests)-1], manifests[0], 1)
	if err := mem.Rename("d/"+markers[0], "d/"+to); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{FS: mem, Dir: "d"})
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "has replaced it") {
		t.Errorf("Open: %v", err)
	}
}

func cloneFolder(t *testing.T, f *agedFolder) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	if _, err := vfs.Clone(f.disk, mem, "d", "d"); err != nil {
		t.Fatal(err)
	}
	return mem
}
