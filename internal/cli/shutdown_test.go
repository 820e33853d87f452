package cli

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
)

// stoppingPort is a port whose requests end when those of others are being finished.
type stoppingPort struct {
	begun  chan struct{}
	others []*stoppingPort
	cut    bool // its requests do not end
	closed atomic.Bool
}

func (p *stoppingPort) Shutdown(context.Context) error {
	close(p.begun)
	for _, o := range p.others {
		<-o.begun
	}
	if p.cut {
		return errors.New("requests are in flight")
	}
	return nil
}

func (p *stoppingPort) Close() error {
	p.closed.Store(true)
	return nil
}

// All ports stop accepting connections at the same time, and each finishes its requests.
func TestPortsShutDownTogether(t *testing.T) {
	a, b := &stoppingPort{begun: make(chan struct{})}, &stoppingPort{begun: make(chan struct{}), cut: true}
	a.others, b.others = []*stoppingPort{b}, []*stoppingPort{a}
	if err := shutDown(func() bool { return true }, 0, slog.New(slog.DiscardHandler), a, b); err != nil {
		t.Error(err)
	}
	if a.closed.Load() || !b.closed.Load() {
		t.Errorf("requests were cut off: %v and %v, want those of the second port", a.closed.Load(), b.closed.Load())
	}
}
