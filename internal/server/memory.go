package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/server/door"
)

const (
	maxBodyBytes = 16 << 20
	// maxBodies bounds the memory that the bodies of all requests under way
	// may take.
	maxBodies = 192 << 20
	// bodyPatience is how long a body waits for memory before it is refused.
	bodyPatience = 3 * time.Second
	// bodyGrace is how long a body may take when others wait for its memory.
	bodyGrace = time.Second
	// bodyLook is how often one that waits looks for such.
	bodyLook = 250 * time.Millisecond
)

// memory is what large bodies are read into. They take it as they come, so
// that to announce much costs the others nothing. When there is no more, those
// who hold much and take long give theirs up.
type memory struct {
	free *semaphore.Weighted

	mu      sync.Mutex
	reading map[*share]struct{} // those that are not whole yet
}

func newMemory() *memory {
	return &memory{free: semaphore.NewWeighted(maxBodies), reading: make(map[*share]struct{})}
}

// share is what one body holds of the memory.
type share struct {
	*memory
	of    *door.Request
	since time.Time
	ctx   context.Context
	stop  context.CancelFunc
	held  int64
	gone  bool // it was cut
}

// read reads a body. The share is to be released, also after an error.
func (m *memory) read(ctx context.Context, r *door.Request) ([]byte, *share, error) {
	s := &share{memory: m, of: r, since: time.Now()}
	s.ctx, s.stop = context.WithCancel(ctx)
	m.mu.Lock()
	m.reading[s] = struct{}{}
	m.mu.Unlock()
	body, err := r.Read(maxBodyBytes, s.take)
	m.mu.Lock()
	delete(m.reading, s)
	m.mu.Unlock()
	if err != nil && s.gone {
		err = apierror.Throttled()
	}
	return body, s, err
}

func (s *share) release() {
	s.stop()
	s.of.Drop()
	s.free.Release(s.held)
}

// take takes more memory, and waits for it if it must.
func (s *share) take(bytes int64) error {
	if !s.free.TryAcquire(bytes) {
		ctx, cancel := context.WithTimeout(s.ctx, bodyPatience)
		defer cancel()
		defer s.pressFor(bytes)()
		if s.free.Acquire(ctx, bytes) != nil {
			return cmp.Or(context.Cause(s.ctx), error(apierror.Throttled()))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held += bytes
	return nil
}

// pressFor makes room now and from time to time, until it is stopped.
func (s *share) pressFor(bytes int64) (stop func()) {
	s.makeRoom(bytes)
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		t := time.NewTicker(bodyLook)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.makeRoom(bytes)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); running.Wait() }
}

// makeRoom cuts those off that hold most, of all that have been reading for
// long, until what they hold is enough.
func (m *memory) makeRoom(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var slow []*share
	for s := range m.reading {
		if s.held > 0 && time.Since(s.since) >= bodyGrace {
			slow = append(slow, s)
		}
	}
	slices.SortFunc(slow, func(a, b *share) int { return cmp.Or(cmp.Compare(b.held, a.held), a.since.Compare(b.since)) })
	for _, s := range slow {
		if bytes <= 0 {
			return
		}
		if !s.gone {
			s.gone = true
			s.stop()
			s.of.Cut() // the read, if it waits for the client
		}
		bytes -= s.held // also of those that are about to go
	}
}
