package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
)

const (
	// MaxBodyBytes is the size limit of one body.
	MaxBodyBytes = 16 << 20
	// maxBodyWait is how long a body waits for memory, in total, before its
	// request is rejected.
	maxBodyWait = 3 * time.Second
	// slowBodyAfter is how long a body may take to arrive while others wait for
	// its memory.
	slowBodyAfter = time.Second
	// evictionInterval is the time between two searches for slow bodies while
	// others wait.
	evictionInterval = 250 * time.Millisecond
)

// Bodies bounds the memory of request bodies that do not fit in the connection's
// buffer, and of decoded bodies. Memory is reserved as bytes arrive, not from Content-Length. When it
// runs out, slow large bodies are evicted, and the smallest reservation is
// granted first.
//
// There are two pools, one for what a body holds until it is large and one for
// the rest, so that small bodies do not wait for large ones.
//
// A body that is to be decoded holds the memory of what was sent until it has that of
// the decoded body. Several that have arrived would wait for each other, so there is a
// pool that bounds them, which is smaller than that of large bodies by one decoded body.
type Bodies struct {
	mu           sync.Mutex
	small, large pool
	encoded      pool
	reading      map[*Reservation]struct{} // of bodies that are not complete
}

// NewBodies returns an empty set of reservations.
func NewBodies(l Limits) *Bodies {
	return &Bodies{small: newPool(l.SmallBodies), large: newPool(l.LargeBodies), encoded: newPool(l.LargeBodies - maxBodyMemory), reading: make(map[*Reservation]struct{})}
}

// maxBodyMemory is the memory of a body of the largest size.
const maxBodyMemory = MaxBodyBytes + buffer.Unit

// Body is the body of a request.
type Body interface {
	// Read reads the body, up to a limit. It calls reserve before it allocates
	// memory, and returns the error of reserve.
	Read(limit int64, reserve func(bytes int64) error) ([]byte, error)
	// Cut ends a Read that waits for the client. It is called from another
	// goroutine, while Read runs.
	Cut()
	// Drop releases the memory of a body that was Read.
	Drop()
}

// Reservation is the memory of one body.
type Reservation struct {
	bodies   *Bodies
	body     interface{ Cut() } // that is being read
	memory   interface{ Drop() }
	since    time.Time
	waitLeft time.Duration // of maxBodyWait
	ctx      context.Context
	stop     context.CancelFunc
	small    int64 // bytes of the small pool
	large    int64 // bytes of the large pool
	encoded  int64 // bytes of the pool of bodies that are to be decoded
	toDecode int64 // bytes to reserve of that pool before any of the large one
	evicted  bool
}

// Read reads a body. The caller releases the reservation, also after an error.
func (m *Bodies) Read(ctx context.Context, b Body) ([]byte, *Reservation, error) {
	return m.read(m.Reserve(ctx, b), b)
}

// ReadEncoded is Read for a body that is to be decoded. Its size is negative if it is unknown.
func (m *Bodies) ReadEncoded(ctx context.Context, b Body, size int64) ([]byte, *Reservation, error) {
	s := m.Reserve(ctx, b)
	if size < 0 || size > MaxBodyBytes {
		size = MaxBodyBytes
	}
	s.toDecode = int64(buffer.Size(int(size) + 1)) // all at once: several with a part of it would wait for each other
	return m.read(s, b)
}

func (m *Bodies) read(s *Reservation, b Body) ([]byte, *Reservation, error) {
	s.begin(b)
	body, err := b.Read(MaxBodyBytes, s.reserve)
	if evicted := s.Arrived(); evicted != nil { // even if the body is complete: net/http ends a request whose read was cut
		err = evicted
	}
	return body, s, err
}

// Begin returns a reservation for a body that the caller reads: it adds memory before it
// allocates that, calls Arrived at the end, and releases the reservation. Cut is called from
// another goroutine to end the reading.
func (m *Bodies) Begin(ctx context.Context, b interface {
	Cut()
	Drop()
}) *Reservation {
	s := m.Reserve(ctx, b)
	s.begin(b)
	return s
}

func (s *Reservation) begin(b interface{ Cut() }) {
	s.body = b
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	s.bodies.reading[s] = struct{}{}
}

// Arrived ends the reading of a body. It returns the error of one that was evicted.
func (s *Reservation) Arrived() error {
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	delete(s.bodies.reading, s)
	if s.evicted {
		return apierror.Throttled()
	}
	return nil
}

// Reserve returns a reservation for a body that is decoded from another one. The caller
// adds memory to it before it allocates that, and releases it, which drops the memory.
func (m *Bodies) Reserve(ctx context.Context, memory interface{ Drop() }) *Reservation {
	s := &Reservation{bodies: m, memory: memory, since: time.Now(), waitLeft: maxBodyWait}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

// Add adds memory to the reservation, and waits for it if there is none.
func (s *Reservation) Add(bytes int64) error { return s.reserve(bytes) }

// Shrink gives memory back so that the reservation has no more than this many bytes.
func (s *Reservation) Shrink(bytes int64) {
	m := s.bodies
	m.mu.Lock()
	defer m.mu.Unlock()
	excess := max(0, s.small+s.large-bytes)
	large := min(excess, s.large)
	s.large -= large
	s.small -= excess - large
	m.large.release(large)
	m.small.release(excess - large)
	if bytes == 0 {
		m.encoded.release(s.encoded)
		s.encoded = 0
	}
}

// Release drops the body and gives its memory back. A nil *Reservation has none.
func (s *Reservation) Release() {
	if s == nil {
		return
	}
	s.stop()
	s.memory.Drop()
	s.Shrink(0)
}

// reserve adds memory to the reservation, and waits for it if there is none.
func (s *Reservation) reserve(bytes int64) error {
	m := s.bodies
	if s.small+s.large+bytes <= LargeBytes {
		return s.reserveFrom(&m.small, &s.small, bytes)
	}
	if s.toDecode > 0 {
		if err := s.reserveFrom(&m.encoded, &s.encoded, s.toDecode); err != nil {
			return err
		}
		s.toDecode = 0
	}
	return s.reserveFrom(&m.large, &s.large, bytes)
}

func (s *Reservation) reserveFrom(p *pool, held *int64, bytes int64) error {
	m := s.bodies
	m.mu.Lock()
	w := p.reserve(held, bytes)
	if w == nil {
		m.mu.Unlock()
		return nil
	}
	m.startEvicting(p, bytes)
	m.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, s.waitLeft)
	defer cancel()
	select {
	case <-w.granted:
		s.waitLeft -= time.Since(began)
		return nil
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		p.cancel(w)
		return cmp.Or(context.Cause(s.ctx), error(apierror.Throttled()))
	}
}

// from is the number of bytes that are reserved from a pool.
func (s *Reservation) from(p *pool) int64 {
	switch p {
	case &s.bodies.small:
		return s.small
	case &s.bodies.encoded:
		return s.encoded
	}
	return s.large
}

// startEvicting evicts slow bodies now, and repeatedly until the pool's queue is
// empty. The caller holds mu.
func (m *Bodies) startEvicting(p *pool, bytes int64) {
	m.evictSlow(p, bytes)
	if p.evicting {
		return
	}
	p.evicting = true
	go func() {
		for {
			m.mu.Lock()
			if p.evicting = len(p.queue) > 0; !p.evicting {
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

// evictSlow evicts the largest slow bodies until they free that many bytes of a
// pool. When many bodies begin to wait at once, one search serves all that need
// no more than it. The caller holds mu.
func (m *Bodies) evictSlow(p *pool, bytes int64) {
	bytes = max(bytes, p.minEvicted)
	if bytes <= p.evictedFor && time.Since(p.evictedAt) < evictionInterval {
		return
	}
	p.evictedAt, p.evictedFor = time.Now(), bytes
	var slow []*Reservation
	for s := range m.reading {
		if s.from(p) > 0 && time.Since(s.since) >= slowBodyAfter {
			slow = append(slow, s)
		}
	}
	slices.SortFunc(slow, func(a, b *Reservation) int {
		return cmp.Or(cmp.Compare(b.from(p), a.from(p)), a.since.Compare(b.since))
	})
	for _, s := range slow {
		if bytes <= 0 {
			return
		}
		if !s.evicted {
			s.evicted = true
			s.stop()
			s.body.Cut() // the read may be waiting for the client
		}
		bytes -= s.from(p) // also of bodies that were evicted before and are not yet released
	}
}

// pool is memory with a queue of reservations that wait for it.
type pool struct {
	free       int64
	queue      waitQueue[*poolWaiter]
	arrivals   uint64    // of waiters since the start
	minEvicted int64     // bytes that are freed at least, so that the next waiter finds memory, too
	evictedAt  time.Time // when evictSlow last ran
	evictedFor int64     // how many bytes it was to free
	evicting   bool      // a goroutine runs evictSlow repeatedly
}

func newPool(bytes int64) pool { return pool{free: bytes, minEvicted: bytes / 8} }

// poolWaiter is a reservation that waits for memory.
type poolWaiter struct {
	bytes   int64
	held    *int64 // what the reservation holds of the pool
	total   int64  // of held and bytes
	arrival uint64 // its number in the order of arrival
	index   int    // in the queue
	granted chan struct{}
}

// before orders waiters by the size of their reservation, then by arrival.
func (w *poolWaiter) before(other *poolWaiter) bool {
	return cmp.Or(cmp.Compare(w.total, other.total), cmp.Compare(w.arrival, other.arrival)) < 0
}

func (w *poolWaiter) setIndex(index int) { w.index = index }

// reserve adds memory to held and returns nil, or returns the waiter that will
// be granted it.
func (p *pool) reserve(held *int64, bytes int64) *poolWaiter {
	if len(p.queue) == 0 && bytes <= p.free {
		p.free -= bytes
		*held += bytes
		return nil
	}
	p.arrivals++
	w := &poolWaiter{bytes: bytes, held: held, total: *held + bytes, arrival: p.arrivals, granted: make(chan struct{})}
	p.queue.push(w)
	p.grant()
	if w.index == notQueued {
		return nil
	}
	return w
}

func (p *pool) release(bytes int64) {
	p.free += bytes
	p.grant()
}

// cancel removes a waiter. Memory that it has been granted stays reserved.
func (p *pool) cancel(w *poolWaiter) {
	if w.index != notQueued {
		p.queue.remove(w.index)
		p.grant() // there may be enough for the next waiter
	}
}

// grant grants waiters their memory in the order of the queue, until there is
// not enough for the first.
func (p *pool) grant() {
	for len(p.queue) > 0 && p.queue[0].bytes <= p.free {
		w := p.queue.pop()
		p.free -= w.bytes
		*w.held += w.bytes
		close(w.granted)
	}
}

// largestWaiting is the most memory that a waiter waits for.
func (p *pool) largestWaiting() (bytes int64) {
	for _, w := range p.queue {
		bytes = max(bytes, w.bytes)
	}
	return bytes
}
