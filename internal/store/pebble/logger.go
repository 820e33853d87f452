package pebble

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// logger passes Pebble's messages to slog.
type logger struct {
	log  *slog.Logger
	exit func(code int)
}

var _ pebble.Logger = (*logger)(nil)

// Infof logs ordinary events, which are debug messages here.
func (l *logger) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...))
}

// Errorf logs errors that Pebble handles.
func (l *logger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...))
}

// Fatalf ends the process. Pebble relies on that: after a failed write to the WAL it is
// unknown what is on disk.
func (l *logger) Fatalf(format string, args ...any) {
	l.log.Error("the database cannot continue: " + fmt.Sprintf(format, args...))
	l.exit(1)
}

// corruptionPause slows readers of damaged bytes down. Pebble's collection of statistics,
// which reads each table, repeats a read that met them without a pause.
const corruptionPause = 20 * time.Millisecond

// maxOpenErrors is how many background errors there may be before the database is open.
const maxOpenErrors = 8

// events handles the events of Pebble that the engine acts on.
func (e *Engine) events(corruptionPause time.Duration) *pebble.EventListener {
	var failed atomic.Int32
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if pebble.IsCorruptionError(err) {
				e.damage.errors.failed(err)
				return // neither flushes nor Open wait for this work
			}
			e.disk.failures.failed(err)
			if e.opening.Load() && failed.Add(1) == maxOpenErrors {
				// Open waits for this work, and Pebble retries it for ever.
				e.fatal("the database cannot be opened, because its first writes fail: %v; free space on the disk, or repair it", err)
			}
			e.disk.checkSoon()
		},
		// Without this handler a damaged block would end the process, after every
		// restart. With it the read fails.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			if e.damage.found(info.Path) {
				e.log.Error("stored data is corrupt: restore it from a backup",
					"file", info.Path, "keys", info.Bounds.String(), "error", info.Details.Error())
			}
			time.Sleep(corruptionPause)
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				e.disk.failures.succeeded()
			}
			e.disk.checkSoon()
		},
		CompactionBegin: e.disk.compacts.begin,
		TableCreated:    e.disk.compacts.created,
		CompactionEnd: func(info pebble.CompactionInfo) {
			e.disk.compacts.end(info)
			switch {
			case info.Err == nil:
				e.damage.failures.succeeded()
			case pebble.IsCorruptionError(info.Err):
				e.damage.compactionFailed(info.Err)
			}
			e.disk.checkSoon()
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			e.log.Warn("write stall", "reason", info.Reason)
			e.disk.checkSoon()
		},
		WriteStallEnd: func() { e.log.Warn("write stall ended") },
	}
}
