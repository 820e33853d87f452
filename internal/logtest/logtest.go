// Package logtest keeps a log in memory for tests that read what was told.
package logtest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Log keeps what is written to it. It may be read while the program under test
// goes on telling, as programs with goroutines do.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Logger writes to the log as text, from level Info on.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is what was told so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset forgets what was told.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}
