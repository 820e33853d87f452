package queue

import (
	"container/heap"
	"container/list"
	"slices"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// queueState is a server's view of one queue: its limits, the waiting tasks, and
// the waiting workers.
type queueState struct {
	task.Queue
	stored  bool // it is in the table, so every server that starts finds it
	ready   byUrgency
	delayed byTime
	waiting list.List    // of chan struct{}: workers, first come first served
	slots   map[int]bool // taken slots of a queue with a limit
	more    bool         // the table has tasks that are not in memory
}

// entry is a waiting task. It holds the payload as well if there is space.
type entry struct {
	task.Task
	bytes int
	at    int // index in its heap
}

func (l *queueState) count() int { return len(l.ready) + len(l.delayed) }

// slot finds a free slot: 0 if the queue has no limit; ok is false if all are
// taken.
func (l *queueState) slot() (n int, ok bool) {
	if l.MaxRunning == 0 {
		return 0, true
	}
	for n := 1; n <= l.MaxRunning; n++ {
		if !l.slots[n] {
			return n, true
		}
	}
	return 0, false
}

// wake wakes the worker that has waited longest.
func (l *queueState) wake() {
	if first := l.waiting.Front(); first != nil {
		l.waiting.Remove(first)
		close(first.Value.(chan struct{}))
	}
}

// wakeAll wakes all waiting workers.
func (l *queueState) wakeAll() {
	for l.waiting.Len() > 0 {
		l.wake()
	}
}

// byUrgency is a heap ordered by priority, highest first, then by age.
type byUrgency []*entry

func (h byUrgency) Len() int { return len(h) }
func (h byUrgency) Less(i, j int) bool {
	a, b := h[i], h[j]
	switch {
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	case !a.Created.Equal(b.Created):
		return a.Created.Before(b.Created)
	}
	return a.ID < b.ID
}
func (h byUrgency) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push implements heap.Interface.
func (h *byUrgency) Push(x any) {
	e := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *byUrgency) Pop() any { return pop((*[]*entry)(h)) }

// byTime is a heap ordered by when tasks are due.
type byTime []*entry

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].RunAt.Before(h[j].RunAt) }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push implements heap.Interface.
func (h *byTime) Push(x any) {
	e := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *byTime) Pop() any { return pop((*[]*entry)(h)) }

func pop(h *[]*entry) *entry {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}

// lease is a claim that a server watches. Its age is measured by the server's
// monotonic clock, from when the server first saw the claim's last heartbeat, so
// that no clock that jumps, here or elsewhere, expires a lease early.
type lease struct {
	table.Claim
	first    time.Time // when the server read of the claim
	seen     time.Time
	compared bool      // with the task, once
	moved    time.Time // when the server saw that the task has moved on; zero if it has not
	expiring bool
}

// leaseKey identifies a claim. Two workers may have one of the same task for a
// moment, until the task decides.
type leaseKey struct {
	task, worker string
	seq          int
}

func keyOf(c *table.Claim) leaseKey { return leaseKey{c.Task, c.Worker, c.Seq} }

// over reports whether a lease has expired, or has ended without the deletion of its
// claim, which the server that ended it should have done meanwhile.
func (l *lease) over() bool {
	return time.Since(l.seen) > l.Lease || !l.moved.IsZero() && time.Since(l.moved) > movedWait
}

// unsure reports whether the task may have moved on before the server read of the claim,
// which is in another shard of the stream. Most claims are deleted before movedWait, so
// that their tasks need not be read.
func (l *lease) unsure() bool { return !l.compared && time.Since(l.first) > movedWait }

// movedWait is how long a server waits for another one to delete a claim.
const movedWait = 5 * time.Second

// claims reports whether a task is in PROCESSING by a claim.
func claims(t *task.Task, c *table.Claim) bool {
	return t.Status == task.Processing && t.Seq == c.Seq && t.Worker == c.Worker
}

// know records the state of a task, as read from the stream, from the indexes at
// start, or from the table after a failed condition.
func (s *Service) know(t task.Task) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, l := range s.claims[t.ID] {
		if t.Seq >= l.Seq && !claims(&t, &l.Claim) && l.moved.IsZero() {
			l.moved = time.Now()
		}
	}
	if e := s.known[t.ID]; e != nil {
		if e.Seq >= t.Seq {
			return
		}
		s.forget(e)
	}
	switch t.Status {
	case task.Pending:
		s.add(t)
	case task.Delayed:
		if t.RunAt.Before(s.now().Add(horizon)) {
			s.add(t)
		}
	}
}

// horizon is how far ahead delayed tasks are held in memory. Later ones are read
// from the index when they are due within the horizon.
const horizon = 10 * time.Minute

// add puts a waiting task into its heap. The caller holds the mutex.
func (s *Service) add(t task.Task) {
	l := s.queue(t.Queue)
	if len(s.known) >= s.maxKnown {
		l.more = true
		return
	}
	e := &entry{Task: t, bytes: len(t.Payload)}
	if s.payloads+e.bytes > maxPayloads {
		e.Payload, e.bytes = nil, 0
	}
	s.payloads += e.bytes
	s.known[t.ID] = e
	if t.Status == task.Delayed {
		heap.Push(&l.delayed, e)
		return
	}
	heap.Push(&l.ready, e)
	l.wake()
}

// maxPayloads is how many bytes of payloads are held in memory. Other payloads are
// read when their task is claimed.
const maxPayloads = 64 << 20

// forget removes a waiting task. The caller holds the mutex.
func (s *Service) forget(e *entry) {
	l := s.queue(e.Queue)
	if e.Status == task.Delayed {
		heap.Remove(&l.delayed, e.at)
	} else {
		heap.Remove(&l.ready, e.at)
	}
	s.payloads -= e.bytes
	delete(s.known, e.ID)
}

// queue returns the state of a queue, and adds one with default limits if it is
// new. The caller holds the mutex.
func (s *Service) queue(name string) *queueState {
	l := s.queues[name]
	if l == nil {
		l = &queueState{Queue: Unlimited(name), slots: make(map[int]bool)}
		s.queues[name] = l
	}
	return l
}

// Unlimited returns a queue with the default limits.
func Unlimited(name string) task.Queue { return task.Queue{Name: name, MaxPending: 100_000} }

func (s *Service) knowQueue(q task.Queue) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.queue(q.Name)
	l.Queue, l.stored = q, true
	l.wakeAll()
}

func (s *Service) knowSlot(queue string, n int, taken bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.queue(queue)
	if taken {
		l.slots[n] = true
		return
	}
	delete(l.slots, n)
	l.wake()
}

func (s *Service) knowClaim(c table.Claim, removed bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := keyOf(&c)
	old := s.leases[key]
	switch {
	case removed && old != nil:
		delete(s.leases, key)
		s.claims[c.Task] = slices.DeleteFunc(s.claims[c.Task], func(l *lease) bool { return l == old })
		if len(s.claims[c.Task]) == 0 {
			delete(s.claims, c.Task)
		}
	case removed:
	case old == nil:
		l := &lease{Claim: c, first: time.Now(), seen: time.Now()}
		s.leases[key] = l
		s.claims[c.Task] = append(s.claims[c.Task], l)
	case c.Beat > old.Beat:
		old.Claim, old.seen, old.expiring = c, time.Now(), false
	}
}
