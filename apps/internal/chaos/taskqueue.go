package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/queue"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// tasks is how many tasks the check of the task queue submits.
const tasks = 20

// works is what the check of the task queue uses.
type works struct {
	*queue.Service
	table *table.Table

	mutex sync.Mutex
	ids   map[string]bool // submitted
	runs  map[string]int  // completed or failed
	busy  map[string]bool
	ended int // tasks
}

// checkTaskqueue submits tasks, some of them twice and some delayed, to a queue that runs at most two at a
// time, for three workers of one or two servers. Each task must be run once, those that fail once more, and never
// twice at once. Its history must be complete, and no claim and no slot may be left.
func checkTaskqueue(ctx context.Context, r *run) (err error) {
	h, err := r.open(ctx, taskqueue.Model)
	if err != nil {
		return err
	}
	w := &works{ids: make(map[string]bool), runs: make(map[string]int), busy: make(map[string]bool)}
	var servers []*queue.Service
	for range 1 + r.seed%2 {
		t := &table.Table{DB: h.DB, Streams: h.Streams}
		s := queue.New(queue.Options{Table: t, Log: r.log})
		stop := background(ctx, s.Run)
		defer func() { err = errors.Join(err, stop()) }()
		servers = append(servers, s)
		w.Service, w.table = s, t
	}
	for _, s := range servers {
		if err := s.Started(ctx); err != nil {
			return err
		}
	}
	limited := queue.Unlimited("jobs")
	limited.MaxRunning = 2
	if _, err := w.SetQueue(ctx, limited); err != nil {
		return err
	}
	group, within := errgroup.WithContext(ctx)
	working, done := context.WithCancel(within)
	for i := range 3 {
		group.Go(func() error { return w.work(working, servers[i%len(servers)], fmt.Sprintf("worker-%d", i)) })
	}
	group.Go(func() error {
		defer done()
		if err := w.submit(within, servers); err != nil {
			return err
		}
		return until(within, func() (string, error) { return w.waiting(within), nil })
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return w.verify(ctx, servers)
}

// submit submits the tasks; every fourth one twice, with a key, and every fifth one for later.
func (w *works) submit(ctx context.Context, servers []*queue.Service) error {
	for i := range tasks {
		in := task.Submission{Type: "t", Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), Backoff: task.Duration(100 * time.Millisecond)}
		if i%4 == 0 {
			in.Key = fmt.Sprint("key-", i)
		}
		if i%5 == 1 {
			in.Delay = task.Duration(200 * time.Millisecond)
		}
		t, _, err := servers[i%len(servers)].Submit(ctx, "jobs", in)
		if err != nil {
			return fmt.Errorf("submit task %d: %w", i, err)
		}
		w.mutex.Lock()
		w.ids[t.ID] = true
		w.mutex.Unlock()
		time.Sleep(20 * time.Millisecond)
		if in.Key == "" {
			continue
		}
		again, isNew, err := servers[(i+1)%len(servers)].Submit(ctx, "jobs", in)
		if err != nil {
			return fmt.Errorf("submit task %d again: %w", i, err)
		}
		if isNew || again.ID != t.ID {
			return fmt.Errorf("task %d was submitted twice with one key: %s and %s, new is %v", i, t.ID, again.ID, isNew)
		}
	}
	return nil
}

// waiting says which tasks have not ended.
func (w *works) waiting(ctx context.Context) string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.ended == tasks {
		return ""
	}
	if ctx.Err() == nil {
		return "tasks have not ended"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	text := fmt.Sprintf("%d of %d tasks have ended", w.ended, tasks)
	for id := range w.ids {
		if t, err := w.Get(ctx, id); err == nil && t.Status != task.Completed {
			text += fmt.Sprintf("; %s is %s since %s", id, t.Status, t.Updated.Format(time.TimeOnly))
		}
	}
	return text
}

// work claims tasks and ends them: the first run of every seventh task fails.
func (w *works) work(ctx context.Context, s *queue.Service, worker string) error {
	for ctx.Err() == nil {
		c, ok, err := s.Claim(ctx, "jobs", worker, time.Minute, time.Second)
		if ctx.Err() != nil && !ok {
			return nil
		}
		var refused *queue.Refusal
		if err != nil && !errors.As(err, &refused) {
			continue // the worker claims again
		}
		if !ok {
			continue
		}
		if err := w.do(context.WithoutCancel(ctx), s, worker, c); err != nil {
			return err
		}
	}
	return nil
}

func (w *works) do(ctx context.Context, s *queue.Service, worker string, c task.Claim) error {
	var in struct{ N int }
	if err := json.Unmarshal(c.Payload, &in); err != nil {
		return fmt.Errorf("the payload of task %s is %q: %w", c.ID, c.Payload, err)
	}
	w.mutex.Lock()
	twice := w.busy[c.ID]
	w.busy[c.ID] = true
	first := w.runs[c.ID] == 0
	w.runs[c.ID]++
	w.mutex.Unlock()
	if twice {
		return fmt.Errorf("task %s runs twice at once", c.ID)
	}
	if err := s.Heartbeat(ctx, c.ID, worker, c.Token); err != nil {
		return fmt.Errorf("send a heartbeat of task %s: %w", c.ID, err)
	}
	w.mutex.Lock()
	w.busy[c.ID] = false // before it ends: another worker may claim it as soon as it has failed
	w.mutex.Unlock()
	if fails := in.N%7 == 3 && first; fails {
		if _, err := s.Fail(ctx, c.ID, worker, c.Token, queue.Failure{Reason: "once"}); err != nil {
			return fmt.Errorf("fail task %s: %w", c.ID, err)
		}
		return nil
	}
	if err := s.Complete(ctx, c.ID, worker, c.Token, "done"); err != nil {
		return fmt.Errorf("complete task %s: %w", c.ID, err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.ended++
	return nil
}

// verify compares tasks and histories with what the workers did, and waits until no claim and no slot is left.
func (w *works) verify(ctx context.Context, servers []*queue.Service) error {
	for id := range w.ids {
		t, err := w.Get(ctx, id)
		if err != nil {
			return err
		}
		events, err := w.History(ctx, id)
		if err != nil {
			return err
		}
		replayed, err := task.Replay(id, events)
		if err != nil {
			return fmt.Errorf("replay task %s: %w", id, err)
		}
		var in struct{ N int }
		if err := json.Unmarshal(t.Payload, &in); err != nil {
			return err
		}
		runs := 1
		if in.N%7 == 3 {
			runs = 2
		}
		if t.Status != task.Completed || t.Result != "done" || t.Attempts != runs || w.runs[id] != runs {
			return fmt.Errorf("task %d is %s with result %q after %d attempts, and was run %d times, want %d", in.N, t.Status, t.Result, t.Attempts, w.runs[id], runs)
		}
		if replayed.Status != t.Status || replayed.Seq != t.Seq || replayed.Attempts != t.Attempts {
			return fmt.Errorf("task %d is %+v, and by its history %+v", in.N, t, replayed)
		}
	}
	if len(w.ids) != tasks {
		return fmt.Errorf("%d tasks were made of %d submissions", len(w.ids), tasks)
	}
	return until(ctx, func() (string, error) {
		found, err := items(ctx, w.table.DB, table.Name)
		if err != nil {
			return "", err
		}
		for _, it := range found {
			pk := keyText(it, "PK")
			if len(pk) > 7 && pk[:7] == "WORKER#" || len(pk) > 6 && pk[:6] == "QUEUE#" {
				return fmt.Sprintf("%s %s is left", pk, keyText(it, "SK")), nil
			}
		}
		return "", nil
	})
}
