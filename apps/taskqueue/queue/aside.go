package queue

import (
	"context"
	"errors"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/table"
)

// undecided is a claim that no worker is known to have.
type undecided struct {
	entry entry
	claim table.Claim
	own   bool // of this server, whose request has failed: its worker got an error. Otherwise the request may be under way at another server
	begin time.Time
	since time.Time // of the last attempt to decide it
}

// asideFor is how long a request has to update the task after it has stored the claim,
// if the worker claims the task again meanwhile.
const asideFor = 2 * time.Second

// setAside notes the claim that a failed request leaves or that it has found. The
// worker cannot claim the task again while that claim exists.
func (s *Service) setAside(e entry, c table.Claim, err error) {
	var moved *table.Moved
	var claiming *table.Claiming
	u := undecided{entry: e, claim: c, own: true, begin: time.Now(), since: time.Now()}
	switch {
	case errors.As(err, &claiming):
		u.claim, u.own = claiming.Claim, false
	case errors.As(err, &moved), errors.Is(err, table.ErrSlotTaken):
		return // the table has deleted the claim
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if old, ok := s.aside[keyOf(&u.claim)]; !ok || !old.claim.Same(&u.claim) {
		s.aside[keyOf(&u.claim)] = u
	}
}

// decide ends claims that were set aside and are still not decided.
func (s *Service) decide(ctx context.Context) {
	var due []undecided
	s.mutex.Lock()
	for key, u := range s.aside {
		if time.Since(u.since) > asideFor {
			due = append(due, u)
			delete(s.aside, key)
		}
	}
	s.mutex.Unlock()
	inParallel(due, func(u undecided) {
		err := s.abandon(ctx, u)
		s.again(u.entry) // if the task has changed, the next claim finds that out
		if err != nil && ctx.Err() == nil {
			s.log.Warn("ending a claim that no worker has failed; retrying", "task", u.claim.Task, "worker", u.claim.Worker, "error", err)
			s.decideLater(u)
		}
	})
}

// decideLater notes that a claim could not be decided. After its lease it ends like
// other claims.
func (s *Service) decideLater(u undecided) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := keyOf(&u.claim)
	if _, newer := s.aside[key]; newer || time.Since(u.begin) > u.claim.Lease {
		return
	}
	u.since = time.Now()
	s.aside[key] = u
}

// abandon ends an undecided claim. If its task was not updated, the task gets an event
// first, so that a late update for the claim fails. If it was, and the worker does not
// know that, the task is released.
func (s *Service) abandon(ctx context.Context, u undecided) error {
	now, ok, err := s.table.ClaimOf(ctx, u.claim)
	if err != nil || !ok || !now.Same(&u.claim) {
		return err
	}
	t, ok, err := s.table.Get(ctx, u.claim.Task)
	switch {
	case err != nil:
		return err
	case !ok || !claims(&t, &now):
		return s.drop(ctx, now)
	case u.own:
		return s.Release(ctx, t.ID, t.Worker, tokenOf(&now).String())
	}
	return nil
}
