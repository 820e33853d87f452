// Package migrate moves the items of live tables from one model to another,
// through the public API.
//
// docs/decisions/0022-migrations-copy-the-current-item.md explains why the copy
// is correct while the application writes.
package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// Options are the settings of a migration.
type Options struct {
	ID        string // of the migration; the same for all of its commands
	Owner     string // of this process
	Unmatched string // StopUnmatched or CopyUnmatched

	Segments   int     // segments of a scan; defaults to 4
	Workers    int     // writes in flight for each segment and shard; defaults to 8
	ReadUnits  float64 // limits of backfill and verification a second; 0 for none
	WriteUnits float64
	Samples    int  // keys for the dual reads
	Repair     bool // verification copies items again that differ
	Verify     bool // a migration that is ready is verified again

	DiscardLate bool // the old tables are dropped with writes that came after the switch

	Poll     time.Duration // between two readings of a stream; defaults to 500 ms
	Lease    time.Duration // defaults to 30 s
	Retry    time.Duration // how long a failing request is repeated; defaults to a minute
	Quiet    time.Duration // how long no record may come before a switch; defaults to 5 s
	Drain    time.Duration // how long a switch waits for the end of writes; defaults to a minute
	Delay    time.Duration // how long after a write its record may appear in the stream; defaults to 5 s
	Patience time.Duration // how long two items may have one new key; defaults to 10 s
	Window   time.Duration // how long after a switch the old tables must stay
	Changed  func(State)   // called when the state has changed
	Now      func() time.Time
}

// Migrator runs the commands of one migration.
type Migrator struct {
	c       *endpointClient
	store   *stateStore
	plan    *Plan
	options Options
}

// New returns a migrator. Send and streams send the requests of the two APIs.
func New(send, streams apply.Send, old, new *model.Model, o Options) *Migrator {
	o.Segments, o.Workers = cmp.Or(o.Segments, 4), cmp.Or(o.Workers, 8)
	o.Unmatched = cmp.Or(o.Unmatched, StopUnmatched)
	o.Poll, o.Lease = cmp.Or(o.Poll, 500*time.Millisecond), cmp.Or(o.Lease, 30*time.Second)
	o.Delay, o.Patience = cmp.Or(o.Delay, 5*time.Second), cmp.Or(o.Patience, 10*time.Second)
	o.Retry, o.Quiet, o.Drain = cmp.Or(o.Retry, time.Minute), cmp.Or(o.Quiet, 5*time.Second), cmp.Or(o.Drain, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	plan := makePlan(old, new, o.Unmatched)
	if err := CheckSegments(o.Segments); err != nil {
		plan.fault("%v", err)
	}
	c := &endpointClient{tables: send, streams: streams, retry: o.Retry}
	return &Migrator{
		c: c, options: o, plan: plan,
		store: &stateStore{c: c, id: o.ID, owner: o.Owner, lease: o.Lease, now: o.Now},
	}
}

// CheckSegments checks a number of segments: the endpoint allows a million.
func CheckSegments(n int) error {
	if n < 1 || n > 1_000_000 {
		return fmt.Errorf("the number of segments must be between 1 and 1,000,000, not %d", n)
	}
	return nil
}

// Status returns the stored state, nil if the migration has not begun.
func (m *Migrator) Status(ctx context.Context) (*State, error) { return m.store.load(ctx) }

// Run continues the migration until it has reached its goal. Without a goal it
// goes on following until the context ends. If another process runs the
// migration, Run waits until that process has reached the goal, and returns
// ErrBusy if it has no goal of its own.
//
// With the goal Ready, Run returns at once if the migration is switched.
func (m *Migrator) Run(ctx context.Context, goal Phase) (*State, error) {
	if len(m.plan.Faults) > 0 {
		return nil, errors.New(strings.Join(m.plan.Faults, "\n        "))
	}
	st, err := m.begin(ctx, goal)
	if err != nil {
		return st, err
	}
	if m.options.Verify && goal == Ready && (st.Phase == Ready || st.Phase == Switched) {
		goal = Verify
	}
	q := m.newRequest(goal)
	if q.ID != "" && goal == st.Phase {
		return st, nil
	}
	if err := m.check(st, q); err != nil {
		return st, err
	}
	if q.ID != "" {
		if err := m.store.setRequest(ctx, q); err != nil {
			return st, err
		}
	}
	return m.execute(ctx, q)
}

// execute executes a request, or waits until the process that runs the migration
// has executed it.
func (m *Migrator) execute(ctx context.Context, q Request) (*State, error) {
	owned, done, failure := m.own(ctx, q)
	st, err := m.store.load(ctx)
	if done || failure != nil || err != nil {
		return st, cmp.Or(failure, err)
	}
	if err := CheckSegments(st.Segments); err != nil {
		return st, errors.Join(err, m.store.release(ctx))
	}
	if st.Unmatched != m.plan.unmatched {
		m.plan = makePlan(m.plan.old, m.plan.new, st.Unmatched)
	}
	r := m.newRun(st)
	r.request, r.owned = q, owned
	renewed, stop := background(ctx, r.renew)
	err = r.phases(renewed)
	if cause := context.Cause(renewed); cause != nil && ctx.Err() == nil {
		err = cause
	}
	err = r.state.advise(errors.Join(err, stop()))
	if !errors.Is(err, errLost) {
		if saved := r.end(context.WithoutCancel(ctx), err); err == nil {
			err = saved
		}
	}
	return r.state, err
}

// begin returns the state, which it creates if the goal allows it.
func (m *Migrator) begin(ctx context.Context, goal Phase) (*State, error) {
	st, err := m.store.load(ctx)
	if err != nil || st != nil {
		if st != nil && (st.Phase == Aborted || st.Phase == Dropped) && goal != st.Phase {
			if st.Phase == Dropped || goal != "" && goal != Ready {
				return st, fmt.Errorf("the migration is %s", st.Phase)
			}
			return m.restart(ctx, st)
		}
		return st, err
	}
	if goal != "" && goal != Ready {
		return nil, errors.New("the migration has not begun")
	}
	if err := m.store.create(ctx); err != nil {
		return nil, err
	}
	if err := m.excludeOthers(ctx); err != nil {
		return nil, err
	}
	// Positions of a migration whose item was lost do not belong to this one.
	if err := m.store.clear(ctx, allKinds...); err != nil {
		return nil, err
	}
	if err := m.store.begin(ctx, m.newState()); err != nil {
		return nil, err
	}
	// Another migration may have begun at the same time: of two, at least one sees
	// the other now.
	if err := m.excludeOthers(ctx); err != nil {
		return nil, errors.Join(err, m.store.withdraw(ctx))
	}
	return m.store.load(ctx)
}

// excludeOthers checks that no other migration uses the tables.
func (m *Migrator) excludeOthers(ctx context.Context) error {
	others, err := m.store.others(ctx, slices.Concat(m.plan.sourceNames(), m.plan.targetNames()))
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("migration %s of the same tables is not finished; abort it first, with its models", others[0])
	}
	return err
}

func (m *Migrator) newState() *State {
	return &State{ID: m.options.ID, Phase: Create, Segments: m.options.Segments, Unmatched: m.options.Unmatched, Sources: m.plan.sourceNames(), Targets: m.plan.targetNames(), Began: m.options.Now(), Since: m.options.Now()}
}

// restart begins an aborted migration again.
func (m *Migrator) restart(ctx context.Context, st *State) (*State, error) {
	if err := m.excludeOthers(ctx); err != nil {
		return st, err
	}
	if _, _, err := m.own(ctx, Request{}); err != nil {
		return st, err
	}
	if err := m.store.clear(ctx, allKinds...); err != nil {
		return st, err
	}
	begun := m.newState()
	begun.Answered = st.Request.ID
	if err := m.store.enter(ctx, st, begun); err != nil {
		return st, err
	}
	return m.store.load(ctx)
}

// newRun returns the run of one process that owns the migration.
func (m *Migrator) newRun(st *State) *phaseRun {
	r := &phaseRun{m: m, store: m.store, state: st, before: st.Counts}
	read, write := &unitBudget{perSecond: m.options.ReadUnits}, &unitBudget{perSecond: m.options.WriteUnits}
	copier := func(to *mapping) *copier {
		return &copier{c: m.c, m: to, workers: m.options.Workers, read: read, write: write, counts: &r.counts, patience: m.options.Patience, seed: maphash.MakeSeed()}
	}
	r.forward, r.backward = copier(m.plan.forward), copier(m.plan.forward.back)
	return r
}
