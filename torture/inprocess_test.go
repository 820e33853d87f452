package torture

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store/pebble"
)

// inProcess is a whole server in this process, on a given file system.
type inProcess struct {
	door
	engine *pebble.Engine
	db     *db.DB
}

// open opens a folder. It flushes soon, so that little work creates all kinds
// of files.
func open(fs vfs.FS, dir string, durability pebble.Durability, log *slog.Logger) (*inProcess, error) {
	engine, err := pebble.Open(pebble.Options{FS: fs, Dir: dir, Durability: durability, IdleFlush: 2 * time.Millisecond, CacheBytes: 4 << 10, Log: log})
	if err != nil {
		return nil, err
	}
	d, err := db.Open(context.Background(), engine, db.Options{Log: log})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &inProcess{within(server.New(ops.New(ops.Parts{DB: d}), log, 0)), engine, d}, nil
}

func (h *inProcess) close() error { return errors.Join(h.db.Close(), h.engine.Close()) }

// expectSound fails unless items and indexes agree.
func (h *inProcess) expectSound(t testing.TB) {
	t.Helper()
	found, err := h.db.Verify(context.Background(), func(string, int64) {})
	if err != nil {
		t.Errorf("verify: %v", err)
	}
	for _, r := range found {
		if r.Faults > 0 {
			t.Errorf("table %s has %d faults: %v", r.Table, r.Faults, r.First)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)
