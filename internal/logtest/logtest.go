// Package logtest keeps a log in memory for tests that read it.
package logtest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Log keeps the lines that are written to it. It may be read while goroutines
// of the program under test still write.
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

// String returns the log so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset empties the log.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}
