package clock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Manual is a clock for tests: its owner sets it, advances it and freezes it. It never goes
// back.
//
// Background work that waits on it (Clock.Wait) is known to it, so that Advance returns when all
// that became due is done. A goroutine of background work is busy from Clock.Begin to Clock.End,
// except while it waits. Advance moves the time only while none is busy: from one time at which
// a wait ends to the next, one wait after the other.
type Manual struct {
	line atomic.Pointer[manualLine]

	mu       sync.Mutex
	busy     int
	idle     chan struct{} // closed when nothing is busy; nil if nobody waits for that
	waits    map[*manualWait]struct{}
	begun    uint64 // waits so far
	acted    uint64 // how often background work did something, without that of clocks apart; see Waiting.Seen
	moving   bool
	running  bool // unless moving
	failures []error
	timer    *time.Timer // ends waits while the clock runs
}

// manualLine is the time as a function of the system's monotonic clock.
type manualLine struct {
	at      time.Time
	since   time.Time // of the system
	running bool
}

func (l *manualLine) now() time.Time {
	if !l.running {
		return l.at
	}
	return l.at.Add(time.Since(l.since))
}

// manualWait is a goroutine that waits.
type manualWait struct {
	Waiting
	on     *Clock
	number uint64
	since  time.Time
	over   chan struct{} // closed when the wait is over; the goroutine is busy from then on
}

// NewManual returns a clock that shows a time, and stands still until Run.
func NewManual(at time.Time) *Manual {
	m := &Manual{waits: make(map[*manualWait]struct{})}
	m.line.Store(&manualLine{at: at.Round(0).UTC()})
	return m
}

// Controlled returns a Clock that shows the time of a Manual, which is always trusted: it was
// set on purpose.
func Controlled(m *Manual) *Clock {
	c := Given(m.Now)
	c.manual = m
	return c
}

// Apart returns a clock of the same time for the background work of a fork: no other database sees
// what that does, so none looks for it. With hundreds of forks that work would be looked for by
// each of them.
func (c *Clock) Apart() *Clock {
	if c.manual == nil {
		return c
	}
	apart := Controlled(c.manual)
	apart.apart = new(uint64)
	return apart
}

// act notes that work on a clock did something. The caller holds mu.
func (m *Manual) act(on *Clock) {
	if on.apart != nil {
		*on.apart++
		return
	}
	m.acted++
}

// actedFor returns a number that grows when something was done that work on a clock may look for.
// The caller holds mu.
func (m *Manual) actedFor(on *Clock) uint64 {
	if on.apart != nil {
		return m.acted + *on.apart
	}
	return m.acted
}

// Now returns the time.
func (m *Manual) Now() time.Time { return m.line.Load().now() }

// Running reports whether the time passes by itself.
func (m *Manual) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// Freeze makes the time stand still.
func (m *Manual) Freeze() { m.run(false) }

// Run lets the time pass as that of the system does.
func (m *Manual) Run() { m.run(true) }

func (m *Manual) run(running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = running
	m.pace()
}

// pace makes the time pass, or stand still while it is moved. The caller holds mu.
func (m *Manual) pace() {
	m.line.Store(&manualLine{at: m.Now(), since: time.Now(), running: m.running && !m.moving})
	m.arm()
}

// maxAdvance is how far the time is moved at once: on the way each minute is visited.
const maxAdvance = 366 * 24 * time.Hour

// ErrMoving is returned when the clock is being advanced already.
var ErrMoving = errors.New("the clock is being advanced already, by another request or by one that this one is a part of")

// RangeError is returned for a time that the clock cannot be set to.
type RangeError struct{ Now, To time.Time }

func (e *RangeError) Error() string {
	if e.To.Before(e.Now) {
		return fmt.Sprintf("the clock shows %s and cannot be set back to %s: what has expired does not return; start again with that time", e.Now.Format(time.RFC3339Nano), e.To.Format(time.RFC3339Nano))
	}
	return fmt.Sprintf("the clock shows %s, and %s is more than %d days later: advance it in several steps", e.Now.Format(time.RFC3339Nano), e.To.Format(time.RFC3339Nano), maxAdvance/(24*time.Hour))
}

// Advance moves the time forward. All background work that becomes due happens on the way, at
// the time at which it is due, and what was due already; it is done when Advance returns. The
// error is that of the work, or of the context: the time may then be before the end.
func (m *Manual) Advance(ctx context.Context, d time.Duration) error {
	return m.move(ctx, func(now time.Time) time.Time {
		return now.Add(min(d, 100*maxAdvance)) // within what a time.Duration can hold
	})
}

// Set is Advance to a time.
func (m *Manual) Set(ctx context.Context, to time.Time) error {
	to = to.Round(0).UTC()
	return m.move(ctx, func(time.Time) time.Time { return to })
}

func (m *Manual) move(ctx context.Context, until func(now time.Time) time.Time) error {
	m.mu.Lock()
	if m.moving {
		m.mu.Unlock()
		return ErrMoving
	}
	now := m.Now()
	to := until(now)
	if to.Before(now) || to.Sub(now) > maxAdvance {
		m.mu.Unlock()
		return &RangeError{now, to}
	}
	m.moving, m.failures = true, nil
	m.acted++ // all that polls looks for what requests have done before
	m.pace()
	m.mu.Unlock()

	err := m.pass(ctx, to)

	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.line.Load().at
	m.moving = false
	m.pace()
	if err != nil {
		return fmt.Errorf("the clock was advanced to %s only: %w", at.Format(time.RFC3339Nano), err)
	}
	if err := errors.Join(m.failures...); err != nil {
		return fmt.Errorf("the clock shows %s, and background work that was due has failed: %w", at.Format(time.RFC3339Nano), err)
	}
	return nil
}

// pass moves the time from the end of one wait to the next.
func (m *Manual) pass(ctx context.Context, to time.Time) error {
	for {
		if err := m.rest(ctx); err != nil {
			return err
		}
		if m.poll() {
			continue
		}
		w, at, begun, err := m.next(ctx, to)
		if err != nil {
			return err
		}
		m.mu.Lock()
		switch {
		case m.busy > 0, m.begun != begun: // a request has woken some work meanwhile
		case w == nil || at.After(to):
			m.set(to)
			m.mu.Unlock()
			return nil
		default:
			m.set(at)
			if _, waits := m.waits[w]; waits {
				if !w.Quiet {
					m.act(w.on)
				}
				m.end(w)
			}
		}
		m.mu.Unlock()
	}
}

// set moves the time forward. The caller holds mu.
func (m *Manual) set(at time.Time) {
	if l := *m.line.Load(); at.After(l.at) {
		l.at = at
		m.line.Store(&l)
	}
}

// rest waits until no background work is busy.
func (m *Manual) rest(ctx context.Context) error {
	for {
		m.mu.Lock()
		if m.busy == 0 {
			m.mu.Unlock()
			return ctx.Err()
		}
		if m.idle == nil {
			m.idle = make(chan struct{})
		}
		idle := m.idle
		m.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("background work is still in progress: %w", context.Cause(ctx))
		}
	}
}

// poll ends a wait of work that polls, if there is something that it may not have seen.
func (m *Manual) poll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first *manualWait
	for w := range m.waits {
		if w.Polls && w.Seen < m.actedFor(w.on) && (first == nil || w.number < first.number) {
			first = w
		}
	}
	if first != nil {
		m.end(first)
	}
	return first != nil
}

// next returns the wait that ends first, and when; it may be nil if none ends until a time. begun
// is how many waits had begun then.
func (m *Manual) next(ctx context.Context, to time.Time) (first *manualWait, at time.Time, begun uint64, err error) {
	m.mu.Lock()
	begun = m.begun
	waits := make([]*manualWait, 0, len(m.waits))
	for w := range m.waits {
		waits = append(waits, w)
	}
	m.mu.Unlock()
	for _, w := range waits {
		if w.Polls || w.For == math.MaxInt64 {
			continue
		}
		ends := w.since.Add(w.For)
		if w.Due != nil {
			due, ok, err := w.Due(ctx)
			switch {
			case err != nil && !m.stillWaits(w): // its database was closed meanwhile
				continue
			case err != nil:
				return nil, at, begun, err
			case !ok || due.After(to):
				continue
			}
			if late := due.Sub(ends); late > 0 {
				ends = ends.Add((late + w.For - 1) / w.For * w.For)
			}
		}
		if first == nil || ends.Before(at) || ends.Equal(at) && w.number < first.number {
			first, at = w, ends
		}
	}
	return first, at, begun, nil
}

// stillWaits reports whether a wait has not ended.
func (m *Manual) stillWaits(w *manualWait) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, waits := m.waits[w]
	return waits
}

// end ends a wait. The caller holds mu.
func (m *Manual) end(w *manualWait) {
	delete(m.waits, w)
	m.busy++
	close(w.over)
}

// begin makes a goroutine busy.
func (m *Manual) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy++
}

// release ends what begin began.
func (m *Manual) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseLocked()
}

func (m *Manual) releaseLocked() {
	m.busy--
	if m.busy < 0 {
		panic("clock: more background work has ended than begun")
	}
	if m.busy == 0 && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
}

// wait lets a busy goroutine wait. It is busy again afterwards.
func (m *Manual) wait(ctx context.Context, on *Clock, o Waiting) {
	if o.For <= 0 || ctx.Err() != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !o.Quiet {
			m.act(on)
		}
		return
	}
	m.mu.Lock()
	select {
	case <-o.Wake.channel():
		m.act(on)
		m.mu.Unlock()
		return
	default:
	}
	m.begun++
	w := &manualWait{Waiting: o, on: on, number: m.begun, since: m.Now(), over: make(chan struct{})}
	m.waits[w] = struct{}{}
	m.releaseLocked()
	m.arm()
	m.mu.Unlock()

	var system <-chan time.Time
	if o.Polls || o.Retries { // other work and requests do something while the time stands still, too
		t := time.NewTimer(o.For)
		defer t.Stop()
		system = t.C
	}
	select {
	case <-w.over:
		return
	case <-ctx.Done():
	case <-system:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waits := m.waits[w]; waits {
		m.end(w)
	}
}

// signal ends a wait for a wake, or the next one.
func (m *Manual) signal(wake *Wake) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first *manualWait
	for w := range m.waits {
		if w.Wake == wake && (first == nil || w.number < first.number) {
			first = w
		}
	}
	if first != nil {
		m.act(first.on)
		m.end(first)
		return
	}
	select {
	case wake.c <- struct{}{}:
	default:
	}
}

// arm starts the timer that ends waits while the clock runs. The caller holds mu.
func (m *Manual) arm() {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if m.moving || !m.running {
		return
	}
	shortest, now := time.Duration(math.MaxInt64), m.Now()
	for w := range m.waits {
		if !w.Polls && w.For != math.MaxInt64 {
			shortest = min(shortest, w.since.Add(w.For).Sub(now))
		}
	}
	if shortest != math.MaxInt64 {
		m.timer = time.AfterFunc(shortest, m.endDue)
	}
}

// endDue ends the waits whose time has come while the clock runs.
func (m *Manual) endDue() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving || !m.running {
		return
	}
	now := m.Now()
	for w := range m.waits {
		if !w.Polls && w.For != math.MaxInt64 && !w.since.Add(w.For).After(now) {
			m.end(w)
		}
	}
	m.arm()
}

// fail keeps an error of background work for Advance.
func (m *Manual) fail(err error) {
	const most = 10
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving && len(m.failures) < most {
		m.failures = append(m.failures, err)
	}
}
