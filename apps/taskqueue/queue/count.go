package queue

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

const (
	// UsualCount is how many tasks of a status are counted in each queue by default.
	UsualCount = 10_000
	// MaxCount is the maximum that a caller may set.
	MaxCount = 10_000_000
)

// Count counts the tasks of all queues by status, or of one queue. The tasks in
// PROCESSING are those whose claims this server knows from the stream; all other
// tasks are counted in the index, at most most of a status in each queue.
func (s *Service) Count(ctx context.Context, queue string, statuses []task.Status, most int) (task.Counts, error) {
	counts := task.Counts{Queues: []task.QueueCounts{}, Total: make(map[task.Status]int), More: []task.Status{}}
	queues := []string{queue}
	if queue == "" {
		queues = s.names()
		sort.Strings(queues)
	} else if _, err := s.Queue(queue); err != nil {
		return counts, err
	}
	if most < 1 || most > MaxCount {
		return counts, &task.Fault{Field: "max", Message: fmt.Sprintf("is %d, but must be 1 to %d", most, MaxCount)}
	}
	for _, status := range statuses {
		if !status.Known() {
			return counts, &task.Fault{Field: "status", Message: fmt.Sprintf("is %q, but must be one of %v", status, task.Statuses)}
		}
	}
	running := s.running()
	more := make(map[task.Status]bool)
	for _, name := range queues {
		q := task.QueueCounts{Queue: name, Tasks: make(map[task.Status]int), More: []task.Status{}}
		for _, status := range statuses {
			n, rest, err := running[name], false, error(nil)
			if status != task.Processing {
				n, rest, err = s.table.Count(ctx, name, status, most)
			}
			if err != nil {
				return counts, err
			}
			q.Tasks[status] = n
			counts.Total[status] += n
			if rest {
				q.More = append(q.More, status)
				more[status] = true
			}
		}
		counts.Queues = append(counts.Queues, q)
	}
	for _, status := range statuses {
		if more[status] {
			counts.More = append(counts.More, status)
		}
	}
	return counts, nil
}

// running returns the number of claimed tasks of each queue.
func (s *Service) running() map[string]int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	running := make(map[string]int)
	for _, l := range s.leases {
		running[l.Queue]++
	}
	return running
}

// broken are the statuses of tasks that need an operator.
var broken = []task.Status{task.Dead, task.Failed}

// brokenCounts holds the last count of broken tasks, for pages and metrics.
type brokenCounts struct {
	mutex  sync.Mutex // held while counting
	counts task.Counts
	at     time.Time
	events int64 // value of seen at the last count

	seen atomic.Int64 // events that change the counts
}

const (
	countAgain = 5 * time.Second // minimum time between two counts, while tasks break
	countStale = time.Minute     // the same while none does; tasks that expire write no event
)

// note notes an event that may change the counts.
func (b *brokenCounts) note(e task.EventType) {
	if e == task.DeadLettered || e == task.FailedForGood || e == task.Requeued {
		b.seen.Add(1)
	}
}

// Broken returns the numbers of dead and failed tasks. They are counted when
// a client asks, and not more often than every few seconds.
func (s *Service) Broken(ctx context.Context) (task.Counts, error) {
	b := &s.broken
	b.mutex.Lock()
	defer b.mutex.Unlock()
	age := s.now().Sub(b.at)
	if !b.at.IsZero() && (age < countAgain || age < countStale && b.events == b.seen.Load()) {
		return b.counts, nil
	}
	events := b.seen.Load()
	counts, err := s.Count(ctx, "", broken, UsualCount)
	if err != nil {
		return counts, err
	}
	b.counts, b.at, b.events = counts, s.now(), events
	return counts, nil
}

// IsRefusal reports whether an error is a refusal of a kind.
func IsRefusal(err error, why Why) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Why == why
}
