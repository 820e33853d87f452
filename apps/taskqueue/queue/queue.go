package queue

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// line is what a server knows of one queue: its limits, the tasks that wait, and
// the workers that do.
type line struct {
	task.Queue
	stored  bool // the table knows it, so that every server that starts will
	ready   byUrgency
	delayed byTime
	waiting list.List    // of chan struct{}: workers, first come first served
	slots   map[int]bool // taken, of a queue with a limit
	more    bool         // the table has tasks that there was no room for here
}

// entry is a task that waits. The server holds the payload as well if it has
// room.
type entry struct {
	task.Task
	bytes int
	at    int // place in its heap
}

func (l *line) count() int { return len(l.ready) + len(l.delayed) }

// slot finds a free slot: 0 when the queue has no limit, not ok when all are
// taken.
func (l *line) slot() (n int, ok bool) {
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

// wake lets the worker that waits longest look again.
func (l *line) wake() {
	if first := l.waiting.Front(); first != nil {
		l.waiting.Remove(first)
		close(first.Value.(chan struct{}))
	}
}

// wakeAll lets all of them look again.
func (l *line) wakeAll() {
	for l.waiting.Len() > 0 {
		l.wake()
	}
}

// byUrgency is a heap: the highest priority first, then the oldest.
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

// Push is for package heap.
func (h *byUrgency) Push(x any) {
	e := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop is for package heap.
func (h *byUrgency) Pop() any { return pop((*[]*entry)(h)) }

// byTime is a heap: the first that is due first.
type byTime []*entry

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].RunAt.Before(h[j].RunAt) }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push is for package heap.
func (h *byTime) Push(x any) {
	e := x.(*entry)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop is for package heap.
func (h *byTime) Pop() any { return pop((*[]*entry)(h)) }

func pop(h *[]*entry) *entry {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}

// lease is a claim that a server watches. How old it is, the server's own steady
// clock says, from when it first saw the claim's last heartbeat: no clock that
// is set forward, here or elsewhere, ends a lease before its time.
type lease struct {
	table.Claim
	seen     time.Time
	expiring bool
}

// know takes in how a task is. It is told by the stream, by what the indexes
// list at start, and by the table when it refuses.
func (s *Service) know(t task.Task) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
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

// horizon is how far ahead delayed tasks are held in memory. What is due later
// is read from the index when it comes near.
const horizon = 10 * time.Minute

// add puts a task that waits where it waits. The mutex is held.
func (s *Service) add(t task.Task) {
	l := s.line(t.Queue)
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

// maxPayloads is how many bytes of payloads are held in memory. Others are read
// when their task is claimed.
const maxPayloads = 64 << 20

// forget takes out a task that waits. The mutex is held.
func (s *Service) forget(e *entry) {
	l := s.line(e.Queue)
	if e.Status == task.Delayed {
		heap.Remove(&l.delayed, e.at)
	} else {
		heap.Remove(&l.ready, e.at)
	}
	s.payloads -= e.bytes
	delete(s.known, e.ID)
}

// line finds a queue, or makes it known with the limits of one that nobody set
// limits for. The mutex is held.
func (s *Service) line(name string) *line {
	l := s.lines[name]
	if l == nil {
		l = &line{Queue: Unlimited(name), slots: make(map[int]bool)}
		s.lines[name] = l
	}
	return l
}

// Unlimited is a queue for which nobody has set limits.
func Unlimited(name string) task.Queue { return task.Queue{Name: name, MaxPending: 100_000} }

func (s *Service) knowQueue(q task.Queue) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.line(q.Name)
	l.Queue, l.stored = q, true
	l.wakeAll()
}

func (s *Service) knowSlot(queue string, n int, taken bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l := s.line(queue)
	if taken {
		l.slots[n] = true
		return
	}
	delete(l.slots, n)
	l.wake()
}

func (s *Service) knowClaim(c table.Claim, gone bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	old := s.leases[c.Task]
	switch {
	case gone && old != nil && old.Worker == c.Worker:
		delete(s.leases, c.Task)
	case !gone && (old == nil || c.Seq > old.Seq || c.Seq == old.Seq && c.Beat > old.Beat):
		s.leases[c.Task] = &lease{Claim: c, seen: time.Now()}
	}
}
