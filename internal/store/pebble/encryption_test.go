package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/store/pebble/encrypted"
	"github.com/stator-db/stator/internal/store/storetest"
)

// testKey returns a master key that a number determines.
func testKey(t testing.TB, n byte) *encryption.MasterKey {
	t.Helper()
	k, err := encryption.NewMasterKey(bytes.Repeat([]byte{n}, encryption.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestEncryptedEngine(t *testing.T) {
	storetest.Run(t, opener(func(t *testing.T) Options {
		return Options{FS: vfs.NewMem(), Dir: "d", PrefixBytes: 2, Key: testKey(t, 1)}
	}))
}

// A crash at any moment loses nothing of an encrypted folder, and is not taken for damage.
func TestCrashOfEncryptedFolder(t *testing.T) {
	for seed := range uint64(min(10, *crashes)) {
		o := Options{Key: testKey(t, 1)}
		if seed%2 == 1 {
			o.compactInterval, o.compactMinBytes, o.manifestBytes = time.Millisecond, 1, 500
		}
		if lost := crash(t, seed, o); lost != (losses{}) {
			t.Errorf("seed %d: lost %+v", seed, lost)
		}
	}
}

// Damage to an encrypted folder is reported like damage to others.
func TestDamageToEncryptedFolderIsReported(t *testing.T) {
	const seed = 2
	o := Options{Key: testKey(t, 1)}
	folders := agedFolders(t, o, seed)
	counts := make(map[string]int)
	files := append(slices.Clone(damagedFiles), "stator.keys", "stator.keys-copy")
	for n := range min(80, *mutations) {
		f := folders[n%len(folders)]
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		pattern := files[n/len(folders)%len(files)]
		if f.marksLag && pattern == "*.log" {
			continue // damage to the newest writes may be silent
		}
		what, outcome := f.damage(t, o, r, pattern)
		counts[outcome]++
		if strings.HasPrefix(outcome, silent) {
			t.Errorf("mutation %d of a folder that was %s: %s: %s", n, f.name, what, outcome)
		}
	}
	t.Logf("seed %d: %v", seed, counts)
}

func TestDamageToEncryptedWALIsDetectedUpToItsEnd(t *testing.T) {
	for how, damage := range map[string]func(b []byte, at int) []byte{
		"a flipped bit":    func(b []byte, at int) []byte { b[at] ^= 0x10; return b },
		"zeros to the end": func(b []byte, at int) []byte { clear(b[at:]); return b },
		"truncated":        func(b []byte, at int) []byte { return b[:at] },
	} {
		for seed := range uint64(6) {
			if silentLoss(t, Options{Key: testKey(t, 1)}, seed, damage) {
				t.Errorf("%s: seed %d: the loss is silent", how, seed)
			}
		}
	}
}

// A folder is opened with its own key only, and is not changed by an attempt with another. Without
// data it takes any.
func TestKeyOfFolder(t *testing.T) {
	one, two := testKey(t, 1), testKey(t, 2)
	var wrong *encryption.WrongKeyError
	var needs *encryption.NeedsKeyError
	var plain *encrypted.PlainFolderError
	for _, c := range []struct {
		name         string
		before, then *encryption.MasterKey
		want         any
	}{
		{"the same key", one, one, nil},
		{"another key", one, two, &wrong},
		{"no key", one, nil, &needs},
		{"a key for a folder that is not encrypted", nil, one, &plain},
		{"never a key", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			e := mustOpen(t, Options{FS: mem, Dir: "d", Key: c.before})
			fill(t, e, 10)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			before := filesOf(t, mem, "*")
			e, err := Open(Options{FS: mem, Dir: "d", Key: c.then})
			switch {
			case c.want == nil && err != nil:
				t.Fatal(err)
			case c.want == nil:
				if v, err := e.Get(t.Context(), store.Strong, fillKey(9)); err != nil || len(v[0]) != fillSize {
					t.Errorf("got %v, %v", v, err)
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			case !errors.As(err, c.want):
				t.Errorf("got %v", err)
			default:
				if after := filesOf(t, mem, "*"); !slices.Equal(after, before) {
					t.Errorf("the folder has %v, and had %v", after, before)
				}
			}
		})
	}
}

// Without its keys an encrypted folder is reported as damaged, also if no key is given.
func TestLostRegistryIsReported(t *testing.T) {
	for _, key := range []*encryption.MasterKey{testKey(t, 1), nil} {
		mem := vfs.NewMem()
		e := mustOpen(t, Options{FS: mem, Dir: "d", Key: testKey(t, 1)})
		fill(t, e, 10)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range filesOf(t, mem, "stator.keys*") {
			if err := mem.Remove("d/" + name); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(Options{FS: mem, Dir: "d", Key: key}); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), encrypted.RegistryName) {
			t.Errorf("got %v", err)
		}
	}
}

// secretText is in the keys and values that fillSecret writes.
const secretText = "planted plaintext"

// fillSecret writes keys and values with a known text, some of which are compacted, some flushed
// and some in the WAL only.
func fillSecret(t *testing.T, e *Engine) {
	t.Helper()
	for part := range 3 {
		for i := range 50 {
			key := fmt.Sprintf("%s %d", secretText, i)
			if err := set(e, key, fmt.Appendf(nil, "%s of part %d, %d", secretText, part, i)); err != nil {
				t.Fatal(err)
			}
		}
		if part < 2 {
			if err := e.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if part == 0 {
			if err := e.db.Compact(context.Background(), []byte(secretText), []byte("q"), false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// filesWith returns the kinds of files that contain a text.
func filesWith(t *testing.T, mem vfs.FS, text string) (kinds []string) {
	t.Helper()
	for _, name := range filesOf(t, mem, "*") {
		if bytes.Contains(readFile(t, mem, "d/"+name), []byte(text)) {
			kinds = append(kinds, strings.TrimLeft(strings.TrimRight(name, "0123456789"), "0123456789"))
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Nothing that was written is readable in the files of an encrypted folder. The control is a folder
// that is not encrypted.
func TestNoPlaintextInEncryptedFolder(t *testing.T) {
	for _, c := range []struct {
		name string
		key  *encryption.MasterKey
		want []string
	}{
		{"encrypted", testKey(t, 1), nil},
		{"control: not encrypted", nil, []string{".log", ".sst", "MANIFEST-"}},
	} {
		mem := vfs.NewMem()
		e := mustOpen(t, Options{FS: mem, Dir: "d", Key: c.key, IdleFlush: -1})
		fillSecret(t, e)
		if got := filesWith(t, mem, secretText); !slices.Equal(got, c.want) {
			t.Errorf("%s: the text is in %q, want %q", c.name, got, c.want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func noProgress(int64, int64) {}

// expectSecret checks that a folder has what fillSecret wrote.
func expectSecret(t *testing.T, o Options) {
	t.Helper()
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range 50 {
		v, err := e.Get(t.Context(), store.Strong, fmt.Appendf(nil, "%s %d", secretText, i))
		if want := fmt.Sprintf("%s of part 2, %d", secretText, i); err != nil || string(v[0]) != want {
			t.Fatalf("got %q, %v, want %q", v, err, want)
		}
	}
}

// conversions are the changes of the encryption of a folder.
var conversions = []struct {
	name          string
	before, after byte // numbers of keys; 0 is none
	change        func(o Options, key *encryption.MasterKey) error
}{
	{"enable", 0, 1, func(o Options, key *encryption.MasterKey) error {
		o.Key = key
		return EncryptFolder(o, noProgress)
	}},
	{"disable", 1, 0, func(o Options, _ *encryption.MasterKey) error { return DecryptFolder(o, noProgress) }},
	{"rotate", 1, 2, RotateKeys},
	{"rotate to the same key", 1, 1, RotateKeys},
	{"rewrite", 1, 1, func(o Options, key *encryption.MasterKey) error {
		return errors.Join(RotateKeys(o, key), RewriteFolder(o, noProgress))
	}},
}

func keyOrNil(t *testing.T, n byte) *encryption.MasterKey {
	if n == 0 {
		return nil
	}
	return testKey(t, n)
}

// The encryption of a folder can be turned on and off, and its keys replaced.
func TestConversions(t *testing.T) {
	for _, c := range conversions {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := Options{FS: mem, Dir: "d", Key: keyOrNil(t, c.before), IdleFlush: -1}
			e := mustOpen(t, o)
			fillSecret(t, e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.change(o, keyOrNil(t, c.after)); err != nil {
				t.Fatal(err)
			}
			if found := len(filesWith(t, mem, secretText)) > 0; found != (c.after == 0) {
				t.Errorf("the text is found: %v", found)
			}
			if c.before != c.after {
				if _, err := Open(o); err == nil {
					t.Error("the old key opens the folder")
				}
			}
			o.Key = keyOrNil(t, c.after)
			expectSecret(t, o)
			expectSecret(t, o) // with the marks of the first time
			s, err := encrypted.StateOf(mem, "d")
			if err != nil || s.Mixed || (s.Master == "") != (c.after == 0) {
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
}

// A crash at any operation on the disk, of which the longer conversions try some, leaves a folder that can be opened with the old or the new
// key, and whose conversion can be repeated.
func TestInterruptedConversions(t *testing.T) {
	for _, c := range conversions {
		t.Run(c.name, func(t *testing.T) {
			keys := []*encryption.MasterKey{keyOrNil(t, c.before), keyOrNil(t, c.after)}
			origin := disktest.NewCrashable()
			e := mustOpen(t, Options{FS: origin, Dir: "d", Key: keys[0], IdleFlush: -1})
			fillSecret(t, e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			step := 1
			if !strings.HasPrefix(c.name, "rotate") {
				step = 5 // they open the folder, and every operation of that would take too long
			}
			crashes := 0
			for n := 1; ; n += step {
				mem := disktest.Crashable{MemFS: origin.CrashClone(vfs.CrashCloneCfg{})}
				var mu sync.Mutex
				var left *vfs.MemFS
				ops := 0
				disk := disktest.Inject(mem, func(op errorfs.Op) error {
					if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if ops++; ops == n {
						left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n % 3 * 50, RNG: rand.New(rand.NewPCG(uint64(n), 9))})
					}
					return nil
				})
				if err := c.change(Options{FS: disk, Dir: "d", Key: keys[0]}, keys[1]); err != nil {
					t.Fatal(err)
				}
				if left == nil {
					if crashes < 10 {
						t.Errorf("only %d crashes", crashes)
					}
					return
				}
				crashes++
				o := Options{FS: left, Dir: "d", Key: keys[0]}
				if e, err := Open(o); err == nil {
					if err := e.Close(); err != nil {
						t.Error(err)
					}
				} else {
					o.Key = keys[1]
				}
				expectSecret(t, o)
				if o.Key == keys[0] || c.name == "enable" {
					if err := c.change(o, keys[1]); err != nil {
						t.Errorf("after operation %d: %v", n, err)
					}
					o.Key = keys[1]
					expectSecret(t, o)
				}
			}
		})
	}
}

// Files with the old data key are readable after a rotation, and the key is removed once no file
// needs it.
func TestOldDataKeysAreKeptWhileNeeded(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", Key: testKey(t, 1), IdleFlush: -1}
	state := func() (files []int) {
		s, err := encrypted.StateOf(mem, "d")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range s.Keys {
			files = append(files, k.Files)
		}
		return files
	}
	e := mustOpen(t, o)
	fillSecret(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := RotateKeys(o, o.Key); err != nil {
		t.Fatal(err)
	}
	if got := state(); len(got) != 2 || got[0] != 0 || got[1] == 0 {
		t.Errorf("after a rotation, keys have %v files", got)
	}
	expectSecret(t, o)
	if got := state(); len(got) != 2 || got[0] == 0 || got[1] == 0 {
		t.Errorf("after the folder was opened, keys have %v files", got)
	}
	if err := RewriteFolder(o, noProgress); err != nil {
		t.Fatal(err)
	}
	if got := state(); len(got) != 1 || got[0] == 0 {
		t.Errorf("after a rewrite, keys have %v files", got)
	}
	expectSecret(t, o)
}

// Plain files in an encrypted folder are not read: somebody without the key may have put them
// there.
func TestPlainTableInEncryptedFolderIsRefused(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", Key: testKey(t, 1), IdleFlush: -1}
	e := mustOpen(t, o)
	fillSecret(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	table := "d/" + newest(t, mem, ".sst")
	keys, err := encrypted.OpenKeys(mem, "d", o.Key)
	if err != nil {
		t.Fatal(err)
	}
	f, err := encrypted.New(mem, keys).Open(table)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	write(t, mem, table, b)
	e, err = Open(o)
	if err == nil {
		_, err = e.Get(t.Context(), store.Strong, fmt.Appendf(nil, "%s %d", secretText, 1))
		_ = e.Close()
	}
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// A folder is opened although the second copy of its keys cannot be repaired, as on a full disk.
func TestKeysThatCannotBeRepaired(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", Key: testKey(t, 1), IdleFlush: -1}
	e := mustOpen(t, o)
	fillSecret(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mem.Remove("d/stator.keys-copy"); err != nil {
		t.Fatal(err)
	}
	var log logtest.Log
	o.Log = log.Logger()
	o.FS = disktest.Inject(mem, func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "stator.keys") {
			return errorfs.ErrInjected
		}
		return nil
	})
	expectSecret(t, o)
	if !strings.Contains(log.String(), "only one is intact") {
		t.Errorf("the log is\n%s", &log)
	}
}

// Sync marks that a file does not agree with are not removed: nothing else would report the damage.
func TestSyncMarksAreVerifiedBeforeTheyAreRemoved(t *testing.T) {
	for _, key := range []*encryption.MasterKey{nil, testKey(t, 1)} {
		mem := vfs.NewMem()
		o := Options{FS: mem, Dir: "d", Key: key, IdleFlush: -1}
		e := mustOpen(t, o)
		fillSecret(t, e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		manifest := "d/" + slices.Max(filesOf(t, mem, "MANIFEST-*"))
		b := readFile(t, mem, manifest)
		write(t, mem, manifest, bytes.Clone(b[:len(b)-10])) // a write may change its bytes
		if err := withLock(o, removeMarks); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("with a key: %v: %v", key != nil, err)
		}
		if len(filesOf(t, mem, "stator.synced")) != 1 {
			t.Errorf("with a key: %v: the marks are removed", key != nil)
		}
		write(t, mem, manifest, b)
		if err := withLock(o, removeMarks); err != nil || len(filesOf(t, mem, "stator.synced")) != 0 {
			t.Errorf("with a key: %v: the control: %v", key != nil, err)
		}
	}
}
