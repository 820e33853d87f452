package encrypted

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/stator-db/stator/internal/encryption"
)

func noProgress(int64, int64) {}

// A log that has lost a part is not rewritten: the copy would have filler there that looks as if it
// had been written. The end of a log may be what a crash has left, except that of the current manifest.
func TestDamagedLogIsNotRewritten(t *testing.T) {
	middle := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	end := func(b []byte) []byte { return b[:len(b)-5] }
	for _, c := range []struct {
		name, file string
		damage     func([]byte) []byte
		refused    bool
	}{
		{"undamaged", "000007.log", func(b []byte) []byte { return b }, false},
		{"the middle of a WAL file", "000007.log", middle, true},
		{"the end of a WAL file", "000007.log", end, false},
		{"the middle of the manifest", "MANIFEST-000003", middle, true},
		{"the end of the manifest", "MANIFEST-000003", end, true},
		{"the end of an old manifest", "MANIFEST-000002", end, false},
		{"the middle of an old manifest", "MANIFEST-000002", middle, true},
		{"the end of options", "OPTIONS-000004", end, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, keys := newFolder(t)
			fs := New(mem, keys)
			for i, name := range []string{"000001.sst", "000007.log", "MANIFEST-000002", "MANIFEST-000003", "OPTIONS-000004"} {
				writeParts(t, fs, "d/"+name, 80_000, rand.New(rand.NewPCG(uint64(i), 7)), false)
			}
			marker, _, err := atomicfs.LocateMarker(mem, "d", "manifest")
			if err := errors.Join(err, marker.Move("MANIFEST-000003"), marker.Close()); err != nil {
				t.Fatal(err)
			}
			change(t, mem, c.file, c.damage)
			if err := errors.Join(keys.Rotate(masterKey(t, 1), time.Unix(2, 0)), keys.SetPlain(true)); err != nil {
				t.Fatal(err)
			}
			before := contents(t, mem)
			for what, rewrite := range map[string]func(Progress) error{"encrypt": keys.Encrypt, "decrypt": keys.Decrypt} {
				err := rewrite(noProgress)
				if c.refused != pebble.IsCorruptionError(err) || !c.refused && err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if after := contents(t, mem); c.refused && after != before {
					t.Errorf("%s: files were replaced", what)
				}
			}
		})
	}
}

// contents returns the bytes of all files with content, in their order.
func contents(t *testing.T, mem *vfs.MemFS) string {
	t.Helper()
	files, err := contentFiles(mem, "d")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, f := range files {
		b, err := readSmall(mem, f.path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// A log of which a crash has left a part of the header is empty for all commands, as it is for Open.
func TestPartOfHeader(t *testing.T) {
	for _, size := range []int{encryption.MagicBytes, encryption.HeaderBytes - 1} {
		mem, keys := newFolder(t)
		const name = "d/000007.log"
		writeParts(t, New(mem, keys), name, 100, rand.New(rand.NewPCG(1, 7)), false)
		change(t, mem, "000007.log", func(b []byte) []byte { return b[:size] })
		if s, err := StateOf(mem, "d"); err != nil || len(s.Keys) != 1 || s.Keys[0].Files != 0 {
			t.Errorf("%d bytes: the state is %+v, %v", size, s, err)
		}
		if err := errors.Join(keys.Rotate(masterKey(t, 2), time.Unix(2, 0)), keys.SetPlain(true), keys.Decrypt(noProgress)); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if info, err := mem.Stat(name); err != nil || info.Size() != 0 {
			t.Errorf("%d bytes: decrypted: %v, %v", size, info, err)
		}
	}
}

// A table in the quarantine, whose name may end with a number, is encrypted as a table.
func TestQuarantinedTableIsRewritten(t *testing.T) {
	mem, keys := newFolder(t)
	if err := errors.Join(mem.MkdirAll("d/quarantine", 0o700), keys.SetPlain(true)); err != nil {
		t.Fatal(err)
	}
	const name = "quarantine/000005.sst.2"
	want := writeParts(t, mem, "d/"+name, 10_000, rand.New(rand.NewPCG(1, 7)), false)
	if err := keys.Encrypt(noProgress); err != nil {
		t.Fatal(err)
	}
	b, err := readSmall(mem, "d/"+name)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := encryption.ReadHeader(b); err != nil || h.Layout != encryption.SmallBlocks {
		t.Errorf("the header is %+v, %v", h, err)
	}
	f, err := New(mem, keys).Open("d/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes are read of %d, %v", len(got), len(want), err)
	}
}

// SyncTo syncs the bytes that it is asked for and not all that follow, and nothing of an empty file.
func TestSyncToOfLog(t *testing.T) {
	mem, keys := newFolder(t)
	f, err := mem.Create("d/000001.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	below := &syncedTo{File: f, to: -1}
	w := newLogWriter(below, keys.active)
	if _, err := w.SyncTo(0); err != nil || below.to >= 0 {
		t.Errorf("an empty file is synced to %d, %v", below.to, err)
	}
	for range 10 {
		if _, err := w.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.SyncTo(4000); err != nil || below.to < encryption.HeaderBytes+4*(1000+partExtraBytes) || below.to > int64(w.end)-6000 {
		t.Errorf("4000 of 10000 bytes are synced to %d of %d, %v", below.to, w.end, err)
	}
}

// syncedTo records up to where a file is synced.
type syncedTo struct {
	vfs.File
	to int64
}

func (f *syncedTo) SyncTo(length int64) (bool, error) {
	f.to = length
	return false, nil
}
