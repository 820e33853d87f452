package leadtest

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/blob"
)

// Gate is a place for files that holds somebody up in the middle of his work,
// so that others overtake him.
type Gate struct {
	blob.Place

	mu     sync.Mutex
	at     string
	held   chan struct{} // closed when somebody is held up
	opened chan struct{}
	open   func()
}

// Hold holds up the first who reads a file whose name has a certain text, or
// who has written one and makes it visible. What it returns waits until he is
// held up. The gate is open again after Release, and at the end of the test.
func (g *Gate) Hold(t interface{ Cleanup(func()) }, at string) (held func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stopped, opened := make(chan struct{}), make(chan struct{})
	g.at, g.held, g.opened = at, stopped, opened
	g.open = sync.OnceFunc(func() { close(opened) })
	t.Cleanup(g.open)
	return func() { <-stopped }
}

// Release lets him go on.
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

// Create begins a file.
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
