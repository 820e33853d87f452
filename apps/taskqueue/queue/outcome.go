package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// holder identifies a worker's claim of a task.
type holder struct {
	id, worker string
	token      task.Token
	created    time.Time
}

func hold(id, worker, token string) (holder, error) {
	created, err := task.CreatedAt(id)
	if err != nil {
		return holder{}, err
	}
	if err := task.CheckName("worker", worker); err != nil {
		return holder{}, err
	}
	k, err := task.ParseToken(token)
	return holder{id, worker, k, created}, err
}

// claim returns the claim as the table stores it.
func (h holder) claim() *table.Claim {
	return &table.Claim{Worker: h.worker, Task: h.id, Queue: h.token.Queue, Seq: h.token.Seq, Slot: h.token.Slot}
}

// Heartbeat extends a worker's lease.
func (s *Service) Heartbeat(ctx context.Context, id, worker, token string) error {
	h, err := hold(id, worker, token)
	if err != nil {
		return err
	}
	if err := s.noteWorker(ctx, worker); err != nil {
		return err
	}
	ok, err := s.table.Beat(ctx, worker, id, h.token.Seq)
	if err != nil || ok {
		return err
	}
	t, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	return lost(&t, worker)
}

func lost(t *task.Task, worker string) error {
	if t.Status == task.Processing && t.Worker != worker {
		return refuse(Conflict, t, "worker %s now has task %s", t.Worker, t.ID)
	}
	return refuse(Conflict, t, "the claim of worker %s on task %s is no longer valid; the task is %s", worker, t.ID, t.Status)
}

// Complete ends a task successfully. It is idempotent.
func (s *Service) Complete(ctx context.Context, id, worker, token, result string) error {
	defer s.metrics.time("complete")()
	h, err := hold(id, worker, token)
	if err != nil {
		return err
	}
	if err := task.CheckResult(result); err != nil {
		return err
	}
	// The token and the id have all that the event needs, so nothing is read.
	before := task.Task{ID: id, Queue: h.token.Queue, Created: h.created, Status: task.Processing, Worker: worker, Slot: h.token.Slot, Seq: h.token.Seq}
	now := s.at()
	e := task.Event{Type: task.Done, At: now, Detail: task.Detail{Worker: worker, Result: result, Keep: now.Add(s.keep).Unix()}}
	return s.end(ctx, h, before, e, table.With{Drop: h.claim(), Unread: true})
}

// end writes the event by which a worker ends its claim of a task.
func (s *Service) end(ctx context.Context, h holder, before task.Task, e task.Event, with table.With) error {
	e.Seq = before.Seq + 1
	_, err := s.table.Append(ctx, before, e, with)
	var moved *table.Moved
	if errors.As(err, &moved) {
		return s.repeated(ctx, h, e.Type, moved.Now)
	}
	if err == nil {
		s.metrics.events.WithLabelValues(before.Queue, string(e.Type)).Inc()
	}
	return err
}

// repeated reports whether a worker repeats a report whose reply was lost.
func (s *Service) repeated(ctx context.Context, h holder, what task.EventType, now *task.Task) error {
	if now == nil {
		return missing(h.id)
	}
	if now.Seq <= h.token.Seq {
		return lost(now, h.worker)
	}
	events, err := s.table.History(ctx, h.id)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Seq == h.token.Seq+1 && e.Type == what && e.Worker == h.worker {
			return nil
		}
	}
	return lost(now, h.worker)
}

// Failure describes a failed attempt.
type Failure struct {
	Reason string
	Never  bool          // the task must not be retried
	After  time.Duration // delay before the retry; replaces the task's backoff
}

// Fail ends an attempt that failed. The task is retried later, unless its attempts
// are used up or the worker says that it must not be. Fail returns the task's new
// status.
func (s *Service) Fail(ctx context.Context, id, worker, token string, f Failure) (task.Status, error) {
	if err := task.CheckReason(f.Reason); err != nil {
		return "", err
	}
	if f.After < 0 || f.After > task.MaxDelay {
		return "", &task.Fault{Field: "after", Message: fmt.Sprintf("is %v, but must be 0 to %v", f.After, task.MaxDelay)}
	}
	h, t, err := s.holding(ctx, id, worker, token, task.FailedForGood, task.Retry, task.DeadLettered)
	if err != nil || t == nil {
		return "", err
	}
	now := s.at()
	e := task.Event{Type: task.Retry, At: now, Detail: task.Detail{Worker: worker, Reason: f.Reason}}
	status := task.Delayed
	switch {
	case f.Never:
		e.Type, e.Keep, status = task.FailedForGood, now.Add(s.keep).Unix(), task.Failed
	case t.Attempts >= t.MaxAttempts || t.Seq > task.MaxSeq-100:
		e.Type, e.Keep, status = task.DeadLettered, now.Add(s.keep).Unix(), task.Dead
	default:
		wait := f.After
		if wait == 0 {
			wait = task.Wait(time.Duration(t.Backoff), t.Attempts, rand.Float64())
		}
		e.RunAt = now.Add(wait.Truncate(time.Millisecond))
		if e.RunAt.After(t.Until) {
			e.Type, e.RunAt, e.Keep, status = task.DeadLettered, time.Time{}, now.Add(s.keep).Unix(), task.Dead
		}
	}
	return status, s.end(ctx, h, *t, e, table.With{Drop: h.claim()})
}

// Release gives a task back as if it had not been claimed.
func (s *Service) Release(ctx context.Context, id, worker, token string) error {
	h, t, err := s.holding(ctx, id, worker, token, task.Released)
	if err != nil || t == nil {
		return err
	}
	e := task.Event{Type: task.Released, At: s.at(), Detail: task.Detail{Worker: worker}}
	if t.Seq > task.MaxSeq-100 {
		e.Type, e.Reason, e.Keep = task.DeadLettered, "it was released too often", e.At.Add(s.keep).Unix()
	}
	return s.end(ctx, h, *t, e, table.With{Drop: h.claim()})
}

// holding reads a task that a worker has claimed. The task is nil if the worker
// has already ended the claim.
func (s *Service) holding(ctx context.Context, id, worker, token string, words ...task.EventType) (holder, *task.Task, error) {
	h, err := hold(id, worker, token)
	if err != nil {
		return h, nil, err
	}
	t, err := s.Get(ctx, id)
	if err != nil {
		return h, nil, err
	}
	if t.Status == task.Processing && t.Seq == h.token.Seq && t.Worker == worker && t.Queue == h.token.Queue && t.Slot == h.token.Slot {
		return h, &t, nil
	}
	for _, w := range words {
		if s.repeated(ctx, h, w, &t) == nil {
			return h, nil, nil
		}
	}
	return h, nil, lost(&t, worker)
}

// Cancel cancels a task, whatever its status. A worker that has it learns of it
// from the reply to its next request.
func (s *Service) Cancel(ctx context.Context, id, reason string) (task.Task, error) {
	if err := task.CheckReason(reason); err != nil {
		return task.Task{}, err
	}
	return s.force(ctx, id, task.CancelledByClient, task.Cancelled, func(*task.Task) task.Detail {
		return task.Detail{Reason: reason, Keep: s.at().Add(s.keep).Unix()}
	})
}

// Requeue restarts a failed or dead task. Its history is kept for as long as the
// restarted task may take.
func (s *Service) Requeue(ctx context.Context, id string) (task.Task, error) {
	t, err := s.Get(ctx, id)
	if err != nil {
		return t, err
	}
	if task.Can(task.Requeued, t.Status) {
		if err := s.table.KeepEvents(ctx, t, s.at().Add(s.maxAge+s.keep).Unix()); err != nil {
			return t, err
		}
	}
	return s.force(ctx, id, task.Requeued, "", func(*task.Task) task.Detail { return task.Detail{Until: s.at().Add(s.maxAge)} })
}

// force writes an event that no worker decides. It changes nothing if the task
// already has the status that the event leads to.
func (s *Service) force(ctx context.Context, id string, what task.EventType, already task.Status, detail func(*task.Task) task.Detail) (task.Task, error) {
	for range 10 {
		t, err := s.Get(ctx, id)
		if err != nil {
			return t, err
		}
		if t.Status == already {
			return t, nil
		}
		if !task.Can(what, t.Status) {
			return t, refuse(Conflict, &t, "task %s is %s, so %s cannot happen to it", id, t.Status, what)
		}
		var with table.With
		if t.Status == task.Processing {
			with.Drop = &table.Claim{Worker: t.Worker, Task: id, Queue: t.Queue, Seq: t.Seq, Slot: t.Slot}
		}
		now, err := s.table.Append(ctx, t, task.Event{Seq: t.Seq + 1, Type: what, At: s.at(), Detail: detail(&t)}, with)
		var moved *table.Moved
		switch {
		case err == nil:
			s.metrics.events.WithLabelValues(t.Queue, string(what)).Inc()
			if with.Drop != nil {
				if err := s.table.Ended(ctx, with.Drop); err != nil { // the step is stored
					s.log.Warn("the claim of a task that has ended is not deleted yet", "task", id, "error", err)
				}
			}
			return now, nil
		case !errors.As(err, &moved):
			return t, err
		}
	}
	return task.Task{}, refuse(Busy, nil, "task %s changes too fast; retry", id)
}
