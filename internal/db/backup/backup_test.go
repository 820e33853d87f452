package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/timeid"
	"github.com/stator-db/stator/internal/virtualtime"
)

// backupFixture is a database and its backups.
type backupFixture struct {
	*db.DB
	*Store
	close func()
}

// open opens a database in a folder and its backups at a place.
func open(t testing.TB, dir string, place blob.Place) *backupFixture {
	t.Helper()
	e, err := pebble.Open(pebble.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), e, db.Options{OpenBackup: Contents(place)})
	if err != nil {
		t.Fatal(err)
	}
	h := &backupFixture{DB: d, Store: Open(t.Context(), d, place, Options{Log: slog.New(slog.DiscardHandler)})}
	closed := false
	h.close = func() {
		if closed {
			return
		}
		closed = true
		h.Store.Close()
		if err := errors.Join(d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(h.close)
	return h
}

func openFolder(t testing.TB, dir string) blob.Place {
	t.Helper()
	place, err := blob.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// orders is a table with a local and a global index.
func orders(name string) schema.Table {
	attr := func(name string) schema.Attribute { return schema.Attribute{Name: name, Type: item.S} }
	t := schema.Table{
		Name:       name,
		Key:        schema.Key{Partition: []schema.Attribute{attr("id")}, Sort: []schema.Attribute{attr("at")}},
		Attributes: []schema.Attribute{attr("id"), attr("at"), attr("a")},
		Tags:       []schema.Tag{{Key: "k", Value: "v"}},
	}
	t.AddIndex(schema.Index{Name: "local", Key: schema.Key{Partition: t.Key.Partition, Sort: []schema.Attribute{attr("a")}}, Projection: schema.Projection{Kind: schema.ProjectAll}})
	t.AddIndex(schema.Index{Name: "global", Global: true, Key: schema.Key{Partition: []schema.Attribute{attr("a")}}, Projection: schema.Projection{Kind: schema.ProjectKeys}})
	return t
}

// fill creates a table with items.
func (h *backupFixture) fill(t testing.TB, name string, items, size int) {
	t.Helper()
	if _, err := h.CreateTable(t.Context(), orders(name)); err != nil {
		t.Fatal(err)
	}
	h.put(t, name, items, size)
}

func (h *backupFixture) put(t testing.TB, name string, items, size int) {
	t.Helper()
	for i := range items {
		it := item.Make(map[string]item.Value{
			"id": item.String(fmt.Sprint(i % 17)), "at": item.String(fmt.Sprint(i)), "a": item.String(fmt.Sprint(i % 5)),
			"text": item.String(strings.Repeat("x", size)),
		})
		if _, err := h.Write(t.Context(), db.Write{Table: name, Key: it, Fit: (*schema.Table).CheckItem, Effect: db.Replace(it)}); err != nil {
			t.Fatal(err)
		}
	}
}

// waitAvailable waits until a backup is complete, and returns it.
func (h *backupFixture) waitAvailable(t testing.TB, id string) Backup {
	t.Helper()
	for {
		b, err := h.Store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !b.Creating {
			return b
		}
		time.Sleep(time.Millisecond)
	}
}

func (h *backupFixture) backUp(t testing.TB, table string) Backup {
	t.Helper()
	b, err := h.Create(t.Context(), table, "a-backup")
	if err != nil {
		t.Fatal(err)
	}
	if !b.Creating {
		t.Error("Create returned a complete backup, want one that is being created")
	}
	return h.waitAvailable(t, b.ID)
}

// as returns a define function for Restore that only renames the table.
func as(name string) func(schema.Table) (schema.Table, error) {
	return func(t schema.Table) (schema.Table, error) {
		t.Name = name
		return t, nil
	}
}

// waitRestored waits for the restore of a table and reports whether it succeeded.
func (h *backupFixture) waitRestored(name string) bool {
	for {
		d, err := h.Describe(name)
		if err != nil || d.Status == schema.Deleting {
			return false
		}
		if !d.Restored.Running {
			return true
		}
		time.Sleep(time.Millisecond)
	}
}

// contents returns the items of a table as text.
func (h *backupFixture) contents(t testing.TB, table string) map[string]bool {
	t.Helper()
	view, err := h.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	def, err := view.Table(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for it, err := range view.Items(t.Context(), def.ID) {
		if err != nil {
			t.Fatal(err)
		}
		found[item.Map(it).String()] = true
	}
	return found
}

func (h *backupFixture) checkSound(t testing.TB) {
	t.Helper()
	reports, err := h.DB.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Faults > 0 {
			t.Errorf("table %s: %v", r.Table, r.First)
		}
	}
}

// A backup has the items of the moment at which it was requested, and can be
// restored after the database is lost.
func TestBackupOutlivesTheDatabase(t *testing.T) {
	for name, size := range map[string]int{"small items": 10, "large items": 90_000} {
		t.Run(name, func(t *testing.T) {
			dir, place := filepath.Join(t.TempDir(), "data"), openFolder(t, t.TempDir())
			h := open(t, dir, place)
			h.fill(t, "Orders", 60, size)
			want := h.contents(t, "Orders")
			b, err := h.Create(t.Context(), "Orders", "a-backup")
			if err != nil {
				t.Fatal(err)
			}
			h.put(t, "Orders", 90, 3) // too late for the backup
			h.waitAvailable(t, b.ID)
			h.close()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}

			h = open(t, dir, place)
			all, err := h.List(t.Context())
			if err != nil || len(all) != 1 || all[0].ID != b.ID || all[0].Items != 60 {
				t.Fatalf("List = %+v, %v, want the one backup with 60 items", all, err)
			}
			if _, err := h.Restore(t.Context(), b.ID, as("Again")); err != nil {
				t.Fatal(err)
			}
			if !h.waitRestored("Again") || !maps.Equal(h.contents(t, "Again"), want) {
				t.Errorf("the restored table has %d items, want the %d of the backup", len(h.contents(t, "Again")), len(want))
			}
			h.checkSound(t)
			if _, err := h.Delete(t.Context(), b.ID); err != nil {
				t.Fatal(err)
			}
			if names, _ := place.Names(t.Context()); len(names) > 0 {
				t.Errorf("a deleted backup leaves the files %v", names)
			}
			if _, err := h.Store.Get(t.Context(), b.ID); !errors.Is(err, ErrNotFound) {
				t.Errorf("Get of a deleted backup: %v, want %v", err, ErrNotFound)
			}
		})
	}
}

// A flipped byte anywhere in a backup file is detected, the error names the file,
// and no table is restored from it. The control is the unchanged file.
func TestFlippedBytesAreFound(t *testing.T) {
	where := t.TempDir()
	h := open(t, t.TempDir(), openFolder(t, where))
	h.fill(t, "Orders", 400, 1500) // several blocks
	b := h.backUp(t, "Orders")
	for _, suffix := range []string{suffixItems, suffixManifest} {
		name := filepath.Join(where, b.ID+suffix)
		sound, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		offsets := []int{0, 7, 8, 11, 12, 13, len(sound) - 1, len(sound) - 4, len(sound) - 70}
		for range 150 {
			offsets = append(offsets, r.IntN(len(sound)))
		}
		for _, at := range offsets {
			bad := bytes.Clone(sound)
			bad[at] ^= byte(1 + r.IntN(255))
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			var damaged *Damaged
			if err := h.Store.Verify(t.Context(), b.ID); !errors.As(err, &damaged) || damaged.File != b.ID+suffix {
				t.Fatalf("Verify with byte %d of %s flipped: %v", at, suffix, err)
			}
		}
		for _, bad := range [][]byte{sound[:0], sound[:len(sound)/2], sound[:len(sound)-1], append(bytes.Clone(sound), 0)} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := h.Store.Verify(t.Context(), b.ID); !errors.As(err, new(*Damaged)) {
				t.Fatalf("Verify with %d of %d bytes: %v", len(bad), len(sound), err)
			}
		}
		if suffix == suffixItems { // a restore in the background detects it too
			if _, err := h.Restore(t.Context(), b.ID, as("Bad")); err != nil {
				t.Fatal(err)
			}
			if h.waitRestored("Bad") {
				t.Error("a table was restored from a damaged backup")
			}
		}
		if err := os.WriteFile(name, sound, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.Store.Verify(t.Context(), b.ID); err != nil {
			t.Fatalf("Verify of the unchanged file: %v", err)
		}
	}
	if err := os.Remove(filepath.Join(where, b.ID+suffixItems)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Restore(t.Context(), b.ID, as("Missing")); err != nil || h.waitRestored("Missing") {
		t.Errorf("a table was restored without its items file: %v", err)
	}
}

// A backup that a shutdown interrupts is started again, and is not complete before.
func TestBackupResumesAfterRestart(t *testing.T) {
	dir, where := t.TempDir(), t.TempDir()
	h := open(t, dir, openFolder(t, where))
	h.fill(t, "Orders", 100, 10)
	h.Store.Close() // so that the backup is not written
	b, err := h.Create(t.Context(), "Orders", "a-backup")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(where, b.ID+suffixItems), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := h.contents(t, "Orders")
	h.close()

	h = open(t, dir, openFolder(t, where))
	for { // until the scan has found and written it
		all, err := h.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 1 && !all[0].Creating {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := h.Restore(t.Context(), b.ID, as("Again")); err != nil {
		t.Fatal(err)
	}
	if !h.waitRestored("Again") || !maps.Equal(h.contents(t, "Again"), want) {
		t.Error("the restored table differs from the one that was backed up")
	}
	// The file of the earlier attempt may belong to another server, so it is
	// removed only with the backup.
	if _, err := h.Delete(t.Context(), b.ID); err != nil {
		t.Error(err)
	}
	if names, _ := openFolder(t, where).Names(t.Context()); len(names) > 0 {
		t.Errorf("a deleted backup leaves the files %v", names)
	}
}

// Items files that no manifest names are removed a day after they were first
// seen, not before. The files of backups are kept.
func TestOrphanedFiles(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h, _ := openServers(t)
		h.fill(t, "Orders", 10, 10)
		b := h.backUp(t, "Orders")
		old, twice := timeid.New(time.Now().Add(-25*time.Hour)), timeid.New(time.Now().Add(-26*time.Hour))
		kept := []string{twice + "-00000002" + suffixItems, twice + suffixManifest, b.ID + suffixItems, b.ID + suffixManifest}
		left := []string{old + suffixItems, old + "-00000001" + suffixItems, twice + suffixItems}
		manifest := Manifest{Format: format, ID: twice, File: kept[0]}
		for _, name := range append(left, kept[:2]...) {
			if err := writeRecord(t.Context(), h.gate, name, manifest); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range [][]string{append(left, kept...), kept} {
			time.Sleep(23 * time.Hour)
			slices.Sort(want)
			if names := h.files(t); !slices.Equal(names, want) {
				t.Errorf("the files are %v, want %v", names, want)
			}
		}
	})
}

// limitedPlace is a place whose disk is full after some more bytes.
type limitedPlace struct {
	blob.Place
	left int
}

func (p *limitedPlace) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := p.Place.Create(ctx, name)
	return &limitedWriter{w, p}, err
}

type limitedWriter struct {
	blob.Writer
	place *limitedPlace
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	if w.place.left -= len(b); w.place.left < 0 {
		return 0, syscall.ENOSPC
	}
	return w.Writer.Write(b)
}

// A full disk fails a backup with ENOSPC, and no file is left.
func TestFullDisk(t *testing.T) {
	where := t.TempDir()
	place := &limitedPlace{Place: openFolder(t, where)}
	h := open(t, t.TempDir(), place)
	h.fill(t, "Orders", 200, 1000)
	want := h.contents(t, "Orders")
	if _, err := h.Create(t.Context(), "Orders", "a-backup"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create on a full disk: %v, want %v", err, syscall.ENOSPC)
	}
	place.left = 5000 // enough to start a backup
	b, err := h.Create(t.Context(), "Orders", "a-backup")
	if err != nil {
		t.Fatal(err)
	}
	for {
		now, err := h.Store.Get(t.Context(), b.ID)
		if err == nil && now.Creating {
			time.Sleep(time.Millisecond)
			continue
		}
		if !errors.As(err, new(*Failed)) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Get of a backup that filled the disk: %+v, %v", now, err)
		}
		break
	}
	if all, err := h.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("List = %v, %v, want no backup", all, err)
	}
	if !maps.Equal(h.contents(t, "Orders"), want) {
		t.Error("the failed backup changed the table")
	}
	h.close()
	if entries, _ := os.ReadDir(where); len(entries) > 0 {
		t.Errorf("the failed backup leaves the files %v", entries)
	}
}

// All tables of one moment are written as a stream, from which another database
// is restored. A truncated stream leaves no backup.
func TestWholeServer(t *testing.T) {
	h := open(t, t.TempDir(), openFolder(t, t.TempDir()))
	h.fill(t, "Orders", 300, 500)
	h.fill(t, "Carts", 20, 10)
	if _, err := h.CreateTable(t.Context(), orders("Empty")); err != nil {
		t.Fatal(err)
	}
	if err := h.SetTimeToLive(t.Context(), "Carts", "expires"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.SetRecovery(t.Context(), "Orders", 7); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := h.WriteAll(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	complete := stream.Bytes()
	place := openFolder(t, t.TempDir())
	for _, n := range []int{0, 1, 100, len(complete) / 3, len(complete) - 1} {
		if err := ReadAll(t.Context(), bytes.NewReader(complete[:n]), place, time.Now(), func(Manifest) {}); err == nil {
			t.Errorf("ReadAll accepts %d of %d bytes", n, len(complete))
		}
		if names, _ := place.Names(t.Context()); len(names) > 0 {
			t.Errorf("ReadAll of %d bytes leaves the files %v", n, names)
		}
	}
	if err := ReadAll(t.Context(), bytes.NewReader(complete), place, time.Now(), func(Manifest) {}); err != nil {
		t.Fatal(err)
	}

	again := open(t, t.TempDir(), place)
	if err := RestoreAll(t.Context(), place, again.DB, "", slog.New(slog.DiscardHandler), func(Manifest) {}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Orders", "Carts", "Empty"} {
		if !maps.Equal(again.contents(t, name), h.contents(t, name)) {
			t.Errorf("table %s differs after RestoreAll", name)
		}
	}
	carts, _ := again.Describe("Carts")
	placed, _ := again.Describe("Orders")
	if carts.TimeToLive.Attribute != "expires" || len(carts.Tags) != 1 || placed.Recovery.Days != 7 {
		t.Errorf("RestoreAll lost settings: %+v, %+v", carts.Table, placed.Recovery)
	}
	again.checkSound(t)
	if err := RestoreAll(t.Context(), openFolder(t, t.TempDir()), again.DB, "", slog.New(slog.DiscardHandler), func(Manifest) {}); !errors.Is(err, ErrNoSet) {
		t.Errorf("RestoreAll from an empty folder: %v, want %v", err, ErrNoSet)
	}
}
