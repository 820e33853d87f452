package pebble

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// damage is what was found of damaged tables since the database was opened.
type damage struct {
	failures *failures // of compactions
	errors   *failures // of all background work, for the log

	files       sync.Map // by path
	numFiles    atomic.Int64
	compactions atomic.Int64
}

func newDamage(log *slog.Logger) *damage {
	return &damage{
		failures: newFailures(slog.New(slog.DiscardHandler), damageLogInterval),
		errors:   newFailures(log, damageLogInterval),
	}
}

// found records a damaged file, and reports whether it is the first time.
func (d *damage) found(path string) (first bool) {
	_, known := d.files.LoadOrStore(path, true)
	if !known {
		d.numFiles.Add(1)
	}
	return !known
}

// compactionFailed records a compaction that failed because of damage. No other one begins
// for a while.
func (d *damage) compactionFailed(err error) {
	d.compactions.Add(1)
	d.failures.failed(err)
}

var _ store.DamageReporter = (*Engine)(nil)

// Damage returns what was found of damaged tables since the database was opened.
func (e *Engine) Damage() store.Damage {
	return store.Damage{Files: int(e.damage.numFiles.Load()), Compactions: int(e.damage.compactions.Load())}
}
