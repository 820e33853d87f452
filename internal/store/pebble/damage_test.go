package pebble

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

func TestDamagedBlockFailsItsReadsOnly(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", Durability: Relaxed, exit: func(int) { t.Error("the process ends") }}
	e := mustOpen(t, o)
	const n = 2000
	fill(t, e, n)
	if err := e.Close(); err != nil { // which flushes
		t.Fatal(err)
	}
	flip(t, mem, newest(t, mem, ".sst"), func(size int) int { return size / 2 })

	e = mustOpen(t, o)
	var well, corrupt int
	ctx := context.Background()
	for i := range n {
		v, err := e.Get(ctx, store.Strong, fillKey(i))
		switch {
		case errors.Is(err, store.ErrCorrupt):
			corrupt++
		case err != nil || len(v[0]) != fillSize:
			t.Fatalf("item %d: %x, %v", i, v, err)
		default:
			well++
		}
	}
	if corrupt == 0 || corrupt > n/4 {
		t.Errorf("%d reads fail, %d do not", corrupt, well)
	}
	s, err := e.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for _, last = range s.Scan(ctx, store.Range{}) {
	}
	if !errors.Is(last, store.ErrCorrupt) {
		t.Errorf("Scan over the damage: %v", last)
	}
	fill(t, e, 1)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// Damage to the log is found when it is opened after a crash. The control
// leaves out the flush with which Open ends a log of an old format.
func TestDamagedLogIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(*testing.T, vfs.FS) // makes the folder
		o       Options
		noticed bool
	}{
		{"a new folder", nil, Options{}, true},
		{"a folder of an old format", makeOldFolder, Options{}, true},
		{"control: without the flush", makeOldFolder, Options{skipFirstFlush: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			noticed := 0
			for tenths := 1; tenths <= 5; tenths++ {
				mem := disktest.NewCrashable()
				if c.before != nil {
					c.before(t, mem)
				}
				if damagedLogIsNoticed(t, mem, c.o, tenths) {
					noticed++
				}
			}
			if (noticed == 5) != c.noticed {
				t.Errorf("%d of 5 were noticed", noticed)
			}
		})
	}
}

// makeOldFolder makes a folder with the oldest format that Pebble can open.
func makeOldFolder(t *testing.T, fs vfs.FS) {
	t.Helper()
	db, err := pebble.Open("d", &pebble.Options{FS: fs, Logger: &logger{log: slog.New(slog.DiscardHandler)}, FormatMajorVersion: pebble.FormatMinSupported})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// damagedLogIsNoticed flips a bit at some tenths of the log's size.
func damagedLogIsNoticed(t *testing.T, mem disktest.Crashable, o Options, tenths int) bool {
	t.Helper()
	o.FS, o.Dir, o.IdleFlush = mem, "d", -1
	e := mustOpen(t, o)
	const n = 1000
	fill(t, e, n)
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, crashed, newest(t, crashed, ".log"), func(size int) int { return size * tenths / 10 })
	o.FS = crashed
	e, err := Open(o)
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("it is noticed, but as %v", err)
		}
		return true
	}
	defer e.Close()
	v, err := e.Get(context.Background(), store.Strong, fillKey(n-1))
	if err != nil {
		t.Fatal(err)
	}
	return v[0] != nil
}

// flip damages one bit of a file in memory.
func flip(t *testing.T, mem *vfs.MemFS, name string, at func(size int) int) {
	t.Helper()
	data, err := mem.UnsafeGetFileDataBuffer("d/" + name)
	if err != nil {
		t.Fatal(err)
	}
	data[at(len(data))] ^= 0x10
}

// newest is the last file with this ending.
func newest(t *testing.T, mem vfs.FS, ending string) (name string) {
	t.Helper()
	names, err := mem.List("d")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ending) && n > name {
			name = n
		}
	}
	return name
}
