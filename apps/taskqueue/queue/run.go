package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Run follows the stream, wakes delayed tasks, ends leases and looks after what
// was missed, until the context ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follow(ctx) })
	group.Go(func() error { return every(ctx, max(s.poll, 50*time.Millisecond), s.wakeDelayed) })
	group.Go(func() error { return every(ctx, max(s.poll, 200*time.Millisecond), s.endLeases) })
	group.Go(func() error { return every(ctx, max(s.poll, time.Second), s.refill) })
	group.Go(func() error { return every(ctx, time.Minute, s.lookAfter) })
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Started waits until the stream is followed and the table was read.
func (s *Service) Started(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Healthy is nil while the stream is followed.
func (s *Service) Healthy(context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.healthy
}

func (s *Service) health(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.healthy = err
}

// every does something again and again.
func every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			do(ctx)
		}
	}
}

// follow keeps the stream followed. Each time it begins, the table is read too:
// what changed before is there, and what changes later is told.
func (s *Service) follow(ctx context.Context) error {
	var once sync.Once
	begin := func(ctx context.Context) error {
		if err := s.read(ctx); err != nil {
			return err
		}
		s.health(nil)
		once.Do(func() { close(s.started) })
		return nil
	}
	for {
		err := s.table.Follow(ctx, s.poll, begin, s.listener())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.health(fmt.Errorf("the table's stream is not followed: %w", err))
		s.log.Error("the table's stream is not followed; trying again in a second", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (s *Service) listener() table.Listener {
	return table.Listener{
		Task:  s.know,
		Event: s.knowEvent,
		Claim: s.knowClaim,
		Queue: s.knowQueue,
		Slot:  s.knowSlot,
		Batch: func(n int) {
			s.metrics.records.Add(float64(n))
			s.changed()
		},
	}
}

// read reads from the table what there is: queues, tasks that wait, and claims.
func (s *Service) read(ctx context.Context) error {
	for q, err := range s.table.Queues(ctx) {
		if err != nil {
			return err
		}
		s.knowQueue(q)
	}
	for _, name := range s.names() {
		if err := s.readQueue(ctx, name, s.maxKnown); err != nil {
			return err
		}
	}
	return s.readClaims(ctx)
}

// readQueue reads the tasks of a queue that wait, up to some of each shard.
func (s *Service) readQueue(ctx context.Context, name string, most int) error {
	for shard := range table.Shards {
		n := 0
		for t, err := range s.table.Oldest(ctx, name, task.Pending, shard) {
			if err != nil {
				return err
			}
			if n++; n > most || s.full(name) {
				break
			}
			s.know(t)
		}
		for t, err := range s.table.Due(ctx, name, s.now().Add(horizon), shard) {
			if err != nil {
				return err
			}
			if s.full(name) {
				break
			}
			s.know(t)
		}
	}
	slots := make(map[int]bool)
	for n, err := range s.table.Slots(ctx, name) {
		if err != nil {
			return err
		}
		slots[n] = true
	}
	s.mutex.Lock()
	s.line(name).slots = slots
	s.mutex.Unlock()
	return nil
}

// full tells whether there is no room for more tasks in memory, and remembers
// that the queue has some.
func (s *Service) full(name string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.known) < s.maxKnown {
		return false
	}
	s.line(name).more = true
	return true
}

func (s *Service) names() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := make([]string, 0, len(s.lines))
	for name := range s.lines {
		names = append(names, name)
	}
	return names
}

// readClaims reads what all workers are at. One that was not seen for long and
// is at nothing is forgotten.
func (s *Service) readClaims(ctx context.Context) error {
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return err
		}
		claims := 0
		for c, err := range s.table.Claims(ctx, w.ID) {
			if err != nil {
				return err
			}
			claims++
			s.knowClaim(c, false)
		}
		if claims == 0 && s.now().Sub(w.Seen) > forgetWorkers {
			if err := s.table.ForgetWorker(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// wakeDelayed makes tasks ready whose time has come.
func (s *Service) wakeDelayed(ctx context.Context) {
	now := s.at()
	s.mutex.Lock()
	var due []task.Task
	for _, l := range s.lines {
		for len(l.delayed) > 0 && !l.delayed[0].RunAt.After(now) && len(due) < 1000 {
			due = append(due, l.delayed[0].Task)
			s.forget(l.delayed[0])
		}
	}
	s.mutex.Unlock()
	inParallel(due, func(t task.Task) {
		e := task.Event{Seq: t.Seq + 1, Type: task.Ready, At: now}
		t.Created, _ = task.CreatedAt(t.ID) // the index of delayed tasks does not have it
		_, err := s.table.Append(ctx, t, e, s.eventsUntil(now), table.With{})
		var moved *table.Moved
		switch {
		case err == nil:
			s.metrics.events.WithLabelValues(t.Queue, string(task.Ready)).Inc()
		case !errors.As(err, &moved) && ctx.Err() == nil:
			s.log.Warn("a task that is due could not be made ready; it is tried again", "task", t.ID, "error", err)
			s.know(t)
		}
	})
}

// endLeases takes tasks from workers that are not heard of.
func (s *Service) endLeases(ctx context.Context) {
	s.mutex.Lock()
	var over []table.Claim
	for _, l := range s.leases {
		if !l.expiring && time.Since(l.seen) > l.Lease {
			l.expiring = true
			over = append(over, l.Claim)
		}
	}
	for worker, noted := range s.workers {
		if time.Since(noted) > noteWorkers {
			delete(s.workers, worker)
		}
	}
	s.mutex.Unlock()
	inParallel(over, func(c table.Claim) {
		if err := s.endLease(ctx, c); err != nil && ctx.Err() == nil {
			s.log.Warn("a lease that is over could not be ended; it is tried again", "task", c.Task, "worker", c.Worker, "error", err)
			s.mutex.Lock()
			if l := s.leases[c.Task]; l != nil {
				l.expiring = false
			}
			s.mutex.Unlock()
		}
	})
}

func (s *Service) endLease(ctx context.Context, c table.Claim) error {
	t, ok, err := s.table.Get(ctx, c.Task)
	if err != nil {
		return err
	}
	if !ok || t.Status != task.Processing || t.Seq != c.Seq {
		s.knowClaim(c, true) // it went on meanwhile
		return nil
	}
	now := s.at()
	e := task.Event{Seq: t.Seq + 1, Type: task.Expired, At: now, Detail: task.Detail{Worker: c.Worker, Reason: fmt.Sprintf("worker %s was not heard of for %v", c.Worker, c.Lease)}}
	if t.Attempts >= t.MaxAttempts || t.Seq > task.MaxSeq-100 || now.After(t.Until) {
		e.Type, e.Keep = task.Buried, now.Add(s.keep).Unix()
	}
	_, err = s.table.Append(ctx, t, e, s.eventsUntil(now), table.With{Drop: &c, Still: true})
	var moved *table.Moved
	switch {
	case err == nil:
		s.metrics.events.WithLabelValues(t.Queue, string(e.Type)).Inc()
		s.log.Info("a lease is over", "task", c.Task, "worker", c.Worker, "attempt", t.Attempts, "then", e.Type)
		s.knowClaim(c, true)
		return nil
	case errors.As(err, &moved):
		s.knowClaim(c, true)
		return nil
	case errors.Is(err, table.ErrClaimGone): // a heartbeat came in between
		now, ok, err := s.table.ClaimOf(ctx, c.Worker, c.Task)
		if err != nil {
			return err
		}
		s.knowClaim(now, !ok)
		return nil
	}
	return err
}

// refill reads tasks of queues for which there was no room, when there is.
func (s *Service) refill(ctx context.Context) {
	s.mutex.Lock()
	var names []string
	for name, l := range s.lines {
		if l.more && len(s.known) < s.maxKnown/2 {
			l.more = false // readQueue says so again if there are more still
			names = append(names, name)
		}
	}
	s.mutex.Unlock()
	for _, name := range names {
		if err := s.readQueue(ctx, name, s.maxKnown); err != nil && ctx.Err() == nil {
			s.log.Warn("a queue could not be read; it is tried again", "queue", name, "error", err)
			s.mutex.Lock()
			s.line(name).more = true
			s.mutex.Unlock()
		}
	}
}

// lookAfter finds by the indexes what the stream did not tell, which is what
// comes near and what a fault has hidden, and buries what waited too long.
func (s *Service) lookAfter(ctx context.Context) {
	err := func() error {
		for _, name := range s.names() {
			if err := s.readQueue(ctx, name, 200); err != nil {
				return err
			}
			if err := s.buryOld(ctx, name); err != nil {
				return err
			}
		}
		return s.readClaims(ctx)
	}()
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the table could not be looked after; it is tried again in a minute", "error", err)
	}
}

// buryOld ends tasks that waited longer than they may.
func (s *Service) buryOld(ctx context.Context, name string) error {
	now := s.at()
	for shard := range table.Shards {
		for listed, err := range s.table.Oldest(ctx, name, task.Pending, shard) {
			if err != nil {
				return err
			}
			if listed.Created.After(now.Add(-s.maxAge)) {
				break // the others are younger
			}
			t, ok, err := s.table.Get(ctx, listed.ID)
			if err != nil {
				return err
			}
			if !ok || t.Status != task.Pending || t.Until.After(now) {
				continue
			}
			e := task.Event{Seq: t.Seq + 1, Type: task.Buried, At: now, Detail: task.Detail{Reason: "it waited too long", Keep: now.Add(s.keep).Unix()}}
			if _, err := s.table.Append(ctx, t, e, s.eventsUntil(now), table.With{}); err != nil {
				var moved *table.Moved
				if errors.As(err, &moved) {
					continue
				}
				return err
			}
			s.metrics.events.WithLabelValues(t.Queue, string(e.Type)).Inc()
		}
	}
	return nil
}

// inParallel does something with each of a list, eight at a time.
func inParallel[T any](list []T, do func(T)) {
	var group sync.WaitGroup
	turns := make(chan struct{}, 8)
	for _, x := range list {
		turns <- struct{}{}
		group.Go(func() {
			do(x)
			<-turns
		})
	}
	group.Wait()
}
