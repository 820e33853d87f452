package queue

import (
	"context"
	"errors"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/table"
)

// undecided is a claim whose task has not been updated: the request that stored it has
// failed, or is still under way at another server.
type undecided struct {
	entry entry
	claim table.Claim
	since time.Time
}

// asideFor is how long a request has to update the task after it has stored the claim,
// if the worker claims the task again meanwhile.
const asideFor = 2 * time.Second

// setAside notes the claim that a failed request leaves or that it has found. The
// worker cannot claim the task again while that claim exists.
func (s *Service) setAside(e entry, c table.Claim, err error) {
	var moved *table.Moved
	var claiming *table.Claiming
	switch {
	case errors.As(err, &claiming):
		c = claiming.Claim
	case errors.As(err, &moved), errors.Is(err, table.ErrSlotTaken):
		return // the table has deleted the claim
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if u, ok := s.aside[keyOf(&c)]; !ok || !u.claim.Same(&c) {
		s.aside[keyOf(&c)] = undecided{e, c, time.Now()}
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
			s.log.Warn("ending a claim that was not decided failed; it ends when its lease expires", "task", u.claim.Task, "worker", u.claim.Worker, "error", err)
		}
	})
}

// abandon ends an undecided claim. Its task gets an event first, so that a late
// update for the claim fails.
func (s *Service) abandon(ctx context.Context, u undecided) error {
	now, ok, err := s.table.ClaimOf(ctx, u.claim)
	if err != nil || !ok || !now.Same(&u.claim) {
		return err
	}
	t, ok, err := s.table.Get(ctx, u.claim.Task)
	if err != nil || ok && claims(&t, &now) {
		return err
	}
	return s.drop(ctx, now)
}
