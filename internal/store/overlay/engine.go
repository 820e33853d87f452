// Package overlay implements store.Engine over a snapshot of another engine: a fork of it.
//
// A fork is made at once, whatever the size of its base. It keeps what is written to it in
// memory, loses that when it is closed, and never changes its base; nor does it see what is
// written there later. A fork of a fork shares what both have in common.
package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/latch"
	"github.com/stator-db/stator/internal/store/pebble/commit"
)

// Options configure a fork. The zero value is usable.
type Options struct {
	Now func() time.Time // defaults to time.Now

	// MaxBytes bounds the memory of what is written to the fork; 0 is no bound. An Update
	// beyond it fails with a *LimitError.
	MaxBytes int64

	// Continues makes what was written to the parent count as written to the fork too, as in a snapshot
	// of a fork and in the state that it is rewound to. By default the fork inherits it.
	Continues bool

	// After makes the stamps of the fork larger than this one.
	After store.Stamp

	// Budget bounds the memory of several forks together; nil is no bound.
	Budget *Budget
}

// Engine is a fork of another engine.
type Engine struct {
	base     *base
	now      func() time.Time
	maxBytes int64
	budget   *Budget

	inherited int64 // bytes of the first state
	uncharged int64 // those that the budget is not charged with; guarded by writing

	gate     *latch.Gate
	latches  func() *latch.Set // made by the first Update
	inFlight *commit.InFlight
	state    atomic.Pointer[layer]

	writing sync.Mutex // held while state is replaced
	charged int64      // bytes that the budget was charged with; guarded by writing

	handle func(context.Context, []byte) error // of messages; may be nil

	close func() error // runs once
}

var _ store.Engine = (*Engine)(nil)

// base is the snapshot that forks share. The last of them closes it.
type base struct {
	snapshot store.Snapshot
	limits   store.Limits
	forks    atomic.Int64
}

func (b *base) release() error {
	if b.forks.Add(-1) > 0 {
		return nil
	}
	return b.snapshot.Close()
}

// patience is how long an Update waits for another Update of the same key.
const patience = 5 * time.Second

// latchCount is the number of latches of a fork: few, since there may be thousands of forks.
const latchCount = 256

// ErrManyServers is returned by Fork for an engine that several servers share. Its old
// versions are removed on a schedule, which no fork can stop.
var ErrManyServers = errors.New("a database on a cluster cannot be forked")

// Fork returns a fork of an engine as it is now. It must be closed before its base is closed,
// unless that is a fork too.
func Fork(ctx context.Context, of store.Engine, o Options) (*Engine, error) {
	if _, shared := of.(store.Fleet); shared {
		return nil, ErrManyServers
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if parent, ok := of.(*Engine); ok {
		return parent.fork(ctx, o)
	}
	snapshot, err := of.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	horizon, err := of.Horizon(ctx) // above the stamps of all that the snapshot has
	if err != nil {
		return nil, errors.Join(err, snapshot.Close())
	}
	return newEngine(&base{snapshot: snapshot, limits: of.Limits()}, new(layer), horizon-1, o), nil
}

func (e *Engine) fork(ctx context.Context, o Options) (*Engine, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	s := e.state.Load()
	child := newEngine(e.base, s, e.inFlight.Newest(), o)
	if o.Continues {
		child.inherited = e.inherited
	}
	// What both share is charged twice, since either may keep it alive alone. What has no
	// bound in the parent has none in the child.
	child.uncharged = s.bytes
	if e.budget != nil {
		child.uncharged = min(e.unchargedBytes(), s.bytes)
		if !o.Budget.take(s.bytes-child.uncharged, false) {
			return nil, errors.Join(&LimitError{MaxBytes: o.Budget.MaxBytes, All: true}, child.Close())
		}
		child.charged = s.bytes - child.uncharged
	}
	return child, nil
}

func (e *Engine) unchargedBytes() int64 {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.uncharged
}

// Uncharge credits the budget with all that the engine was charged with, so that there is room for
// the one that replaces it. The engine remains usable; charge takes the credit back.
func (e *Engine) Uncharge() (charge func()) {
	e.writing.Lock()
	defer e.writing.Unlock()
	credit, before := e.charged, e.uncharged
	e.budget.release(credit)
	e.charged, e.uncharged = 0, before+credit
	return func() {
		e.writing.Lock()
		defer e.writing.Unlock()
		e.budget.release(-credit)
		e.charged, e.uncharged = e.charged+credit, before
	}
}

func newEngine(b *base, s *layer, last store.Stamp, o Options) *Engine {
	b.forks.Add(1)
	e := &Engine{
		base: b, now: o.Now, maxBytes: o.MaxBytes, budget: o.Budget, inherited: s.bytes,
		gate: latch.NewGate(), inFlight: commit.NewInFlight(max(last, o.After)),
		latches: sync.OnceValue(func() *latch.Set { return latch.NewSetOf(latchCount, patience) }),
	}
	e.state.Store(s)
	e.close = sync.OnceValue(func() error {
		e.gate.Shut()
		e.budget.release(e.charged)
		return e.base.release()
	})
	return e
}

// Bytes returns the memory of what was written to the fork.
func (e *Engine) Bytes() int64 { return max(0, e.state.Load().bytes-e.inherited) }

// Limits returns those of the base.
func (e *Engine) Limits() store.Limits { return e.base.limits }

// enter begins a call, which ends with e.gate.Leave.
func (e *Engine) enter(ctx context.Context) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		e.gate.Leave()
		return err
	}
	return nil
}

// Get reads keys. All that can be read is as durable as a fork is.
func (e *Engine) Get(ctx context.Context, _ store.Consistency, keys ...[]byte) ([][]byte, error) {
	return e.get(ctx, e.state.Load(), keys)
}

func (e *Engine) get(ctx context.Context, s *layer, keys [][]byte) ([][]byte, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	store.CheckKeys(keys...)
	return s.get(ctx, e.base.snapshot, keys)
}

// ReadRange reads a range as it is now.
func (e *Engine) ReadRange(ctx context.Context, r store.Range, fn func(store.Pair) (more bool)) error {
	return e.scan(ctx, e.state.Load(), r, fn)
}

func (e *Engine) scan(ctx context.Context, s *layer, r store.Range, fn func(store.Pair) (more bool)) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.gate.Leave()
	return s.scan(ctx, e.base.snapshot, r, fn)
}

// Snapshot returns the state as it is now.
func (e *Engine) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	s := &snapshot{engine: e}
	s.state.Store(e.state.Load())
	return s, nil
}

// snapshot is a state that was kept.
type snapshot struct {
	engine *Engine
	state  atomic.Pointer[layer] // nil once it is closed
}

func (s *snapshot) Get(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	if state := s.state.Load(); state != nil {
		return s.engine.get(ctx, state, keys)
	}
	return nil, store.ErrClosed
}

func (s *snapshot) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		err := store.ErrClosed
		if state := s.state.Load(); state != nil {
			err = s.engine.scan(ctx, state, r, func(p store.Pair) bool { return yield(p, nil) })
		}
		if err != nil {
			yield(store.Pair{}, err)
		}
	}
}

func (s *snapshot) Close() error {
	s.state.Store(nil)
	return nil
}

// Horizon returns the smallest stamp that is in flight or can follow.
func (e *Engine) Horizon(ctx context.Context) (store.Stamp, error) {
	if err := e.enter(ctx); err != nil {
		return 0, err
	}
	defer e.gate.Leave()
	return e.inFlight.Horizon(), nil
}

// DeleteRange deletes the keys of a range. Those of the base are hidden, which takes no time
// for each of them. It writes nothing for an empty range.
func (e *Engine) DeleteRange(ctx context.Context, start, end []byte) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.gate.Leave()
	lower, upper := bounds(start, end)
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	found := false
	err := e.ReadRange(ctx, store.Range{Start: lower, End: upper, KeysOnly: true}, func(store.Pair) bool {
		found = true
		return false
	})
	if ctx.Err() != nil || err == nil && !found {
		return ctx.Err()
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.replace(store.Freeing(ctx), e.state.Load().hide(lower, upper))
}

// Subscribe sets the handler of messages.
func (e *Engine) Subscribe(handle func(context.Context, []byte) error) { e.handle = handle }

// Broadcast calls the handler of this process, the only one that has the fork.
func (e *Engine) Broadcast(ctx context.Context, message []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if e.handle == nil {
		return nil
	}
	return e.handle(ctx, message)
}

// Leads is always true.
func (e *Engine) Leads() bool { return true }

// Healthy returns an error if the fork is closed.
func (e *Engine) Healthy(ctx context.Context) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	e.gate.Leave()
	return nil
}

// Close drops the fork.
func (e *Engine) Close() error { return e.close() }

// Budget bounds the memory of several forks together. A nil Budget has no bound.
type Budget struct {
	MaxBytes int64
	used     atomic.Int64
}

// Used returns the memory of the open forks.
func (b *Budget) Used() int64 { return b.used.Load() }

// take charges the budget, which may exceed its bound by a part for an Update that frees space.
func (b *Budget) take(size int64, freeing bool) bool {
	if b == nil {
		return true
	}
	limit := b.MaxBytes
	if freeing {
		limit += limit / freeingPart
	}
	if b.used.Add(size) <= limit || size <= 0 {
		return true
	}
	b.used.Add(-size)
	return false
}

func (b *Budget) release(size int64) {
	if b != nil {
		b.used.Add(-size)
	}
}

// LimitError is returned when an Update was rejected because the fork, or all forks together,
// would exceed their memory.
type LimitError struct {
	MaxBytes int64
	All      bool // the bound is that of all forks
}

// Is makes the error a store.ErrFull, after which deletes are tried with store.Freeing.
func (l *LimitError) Is(target error) bool { return target == store.ErrFull }

func (l *LimitError) Error() string {
	if l.All {
		return fmt.Sprintf("the changes of all forks exceed %d bytes", l.MaxBytes)
	}
	return fmt.Sprintf("the changes of the fork exceed %d bytes", l.MaxBytes)
}

// freeingPart is the part of the bound, as a divisor, by which Updates that free space may
// exceed it: a delete is an entry too.
const freeingPart = 8

// replace makes a state the current one, if its size is allowed. e.writing must be held.
func (e *Engine) replace(ctx context.Context, next *layer) error {
	freeing := store.IsFreeing(ctx)
	size, grown := next.bytes-e.inherited, next.bytes-e.state.Load().bytes
	limit := e.maxBytes
	if freeing {
		limit += limit / freeingPart
	}
	if e.maxBytes > 0 && grown > 0 && size > limit {
		return &LimitError{MaxBytes: e.maxBytes}
	}
	charge := max(0, next.bytes-e.uncharged) - e.charged
	if !e.budget.take(charge, freeing) {
		return &LimitError{MaxBytes: e.budget.MaxBytes, All: true}
	}
	e.charged += charge
	e.state.Store(next)
	return nil
}
