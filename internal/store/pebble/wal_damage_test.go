package pebble

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// Any damage to the WAL, up to the end of what was acknowledged, is detected when the database
// is opened after a kill. The control has no sync marks.
func TestWALDamageIsDetectedUpToItsEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		o        Options
		detected bool
	}{
		{"with marks", Options{}, true},
		{"control: without marks", Options{skipMarks: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, damage := range map[string]func(b []byte, at int) []byte{
				"a flipped bit":    func(b []byte, at int) []byte { b[at] ^= 0x10; return b },
				"zeros":            func(b []byte, at int) []byte { clear(b[at:min(at+64, len(b))]); return b },
				"zeros to the end": func(b []byte, at int) []byte { clear(b[at:]); return b },
				"truncated":        func(b []byte, at int) []byte { return b[:at] },
			} {
				silent := 0
				for seed := range uint64(12) {
					if silentLoss(t, c.o, seed, damage) {
						silent++
					}
				}
				if c.detected == (silent > 0) {
					t.Errorf("%s: %d of 12 losses were silent", how, silent)
				}
			}
		})
	}
}

// silentLoss damages the WAL of a database that was killed, at an offset that the seed
// determines, and reports whether writes are missing without an error.
func silentLoss(t *testing.T, o Options, seed uint64, damage func([]byte, int) []byte) bool {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	mem := disktest.NewCrashable()
	o.FS, o.Dir, o.IdleFlush = mem, "d", -1
	e := mustOpen(t, o)
	n := 1 + r.IntN(600)
	fill(t, e, n)
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: r})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	name := "d/" + newest(t, killed, ".log")
	b, err := killed.UnsafeGetFileDataBuffer(name)
	if err != nil {
		t.Fatal(err)
	}
	size := len(b)
	for size > 0 && b[size-1] == 0 {
		size--
	}
	at := r.IntN(size)
	if r.IntN(2) == 0 {
		at = size - 1 - r.IntN(min(size, 2000)) // near the end
	}
	write(t, killed, name, damage(append([]byte(nil), b[:size]...), at))
	o.FS = killed
	e, err = Open(o)
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("seed %d: it is detected, but as %v", seed, err)
		}
		return false
	}
	defer e.Close()
	for i := range n {
		v, err := e.Get(context.Background(), store.Strong, fillKey(i))
		if err != nil {
			t.Fatal(err)
		}
		if v[0] == nil {
			return true
		}
	}
	return false
}

func write(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Marks never report damage where there is none: not when a crash interrupts a record that is
// larger than a block, not after WAL files were reused, not when the marks were truncated.
func TestMarksAreNeverAheadOfTheWAL(t *testing.T) {
	for seed := range uint64(*crashes) {
		r := rand.New(rand.NewPCG(seed, 4))
		mem := disktest.NewCrashable()
		e := mustOpen(t, Options{FS: mem, Dir: "d", IdleFlush: 2 * time.Millisecond, memtableBytes: 512 << 10, manifestBytes: int64(r.IntN(4) * 300)})
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range 4 {
			value := make([]byte, 1+r.IntN(100<<10))
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := set(e, strconv.Itoa(i)+" "+strconv.Itoa(n%10), value); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
		left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 90, 100}[r.IntN(4)], RNG: r})
		stop()
		all.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		e, err := Open(Options{FS: left, Dir: "d"})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A damaged file of marks is ignored.
func TestDamagedMarksAreIgnored(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d"}
	for _, text := range []string{"", "short", string(make([]byte, 4096)), string(fillKey(1)) + string(make([]byte, 600))} {
		write(t, withFolder(t, mem), "d/"+walguard.MarksName, []byte(text))
		e := mustOpen(t, o)
		fill(t, e, 10)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The marks of a database whose other files were removed say nothing about the next one.
func TestMarksOfEarlierDatabaseAreDropped(t *testing.T) {
	aged := agedFolders(t, Options{}, 1)[0]
	mem := withFolder(t, vfs.NewMem())
	write(t, mem, "d/"+walguard.MarksName, readFile(t, aged.disk, "d/"+walguard.MarksName))
	for range 3 {
		e := mustOpen(t, Options{FS: mem, Dir: "d"})
		fill(t, e, 10)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func withFolder(t *testing.T, fs vfs.FS) vfs.FS {
	t.Helper()
	if err := fs.MkdirAll("d", 0o700); err != nil {
		t.Fatal(err)
	}
	return fs
}
