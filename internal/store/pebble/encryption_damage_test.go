package pebble

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// A WAL or a manifest of which a disk has lost a part, so that zeros are there, is damaged:
// encrypted as well as plain, also without the marks of what was synced.
func TestZerosAreDamage(t *testing.T) {
	for _, key := range []*encryption.MasterKey{nil, testKey(t, 1)} {
		for _, c := range []struct {
			name, suffix string
			clear        func(b []byte) []byte
		}{
			{"the beginning of the WAL", ".log", func(b []byte) []byte { return b[:512] }},
			{"the beginning of the manifest", "MANIFEST", func(b []byte) []byte { return b[:min(512, len(b)/2)] }},
			{"the end of the manifest", "MANIFEST", func(b []byte) []byte { return b[len(b)*2/3:] }},
		} {
			mem := disktest.NewCrashable()
			o := Options{FS: mem, Dir: "d", Key: key, IdleFlush: -1}
			e := mustOpen(t, o)
			fill(t, e, 600)
			if c.suffix == "MANIFEST" { // so that the manifest names a table
				if err := e.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if err := killed.Remove("d/stator.synced"); err != nil {
				t.Log(err)
			}
			names, err := killed.List("d")
			if err != nil {
				t.Fatal(err)
			}
			name := ""
			for _, n := range names {
				if strings.HasSuffix(n, c.suffix) || c.suffix == "MANIFEST" && strings.HasPrefix(n, c.suffix) {
					name = max(name, n)
				}
			}
			b := readFile(t, killed, "d/"+name)
			clear(c.clear(b))
			write(t, killed, "d/"+name, b)
			o.FS = killed
			if e, err := Open(o); err == nil {
				t.Errorf("encrypted %t: %s is zeros, and the folder opens", key != nil, c.name)
				_ = e.Close()
			} else if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("encrypted %t: %s is zeros: %v", key != nil, c.name, err)
			}
		}
	}
}

// A registry that cannot be read, as one on a bad sector, is read from its copy.
func TestUnreadableRegistry(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", Key: testKey(t, 1)}
	e := mustOpen(t, o)
	fill(t, e, 5)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	o.FS = disktest.Inject(mem, func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, "/stator.keys") && op.Kind == errorfs.OpFileRead {
			return errorfs.ErrInjected
		}
		return nil
	})
	if err := mustOpen(t, o).Close(); err != nil {
		t.Fatal(err)
	}
}

// A command that was interrupted leaves no decrypted file in a folder that is encrypted
// afterwards.
func TestInterruptedRewriteLeavesNothing(t *testing.T) {
	mem := disktest.NewCrashable()
	o := Options{FS: mem, Dir: "d", Key: testKey(t, 1), IdleFlush: -1}
	e := mustOpen(t, o)
	fillSecret(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var left *vfs.MemFS
	o.FS = disktest.Inject(mem, func(op errorfs.Op) error {
		if left == nil && op.Kind == errorfs.OpRename && strings.Contains(op.Path, "stator.rewriting") {
			left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		}
		return nil
	})
	if err := DecryptFolder(o, noProgress); err != nil {
		t.Fatal(err)
	}
	if len(filesWith(t, left, secretText)) == 0 {
		t.Fatal("the interrupted command has decrypted nothing")
	}
	o.FS = left
	if err := EncryptFolder(o, noProgress); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, left, secretText); len(found) > 0 {
		t.Errorf("the secret is in %q", found)
	}
}
