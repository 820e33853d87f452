package pebble

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// logger is where Pebble tells what it does.
type logger struct {
	log  *slog.Logger
	exit func(code int)
}

var _ pebble.Logger = (*logger)(nil)

// Infof tells of everyday events.
func (l *logger) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...))
}

// Errorf tells of what went wrong and is handled.
func (l *logger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...))
}

// Fatalf ends the process. Pebble relies on that: when a write to the log has
// gone wrong, nobody knows any more what is on disk.
func (l *logger) Fatalf(format string, args ...any) {
	l.log.Error("the database cannot go on: " + fmt.Sprintf(format, args...))
	l.exit(1)
}

// corruptionPause slows down who reads damaged bytes. A compaction that meets
// them would try again without a pause.
const corruptionPause = 20 * time.Millisecond

// maxOpenErrors is how often work in the background may fail before the data is
// open.
const maxOpenErrors = 50

// events are the happenings inside Pebble that we act upon.
func (e *Engine) events() *pebble.EventListener {
	var told sync.Map // files known to be damaged
	var failed atomic.Int32
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			e.log.Error("work in the background", "error", err.Error()) // as text: slog would add the stack
			if e.opening.Load() && failed.Add(1) == maxOpenErrors {
				// Opening waits for this work, and Pebble tries it for ever.
				e.fatal("the data cannot be opened, since what a start writes cannot be written: %v; make room on the disk, or mend it", err)
			}
			e.disk.lookSoon()
		},
		// Without this handler a damaged block would end the process, again
		// after each start. The read gets an error instead.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			if _, known := told.LoadOrStore(info.Path, true); !known {
				e.log.Error("stored data is corrupt: restore it from a backup",
					"file", info.Path, "keys", info.Bounds.String(), "error", info.Details.Error())
			}
			time.Sleep(corruptionPause)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			e.log.Warn("writes wait for the disk", "reason", info.Reason)
			e.disk.lookSoon()
		},
		WriteStallEnd: func() { e.log.Warn("writes go on") },
	}
}
