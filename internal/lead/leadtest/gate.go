package leadtest

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/blob"
)

// Gate is a place for files that blocks one caller in the middle of its work, so
// that another server overtakes it.
type Gate struct {
	blob.Place

	mu     sync.Mutex
	at     string
	held   chan struct{} // closed when a caller is blocked
	opened chan struct{}
	open   func()
}

// Hold blocks the next caller that reads a file whose name contains a text, or that
// makes such a file visible. The function it returns waits until a caller is
// blocked. The gate opens at Release, or at the end of the test.
func (g *Gate) Hold(t interface{ Cleanup(func()) }, at string) (held func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stopped, opened := make(chan struct{}), make(chan struct{})
	g.at, g.held, g.opened = at, stopped, opened
	g.open = sync.OnceFunc(func() { close(opened) })
	t.Cleanup(g.open)
	return func() { <-stopped }
}

// Release lets the blocked caller continue.
func (g *Gate) Release() { g.open() }

func (g *Gate) pass(name string) {
	g.mu.Lock()
	if g.at == "" || !strings.Contains(name, g.at) {
		g.mu.Unlock()
		return
	}
	g.at = ""
	opened := g.opened
	close(g.held)
	g.mu.Unlock()
	<-opened
}

// Create starts a file.
func (g *Gate) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := g.Place.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	return &gatedWriter{w, g, name}, nil
}

// Open reads a file.
func (g *Gate) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	g.pass(name)
	return g.Place.Open(ctx, name)
}

type gatedWriter struct {
	blob.Writer
	gate *Gate
	name string
}

func (w *gatedWriter) Commit() error {
	w.gate.pass(w.name)
	return w.Writer.Commit()
}
