package queue

import (
	"context"
	"fmt"
	"sort"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// MaxPage is the maximum number of tasks on a page.
const MaxPage = 1000

// List returns the tasks of a queue with a status, newest first. Tasks in
// PROCESSING are read from the workers' claims, all on one page.
func (s *Service) List(ctx context.Context, queue string, status task.Status, next string, limit int) (task.Page, error) {
	if err := task.CheckName("queue", queue); err != nil {
		return task.Page{}, err
	}
	switch {
	case !status.Known():
		return task.Page{}, &task.Fault{Field: "status", Message: fmt.Sprintf("is %q, but must be one of %v", status, task.Statuses)}
	case limit < 1 || limit > MaxPage:
		return task.Page{}, &task.Fault{Field: "limit", Message: fmt.Sprintf("is %d, but must be 1 to %d", limit, MaxPage)}
	case len(next) > 100:
		return task.Page{}, &task.Fault{Field: "next", Message: "is not a value that a previous page returned"}
	}
	page := task.Page{Tasks: []task.Task{}}
	if status != task.Processing {
		found, next, err := s.table.List(ctx, queue, status, next, limit)
		if err != nil {
			return page, err
		}
		page.Tasks, page.Next = append(page.Tasks, found...), next
		return page, nil
	}
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return page, err
		}
		for c, err := range s.table.Claims(ctx, w.ID) {
			if err != nil {
				return page, err
			}
			if c.Queue == queue && len(page.Tasks) < limit {
				page.Tasks = append(page.Tasks, claimed(c))
			}
		}
	}
	sort.Slice(page.Tasks, func(i, j int) bool { return page.Tasks[i].ID > page.Tasks[j].ID })
	return page, nil
}

// claimed returns what a claim knows of its task.
func claimed(c table.Claim) task.Task {
	created, _ := task.CreatedAt(c.Task)
	return task.Task{ID: c.Task, Queue: c.Queue, Status: task.Processing, Worker: c.Worker, Created: created, Updated: c.Since, Slot: c.Slot, Seq: c.Seq}
}

// Workers returns the workers that were seen lately, and their claims.
func (s *Service) Workers(ctx context.Context) ([]task.WorkerView, error) {
	views := []task.WorkerView{}
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		v := task.WorkerView{Worker: w, Tasks: []task.Task{}}
		for c, err := range s.table.Claims(ctx, w.ID) {
			if err != nil {
				return nil, err
			}
			v.Tasks = append(v.Tasks, claimed(c))
		}
		views = append(views, v)
		if len(views) == MaxPage {
			break
		}
	}
	return views, nil
}

// AtWork returns the workers that were seen lately, with the claims that this
// server knows: one query, however many claims there are.
func (s *Service) AtWork(ctx context.Context) ([]task.WorkerView, error) {
	tasks := make(map[string][]task.Task)
	s.mutex.Lock()
	for _, l := range s.leases {
		tasks[l.Worker] = append(tasks[l.Worker], claimed(l.Claim))
	}
	s.mutex.Unlock()
	var views []task.WorkerView
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		views = append(views, task.WorkerView{Worker: w, Tasks: tasks[w.ID]})
	}
	return views, nil
}

// Queues returns all queues, by name.
func (s *Service) Queues() []task.QueueView {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	running := make(map[string]int)
	for _, l := range s.leases {
		running[l.Queue]++
	}
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
