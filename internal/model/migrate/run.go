package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// phaseRun is the work of one process that owns the migration.
type phaseRun struct {
	m                 *Migrator
	store             *stateStore
	state             *State
	request           Request // of this process; it goes on until it is stopped if there is no goal
	owned             ownership
	before            Counts // of earlier runs
	counts            copyCounts
	forward, backward *copier
	followers         *following
	finished          bool // time to live and recovery of the new tables are enabled
	repair            bool // the verification copies items again that differ
	late              lateWrites
	starts            map[string]map[string]string // iterators of shards that have no position, by table

	// mutex guards changes of the state, which the first goroutine makes, against
	// the others that store it.
	mutex sync.Mutex
}

// set changes the state in memory.
func (r *phaseRun) set(change func(st *State)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(r.state)
}

// save stores the state with the counts of this process.
func (r *phaseRun) save(ctx context.Context) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.state.Counts = r.total()
	if err := r.store.save(ctx, r.state); err != nil {
		return err
	}
	r.report()
	return nil
}

// total returns the counts of all processes.
func (r *phaseRun) total() Counts {
	c := r.before
	c.Copied += r.counts.copied.Load()
	c.Records += r.counts.records.Load()
	c.Followed += r.counts.followed.Load()
	c.ReadUnits += r.forward.read.total()
	c.WriteUnits += r.forward.write.total()
	return c
}

func (r *phaseRun) report() {
	if r.m.options.Changed != nil {
		r.m.options.Changed(*r.state)
	}
}

// enter stores a phase, with other changes of the state. The state in memory
// changes only if it is stored.
func (r *phaseRun) enter(ctx context.Context, phase Phase, changes ...func(st *State)) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	next := *r.state
	next.Phase, next.Since, next.Counts = phase, r.m.options.Now(), r.total()
	for _, change := range changes {
		change(&next)
	}
	if err := r.store.enter(ctx, r.state, &next); err != nil {
		return err
	}
	*r.state = next
	r.report()
	return nil
}

// begin enters a phase, unless an earlier process has done so.
func (r *phaseRun) begin(ctx context.Context, phase Phase) error {
	if r.state.Phase == phase {
		return nil
	}
	return r.enter(ctx, phase)
}

// end stores the state at the end of a process. A request of the process that
// failed is not repeated by others.
func (r *phaseRun) end(ctx context.Context, failure error) error {
	if failure != nil && r.request.ID != r.state.Answered && r.request.ID != "" {
		r.set(func(st *State) { st.Answered, st.Problem = r.request.ID, shorten(failure.Error()) })
	}
	return errors.Join(r.save(ctx), r.store.release(ctx))
}

// phases runs one phase after another until the request was executed. Without a
// goal it goes on until the context ends.
func (r *phaseRun) phases(ctx context.Context) error {
	if err := r.checkFollowed(); err != nil && r.request.Goal != Aborted && !r.request.DiscardLate && r.state.Phase != Dropping {
		return err
	}
	if q := r.state.Request; q.ID == r.owned.request && q.ID != r.request.ID && q.ID != r.state.Answered {
		// A request from before this process was the owner is out of date.
		if err := r.reject(ctx, q, fmt.Errorf("%s was requested before the present process began", q.Goal)); err != nil {
			return err
		}
	}
	for {
		if done, err := r.request.outcome(r.state); done {
			return err
		}
		if err := r.phase(ctx); err != nil {
			return err
		}
	}
}

// phase runs the present phase to its end.
func (r *phaseRun) phase(ctx context.Context) error {
	q, err := r.command(ctx)
	if err != nil {
		return err
	}
	if q.Goal == Aborted || q.Goal == Dropped && (q.DiscardLate || r.state.Phase == Dropping) || q.Goal == Verify && r.state.Phase == Ready {
		return r.execute(ctx, q)
	}
	switch r.state.Phase {
	case Create:
		if err := r.createTables(ctx); err != nil {
			return err
		}
		began := r.m.options.Now()
		if err := r.startStreams(ctx); err != nil {
			return err
		}
		return r.enter(ctx, Backfill, func(st *State) { st.Followed = began })
	case Backfill:
		return r.whileFollowing(ctx, r.m.plan.forward, func(ctx context.Context) error {
			if err := r.unlessAborted(ctx, r.backfill); err != nil {
				return err
			}
			return r.enter(ctx, Verify)
		})
	case Verify:
		return r.whileFollowing(ctx, r.m.plan.forward, func(ctx context.Context) error {
			return r.unlessAborted(ctx, r.verifyAndStore)
		})
	case Ready:
		return r.followAndExecute(ctx, r.m.plan.forward)
	case Switched:
		return r.followAndExecute(ctx, r.m.plan.forward.back)
	}
	return fmt.Errorf("the phase %q is unknown; use the version of stator that began the migration", r.state.Phase)
}

// execute executes a request while no stream is followed.
func (r *phaseRun) execute(ctx context.Context, q Request) error {
	switch q.Goal {
	case Aborted:
		if err := r.checkUnprotected(ctx, r.state.Created); err != nil {
			return r.reject(ctx, q, err)
		}
		if err := r.begin(ctx, Aborting); err != nil {
			return err
		}
		if err := r.abort(ctx); err != nil {
			return err
		}
		if err := r.store.clear(ctx, allKinds...); err != nil {
			return err
		}
		return r.enter(ctx, Aborted, executed(q))
	case Dropped:
		var tables []string
		for _, t := range r.m.plan.sources {
			tables = append(tables, t.Name)
		}
		if err := r.checkUnprotected(ctx, tables); err != nil {
			return r.reject(ctx, q, err)
		}
		if err := r.begin(ctx, Dropping); err != nil {
			return err
		}
		if err := r.drop(ctx); err != nil {
			return err
		}
		if err := r.store.clear(ctx, allKinds...); err != nil {
			return err
		}
		return r.enter(ctx, Dropped, executed(q))
	case Verify:
		return r.enter(ctx, Verify)
	case Switched:
		if err := r.forgetSuspects(ctx); err != nil {
			return err
		}
		if err := r.enter(ctx, Switched, executed(q)); err != nil {
			return err
		}
		return r.finishSwitch(ctx)
	case RolledBack:
		// Late writes to the old tables are not in the new ones: the verification
		// copies them.
		if err := r.forgetSuspects(ctx); err != nil {
			return err
		}
		if err := r.enter(ctx, Verify, executed(q), func(st *State) { st.RolledBack = true }); err != nil {
			return err
		}
		r.finished = false
		return r.restoreExpiry(ctx, r.state.Expiring)
	}
	return r.reject(ctx, q, fmt.Errorf("the goal %q is unknown; use the version of stator that began the migration", q.Goal))
}

// errGoal ends a phase because the goal has changed.
var errGoal = errors.New("the goal of the migration has changed")

// unlessAborted runs fn until the migration is to be aborted. It stores the state
// from time to time.
func (r *phaseRun) unlessAborted(ctx context.Context, fn func(ctx context.Context) error) error {
	watched, stop := background(ctx, func(ctx context.Context) error {
		for {
			if err := apply.Sleep(ctx, max(r.m.options.Poll, 100*time.Millisecond)); err != nil {
				return err
			}
			q, err := r.command(ctx)
			if err == nil && q.Goal == Aborted {
				err = errGoal
			}
			r.setFollowed()
			if err := errors.Join(err, r.save(ctx)); err != nil {
				return err
			}
		}
	})
	err := fn(watched)
	return errors.Join(err, stop())
}

// whileFollowing runs fn while the streams of the sources of a mapping are
// followed. It ends without error when the goal has changed.
func (r *phaseRun) whileFollowing(ctx context.Context, to *mapping, fn func(ctx context.Context) error) error {
	group, err := r.newFollowing(ctx, to)
	if err != nil {
		return err
	}
	r.followers = group
	followed, stop := background(ctx, group.run)
	err = fn(followed)
	if cause := context.Cause(followed); err != nil && cause != nil {
		err = cause
	}
	err = errors.Join(err, stop())
	r.starts = group.starts()
	if errors.Is(err, errGoal) {
		return nil
	}
	return err
}

// newFollowing returns followers of all tables whose records matter: those of
// the sources of the mapping cause writes. Those of the other side show writes of
// the application that are not copied.
func (r *phaseRun) newFollowing(ctx context.Context, to *mapping) (*following, error) {
	g := &following{poll: r.m.options.Poll, copier: r.forward}
	if err := r.loadSuspects(ctx, to.back); err != nil {
		return nil, err
	}
	backward := to == r.m.plan.forward.back
	if backward {
		g.copier = r.backward
	}
	for table, arn := range r.state.ARNs {
		is, view, err := r.streamOf(ctx, table)
		if err != nil || is != arn {
			return nil, errors.Join(err, streamLost(table))
		}
		r.m.plan.forward.setView(table, view)
		f := &streamFollower{c: r.m.c, store: r.store, table: table, arn: arn, poll: r.m.options.Poll, counts: &r.counts, now: r.m.options.Now, followed: r.state.followed(), starts: r.starts[table]}
		_, old := r.m.plan.forward.sources[table]
		switch {
		case r.m.plan.inPlace(table) && old:
			f.handle = func(ctx context.Context, records []changeRecord) error { return r.rewriteChanged(ctx, table, records) }
		case !backward && old:
			f.handle = func(ctx context.Context, records []changeRecord) error {
				return r.forward.follow(ctx, table, records)
			}
		case backward && !old:
			f.handle = func(ctx context.Context, records []changeRecord) error {
				return r.backward.follow(ctx, table, records)
			}
		default:
			f.handle = func(ctx context.Context, records []changeRecord) error {
				return r.suspect(ctx, to.back, table, written(records))
			}
		}
		g.all = append(g.all, f)
	}
	return g, nil
}

// setFollowed records up to which time the streams were read.
func (r *phaseRun) setFollowed() {
	if at := r.followers.followed(); !at.IsZero() {
		r.set(func(st *State) { st.Followed = at })
	}
}

// streamHours is how long a stream may not be read: its records are kept for 24
// hours.
const streamHours = 23 * time.Hour

// checkFollowed checks that no record was removed before it was read.
func (r *phaseRun) checkFollowed() error {
	if r.m.hasLostRecords(r.state) {
		return fmt.Errorf("the streams were last read at %s: %w", r.state.followed().Format(time.DateTime), errTrimmed)
	}
	return nil
}

// hasLostRecords reports whether records were removed before they were read. In the
// phase create the streams have not begun, and no item was read.
func (m *Migrator) hasLostRecords(st *State) bool {
	return st.Phase != Create && len(st.ARNs) > 0 && m.options.Now().Sub(st.followed()) > streamHours
}

// outOfDate is what can be done when records of the new tables were lost.
const outOfDate = "the old tables are out of date, and may have writes that came after the switch, so a rollback is not possible\n        the application stays with the new tables: drop --discard-late deletes the old ones; then a migration from the new model to the old one leads back"

// advise adds to the error of lost records what can be done.
func (st *State) advise(err error) error {
	switch {
	case !errors.Is(err, errTrimmed) && !errors.Is(err, errReplaced):
		return err
	case st.Phase == Switched:
		return fmt.Errorf("%w; %s", err, outOfDate)
	}
	return fmt.Errorf("%w; abort the migration and run it again", err)
}

// verifyAndStore compares both sides and stores the result.
func (r *phaseRun) verifyAndStore(ctx context.Context) error {
	q, err := r.command(ctx)
	if err != nil {
		return err
	}
	if q.Goal != Verify {
		q = Request{}
	}
	r.repair = r.m.options.Repair || r.state.RolledBack || q.Repair
	if err := r.followers.catchUp(ctx); err != nil {
		return err
	}
	r.setFollowed()
	v, err := r.verify(ctx)
	if err != nil {
		return err
	}
	r.set(func(st *State) { st.Verified = v })
	if !v.OK() {
		differs := &DifferenceError{v}
		if q.ID != "" {
			return errors.Join(differs, r.reject(ctx, q, differs))
		}
		return errors.Join(differs, r.save(ctx))
	}
	for _, table := range r.m.plan.targetNames() {
		if err := r.enableStream(ctx, table, r.m.plan.forward.back.needsImages(table)); err != nil {
			return err
		}
	}
	return r.enter(ctx, Ready, func(st *State) {
		st.RolledBack, st.Late, st.LateKeys = false, 0, nil
		if q.ID != "" {
			executed(q)(st)
		}
	})
}

// DifferenceError is returned when verification finds differences.
type DifferenceError struct{ *Verification }

func (e *DifferenceError) Error() string {
	return fmt.Sprintf("%d items differ, such as %s", len(e.Differences), e.Differences[0])
}

// followSave is how often the state is stored while only the streams are read.
const followSave = 10 * time.Second

// followAndExecute follows until there is a request, and executes it. The
// followers have stopped then: they must not pass over records that the
// application writes after a switch or a rollback.
func (r *phaseRun) followAndExecute(ctx context.Context, to *mapping) error {
	var q Request
	err := r.whileFollowing(ctx, to, func(ctx context.Context) (err error) {
		q, err = r.waitForRequest(ctx)
		return err
	})
	if err != nil || q.ID == "" {
		return err
	}
	return r.execute(ctx, q)
}

// waitForRequest waits for a request that can be executed. A switch and a
// rollback need the end of writes. It returns an empty request if that of this
// process was rejected.
func (r *phaseRun) waitForRequest(ctx context.Context) (Request, error) {
	var saved time.Time
	for {
		suspects := r.late.open()
		if err := r.followers.waitRounds(ctx); err != nil {
			return Request{}, err
		}
		r.setFollowed()
		if err := r.findLate(ctx, suspects); err != nil {
			return Request{}, err
		}
		q, err := r.command(ctx)
		if err == nil && (q.Goal == Switched || q.Goal == RolledBack || q.Goal == Dropped) {
			q, err = r.drain(ctx, q)
		}
		if done, _ := r.request.outcome(r.state); err != nil || q.ID != "" || done {
			return q, err
		}
		if time.Since(saved) > followSave {
			if err := errors.Join(r.save(ctx), r.finishChange(ctx)); err != nil {
				return Request{}, err
			}
			saved = time.Now()
		}
		if err := apply.Sleep(ctx, r.m.options.Poll); err != nil {
			return Request{}, err
		}
	}
}

// finishChange repeats what a switch or a rollback could not do at once.
func (r *phaseRun) finishChange(ctx context.Context) error {
	switch {
	case r.state.Phase == Switched:
		return r.finishSwitch(ctx)
	case len(r.state.Expiring) > 0:
		return r.restoreExpiry(ctx, r.state.Expiring)
	}
	return nil
}

// drain waits for the end of writes before a switch and a rollback, and finds late
// writes. If the request is not possible then, drain rejects it and returns an
// empty one.
func (r *phaseRun) drain(ctx context.Context, q Request) (Request, error) {
	err := r.followers.waitRounds(ctx)
	if q.Goal == Switched || q.Goal == RolledBack {
		err = r.followers.waitQuiet(ctx, q.Quiet, q.Drain)
	}
	if err == nil {
		err = r.followers.copier.waitDoubts(ctx, r.m.options.Poll)
	}
	if err == nil {
		err = r.settleLate(ctx)
	}
	if err == nil {
		err = r.m.check(r.state, q)
	}
	if err == nil || ctx.Err() != nil {
		return q, err
	}
	return Request{}, r.reject(ctx, q, err)
}
