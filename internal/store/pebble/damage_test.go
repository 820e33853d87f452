package pebble

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

func TestDamagedBlockFailsOnlyItsReads(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", Durability: Relaxed, exit: func(int) { t.Error("the process exits") }}
	e := mustOpen(t, o)
	const n = 2000
	fill(t, e, n)
	if err := e.Close(); err != nil { // which flushes
		t.Fatal(err)
	}
	flip(t, mem, newest(t, mem, ".sst"), func(size int) int { return size / 2 })

	e = mustOpen(t, o)
	var intact, corrupt int
	ctx := context.Background()
	for i := range n {
		v, err := e.Get(ctx, store.Strong, fillKey(i))
		switch {
		case errors.Is(err, store.ErrCorrupt):
			corrupt++
		case err != nil || len(v[0]) != fillSize:
			t.Fatalf("item %d: %x, %v", i, v, err)
		default:
			intact++
		}
	}
	if corrupt == 0 || corrupt > n/4 {
		t.Errorf("%d reads fail, %d do not", corrupt, intact)
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

// A folder whose tables have damaged bloom filters is opened: the engine reads its own keys without
// them. Reads of other keys fail, which shows that the filters are damaged.
func TestDamagedFilterDoesNotPreventOpen(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{FS: mem, Dir: "d", exit: func(int) { t.Error("the process exits") }}
	e := mustOpen(t, o)
	fill(t, e, 100)
	if err := e.Close(); err != nil { // which flushes
		t.Fatal(err)
	}
	table := newest(t, mem, ".sst")
	at := filterOffset(t, mem, "d/"+table)
	flip(t, mem, table, func(int) int { return at })
	e = mustOpen(t, o)
	if _, err := e.Get(t.Context(), store.Strong, fillKey(1)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("the control: Get: %v", err)
	}
	if _, err := e.StandbyState(); err != nil {
		t.Errorf("StandbyState: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// filterOffset returns where the middle of the bloom filter of a table is.
func filterOffset(t *testing.T, fs vfs.FS, table string) int {
	t.Helper()
	file, err := fs.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		t.Fatal(err)
	}
	o := new(pebble.Options)
	o.EnsureDefaults()
	r, err := sstable.NewReader(t.Context(), readable, o.MakeReaderOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	layout, err := r.Layout()
	if err != nil || len(layout.Filter) == 0 {
		t.Fatalf("the table has the filters %v, %v", layout, err)
	}
	return int(layout.Filter[0].Offset + layout.Filter[0].Length/2)
}

// Damage to the WAL is detected when the database is opened after a crash. The control omits
// the flush with which Open ends a WAL file of an old format.
func TestDamagedWALIsDetected(t *testing.T) {
	for _, c := range []struct {
		name     string
		create   func(*testing.T, vfs.FS) // the folder
		o        Options
		detected bool
	}{
		{"a new folder", nil, Options{}, true},
		{"a folder of an old format", createOldFolder, Options{}, true},
		{"control: without the flush", createOldFolder, Options{skipFirstFlush: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			detected := 0
			for tenths := 1; tenths <= 5; tenths++ {
				mem := disktest.NewCrashable()
				if c.create != nil {
					c.create(t, mem)
				}
				if isDamageDetected(t, mem, c.o, tenths) {
					detected++
				}
			}
			if (detected == 5) != c.detected {
				t.Errorf("%d of 5 were detected", detected)
			}
		})
	}
}

// createOldFolder creates a database with the oldest format that Pebble can open.
func createOldFolder(t *testing.T, fs vfs.FS) {
	t.Helper()
	db, err := pebble.Open("d", &pebble.Options{FS: fs, Logger: &logger{log: slog.New(slog.DiscardHandler)}, FormatMajorVersion: pebble.FormatMinSupported})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// isDamageDetected flips a bit of the WAL, at a number of tenths of its size.
func isDamageDetected(t *testing.T, mem disktest.Crashable, o Options, tenths int) bool {
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
			t.Errorf("it is detected, but as %v", err)
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

// newest returns the last file with this suffix.
func newest(t *testing.T, mem vfs.FS, suffix string) (name string) {
	t.Helper()
	names, err := mem.List("d")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, suffix) && n > name {
			name = n
		}
	}
	return name
}
