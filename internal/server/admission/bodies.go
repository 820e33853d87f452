package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

const (
	MaxBodyBytes = 16 << 20
	// smallPoolBytes and largePoolBytes bound the memory that the bodies of all requests
	// under way may take: that of each until it is large, and the rest.
	smallPoolBytes = 64 << 20
	largePoolBytes = 96 << 20
	// maxBodyWait is how long a body waits for memory, all in all, before it
	// is refused.
	maxBodyWait = 3 * time.Second
	// slowBodyAfter is how long a body may take when others wait for its memory.
	slowBodyAfter = time.Second
	// evictionInterval is how often one that waits looks for such.
	evictionInterval = 250 * time.Millisecond
)

// memory is what bodies are read into that do not come along with their head.
// They take it as they come, so that to announce much costs the others nothing.
// When there is no more, those who hold much and take long give theirs up, and
// who asks for least has it first.
//
// What a body takes until it is large is not what large ones take, so that
// smaller ones do not wait for larger ones.
type Bodies struct {
	mu           sync.Mutex
	small, large pool
	reading      map[*Reservation]struct{} // those that are not whole yet
}

func NewBodies() *Bodies {
	return &Bodies{small: newPool(smallPoolBytes), large: newPool(largePoolBytes), reading: make(map[*Reservation]struct{})}
}

// Body is the body of a request.
type Body interface {
	// Read reads the body, up to a limit. It calls reserve before it takes
	// memory, and gives up when that returns an error.
	Read(limit int64, reserve func(bytes int64) error) ([]byte, error)
	// Cut ends a Read that waits for the client. It is called from another
	// goroutine, while Read runs.
	Cut()
	// Drop gives the memory of a body that was Read back.
	Drop()
}

// share is what one body holds of the memory.
type Reservation struct {
	*Bodies
	body     Body
	since    time.Time
	waitLeft time.Duration // for memory
	ctx      context.Context
	stop     context.CancelFunc
	small    int64 // bytes of that part
	large    int64
	evicted  bool // it was cut
}

// read reads a body. The share is to be released, also after an error.
func (m *Bodies) Read(ctx context.Context, b Body) ([]byte, *Reservation, error) {
	s := &Reservation{Bodies: m, body: b, since: time.Now(), waitLeft: maxBodyWait}
	s.ctx, s.stop = context.WithCancel(ctx)
	m.mu.Lock()
	m.reading[s] = struct{}{}
	m.mu.Unlock()
	body, err := b.Read(MaxBodyBytes, s.reserve)
	m.mu.Lock()
	delete(m.reading, s)
	m.mu.Unlock()
	if s.evicted { // even if all has come: what ends a read ends the request in net/http
		err = apierror.Throttled()
	}
	return body, s, err
}

func (s *Reservation) Release() {
	s.stop()
	s.body.Drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Bodies.small.release(s.small)
	s.Bodies.large.release(s.large)
}

// take takes more memory, and waits for it if it must.
func (s *Reservation) reserve(bytes int64) error {
	s.mu.Lock()
	p, held := &s.Bodies.small, &s.small
	if s.small+s.large+bytes > LargeBytes {
		p, held = &s.Bodies.large, &s.large
	}
	w := p.reserve(held, bytes)
	if w == nil {
		s.mu.Unlock()
		return nil
	}
	s.startEvicting(p, bytes)
	s.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, s.waitLeft)
	defer cancel()
	select {
	case <-w.given:
		s.waitLeft -= time.Since(began)
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		p.cancel(w)
		return cmp.Or(context.Cause(s.ctx), error(apierror.Throttled()))
	}
}

// of is how much it holds of a part.
func (s *Reservation) of(p *pool) int64 {
	if p == &s.Bodies.small {
		return s.small
	}
	return s.large
}

// press makes room now, and from time to time until nobody waits. The caller
// holds mu.
func (m *Bodies) startEvicting(p *pool, bytes int64) {
	m.evictSlow(p, bytes)
	if p.evicting {
		return
	}
	p.evicting = true
	go func() {
		for {
			m.mu.Lock()
			if p.evicting = len(p.waiting) > 0; !p.evicting {
				m.mu.Unlock()
				return
			}
			m.evictSlow(p, p.largestWaiting())
			next := p.evictedAt.Add(evictionInterval)
			m.mu.Unlock()
			time.Sleep(time.Until(next))
		}
	}()
}

// evictSlow cuts those off that hold most of a part, of all that have been
// reading for long, until what they hold is enough. Of many who wait at once,
// one does so for all that need no more. The caller holds mu.
func (m *Bodies) evictSlow(p *pool, bytes int64) {
	bytes = max(bytes, p.minEvicted)
	if bytes <= p.evictedFor && time.Since(p.evictedAt) < evictionInterval {
		return
	}
	p.evictedAt, p.evictedFor = time.Now(), bytes
	var slow []*Reservation
	for s := range m.reading {
		if s.of(p) > 0 && time.Since(s.since) >= slowBodyAfter {
			slow = append(slow, s)
		}
	}
	slices.SortFunc(slow, func(a, b *Reservation) int {
		return cmp.Or(cmp.Compare(b.of(p), a.of(p)), a.since.Compare(b.since))
	})
	for _, s := range slow {
		if bytes <= 0 {
			return
		}
		if !s.evicted {
			s.evicted = true
			s.stop()
			s.body.Cut() // the read, if it waits for the client
		}
		bytes -= s.of(p) // also of those that are about to go
	}
}

// part is one of the two parts of the memory.
type pool struct {
	free       int64
	waiting    waitQueue[*poolWaiter]
	arrivals   uint64    // that there ever were
	minEvicted int64     // that room is made for, or there would be none for the next one
	evictedAt  time.Time // when room was last made
	evictedFor int64     // and for how many bytes
	evicting   bool      // from time to time
}

func newPool(bytes int64) pool { return pool{free: bytes, minEvicted: bytes / 8} }

// wish is the memory that one waits for.
type poolWaiter struct {
	bytes  int64
	held   *int64
	total  int64  // with what is held
	number uint64 // in the order in which they came
	index  int    // in the line
	given  chan struct{}
}

// before says that who will have less goes first, and of equals who came first.
func (w *poolWaiter) before(other *poolWaiter) bool {
	return cmp.Or(cmp.Compare(w.total, other.total), cmp.Compare(w.number, other.number)) < 0
}

func (w *poolWaiter) setIndex(index int) { w.index = index }

// ask adds memory to what is held, now or when there is some; it returns nil
// if it is now.
func (p *pool) reserve(held *int64, bytes int64) *poolWaiter {
	if len(p.waiting) == 0 && bytes <= p.free {
		p.free -= bytes
		*held += bytes
		return nil
	}
	p.arrivals++
	w := &poolWaiter{bytes: bytes, held: held, total: *held + bytes, number: p.arrivals, given: make(chan struct{})}
	p.waiting.add(w)
	p.grant()
	if w.index == notQueued {
		return nil
	}
	return w
}

// give gives memory back.
func (p *pool) release(bytes int64) {
	p.free += bytes
	p.grant()
}

// forget takes a wish back. If it has been granted, it is held.
func (p *pool) cancel(w *poolWaiter) {
	if w.index != notQueued {
		p.waiting.remove(w.index)
		p.grant() // what the next one wants may be there
	}
}

// grant grants the wishes that there is memory for, in their order.
func (p *pool) grant() {
	for len(p.waiting) > 0 && p.waiting[0].bytes <= p.free {
		w := p.waiting.next()
		p.free -= w.bytes
		*w.held += w.bytes
		close(w.given)
	}
}

// most is the largest wish.
func (p *pool) largestWaiting() (bytes int64) {
	for _, w := range p.waiting {
		bytes = max(bytes, w.bytes)
	}
	return bytes
}
