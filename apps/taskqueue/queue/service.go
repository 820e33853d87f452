// Package queue hands tasks out to workers. It caches in memory which tasks wait,
// from the table's stream, and relies on the table's conditions for correctness:
// the cache may be stale. Any number of servers can share a table.
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

// Options configure a Service.
type Options struct {
	Table   *table.Table
	Poll    time.Duration // time between two reads of a stream shard; defaults to 20 ms
	Keep    time.Duration // how long finished tasks are kept; defaults to 7 days
	KeepKey time.Duration // how long idempotency keys are kept; defaults to 1 day
	MaxAge  time.Duration // how long a task may wait after its run time; defaults to 7 days

	MaxKnown int // waiting tasks held in memory; defaults to 200,000

	Log     *slog.Logger          // nil disables logging
	Now     func() time.Time      // defaults to time.Now
	Metrics prometheus.Registerer // may be nil
	Changed func()                // called after changes; must not block
}

// Service is one server's part of the queue.
type Service struct {
	table                       *table.Table
	log                         *slog.Logger
	now                         func() time.Time
	poll, keep, keepKey, maxAge time.Duration
	maxKnown                    int
	metrics                     *metrics
	changed                     func()

	mutex    sync.Mutex
	queues   map[string]*queueState
	known    map[string]*entry // waiting tasks
	payloads int               // bytes of their payloads
	leases   map[leaseKey]*lease
	claims   map[string][]*lease // the same, by task
	aside    map[leaseKey]undecided
	workers  map[string]time.Time
	recent   []Recent
	broken   brokenCounts
	healthy  error

	started chan struct{} // closed when the stream is followed and the table has been read
}

// New returns a service. It does its work in Run.
func New(o Options) *Service {
	s := &Service{
		table: o.Table, log: o.Log, now: o.Now, poll: o.Poll, keep: o.Keep, keepKey: o.KeepKey, maxAge: o.MaxAge, maxKnown: o.MaxKnown, changed: o.Changed,
		queues: make(map[string]*queueState), known: make(map[string]*entry), leases: make(map[leaseKey]*lease), claims: make(map[string][]*lease), aside: make(map[leaseKey]undecided), workers: make(map[string]time.Time),
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
	s.table.Keep = s.maxAge + s.keep
	s.table.Failed = func(err error) { s.log.Warn("a write in the background failed", "error", err) }
	return s
}

// Refusal is an error that a client caused.
type Refusal struct {
	Why     Why
	Message string
	Task    *task.Task // the task, if its state is the reason
}

// Why is the kind of a refusal.
type Why string

// The reasons.
const (
	NotFound Why = "not_found"
	Conflict Why = "conflict"
	Reused   Why = "key_reused" // the key was used with other content
	Full     Why = "queue_full"
	Busy     Why = "busy"
)

func (r *Refusal) Error() string { return r.Message }

func refuse(why Why, t *task.Task, format string, args ...any) error {
	return &Refusal{why, fmt.Sprintf(format, args...), t}
}

const (
	maxQueues  = 1000
	maxWaiting = 10_000 // waiting workers of a queue
	maxLeases  = 200_000
)

// at returns the current time, truncated as tasks store it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Submit stores a task. If the key was used for the same content before, it
// returns that task, and isNew is false.
func (s *Service) Submit(ctx context.Context, queue string, in task.Submission) (t task.Task, isNew bool, err error) {
	defer s.metrics.time("submit")()
	if err := task.CheckName("queue", queue); err != nil {
		return t, false, err
	}
	if err := in.Check(); err != nil {
		return t, false, err
	}
	t, err = s.born(task.NewID(s.at()), queue, &in)
	if err != nil {
		return t, false, err
	}
	if err := s.admit(ctx, queue); err != nil {
		return t, false, err
	}
	if in.Key != "" {
		known, ok, err := s.reserve(ctx, &t, &in)
		if ok || err != nil {
			return known, false, err
		}
	}
	t, isNew, err = s.table.Create(ctx, t)
	if err != nil {
		return t, false, err
	}
	if isNew {
		s.metrics.events.WithLabelValues(queue, string(task.Submitted)).Inc()
	}
	return t, isNew || in.Key == "", nil // without a key an existing task is of this request, repeated by the SDK
}

// born returns the task that a submission creates under an id. It depends on the id
// and the submission alone, so that a repeated request creates the same.
func (s *Service) born(id, queue string, in *task.Submission) (task.Task, error) {
	at, err := task.CreatedAt(id)
	if err != nil {
		return task.Task{}, err
	}
	runAt, err := in.When(at)
	if err != nil {
		return task.Task{}, err
	}
	born := &task.Born{Queue: queue, Type: in.Type, Priority: *in.Priority, PayloadHash: task.HashOf(in.Payload), MaxAttempts: in.MaxAttempts, Backoff: in.Backoff, Key: in.Key}
	t, err := task.Task{ID: id}.After(task.Event{Seq: 1, Type: task.Submitted, At: at, Detail: task.Detail{RunAt: runAt, Until: runAt.Add(s.maxAge), Born: born}})
	t.Payload = in.Payload
	return t, err
}

// reserve stores that a key belongs to a task. If it belongs to another task already,
// it returns that, and ok is true. If that task does not exist, because the request
// that stored the key has not stored its task, the task is changed to have its id.
func (s *Service) reserve(ctx context.Context, t *task.Task, in *task.Submission) (known task.Task, ok bool, err error) {
	now, hash := s.at(), in.Hash(t.Queue)
	err = s.table.Reserve(ctx, in.Key, t.ID, hash, now, now.Add(s.keepKey).Unix())
	var exists *table.Exists
	if !errors.As(err, &exists) {
		return known, false, err
	}
	if exists.Hash != hash {
		return known, false, refuse(Reused, nil, "key %q was used for task %s, which has other content: use a new key for a new task", in.Key, exists.TaskID)
	}
	known, ok, err = s.table.Get(ctx, exists.TaskID)
	if ok || err != nil {
		return known, ok, err
	}
	done, err := s.table.WasStored(ctx, exists.TaskID)
	if err != nil {
		return known, false, err
	}
	if done { // it was deleted, or has been stored since
		if known, ok, err = s.table.Get(ctx, exists.TaskID); ok || err != nil {
			return known, ok, err
		}
	}
	lost, err := s.born(exists.TaskID, t.Queue, in)
	if err != nil {
		return known, false, err
	}
	if done || now.After(lost.Created.Add(s.table.Keep/10*9)) { // after that its events may have expired as well
		return known, false, refuse(NotFound, nil, "key %q was used for task %s, which has been deleted since", in.Key, exists.TaskID)
	}
	*t = lost
	return known, false, nil
}

// admit checks a queue's limit of waiting tasks, and stores the queue if it is
// new.
func (s *Service) admit(ctx context.Context, queue string) error {
	s.mutex.Lock()
	l := s.queues[queue]
	stored, count, most, queues := false, 0, 0, len(s.queues)
	if l != nil {
		stored, count, most = l.stored, l.count(), l.MaxPending
	}
	s.mutex.Unlock()
	switch {
	case l != nil && count >= most:
		return refuse(Full, nil, "queue %s has %d waiting tasks, which is its limit: submit again later", queue, count)
	case l == nil && queues >= maxQueues:
		return refuse(Full, nil, "there are %d queues, which is the limit", queues)
	case !stored: // not yet used on this server
		q := Unlimited(queue)
		q.Updated = s.at()
		if err := s.table.PutQueue(ctx, q, true); err != nil {
			return err
		}
		s.mutex.Lock()
		s.queue(queue).stored = true
		s.mutex.Unlock()
	}
	return nil
}

// Claim gives a worker the most urgent task of a queue. It waits up to wait for
// one; ok is false if there was none.
func (s *Service) Claim(ctx context.Context, queue, worker string, lease, wait time.Duration) (c task.Claim, ok bool, err error) {
	if err := task.CheckName("queue", queue); err != nil {
		return c, false, err
	}
	if err := s.admitWorker(ctx, worker, lease); err != nil {
		return c, false, err
	}
	until := time.NewTimer(wait)
	defer until.Stop()
	for ctx.Err() == nil {
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
		var claiming *table.Claiming
		switch {
		case err == nil && ctx.Err() != nil: // the worker has disconnected meanwhile
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
		case errors.As(err, &claiming): // take has set the task aside, so the next one is picked
			s.metrics.conflicts.Inc()
			s.freed(queue, slot)
		case errors.Is(err, table.ErrSlotTaken):
			s.again(*e) // the slot stays marked as taken
		default:
			s.again(*e)
			s.freed(queue, slot)
			return c, false, err
		}
	}
	return c, false, ctx.Err()
}

// pick removes the most urgent task from memory, and takes a slot if the queue has
// a limit. If there is none, the worker waits until wake is closed.
func (s *Service) pick(queue string, waits bool) (e *entry, slot int, wake chan struct{}, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.queues[queue]
	if l == nil {
		if len(s.queues) >= maxQueues {
			return nil, 0, nil, refuse(Full, nil, "there are %d queues, which is the limit", maxQueues)
		}
		l = s.queue(queue)
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
		return nil, 0, nil, refuse(Busy, nil, "%d workers wait at queue %s, which is the limit: retry later", l.waiting.Len(), queue)
	}
	wake = make(chan struct{})
	l.waiting.PushBack(wake)
	return nil, 0, wake, nil
}

// leave removes a worker from the wait list. If it was just woken, the next one is.
func (s *Service) leave(queue string, wake chan struct{}) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.queue(queue)
	for w := l.waiting.Front(); w != nil; w = w.Next() {
		if w.Value == wake {
			l.waiting.Remove(w)
			return
		}
	}
	l.wake()
}

// again puts back a task that could not be claimed.
func (s *Service) again(e entry) { s.know(e.Task) }

func (s *Service) freed(queue string, slot int) {
	if slot != 0 {
		s.knowSlot(queue, slot, false)
	}
}

// take claims a task for a worker. It completes even if the worker disconnects.
func (s *Service) take(ctx context.Context, e entry, worker string, lease time.Duration, slot int) (task.Claim, error) {
	defer s.metrics.time("claim")()
	ctx = context.WithoutCancel(ctx)
	now := s.at()
	event := task.Event{Seq: e.Seq + 1, Type: task.Claimed, At: now, Detail: task.Detail{Worker: worker, Slot: slot}}
	claim := table.Claim{Worker: worker, Task: e.ID, Queue: e.Queue, Since: now, Seq: event.Seq, Slot: slot, Lease: lease}
	taken, err := s.table.Append(ctx, e.Task, event, table.With{Take: &claim})
	if err != nil {
		s.setAside(e, claim, err)
		return task.Claim{}, err
	}
	s.metrics.events.WithLabelValues(e.Queue, string(task.Claimed)).Inc()
	s.metrics.waited.Observe(now.Sub(laterOf(e.Created, e.RunAt)).Seconds())
	if taken.Payload == nil {
		if taken, err = s.Get(ctx, e.ID); err != nil {
			s.setAside(e, claim, err)
			return task.Claim{}, fmt.Errorf("read the claimed task: %w", err)
		}
	}
	return task.Claim{Task: taken, Token: tokenOf(&claim).String(), Lease: task.Duration(lease)}, nil
}

func tokenOf(c *table.Claim) task.Token { return task.Token{Seq: c.Seq, Slot: c.Slot, Queue: c.Queue} }

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// giveBack releases a claim whose worker has disconnected.
func (s *Service) giveBack(ctx context.Context, c task.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.Release(ctx, c.ID, c.Worker, c.Token); err != nil {
		s.log.Warn("releasing the task of a disconnected worker failed; it is retried when its lease expires", "task", c.ID, "error", err)
	}
}

// ClaimTask gives a worker one task, if it is free. Otherwise the refusal has the
// worker that holds it.
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
	var claiming *table.Claiming
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, table.ErrSlotTaken):
		return c, refuse(Conflict, &t, "queue %s has reached its limit of running tasks", t.Queue)
	}
	s.freed(t.Queue, slot)
	if errors.As(err, &moved) {
		s.metrics.conflicts.Inc()
		if moved.Now == nil {
			return c, missing(id)
		}
		return c, held(moved.Now)
	}
	if errors.As(err, &claiming) {
		return c, refuse(Conflict, &t, "worker %s is claiming task %s by another request: retry in %v", worker, id, asideFor)
	}
	return c, err
}

func (s *Service) takeSlot(queue string) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.queue(queue)
	slot, ok := l.slot()
	if l.Paused || !ok {
		return 0, refuse(Conflict, nil, "queue %s is paused or has reached its limit of running tasks", queue)
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

// admitWorker checks a worker that requests a task.
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
		return refuse(Busy, nil, "%d tasks are claimed, which is the limit", leases)
	}
	return s.noteWorker(ctx, worker)
}

// noteWorker stores a worker from time to time, so that a server that starts finds
// its claims.
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

// noteWorkers is how often an active worker is stored, and forgetWorkers after
// what time a worker without claims is removed.
const (
	noteWorkers   = time.Minute
	forgetWorkers = 15 * time.Minute
)

// Get returns a task.
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

// History returns the events of a task.
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
