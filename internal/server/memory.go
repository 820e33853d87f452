package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/server/door"
)

const (
	maxBodyBytes = 16 << 20
	// maxSmall and maxLarge bound the memory that the bodies of all requests
	// under way may take: that of each until it is large, and the rest.
	maxSmall = 64 << 20
	maxLarge = 96 << 20
	// bodyPatience is how long a body waits for memory, all in all, before it
	// is refused.
	bodyPatience = 3 * time.Second
	// bodyGrace is how long a body may take when others wait for its memory.
	bodyGrace = time.Second
	// bodyLook is how often one that waits looks for such.
	bodyLook = 250 * time.Millisecond
)

// memory is what bodies are read into that do not come along with their head.
// They take it as they come, so that to announce much costs the others nothing.
// When there is no more, those who hold much and take long give theirs up, and
// who asks for least has it first.
//
// What a body takes until it is large is not what large ones take, so that
// smaller ones do not wait for larger ones.
type memory struct {
	mu           sync.Mutex
	small, large part
	reading      map[*share]struct{} // those that are not whole yet
}

func newMemory() *memory {
	return &memory{small: newPart(maxSmall), large: newPart(maxLarge), reading: make(map[*share]struct{})}
}

// share is what one body holds of the memory.
type share struct {
	*memory
	request  *door.Request
	since    time.Time
	patience time.Duration // that is left
	ctx      context.Context
	stop     context.CancelFunc
	small    int64 // bytes of that part
	large    int64
	gone     bool // it was cut
}

// read reads a body. The share is to be released, also after an error.
func (m *memory) read(ctx context.Context, r *door.Request) ([]byte, *share, error) {
	s := &share{memory: m, request: r, since: time.Now(), patience: bodyPatience}
	s.ctx, s.stop = context.WithCancel(ctx)
	m.mu.Lock()
	m.reading[s] = struct{}{}
	m.mu.Unlock()
	body, err := r.Read(maxBodyBytes, s.take)
	m.mu.Lock()
	delete(m.reading, s)
	m.mu.Unlock()
	if s.gone { // even if all has come: what ends a read ends the request in net/http
		err = apierror.Throttled()
	}
	return body, s, err
}

func (s *share) release() {
	s.stop()
	s.request.Drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.small.give(s.small)
	s.memory.large.give(s.large)
}

// take takes more memory, and waits for it if it must.
func (s *share) take(bytes int64) error {
	s.mu.Lock()
	p, held := &s.memory.small, &s.small
	if s.small+s.large+bytes > largeBytes {
		p, held = &s.memory.large, &s.large
	}
	w := p.ask(held, bytes)
	if w == nil {
		s.mu.Unlock()
		return nil
	}
	s.press(p, bytes)
	s.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	select {
	case <-w.given:
		s.patience -= time.Since(began)
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		p.forget(w)
		return cmp.Or(context.Cause(s.ctx), error(apierror.Throttled()))
	}
}

// of is how much it holds of a part.
func (s *share) of(p *part) int64 {
	if p == &s.memory.small {
		return s.small
	}
	return s.large
}

// press makes room now, and from time to time until nobody waits. The caller
// holds mu.
func (m *memory) press(p *part, bytes int64) {
	m.makeRoom(p, bytes)
	if p.pressing {
		return
	}
	p.pressing = true
	go func() {
		for {
			m.mu.Lock()
			if p.pressing = len(p.waiting) > 0; !p.pressing {
				m.mu.Unlock()
				return
			}
			m.makeRoom(p, p.most())
			next := p.pressed.Add(bodyLook)
			m.mu.Unlock()
			time.Sleep(time.Until(next))
		}
	}()
}

// makeRoom cuts those off that hold most of a part, of all that have been
// reading for long, until what they hold is enough. Of many who wait at once,
// one does so for all that need no more. The caller holds mu.
func (m *memory) makeRoom(p *part, bytes int64) {
	bytes = max(bytes, p.least)
	if bytes <= p.room && time.Since(p.pressed) < bodyLook {
		return
	}
	p.pressed, p.room = time.Now(), bytes
	var slow []*share
	for s := range m.reading {
		if s.of(p) > 0 && time.Since(s.since) >= bodyGrace {
			slow = append(slow, s)
		}
	}
	slices.SortFunc(slow, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.of(p), a.of(p)), a.since.Compare(b.since))
	})
	for _, s := range slow {
		if bytes <= 0 {
			return
		}
		if !s.gone {
			s.gone = true
			s.stop()
			s.request.Cut() // the read, if it waits for the client
		}
		bytes -= s.of(p) // also of those that are about to go
	}
}

// part is one of the two parts of the memory.
type part struct {
	free     int64
	waiting  line[*wish]
	wishes   uint64    // that there ever were
	least    int64     // that room is made for, or there would be none for the next one
	pressed  time.Time // when room was last made
	room     int64     // and for how many bytes
	pressing bool      // from time to time
}

func newPart(bytes int64) part { return part{free: bytes, least: bytes / 8} }

// wish is the memory that one waits for.
type wish struct {
	bytes  int64
	held   *int64
	total  int64  // with what is held
	number uint64 // in the order in which they came
	place  int    // in the line
	given  chan struct{}
}

// before says that who will have less goes first, and of equals who came first.
func (w *wish) before(other *wish) bool {
	return cmp.Or(cmp.Compare(w.total, other.total), cmp.Compare(w.number, other.number)) < 0
}

func (w *wish) moved(place int) { w.place = place }

// ask adds memory to what is held, now or when there is some; it returns nil
// if it is now.
func (p *part) ask(held *int64, bytes int64) *wish {
	if len(p.waiting) == 0 && bytes <= p.free {
		p.free -= bytes
		*held += bytes
		return nil
	}
	p.wishes++
	w := &wish{bytes: bytes, held: held, total: *held + bytes, number: p.wishes, given: make(chan struct{})}
	p.waiting.add(w)
	p.grant()
	if w.place == gone {
		return nil
	}
	return w
}

// give gives memory back.
func (p *part) give(bytes int64) {
	p.free += bytes
	p.grant()
}

// forget takes a wish back. If it has been granted, it is held.
func (p *part) forget(w *wish) {
	if w.place != gone {
		p.waiting.remove(w.place)
		p.grant() // what the next one wants may be there
	}
}

// grant grants the wishes that there is memory for, in their order.
func (p *part) grant() {
	for len(p.waiting) > 0 && p.waiting[0].bytes <= p.free {
		w := p.waiting.next()
		p.free -= w.bytes
		*w.held += w.bytes
		close(w.given)
	}
}

// most is the largest wish.
func (p *part) most() (bytes int64) {
	for _, w := range p.waiting {
		bytes = max(bytes, w.bytes)
	}
	return bytes
}
