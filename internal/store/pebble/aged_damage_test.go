package pebble

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

var mutations = flag.Int("mutations", 150, "mutations that TestDamageToAgedFolderIsReported tries")

// Whatever happens to one file of a folder with a long history, Open refuses the folder and
// leaves its tables alone, or the reads that need the damaged bytes fail, or all values are
// right.
func TestDamageToAgedFolderIsReported(t *testing.T) {
	const seed = 1
	folders := agedFolders(t, Options{}, seed)
	counts := make(map[string]int)
	for n := range *mutations {
		f := folders[n%len(folders)]
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		pattern := damagedFiles[n/len(folders)%len(damagedFiles)]
		if f.marksLag && pattern == "*.log" {
			continue // damage to the newest writes may be silent
		}
		what, outcome := f.damage(t, Options{}, r, pattern)
		counts[outcome]++
		if strings.HasPrefix(outcome, silent) {
			t.Errorf("mutation %d of a folder that was %s: %s: %s", n, f.name, what, outcome)
		}
	}
	t.Logf("seed %d: %v", seed, counts)
}

// The control: without marks, damage to manifests is silent.
func TestDamageToManifestIsSilentWithoutMarks(t *testing.T) {
	const seed = 1
	o := Options{skipMarks: true}
	folders := agedFolders(t, o, seed)
	found := 0
	for n := range 200 {
		_, outcome := folders[n%len(folders)].damage(t, o, rand.New(rand.NewPCG(seed, uint64(n))), "MANIFEST-*")
		if strings.HasPrefix(outcome, silent) {
			found++
		}
	}
	if found == 0 {
		t.Error("no damage was silent")
	}
}

// damagedFiles are the kinds of files of a folder.
var damagedFiles = []string{"MANIFEST-*", "*.sst", "*.log", "MANIFEST-*", "OPTIONS-*", "marker.*", "stator.synced"}

// silent begins the outcome of damage that is not reported.
const silent = "silent: "

// agedFolder is a folder with the files of many flushes, compactions and manifests.
type agedFolder struct {
	name   string
	disk   *vfs.MemFS
	values map[string][]byte // its content

	marksLag bool // the marks of WAL files may not be those of the last second
}

const (
	agedKeys     = 120
	agedSessions = 3
	agedFlushes  = 5 // in each session
)

// agedFolders returns three folders with a long history: one that was closed, one whose
// process was killed, one whose machine lost power.
func agedFolders(t *testing.T, o Options, seed uint64) []agedFolder {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	mem := disktest.NewCrashable()
	o.FS, o.Dir, o.IdleFlush, o.memtableBytes, o.manifestBytes = mem, "d", -1, 256<<10, 1500
	values := make(map[string][]byte)
	var folders []agedFolder
	for session := range agedSessions {
		e := mustOpen(t, o)
		for n := range agedFlushes {
			change(t, e, r, values)
			if err := e.db.Flush(); err != nil {
				t.Fatal(err)
			}
			if n%3 == 2 {
				if err := e.db.Compact(context.Background(), []byte("k"), []byte("l"), false); err != nil {
					t.Fatal(err)
				}
			}
		}
		change(t, e, r, values)
		if session == agedSessions-1 {
			killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
			cut := mem.CrashClone(vfs.CrashCloneCfg{})
			folders = append(folders, agedFolder{"killed", killed, maps.Clone(values), false}, agedFolder{"without power", cut, maps.Clone(values), true})
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return append(folders, agedFolder{"closed", mem.MemFS, values, false})
}

// change sets and deletes some keys.
func change(t *testing.T, e *Engine, r *rand.Rand, values map[string][]byte) {
	t.Helper()
	for range agedKeys / 4 {
		key := string(fillKey(r.IntN(agedKeys)))
		value := make([]byte, 200+r.IntN(200))
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		gone := r.IntN(5) == 0
		err := e.Update(context.Background(), [][]byte{[]byte(key)}, func(tx store.Tx) error {
			if gone {
				tx.Delete([]byte(key))
			} else {
				tx.Set([]byte(key), value)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if delete(values, key); !gone {
			values[key] = value
		}
	}
}

// damage damages one file of a copy of the folder, opens it and reads everything.
func (f *agedFolder) damage(t *testing.T, o Options, r *rand.Rand, pattern string) (what, outcome string) {
	t.Helper()
	mem := cloneFolder(t, f)
	name := anyFile(t, mem, r, pattern)
	what = name + " " + mutate(t, mem, "d/"+name, r)
	tables := filesOf(t, mem, "*.sst")
	o.FS, o.Dir, o.IdleFlush, o.memtableBytes, o.CacheBytes, o.corruptionPause = mem, "d", -1, 256<<10, 1<<20, time.Millisecond
	e, err := Open(o)
	if err != nil {
		// If a table is damaged, Pebble may have compacted others before the error.
		if left := filesOf(t, mem, "*.sst"); !slices.Equal(left, tables) && !strings.HasSuffix(name, ".sst") {
			t.Errorf("%s: Open fails, and of the tables %v only %v are left", what, tables, left)
		}
		return what, "refused"
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
	}()
	return what, f.read(e)
}

// read reads all keys, one by one and as a range.
func (f *agedFolder) read(e *Engine) (outcome string) {
	ctx := context.Background()
	failed := 0
	for i := range agedKeys {
		key := fillKey(i)
		v, err := e.Get(ctx, store.Strong, key)
		switch {
		case errors.Is(err, store.ErrCorrupt):
			failed++
		case err != nil:
			return silent + err.Error()
		case !bytes.Equal(v[0], f.values[string(key)]):
			return fmt.Sprintf("%s%s has %d bytes, want %d", silent, key, len(v[0]), len(f.values[string(key)]))
		}
	}
	found := 0
	err := e.ReadRange(ctx, store.Range{}, func(store.Pair) bool { found++; return true })
	switch {
	case errors.Is(err, store.ErrCorrupt), failed > 0:
		return "reported when read"
	case err != nil:
		return silent + err.Error()
	case found != len(f.values):
		return fmt.Sprintf("%sa range has %d keys, want %d", silent, found, len(f.values))
	}
	return "without effect"
}

// mutate damages a file in one of five ways, or removes it.
func mutate(t *testing.T, mem *vfs.MemFS, name string, r *rand.Rand) (what string) {
	t.Helper()
	b := readFile(t, mem, name)
	size := len(b)
	if strings.HasSuffix(name, ".log") { // without its preallocated space
		size = len(bytes.TrimRight(b, "\x00"))
	}
	how := r.IntN(6)
	if size == 0 || how == 5 {
		if err := mem.Remove(name); err != nil {
			t.Fatal(err)
		}
		return "is removed"
	}
	at := r.IntN(size)
	end := min(at+1+r.IntN(64), size)
	switch how {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		what = "has a flipped bit"
	case 1:
		clear(b[at:end])
		what = fmt.Sprintf("has %d zeros", end-at)
	case 2:
		b = b[:at]
		what = "is cut off"
	case 3:
		b = slices.Insert(b, at, b[at:end]...)
		what = fmt.Sprintf("has %d bytes twice", end-at)
	case 4:
		for i := range b[at:end] {
			b[at+i] = byte(r.Uint32())
		}
		what = fmt.Sprintf("has %d random bytes", end-at)
	}
	write(t, mem, name, b)
	return fmt.Sprintf("%s at byte %d of %d", what, at, size)
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func filesOf(t *testing.T, mem vfs.FS, pattern string) []string {
	t.Helper()
	names, err := mem.List("d")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { ok, _ := path.Match(pattern, n); return !ok })
}

// anyFile returns one of the files whose name matches, mostly the newest one.
func anyFile(t *testing.T, mem vfs.FS, r *rand.Rand, pattern string) string {
	t.Helper()
	names := filesOf(t, mem, pattern)
	if len(names) == 0 {
		return anyFile(t, mem, r, "*.sst")
	}
	if r.IntN(2) == 0 {
		return names[len(names)-1]
	}
	return names[r.IntN(len(names))]
}
