package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// RolledBack is the goal that the application writes to the old tables again. It
// is a goal of its own, so that no other command rolls back. The next phase is
// Verify.
const RolledBack Phase = "rolled back"

// Request is a command for the process that runs a migration. It is stored, and
// is executed or rejected once.
type Request struct {
	ID   string `json:"id"`
	Goal Phase  `json:"goal"`

	Quiet       time.Duration `json:"quiet,omitempty"` // of Switched and RolledBack
	Drain       time.Duration `json:"drain,omitempty"`
	Repair      bool          `json:"repair,omitempty"` // of Verify
	DiscardLate bool          `json:"discardLate,omitempty"`
}

// newRequest returns the request of a command. Ready and the empty goal need
// none: each process brings a migration to the phase ready.
func (m *Migrator) newRequest(goal Phase) Request {
	q := Request{Goal: goal}
	if goal != "" && goal != Ready {
		o := m.options
		q = Request{ID: rand.Text(), Goal: goal, Quiet: o.Quiet, Drain: o.Drain, Repair: o.Repair, DiscardLate: goal == Dropped && o.DiscardLate}
	}
	return q
}

// check returns why a command is not possible in the present phase.
func (m *Migrator) check(st *State, q Request) error {
	switch {
	case st.Phase == Aborting && q.Goal == Aborted, st.Phase == Dropping && q.Goal == Dropped:
		return nil
	case st.Phase == Aborting:
		return errors.New("an abort is not finished; repeat abort")
	case st.Phase == Dropping:
		return errors.New("a drop is not finished; repeat drop")
	case q.Goal == Switched && st.Phase != Ready:
		return fmt.Errorf("the migration is in phase %s; it can be switched when it is %s", st.Phase, Ready)
	case q.Goal == Switched && st.Late > 0:
		return fmt.Errorf("%d writes to the new tables are not in the old ones, such as %s\n        run --verify --repair makes the new tables equal to the old ones", st.Late, st.LateKeys[0])
	case q.Goal == RolledBack && st.Phase != Switched:
		return errors.New("there is nothing to roll back: the migration is not switched")
	case q.Goal == Aborted && st.Phase == Switched && m.hasLostRecords(st):
		return errors.New("the application uses the new tables; " + outOfDate)
	case q.Goal == Aborted && st.Phase == Switched:
		return errors.New("the application uses the new tables; roll back first")
	case q.Goal == Dropped && st.Phase != Switched:
		return fmt.Errorf("the migration is in phase %s; the old tables can be dropped when it is %s", st.Phase, Switched)
	case q.Goal == Dropped && m.options.Now().Sub(st.Since) < m.options.Window:
		return fmt.Errorf("the switch was %s ago; the old tables stay for %s", m.options.Now().Sub(st.Since).Round(time.Second), m.options.Window)
	case q.Goal == Dropped && st.Late > 0 && !q.DiscardLate:
		return fmt.Errorf("%d writes to the old tables came after the switch and are not in the new ones, such as %s\n        copy them, or roll back, or add --discard-late to drop them", st.Late, st.LateKeys[0])
	case q.Goal == Verify && st.Phase == Switched:
		return errors.New("the migration is switched; it can be verified before the switch, or after a rollback")
	}
	return nil
}

// outcome reports whether a request has been executed or rejected, and why it was
// rejected.
func (q Request) outcome(st *State) (done bool, err error) {
	switch {
	case q.ID != "" && st.Answered == q.ID && st.Problem != "":
		return true, errors.New(st.Problem)
	case q.ID != "" && st.Answered == q.ID:
		return true, nil
	case q.Goal == Ready && (st.Phase == Ready || st.Phase == Switched):
		return true, nil
	case q.Goal == st.Phase && (q.Goal == Switched || q.Goal == Aborted || q.Goal == Dropped):
		return true, nil
	case q.Goal == "" && (st.Phase == Aborted || st.Phase == Dropped):
		return true, nil
	case st.Phase == Aborted || st.Phase == Dropped:
		return true, fmt.Errorf("the migration is %s", st.Phase)
	case q.ID != "" && st.Request.ID != q.ID:
		return true, fmt.Errorf("another command has replaced this one; its goal is %s", st.Request.Goal)
	}
	return false, nil
}

// command returns the stored request if it has not been executed and is
// possible. It rejects a request that is not possible.
func (r *phaseRun) command(ctx context.Context) (Request, error) {
	st, err := r.store.load(ctx)
	if err != nil {
		return Request{}, err
	}
	if st == nil {
		return Request{}, errLost
	}
	r.set(func(is *State) { is.Request = st.Request })
	if st.Request.ID == r.state.Answered {
		return Request{}, nil
	}
	if err := r.m.check(r.state, st.Request); err != nil {
		return Request{}, r.reject(ctx, st.Request, err)
	}
	return st.Request, nil
}

// reject stores why a request is not executed.
func (r *phaseRun) reject(ctx context.Context, q Request, reason error) error {
	r.set(func(st *State) { st.Answered, st.Problem = q.ID, shorten(reason.Error()) })
	return r.save(ctx)
}

// executed returns the change of a state that says that a request was executed.
func executed(q Request) func(st *State) {
	return func(st *State) { st.Answered, st.Problem = q.ID, "" }
}
