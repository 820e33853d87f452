package queue

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Workers returns the workers that were seen lately, and their tasks.
func (s *Service) Workers(ctx context.Context) ([]task.WorkerView, error) {
	views := []task.WorkerView{}
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		var ids []string
		for c, err := range s.table.Claims(ctx, w.ID) {
			if err != nil {
				return nil, err
			}
			if n := len(ids); n == 0 || ids[n-1] != c.Task { // an ended claim of the same task comes before it
				ids = append(ids, c.Task)
			}
		}
		found, err := s.table.Tasks(ctx, ids)
		if err != nil {
			return nil, err
		}
		v := task.WorkerView{Worker: w, Tasks: []task.Task{}}
		for _, t := range found {
			if t.Status == task.Processing && t.Worker == w.ID {
				v.Tasks = append(v.Tasks, t)
			}
		}
		views = append(views, v)
		if len(views) == MaxPage {
			break
		}
	}
	return views, nil
}

// BusyWorker is a worker and the ids of its tasks.
type BusyWorker struct {
	task.Worker
	Tasks []string
}

// AtWork returns the workers that were seen lately, with the claims that this
// server knows: one query, however many claims there are.
func (s *Service) AtWork(ctx context.Context) ([]BusyWorker, error) {
	tasks := make(map[string][]string)
	s.mutex.Lock()
	for _, l := range s.leases {
		tasks[l.Worker] = append(tasks[l.Worker], l.Task)
	}
	s.mutex.Unlock()
	var views []BusyWorker
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		slices.Sort(tasks[w.ID])
		views = append(views, BusyWorker{w, slices.Compact(tasks[w.ID])})
	}
	return views, nil
}

// Queues returns all queues, by name.
func (s *Service) Queues() []task.QueueView {
	running := s.running()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	views := make([]task.QueueView, 0, len(s.queues))
	for name, l := range s.queues {
		views = append(views, task.QueueView{Queue: l.Queue, Pending: len(l.ready), Delayed: len(l.delayed), Running: running[name], Waiting: l.waiting.Len(), More: l.more})
	}
	sort.Slice(views, func(i, j int) bool { return views[i].Name < views[j].Name })
	return views
}

// Queue returns one queue, or a refusal if it does not exist.
func (s *Service) Queue(name string) (task.QueueView, error) {
	if err := task.CheckName("queue", name); err != nil {
		return task.QueueView{}, err
	}
	for _, v := range s.Queues() {
		if v.Name == name {
			return v, nil
		}
	}
	return task.QueueView{}, refuse(NotFound, nil, "there is no queue %s", name)
}

// SetQueue sets a queue's limits, for all servers.
func (s *Service) SetQueue(ctx context.Context, q task.Queue) (task.Queue, error) {
	switch err := task.CheckName("queue", q.Name); {
	case err != nil:
		return q, err
	case q.MaxPending < 1 || q.MaxPending > 10_000_000:
		return q, &task.Fault{Field: "maxPending", Message: fmt.Sprintf("is %d, but must be 1 to 10,000,000", q.MaxPending)}
	case q.MaxRunning < 0 || q.MaxRunning > 1000:
		return q, &task.Fault{Field: "maxRunning", Message: fmt.Sprintf("is %d, but must be 1 to 1,000, or 0 for no limit", q.MaxRunning)}
	}
	s.mutex.Lock()
	full := s.queues[q.Name] == nil && len(s.queues) >= maxQueues
	s.mutex.Unlock()
	if full {
		return q, refuse(Full, nil, "there are %d queues, which is the limit", maxQueues)
	}
	q.Updated = s.at()
	if err := s.table.PutQueue(ctx, q, false); err != nil {
		return q, err
	}
	s.knowQueue(q)
	return q, nil
}

// Recent is a recent event.
type Recent struct {
	Task string
	task.Event
}

const maxRecent = 20

func (s *Service) knowEvent(id string, e task.Event) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.recent) == maxRecent {
		copy(s.recent, s.recent[1:])
		s.recent = s.recent[:maxRecent-1]
	}
	s.recent = append(s.recent, Recent{id, e})
	s.metrics.seen.WithLabelValues(string(e.Type)).Inc()
	s.broken.note(e.Type)
	s.metrics.lag.Set(max(0, s.now().Sub(e.At)).Seconds())
}

// Recent returns the latest events, newest first.
func (s *Service) Recent() []Recent {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	out := make([]Recent, len(s.recent))
	for i, r := range s.recent {
		out[len(out)-1-i] = r
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].At.After(out[j].At) }) // shards are read concurrently
	return out
}
