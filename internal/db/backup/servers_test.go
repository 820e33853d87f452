package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// backupServer is one of several servers that share a database.
type backupServer struct {
	*backupFixture
	*leadtest.Server
	gate *leadtest.Gate
	full atomic.Bool // creating an items file fails
}

// itemsFullPlace is a place where creating an items file fails while full is set.
type itemsFullPlace struct {
	blob.Place
	full *atomic.Bool
}

func (p *itemsFullPlace) Create(ctx context.Context, name string) (blob.Writer, error) {
	if p.full.Load() && strings.HasSuffix(name, suffixItems) {
		return nil, syscall.ENOSPC
	}
	return p.Place.Create(ctx, name)
}

// openServers opens two servers that share a database and a place for backups.
// The first one leads.
func openServers(t *testing.T) (a, b *backupServer) {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	fleet := leadtest.New(engine)
	// Not a folder: in a folder the incomplete files of two writers have the same
	// name, which hides some of the damage that a late writer can do.
	place, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	join := func(leads bool) *backupServer {
		m := &backupServer{Server: fleet.Join()}
		m.gate = &leadtest.Gate{Place: &itemsFullPlace{place, &m.full}}
		m.Lead(leads)
		d, err := db.Open(t.Context(), m.Server, db.Options{OpenBackup: Contents(m.gate)})
		if err != nil {
			t.Fatal(err)
		}
		m.backupFixture = &backupFixture{DB: d, Store: Open(t.Context(), d, m.gate, Options{Log: slog.New(slog.DiscardHandler)})}
		return m
	}
	a, b = join(true), join(false)
	t.Cleanup(func() {
		a.Store.Close()
		b.Store.Close()
		if err := errors.Join(a.DB.Close(), b.DB.Close(), place.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return a, b
}

// check verifies that each server reports exactly the backup id, in the given
// state.
func check(t *testing.T, id string, creating bool, all ...*backupServer) {
	t.Helper()
	for i, m := range all {
		if b, err := m.Store.Get(t.Context(), id); err != nil || b.ID != id || b.Creating != creating {
			t.Errorf("server %d: Get = %+v, %v, want creating %v", i, b, err, creating)
		}
		if list, err := m.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != id || list[0].Creating != creating {
			t.Errorf("server %d: List = %+v, %v, want %s, creating %v", i, list, err, id, creating)
		}
	}
}

// restore restores a table from a backup and compares its items.
func (m *backupServer) restore(t *testing.T, id, name string, want map[string]bool) {
	t.Helper()
	if _, err := m.Restore(t.Context(), id, as(name)); err != nil {
		t.Fatal(err)
	}
	if !m.waitRestored(name) || !maps.Equal(m.contents(t, name), want) {
		t.Errorf("the restored table does not have the %d items of the backup", len(want))
	}
}

// files returns the names of all files at the place.
func (m *backupServer) files(t *testing.T) []string {
	t.Helper()
	names, err := m.gate.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Any server accepts a request for a backup. The backup has the items of that
// moment, and all servers report it, and also that it was deleted.
func TestFollowerAcceptsBackups(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		b.fill(t, "Orders", 60, 10)
		want := a.contents(t, "Orders")
		held := a.gate.Hold(t, ".items")
		made, err := b.Create(t.Context(), "Orders", "a-backup")
		if err != nil || !made.Creating {
			t.Fatal(made, err)
		}
		b.put(t, "Orders", 90, 3) // too late for the backup
		a.put(t, "Orders", 120, 3)
		held()
		check(t, made.ID, true, a, b)
		if _, err := b.Delete(t.Context(), made.ID); !errors.Is(err, ErrInUse) {
			t.Errorf("Delete of a backup that is being created: %v, want %v", err, ErrInUse)
		}
		a.gate.Release()
		b.waitAvailable(t, made.ID)
		check(t, made.ID, false, a, b)
		time.Sleep(2 * scanInterval) // time for an unwanted second attempt
		if files := a.files(t); len(files) != 2 {
			t.Errorf("the files are %v, want items and manifest", files)
		}
		b.restore(t, made.ID, "Again", want)

		held = a.gate.Hold(t, ".items") // the next restore blocks there
		if _, err := b.Restore(t.Context(), made.ID, as("Slow")); err != nil {
			t.Fatal(err)
		}
		held()
		for _, m := range []*backupServer{a, b} {
			if _, err := m.Delete(t.Context(), made.ID); !errors.Is(err, ErrInUse) {
				t.Errorf("Delete of a backup that is being restored: %v, want %v", err, ErrInUse)
			}
		}
		a.gate.Release()
		if !b.waitRestored("Slow") {
			t.Error("the restore failed")
		}
		if _, err := b.Delete(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		for _, m := range []*backupServer{a, b} {
			if _, err := m.Store.Get(t.Context(), made.ID); !errors.Is(err, ErrNotFound) {
				t.Errorf("Get of a deleted backup: %v, want %v", err, ErrNotFound)
			}
			if all, err := m.List(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("List = %v, %v, want no backup", all, err)
			}
		}
	})
}

// When the leader changes during a backup, the new leader creates the backup from
// the table as it is then, and the old one does not damage it, whether or not it
// has noticed the change.
func TestLeaderChangeDuringBackup(t *testing.T) {
	for _, at := range []string{".items", ".manifest"} {
		for _, noticed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, noticed %v", at, noticed), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) {
					a, b := openServers(t)
					a.fill(t, "Orders", 60, 10)
					before := a.contents(t, "Orders")
					held := a.gate.Hold(t, at)
					made, err := b.Create(t.Context(), "Orders", "a-backup")
					if err != nil {
						t.Fatal(err)
					}
					held()
					b.put(t, "Orders", 90, 3)
					after := a.contents(t, "Orders")
					a.Lead(!noticed)
					b.Lead(true)
					b.waitAvailable(t, made.ID)
					a.gate.Release()
					time.Sleep(2 * scanInterval)
					for _, m := range []*backupServer{a, b} {
						if err := m.Store.Verify(t.Context(), made.ID); err != nil {
							t.Fatal(err, m.files(t))
						}
					}
					// Two servers that fill one table would corrupt it. With a real
					// engine the lease keeps the old leader from committing.
					a.Lead(false)
					if _, err := b.Restore(t.Context(), made.ID, as("Again")); err != nil || !b.waitRestored("Again") {
						t.Fatal(err)
					}
					if got := b.contents(t, "Again"); !maps.Equal(got, before) && !maps.Equal(got, after) {
						t.Error("the backup has the items of neither attempt")
					}
				})
			})
		}
	}
}

// A backup that is requested while there is no leader is created by the next one.
func TestBackupWithoutALeader(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		a.fill(t, "Orders", 60, 10)
		a.Lead(false)
		time.Sleep(time.Minute)
		made, err := a.Create(t.Context(), "Orders", "a-backup")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * scanInterval)
		check(t, made.ID, true, a, b)
		b.Lead(true)
		a.waitAvailable(t, made.ID)
		check(t, made.ID, false, a, b)
		b.restore(t, made.ID, "Again", b.contents(t, "Orders"))
	})
}

// A deleted backup is not created again, even if the server that wrote it stopped
// before it removed the record of the pending backup.
func TestDeletedBackupStaysDeleted(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		a.fill(t, "Orders", 60, 10)
		made := a.backUp(t, "Orders")
		a.Lead(false)
		time.Sleep(time.Minute)
		if err := writeRecord(t.Context(), a.gate, made.ID+suffixCreating, &made.Manifest); err != nil {
			t.Fatal(err)
		}
		check(t, made.ID, false, a, b)
		if _, err := b.Delete(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		b.Lead(true)
		time.Sleep(2 * scanInterval)
		if files := b.files(t); len(files) > 0 {
			t.Errorf("the deleted backup has the files %v again", files)
		}
	})
}

// All servers report why a backup failed.
func TestFailureIsReported(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		a.fill(t, "Orders", 60, 10)
		a.full.Store(true)
		made, err := b.Create(t.Context(), "Orders", "a-backup")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for i, m := range []*backupServer{a, b} {
			if _, err := m.Store.Get(t.Context(), made.ID); !errors.As(err, new(*Failed)) || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
				t.Errorf("server %d: Get = %v, want *Failed with %v", i, err, syscall.ENOSPC)
			}
		}
		if files := a.files(t); len(files) > 0 {
			t.Errorf("the failed backup leaves the files %v", files)
		}
	})
}

// Any server writes a backup of the whole database.
func TestWholeServerFromFollower(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		a.fill(t, "Orders", 300, 500)
		var stream bytes.Buffer
		if err := b.WriteAll(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		want := a.contents(t, "Orders")
		if err := ReadAll(t.Context(), &stream, b.gate, time.Now(), func(Manifest) {}); err != nil {
			t.Fatal(err)
		}
		all, err := a.List(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("List = %v, %v, want one backup", all, err)
		}
		if _, err := b.DeleteTable(t.Context(), "Orders"); err != nil {
			t.Fatal(err)
		}
		if err := RestoreAll(t.Context(), b.gate, b.DB, "", slog.New(slog.DiscardHandler), func(Manifest) {}); err != nil {
			t.Fatal(err)
		}
		if d, err := a.Describe("Orders"); err != nil || d.Status != schema.Active || !maps.Equal(a.contents(t, "Orders"), want) {
			t.Errorf("after RestoreAll the table is %+v, %v", d, err)
		}
	})
}
