package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Run follows the stream, makes delayed tasks ready, expires leases and reads the
// indexes for changes that the stream missed, until the context ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follow(ctx) })
	group.Go(func() error { return every(ctx, max(s.poll, 50*time.Millisecond), s.wakeDelayed) })
	group.Go(func() error { return every(ctx, max(s.poll, 200*time.Millisecond), s.endLeases) })
	group.Go(func() error { return every(ctx, max(s.poll, time.Second), s.decide) })
	group.Go(func() error { return every(ctx, max(s.poll, time.Second), s.refill) })
	group.Go(func() error { return every(ctx, time.Minute, s.lookAfter) })
	err := group.Wait()
	s.flush(ctx)
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// flush waits for the writes that no reply has waited for.
func (s *Service) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.table.Flush(ctx); err != nil {
		s.log.Warn("some events are not written at the end; they are repaired when their tasks are read", "error", err)
	}
	s.table.Close()
}

// Started waits until the stream is followed and the table has been read.
func (s *Service) Started(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Healthy returns nil while the stream is followed and events can be written.
func (s *Service) Healthy(context.Context) error {
	s.mutex.Lock()
	err := s.healthy
	s.mutex.Unlock()
	if err != nil {
		return err
	}
	return s.table.Healthy()
}

func (s *Service) health(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.healthy = err
}

// every calls a function periodically.
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

// follow keeps the stream followed. Each time it starts to, it reads the table
// too: earlier changes are in the table, later ones in the stream.
func (s *Service) follow(ctx context.Context) error {
	var once sync.Once
	begin := func(ctx context.Context) error {
		if err := s.read(ctx); err != nil {
			return err
		}
		s.health(nil)
		once.Do(func() { close(s.started) })
		return s.readAgain(ctx)
	}
	for {
		err := s.table.Follow(ctx, s.poll, begin, s.listener())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.health(fmt.Errorf("the table's stream cannot be read: %w", err))
		s.log.Error("the table's stream cannot be read; retrying in a second", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// indexLag is how long a change of a task may take to be in the indexes, almost always. What takes
// longer is found by lookAfter.
const indexLag = 3 * time.Second

// readAgain reads the waiting tasks once more when the indexes have the changes of before the stream was followed.
func (s *Service) readAgain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(indexLag):
	}
	for _, name := range s.names() {
		if err := s.readQueue(ctx, name, s.maxKnown); err != nil {
			return err
		}
	}
	return nil
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

// read reads queues, waiting tasks and claims from the table.
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
	if err := s.readClaims(ctx); err != nil {
		return err
	}
	return s.dropMoved(ctx, func(*lease) bool { return true })
}

// dropMoved ends the claims whose tasks have moved on: a server has crashed before it
// deleted them. It examines those that a function selects.
func (s *Service) dropMoved(ctx context.Context, which func(*lease) bool) error {
	s.mutex.Lock()
	var some []table.Claim
	for _, l := range s.leases {
		if which(l) {
			l.compared = true
			some = append(some, l.Claim)
		}
	}
	s.mutex.Unlock()
	var failed atomic.Pointer[error]
	inParallel(some, func(c table.Claim) {
		t, ok, err := s.table.Get(ctx, c.Task)
		if err == nil && (!ok || t.Seq >= c.Seq && !claims(&t, &c)) {
			err = s.drop(ctx, c)
		}
		if err != nil {
			failed.Store(&err)
			s.compareAgain(c)
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// compareAgain notes that a claim could not be compared with its task.
func (s *Service) compareAgain(c table.Claim) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if l := s.leases[keyOf(&c)]; l != nil {
		l.compared, l.first = false, time.Now()
	}
}

// drop ends a claim that its task does not have.
func (s *Service) drop(ctx context.Context, c table.Claim) error {
	if err := s.table.Drop(ctx, c, s.at()); err != nil {
		return err
	}
	s.knowClaim(c, true)
	return nil
}

// readQueue reads the waiting tasks of a queue, up to a limit for each shard.
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
	return s.readSlots(ctx, name)
}

// readSlots reads the taken slots of a queue, and frees those whose claims do not exist.
func (s *Service) readSlots(ctx context.Context, name string) error {
	slots := make(map[int]bool)
	for slot, err := range s.table.Slots(ctx, name) {
		if err != nil {
			return err
		}
		orphan := false
		if !s.watches(&slot) {
			if orphan, err = s.table.FreeOrphan(ctx, slot); err != nil {
				return err
			}
		}
		if !orphan {
			slots[slot.Slot] = true
		}
	}
	s.mutex.Lock()
	s.queue(name).slots = slots
	s.mutex.Unlock()
	return nil
}

// watches reports whether the server knows the claim of a slot.
func (s *Service) watches(slot *table.Claim) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.leases[keyOf(slot)]
	return l != nil && l.Slot == slot.Slot
}

// full reports whether memory has no space for more tasks, and marks the queue as
// having more tasks in the table.
func (s *Service) full(name string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.known) < s.maxKnown {
		return false
	}
	s.queue(name).more = true
	return true
}

func (s *Service) names() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := make([]string, 0, len(s.queues))
	for name := range s.queues {
		names = append(names, name)
	}
	return names
}

// readClaims reads the claims of all workers. A worker that has no claims and was
// not seen for long is removed.
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

// wakeDelayed makes delayed tasks ready that are due.
func (s *Service) wakeDelayed(ctx context.Context) {
	now := s.at()
	s.mutex.Lock()
	var due []task.Task
	for _, l := range s.queues {
		for len(l.delayed) > 0 && !l.delayed[0].RunAt.After(now) && len(due) < 1000 {
			due = append(due, l.delayed[0].Task)
			s.forget(l.delayed[0])
		}
	}
	s.mutex.Unlock()
	inParallel(due, func(t task.Task) {
		e := task.Event{Seq: t.Seq + 1, Type: task.Ready, At: now}
		t.Created, _ = task.CreatedAt(t.ID) // the index of delayed tasks does not have it
		_, err := s.table.Append(ctx, t, e, table.With{})
		var moved *table.Moved
		switch {
		case err == nil:
			s.metrics.events.WithLabelValues(t.Queue, string(task.Ready)).Inc()
		case !errors.As(err, &moved) && ctx.Err() == nil:
			s.log.Warn("making a due task ready failed; retrying", "task", t.ID, "error", err)
			s.know(t)
		}
	})
}

// endLeases takes tasks away from workers that have stopped sending heartbeats, and ends
// claims whose tasks have moved on.
func (s *Service) endLeases(ctx context.Context) {
	if err := s.dropMoved(ctx, (*lease).unsure); err != nil && ctx.Err() == nil {
		s.log.Warn("comparing claims with their tasks failed; retrying", "error", err)
	}
	s.mutex.Lock()
	var over []table.Claim
	for _, l := range s.leases {
		if !l.expiring && l.over() {
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
		err := s.endLease(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !errors.Is(err, table.ErrClaimGone) {
			s.log.Warn("expiring a lease failed; retrying", "task", c.Task, "worker", c.Worker, "error", err)
		}
		s.mutex.Lock()
		if l := s.leases[keyOf(&c)]; l != nil {
			l.expiring = false
		}
		s.mutex.Unlock()
	})
}

func (s *Service) endLease(ctx context.Context, c table.Claim) error {
	t, ok, err := s.table.Get(ctx, c.Task)
	if err != nil {
		return err
	}
	if !ok || !claims(&t, &c) {
		return s.drop(ctx, c)
	}
	now := s.at()
	e := task.Event{Seq: t.Seq + 1, Type: task.Expired, At: now, Detail: task.Detail{Worker: c.Worker, Reason: fmt.Sprintf("worker %s sent no heartbeat for %v", c.Worker, c.Lease)}}
	if t.Attempts >= t.MaxAttempts || t.Seq > task.MaxSeq-100 || now.After(t.Until) {
		e.Type, e.Keep = task.DeadLettered, now.Add(s.keep).Unix()
	}
	_, err = s.table.Append(ctx, t, e, table.With{Drop: &c, Still: true})
	var moved *table.Moved
	switch {
	case err == nil:
		s.metrics.events.WithLabelValues(t.Queue, string(e.Type)).Inc()
		s.log.Info("a lease has expired", "task", c.Task, "worker", c.Worker, "attempt", t.Attempts, "then", e.Type)
		s.knowClaim(c, true)
		return nil
	case errors.As(err, &moved):
		return s.drop(ctx, c)
	case errors.Is(err, table.ErrClaimGone): // a heartbeat arrived in between
		now, ok, err := s.table.ClaimOf(ctx, c)
		if err != nil {
			return err
		}
		if !ok {
			now = c
		}
		s.knowClaim(now, !ok)
		return nil
	}
	return err
}

// refill reads more tasks of queues that have more in the table, when memory
// has space again.
func (s *Service) refill(ctx context.Context) {
	s.mutex.Lock()
	var names []string
	for name, l := range s.queues {
		if l.more && len(s.known) < s.maxKnown/2 {
			l.more = false // readQueue sets it again if there are still more
			names = append(names, name)
		}
	}
	s.mutex.Unlock()
	for _, name := range names {
		if err := s.readQueue(ctx, name, s.maxKnown); err != nil && ctx.Err() == nil {
			s.log.Warn("reading a queue failed; retrying", "queue", name, "error", err)
			s.mutex.Lock()
			s.queue(name).more = true
			s.mutex.Unlock()
		}
	}
}

// lookAfter reads from the indexes what the stream does not deliver: delayed tasks
// that are due soon, and changes missed because of an error. It also ends tasks
// that waited too long.
func (s *Service) lookAfter(ctx context.Context) {
	err := func() error {
		for _, name := range s.names() {
			if err := s.readQueue(ctx, name, 200); err != nil {
				return err
			}
			if err := s.expireOld(ctx, name); err != nil {
				return err
			}
		}
		return s.readClaims(ctx)
	}()
	if err != nil && ctx.Err() == nil {
		s.log.Warn("reading the indexes failed; retrying in a minute", "error", err)
	}
}

// expireOld makes tasks dead that waited too long.
func (s *Service) expireOld(ctx context.Context, name string) error {
	now := s.at()
	for shard := range table.Shards {
		for listed, err := range s.table.Oldest(ctx, name, task.Pending, shard) {
			if err != nil {
				return err
			}
			if listed.Created.After(now.Add(-s.maxAge)) {
				break // the rest is younger
			}
			t, ok, err := s.table.Get(ctx, listed.ID)
			if err != nil {
				return err
			}
			if !ok || t.Status != task.Pending || t.Until.After(now) {
				continue
			}
			e := task.Event{Seq: t.Seq + 1, Type: task.DeadLettered, At: now, Detail: task.Detail{Reason: "it waited too long", Keep: now.Add(s.keep).Unix()}}
			if _, err := s.table.Append(ctx, t, e, table.With{}); err != nil {
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

// inParallel calls a function for each element of a list, eight at a time.
func inParallel[T any](list []T, do func(T)) {
	var group sync.WaitGroup
	running := make(chan struct{}, 8)
	for _, x := range list {
		running <- struct{}{}
		group.Go(func() {
			do(x)
			<-running
		})
	}
	group.Wait()
}
