// Package queue hands tasks out to workers. It keeps in memory which tasks wait,
// told by the table's stream, and lets the table's conditions decide who gets
// them: what it remembers may be old, what it does is right all the same. Any
// number of servers can do so over one table.
package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Options say how tasks are kept and looked for.
type Options struct {
	Table   *table.Table
	Poll    time.Duration // between two readings of a shard of the stream; 20 ms unless set
	Keep    time.Duration // of a task that is over; 7 days unless set
	KeepKey time.Duration // of an idempotency key; 1 day unless set
	MaxAge  time.Duration // of a task that waits, from its time on; 7 days unless set

	MaxKnown int // tasks that are held in memory; 200,000 unless set

	Log     *slog.Logger          // nothing is logged unless set
	Now     func() time.Time      // the system's clock unless set
	Metrics prometheus.Registerer // none unless set
	Changed func()                // called when something changed; must return at once
}

// Service is a server's part of the queue.
type Service struct {
	table                       *table.Table
	log                         *slog.Logger
	now                         func() time.Time
	poll, keep, keepKey, maxAge time.Duration
	maxKnown                    int
	metrics                     *metrics
	changed                     func()

	mutex    sync.Mutex
	lines    map[string]*line
	known    map[string]*entry // tasks that wait
	payloads int               // bytes of their payloads
	leases   map[string]*lease // by task
	workers  map[string]time.Time
	recent   []Recent
	healthy  error

	started chan struct{} // closed when the stream is followed and the table was read
}

// New makes a service, which works when it runs.
func New(o Options) *Service {
	s := &Service{
		table: o.Table, log: o.Log, now: o.Now, poll: o.Poll, keep: o.Keep, keepKey: o.KeepKey, maxAge: o.MaxAge, maxKnown: o.MaxKnown, changed: o.Changed,
		lines: make(map[string]*line), known: make(map[string]*entry), leases: make(map[string]*lease), workers: make(map[string]time.Time),
		healthy: errors.New("starting: the table's stream is not followed yet"), started: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.changed == nil {
		s.changed = func() {}
	}
	for _, d := range []struct {
		option *time.Duration
		unless time.Duration
	}{{&s.poll, 20 * time.Millisecond}, {&s.keep, 7 * 24 * time.Hour}, {&s.keepKey, 24 * time.Hour}, {&s.maxAge, 7 * 24 * time.Hour}} {
		if *d.option == 0 {
			*d.option = d.unless
		}
	}
	if s.maxKnown == 0 {
		s.maxKnown = 200_000
	}
	s.metrics = measure(o.Metrics, s)
	return s
}

// Refusal is why a client does not get what it asks for.
type Refusal struct {
	Why     Why
	Message string
	Task    *task.Task // how the task is, where that is the reason
}

// Why tells refusals apart.
type Why string

// The reasons.
const (
	NotFound Why = "not_found"
	Conflict Why = "conflict"
	Reused   Why = "key_reused" // the key came before, with other content
	Full     Why = "queue_full"
	Busy     Why = "busy"
)

func (r *Refusal) Error() string { return r.Message }

func refuse(why Why, t *task.Task, format string, args ...any) error {
	return &Refusal{why, fmt.Sprintf(format, args...), t}
}

const (
	maxQueues  = 1000
	maxWaiting = 10_000 // workers that wait at one queue
	maxLeases  = 200_000
)

// at is now as tasks have it: to the millisecond.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Submit takes a task. The same key and content give the same task, which is
// then not new.
func (s *Service) Submit(ctx context.Context, queue string, in task.Submission) (t task.Task, isNew bool, err error) {
	defer s.metrics.time("submit")()
	if err := task.CheckName("queue", queue); err != nil {
		return t, false, err
	}
	if err := in.Check(); err != nil {
		return t, false, err
	}
	now := s.at()
	runAt, err := in.When(now)
	if err != nil {
		return t, false, err
	}
	if err := s.admit(ctx, queue); err != nil {
		return t, false, err
	}
	born := &task.Born{Queue: queue, Type: in.Type, Priority: *in.Priority, PayloadHash: task.HashOf(in.Payload), MaxAttempts: in.MaxAttempts, Backoff: in.Backoff, Key: in.Key}
	e := task.Event{Seq: 1, Type: task.Submitted, At: now, Detail: task.Detail{RunAt: runAt, Until: runAt.Add(s.maxAge), Born: born}}
	t, err = task.Task{ID: task.NewID(now)}.After(e)
	if err != nil {
		return t, false, err
	}
	t.Payload = in.Payload
	hash := in.Hash(queue)
	err = s.table.Submit(ctx, t, e, hash, now.Add(s.keepKey).Unix(), s.eventsExpire(&t))
	var exists *table.Exists
	if !errors.As(err, &exists) {
		if err == nil {
			s.metrics.events.WithLabelValues(queue, string(task.Submitted)).Inc()
		}
		return t, err == nil, err
	}
	if exists.Hash != hash {
		return t, false, refuse(Reused, nil, "key %q was used for task %s, which is something else: use a new key for a new task", in.Key, exists.TaskID)
	}
	t, ok, err := s.table.Get(ctx, exists.TaskID)
	if err == nil && !ok {
		err = refuse(NotFound, nil, "key %q was used for task %s, which is over and forgotten", in.Key, exists.TaskID)
	}
	return t, false, err
}

// admit holds a queue to its limit of tasks that wait, and makes it known when
// it is new.
func (s *Service) admit(ctx context.Context, queue string) error {
	s.mutex.Lock()
	l := s.lines[queue]
	stored, count, most, queues := false, 0, 0, len(s.lines)
	if l != nil {
		stored, count, most = l.stored, l.count(), l.MaxPending
	}
	s.mutex.Unlock()
	switch {
	case l != nil && count >= most:
		return refuse(Full, nil, "queue %s has %d tasks that wait, as many as it may: submit again later", queue, count)
	case l == nil && queues >= maxQueues:
		return refuse(Full, nil, "there are %d queues, as many as there may be", queues)
	case !stored: // nobody has submitted to it through this server
		q := Unlimited(queue)
		q.Updated = s.at()
		if err := s.table.PutQueue(ctx, q, true); err != nil {
			return err
		}
		s.mutex.Lock()
		s.line(queue).stored = true
		s.mutex.Unlock()
	}
	return nil
}

// eventsExpire is when the events of a task may be forgotten: when it could not
// but be over and forgotten itself.
func (s *Service) eventsExpire(t *task.Task) int64 { return t.Until.Add(s.keep).Unix() }

// Claim gives a worker the most urgent task of a queue. If none is there it waits
// for up to that long; not ok means that none came.
func (s *Service) Claim(ctx context.Context, queue, worker string, lease, wait time.Duration) (c task.Claim, ok bool, err error) {
	if err := task.CheckName("queue", queue); err != nil {
		return c, false, err
	}
	if err := s.admitWorker(ctx, worker, lease); err != nil {
		return c, false, err
	}
	until := time.NewTimer(wait)
	defer until.Stop()
	for {
		e, slot, wake, err := s.pick(queue, wait > 0)
		if err != nil {
			return c, false, err
		}
		if e == nil {
			if wake == nil {
				return c, false, nil
			}
			select {
			case <-wake:
				continue
			case <-until.C:
			case <-ctx.Done():
			}
			s.leave(queue, wake)
			return c, false, ctx.Err()
		}
		c, err := s.take(ctx, *e, worker, lease, slot)
		var moved *table.Moved
		switch {
		case err == nil && ctx.Err() != nil: // the worker hung up meanwhile
			s.giveBack(ctx, c)
			return c, false, ctx.Err()
		case err == nil:
			return c, true, nil
		case errors.As(err, &moved):
			s.metrics.conflicts.Inc()
			if moved.Now != nil {
				s.know(*moved.Now)
			}
			s.freed(queue, slot)
		case errors.Is(err, table.ErrSlotTaken):
			s.again(*e) // the slot stays marked as taken
		default:
			s.again(*e)
			s.freed(queue, slot)
			return c, false, err
		}
	}
}

// pick takes the most urgent task out of memory, and a slot if the queue has a
// limit. Without one the worker waits until wake is closed.
func (s *Service) pick(queue string, waits bool) (e *entry, slot int, wake chan struct{}, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.lines[queue]
	if l == nil {
		if len(s.lines) >= maxQueues {
			return nil, 0, nil, refuse(Full, nil, "there are %d queues, as many as there may be", maxQueues)
		}
		l = s.line(queue)
	}
	if len(l.ready) > 0 && !l.Paused {
		if slot, ok := l.slot(); ok {
			if slot != 0 {
				l.slots[slot] = true
			}
			e := l.ready[0]
			s.forget(e)
			return e, slot, nil, nil
		}
	}
	if !waits {
		return nil, 0, nil, nil
	}
	if l.waiting.Len() >= maxWaiting {
		return nil, 0, nil, refuse(Busy, nil, "%d workers wait at queue %s, as many as may: ask again later", l.waiting.Len(), queue)
	}
	wake = make(chan struct{})
	l.waiting.PushBack(wake)
	return nil, 0, wake, nil
}

// leave takes a worker out of the row. If it was just woken, the next one is.
func (s *Service) leave(queue string, wake chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.line(queue)
	for w := l.waiting.Front(); w != nil; w = w.Next() {
		if w.Value == wake {
			l.waiting.Remove(w)
			return
		}
	}
	l.wake()
}

// again puts a task back that could not be claimed.
func (s *Service) again(e entry) { s.know(e.Task) }

func (s *Service) freed(queue string, slot int) {
	if slot != 0 {
		s.knowSlot(queue, slot, false)
	}
}

// take claims a task for a worker. A worker that hangs up does not undo it half.
func (s *Service) take(ctx context.Context, e entry, worker string, lease time.Duration, slot int) (task.Claim, error) {
	defer s.metrics.time("claim")()
	ctx = context.WithoutCancel(ctx)
	now := s.at()
	event := task.Event{Seq: e.Seq + 1, Type: task.Taken, At: now, Detail: task.Detail{Worker: worker, Slot: slot}}
	claim := table.Claim{Worker: worker, Task: e.ID, Queue: e.Queue, Since: now, Seq: event.Seq, Slot: slot, Lease: lease}
	taken, err := s.table.Append(ctx, e.Task, event, s.eventsUntil(now), table.With{Take: &claim})
	if err != nil {
		return task.Claim{}, err
	}
	s.metrics.events.WithLabelValues(e.Queue, string(task.Taken)).Inc()
	s.metrics.waited.Observe(now.Sub(laterOf(e.Created, e.RunAt)).Seconds())
	if taken.Payload == nil {
		whole, ok, err := s.table.Get(ctx, e.ID)
		if err != nil || !ok {
			return task.Claim{}, fmt.Errorf("read task %s, which was just claimed: %w", e.ID, err)
		}
		taken = whole
	}
	return task.Claim{Task: taken, Token: task.Token{Seq: event.Seq, Slot: slot, Queue: e.Queue}.String(), Lease: task.Duration(lease)}, nil
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// eventsUntil is when an event that happens now may be forgotten. The first
// event is kept longest; those behind it go at the same time or a little later.
func (s *Service) eventsUntil(now time.Time) int64 { return now.Add(s.maxAge + s.keep).Unix() }

// giveBack undoes a claim that its worker will not hear of.
func (s *Service) giveBack(ctx context.Context, c task.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.Release(ctx, c.ID, c.Worker, c.Token); err != nil {
		s.log.Warn("a task whose worker hung up comes back when its lease is over", "task", c.ID, "error", err)
	}
}

// ClaimTask gives a worker one task, if it is free. If not, the refusal tells who
// has it.
func (s *Service) ClaimTask(ctx context.Context, id, worker string, lease time.Duration) (task.Claim, error) {
	if err := s.admitWorker(ctx, worker, lease); err != nil {
		return task.Claim{}, err
	}
	t, err := s.Get(ctx, id)
	if err != nil {
		return task.Claim{}, err
	}
	if t.Status != task.Pending {
		return task.Claim{}, held(&t)
	}
	slot, err := s.takeSlot(t.Queue)
	if err != nil {
		return task.Claim{}, err
	}
	c, err := s.take(ctx, entry{Task: t}, worker, lease, slot)
	var moved *table.Moved
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, table.ErrSlotTaken):
		return c, refuse(Conflict, &t, "queue %s runs as many tasks as it may", t.Queue)
	}
	s.freed(t.Queue, slot)
	if errors.As(err, &moved) {
		s.metrics.conflicts.Inc()
		if moved.Now == nil {
			return c, missing(id)
		}
		return c, held(moved.Now)
	}
	return c, err
}

func (s *Service) takeSlot(queue string) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.line(queue)
	slot, ok := l.slot()
	if l.Paused || !ok {
		return 0, refuse(Conflict, nil, "queue %s is paused, or runs as many tasks as it may", queue)
	}
	if slot != 0 {
		l.slots[slot] = true
	}
	return slot, nil
}

func held(t *task.Task) error {
	if t.Status == task.Processing {
		return refuse(Conflict, t, "worker %s has task %s", t.Worker, t.ID)
	}
	return refuse(Conflict, t, "task %s is %s", t.ID, t.Status)
}

func missing(id string) error { return refuse(NotFound, nil, "there is no task %s", id) }

// admitWorker looks at a worker that asks for a task.
func (s *Service) admitWorker(ctx context.Context, worker string, lease time.Duration) error {
	if err := task.CheckName("worker", worker); err != nil {
		return err
	}
	if err := task.CheckLease(lease); err != nil {
		return err
	}
	s.mutex.Lock()
	leases := len(s.leases)
	s.mutex.Unlock()
	if leases >= maxLeases {
		return refuse(Busy, nil, "%d tasks are in the hands of workers, as many as may be", leases)
	}
	return s.noteWorker(ctx, worker)
}

// noteWorker notes a worker from time to time, so that what it is at is found by
// a server that starts.
func (s *Service) noteWorker(ctx context.Context, worker string) error {
	s.mutex.Lock()
	noted, ok := s.workers[worker]
	s.mutex.Unlock()
	if ok && time.Since(noted) < noteWorkers {
		return nil
	}
	if err := s.table.NoteWorker(ctx, worker, s.at()); err != nil {
		return err
	}
	s.mutex.Lock()
	s.workers[worker] = time.Now()
	s.mutex.Unlock()
	return nil
}

// noteWorkers is how often a worker that is there is noted anew, and
// forgetWorkers after what time one without claims is forgotten.
const (
	noteWorkers   = time.Minute
	forgetWorkers = 15 * time.Minute
)

// Get reads a task.
func (s *Service) Get(ctx context.Context, id string) (task.Task, error) {
	if _, err := task.CreatedAt(id); err != nil {
		return task.Task{}, err
	}
	t, ok, err := s.table.Get(ctx, id)
	if err == nil && !ok {
		err = missing(id)
	}
	return t, err
}

// History reads the events of a task.
func (s *Service) History(ctx context.Context, id string) ([]task.Event, error) {
	if _, err := task.CreatedAt(id); err != nil {
		return nil, err
	}
	events, err := s.table.History(ctx, id)
	if err == nil && len(events) == 0 {
		err = missing(id)
	}
	return events, err
}
