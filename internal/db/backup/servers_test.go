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
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/lead/leadtest"
	"github.com/stator-db/stator/internal/store/pebble"
)

// backupServer is a house that shares its database with others.
type backupServer struct {
	*backupFixture
	*leadtest.Server
	gate *leadtest.Gate
	full atomic.Bool // no file of items has room
}

// itemsFullPlace is a place in which no file of items has room while it is full.
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

// openServers opens two servers of one database and one place for backups. The
// first leads.
func openServers(t *testing.T) (a, b *backupServer) {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	fleet := leadtest.New(engine)
	// Not a folder: there a file that is not complete has one name, so that he
	// who is late does less harm than he could.
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
		m.backupFixture = &backupFixture{DB: d, Store: Open(t.Context(), d, m.gate, slog.New(slog.DiscardHandler))}
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

// check compares what each server tells of the one backup.
func check(t *testing.T, id string, creating bool, all ...*backupServer) {
	t.Helper()
	for i, m := range all {
		if b, err := m.Store.Get(t.Context(), id); err != nil || b.ID != id || b.Creating != creating {
			t.Errorf("server %d finds %+v, %v", i, b, err)
		}
		if list, err := m.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != id || list[0].Creating != creating {
			t.Errorf("server %d lists %+v, %v", i, list, err)
		}
	}
}

// restore makes a table of a backup, and compares its items.
func (m *backupServer) restore(t *testing.T, id, name string, want map[string]bool) {
	t.Helper()
	if _, err := m.Restore(t.Context(), id, as(name)); err != nil {
		t.Fatal(err)
	}
	if !m.waitRestored(name) || !maps.Equal(m.contents(t, name), want) {
		t.Errorf("the table restored has other items than the %d expected", len(want))
	}
}

// files are the names of all files at the place.
func (m *backupServer) files(t *testing.T) []string {
	t.Helper()
	names, err := m.gate.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A backup is asked for on any server, is of that moment, and is told by all;
// also that it is gone.
func TestFollowerAcceptsBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		b.fill(t, "Orders", 60, 10)
		want := a.contents(t, "Orders")
		held := a.gate.Hold(t, ".items")
		made, err := b.Create(t.Context(), "Orders", "a-backup")
		if err != nil || !made.Creating {
			t.Fatal(made, err)
		}
		b.put(t, "Orders", 90, 3) // too late to be in it
		a.put(t, "Orders", 120, 3)
		held()
		check(t, made.ID, true, a, b)
		if _, err := b.Delete(t.Context(), made.ID); !errors.Is(err, ErrInUse) {
			t.Errorf("it is deleted while it is made: %v", err)
		}
		a.gate.Release()
		b.waitAvailable(t, made.ID)
		check(t, made.ID, false, a, b)
		time.Sleep(2 * scanInterval) // somebody might begin again
		if files := a.files(t); len(files) != 2 {
			t.Errorf("the files are %v", files)
		}
		b.restore(t, made.ID, "Again", want)

		held = a.gate.Hold(t, ".items") // the next restore reads it
		if _, err := b.Restore(t.Context(), made.ID, as("Slow")); err != nil {
			t.Fatal(err)
		}
		held()
		for _, m := range []*backupServer{a, b} {
			if _, err := m.Delete(t.Context(), made.ID); !errors.Is(err, ErrInUse) {
				t.Errorf("it is deleted while a table is made of it: %v", err)
			}
		}
		a.gate.Release()
		if !b.waitRestored("Slow") {
			t.Error("the table is gone")
		}
		if _, err := b.Delete(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		for _, m := range []*backupServer{a, b} {
			if _, err := m.Store.Get(t.Context(), made.ID); !errors.Is(err, ErrNotFound) {
				t.Errorf("a deleted backup: %v", err)
			}
			if all, err := m.List(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("the list is %v, %v", all, err)
			}
		}
	})
}

// When the lead moves in the middle, the next makes the backup of what there is
// then, and the one before does no harm, whether or not it has noticed.
func TestLeaderChangeDuringBackup(t *testing.T) {
	for _, at := range []string{".items", ".manifest"} {
		for _, notices := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, notices %v", at, notices), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
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
					a.Lead(!notices)
					b.Lead(true)
					b.waitAvailable(t, made.ID)
					a.gate.Release()
					time.Sleep(2 * scanInterval)
					for _, m := range []*backupServer{a, b} {
						if err := m.Store.Verify(t.Context(), made.ID); err != nil {
							t.Fatal(err, m.files(t))
						}
					}
					// Two that fill one table would spoil it. An engine's lease
					// sees to it that the one before commits nothing by now.
					a.Lead(false)
					if _, err := b.Restore(t.Context(), made.ID, as("Again")); err != nil || !b.waitRestored("Again") {
						t.Fatal(err)
					}
					if got := b.contents(t, "Again"); !maps.Equal(got, before) && !maps.Equal(got, after) {
						t.Error("the backup is of no moment at which it was made")
					}
				})
			})
		}
	}
}

// A backup that was asked for while nobody led is made by the first who does.
func TestBackupWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// A backup that is deleted is not made again, even if the one who made it was
// stopped before he could say that it is done.
func TestDeletedBackupStaysDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			t.Errorf("the files are %v", files)
		}
	})
}

// Why a backup came to nothing is told by all servers.
func TestFailureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
				t.Errorf("server %d tells %v", i, err)
			}
		}
		if files := a.files(t); len(files) > 0 {
			t.Errorf("it left %v", files)
		}
	})
}

// A backup of the whole server is taken from any.
func TestWholeServerFromFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			t.Fatalf("the list is %v, %v", all, err)
		}
		if _, err := b.DeleteTable(t.Context(), "Orders"); err != nil {
			t.Fatal(err)
		}
		if err := RestoreAll(t.Context(), b.gate, b.DB, func(Manifest) {}); err != nil {
			t.Fatal(err)
		}
		if d, err := a.Describe("Orders"); err != nil || d.Status != schema.Active || !maps.Equal(a.contents(t, "Orders"), want) {
			t.Errorf("the table is %+v, %v", d, err)
		}
	})
}
