package encrypted

import (
	"bytes"
	"errors"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/encryption"
)

func masterKey(t *testing.T, n byte) *encryption.MasterKey {
	t.Helper()
	k, err := encryption.NewMasterKey(bytes.Repeat([]byte{n}, encryption.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newFolder(t *testing.T) (*vfs.MemFS, *KeyRing) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll("d", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syncDir(mem, "/"); err != nil {
		t.Fatal(err)
	}
	keys, err := CreateKeys(mem, "d", masterKey(t, 1), false, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return mem, keys
}

// writeParts writes a file in parts of random sizes, some of which are synced, and returns its
// content. With retry, it continues after errors as walguard does.
func writeParts(t *testing.T, fs vfs.FS, name string, size int, r *rand.Rand, retry bool) []byte {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	try := func(do func() error) {
		for err := do(); err != nil; err = do() {
			if !retry {
				t.Fatal(err)
			}
		}
	}
	for rest := bytes.Clone(content); len(rest) > 0; {
		part := rest[:min(len(rest), 1+r.IntN(20_000))]
		n := 0
		try(func() error {
			more, err := f.Write(part[n:])
			n += more
			return err
		})
		rest = rest[len(part):]
		if r.IntN(4) == 0 {
			try(f.Sync)
		}
	}
	try(f.Sync)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return content
}

var sizes = []int{0, 1, 100, 4095, 4096, 4097, 8192, 32 << 10, 100_000, 300_000}

func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"d/000001.sst", "d/000002.log", "d/MANIFEST-000003"} {
		for seed, size := range sizes {
			mem, keys := newFolder(t)
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			fs := New(mem, keys)
			want := writeParts(t, fs, name, size, r, false)
			f, err := fs.Open(name)
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", name, size, err)
			}
			got, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %d bytes: got %d bytes, %v", name, size, len(got), err)
			}
			if isTable(name) {
				checkReadAt(t, f, want, r)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			raw, err := mem.Stat(name)
			if err != nil || size == 0 && raw.Size() > 0 {
				t.Errorf("%s: %v, %v", name, raw, err)
			}
		}
	}
}

func checkReadAt(t *testing.T, f vfs.File, want []byte, r *rand.Rand) {
	t.Helper()
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(want)) {
		t.Fatalf("the size is %d, want %d, %v", info.Size(), len(want), err)
	}
	for range 50 {
		off := r.IntN(len(want) + 10)
		p := make([]byte, r.IntN(30_000))
		n, err := f.ReadAt(p, int64(off))
		expect := want[min(off, len(want)):min(off+len(p), len(want))]
		if !bytes.Equal(p[:n], expect) || (n < len(p)) != errors.Is(err, io.EOF) || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("ReadAt of %d bytes at %d of %d: %d, %v", len(p), off, len(want), n, err)
		}
	}
}

// A write that was partly done continues where it was.
func TestWritesContinueAfterErrors(t *testing.T) {
	for _, name := range []string{"d/000001.sst", "d/000002.log"} {
		mem, keys := newFolder(t)
		r := rand.New(rand.NewPCG(3, 1))
		below := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && r.IntN(3) == 0 {
				return errorfs.ErrInjected
			}
			return nil
		}))
		want := writeParts(t, New(&halfWrites{below, r}, keys), name, 200_000, rand.New(rand.NewPCG(4, 1)), true)
		f, err := New(mem, keys).Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
}

// halfWrites is a disk on which writes are sometimes done in part.
type halfWrites struct {
	vfs.FS
	r *rand.Rand
}

func (h *halfWrites) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, category)
	return &halfWritten{f, h.r}, err
}

type halfWritten struct {
	vfs.File
	r *rand.Rand
}

func (h *halfWritten) Write(p []byte) (int, error) {
	if h.r.IntN(2) == 0 {
		return h.File.Write(p)
	}
	n, err := h.File.Write(p[:len(p)/2])
	if err == nil {
		err = errorfs.ErrInjected
	}
	return n, err
}

func TestDamagedTable(t *testing.T) {
	mem, keys := newFolder(t)
	fs := New(mem, keys)
	const name = "d/000001.sst"
	writeParts(t, fs, name, 10_000, rand.New(rand.NewPCG(1, 1)), false)
	raw, err := readSmall(mem, name)
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		f, err := mem.Create("d/000002.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		table, err := fs.Open("d/000002.sst")
		if err != nil {
			return err
		}
		_, err = io.ReadAll(table)
		return err
	}
	if err := read(bytes.Clone(raw)); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(raw); i += 37 {
		b := bytes.Clone(raw)
		b[i] ^= 1
		if err := read(b); !pebble.IsCorruptionError(err) {
			t.Errorf("byte %d is changed: %v", i, err)
		}
		if err := read(bytes.Clone(raw[:i])); i > 0 && !pebble.IsCorruptionError(err) {
			t.Errorf("truncated at byte %d: %v", i, err)
		}
	}
	blocks := bytes.Clone(raw)
	const stored = 4096 + encryption.TagBytes
	first, second := blocks[encryption.HeaderBytes:][:stored], blocks[encryption.HeaderBytes+stored:][:stored]
	swap := bytes.Clone(first)
	copy(first, second)
	copy(second, swap)
	if err := read(blocks); !pebble.IsCorruptionError(err) {
		t.Errorf("two blocks are swapped: %v", err)
	}
}

// Of a log of which a crash has kept some parts, all is read that was synced, and what cannot be
// read is not returned as anything that was not written, but as filler.
func TestTornLog(t *testing.T) {
	for seed := range uint64(60) {
		mem, keys := newFolder(t)
		r := rand.New(rand.NewPCG(seed, 2))
		fs := New(mem, keys)
		f, err := fs.Create("d/000001.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		var content []byte
		synced := 0
		for range r.IntN(40) {
			part := make([]byte, 1+r.IntN(9000))
			for i := range part {
				part[i] = byte(r.IntN(200)) // never the filler
			}
			content = append(content, part...)
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
			if r.IntN(3) == 0 {
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = len(content)
			}
		}
		if err := syncDir(mem, "d"); err != nil {
			t.Fatal(err)
		}
		left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed % 3 * 50), RNG: r})
		g, err := New(left, keys).Open("d/000001.log")
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := io.ReadAll(g)
		if err != nil || len(got) < synced || !bytes.Equal(got[:synced], content[:synced]) {
			t.Fatalf("seed %d: %d bytes are read of %d synced ones, %v", seed, len(got), synced, err)
		}
		for i, b := range got {
			if b != fillByte && (i >= len(content) || b != content[i]) {
				t.Fatalf("seed %d: byte %d is not what was written", seed, i)
			}
		}
	}
}

func TestRegistry(t *testing.T) {
	one, two := masterKey(t, 1), masterKey(t, 2)
	damage := func(b []byte) []byte { b[len(b)/3] ^= 1; return b }
	for _, c := range []struct {
		name   string
		key    *encryption.MasterKey
		change func(t *testing.T, mem *vfs.MemFS)
		check  func(error) bool
	}{
		{"intact", one, func(*testing.T, *vfs.MemFS) {}, func(err error) bool { return err == nil }},
		{"wrong key", two, func(*testing.T, *vfs.MemFS) {}, func(err error) bool { return errors.As(err, new(*encryption.WrongKeyError)) }},
		{"the first copy is damaged", one, func(t *testing.T, mem *vfs.MemFS) { change(t, mem, RegistryName, damage) }, func(err error) bool { return err == nil }},
		{"the second copy is damaged", one, func(t *testing.T, mem *vfs.MemFS) { change(t, mem, registryCopyName, damage) }, func(err error) bool { return err == nil }},
		{"both are damaged", one, func(t *testing.T, mem *vfs.MemFS) {
			change(t, mem, RegistryName, damage)
			change(t, mem, registryCopyName, damage)
		}, pebble.IsCorruptionError},
		{"the first copy is missing", one, func(t *testing.T, mem *vfs.MemFS) {
			if err := mem.Remove("d/" + RegistryName); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return err == nil }},
		{"none", one, func(t *testing.T, mem *vfs.MemFS) {
			if err := RemoveKeys(mem, "d"); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return errors.Is(err, iofs.ErrNotExist) }},
		{"changed without the key", one, func(t *testing.T, mem *vfs.MemFS) {
			change(t, mem, RegistryName, func(b []byte) []byte {
				forged := KeyRing{master: masterKey(t, 3)}
				r, _, _ := decodeRegistry(b)
				r.Plain = true
				forged.registry = r
				return forged.encode()
			})
		}, pebble.IsCorruptionError},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem, _ := newFolder(t)
			c.change(t, mem)
			keys, err := OpenKeys(mem, "d", c.key)
			if !c.check(err) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			if err := keys.Repair(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{RegistryName, registryCopyName} {
				if b, err := readSmall(mem, "d/"+name); err != nil || !bytes.Equal(b, keys.encode()) {
					t.Errorf("%s is not repaired: %v", name, err)
				}
			}
		})
	}
}

func change(t *testing.T, mem *vfs.MemFS, name string, how func([]byte) []byte) {
	t.Helper()
	b, err := readSmall(mem, "d/"+name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := mem.Create("d/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(how(b)); err != nil {
		t.Fatal(err)
	}
}

// Files keep their keys when they are renamed and linked, and have new ones when they are reused.
func TestNames(t *testing.T) {
	mem, keys := newFolder(t)
	fs := New(mem, keys)
	want := writeParts(t, fs, "d/000001.log", 5000, rand.New(rand.NewPCG(1, 1)), false)
	if err := errors.Join(fs.Link("d/000001.log", "d/link"), fs.Rename("d/000001.log", "d/renamed")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/link", "d/renamed"} {
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	before, err := readSmall(mem, "d/renamed")
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.Remove("d/link"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.ReuseForWrite("d/renamed", "d/000002.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	after, err := readSmall(mem, "d/000002.log")
	if err != nil || bytes.Equal(after[:encryption.HeaderBytes], before[:encryption.HeaderBytes]) || len(after) != len(before) {
		t.Errorf("the file has %d bytes, %v", len(after), err)
	}
	if f, err = fs.Open("d/000002.log"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if text, ok := bytes.CutPrefix(got, []byte("text")); err != nil || !ok || len(bytes.Trim(text, "\xff")) > 0 {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := fs.OpenReadWrite("d/000002.log", vfs.WriteCategoryUnspecified); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if names, err := mem.List("d"); err != nil || strings.Contains(strings.Join(names, " "), "renamed") {
		t.Errorf("the folder has %v, %v", names, err)
	}
}
