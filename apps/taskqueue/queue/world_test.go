package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/internal/virtualtime"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// world is a table and the servers that use it, in virtual time.
type world struct {
	*testing.T
	home  *home.Home
	table *table.Table
	ids   []string // of all submitted tasks
}

// inWorld runs a test in virtual time. At the end every task must equal the replay
// of its events, and no server may have scanned.
func inWorld(t *testing.T, test func(w *world)) {
	virtualtime.Test(t, func(t *testing.T) {
		h := hometest.Start(t, taskqueue.Model)
		w := &world{T: t, home: h, table: &table.Table{DB: hometest.Examine(h.DB), Streams: h.Streams}}
		test(w)
		w.replayAll()
		w.good(w.table.Flush(context.Background()))
	})
}

// server starts a server on the table.
func (w *world) server(o Options) *Service {
	w.Helper()
	s, stop := w.serverUntil(o)
	w.Cleanup(stop)
	return s
}

// serverUntil starts a server; the returned function stops it.
func (w *world) serverUntil(o Options) (*Service, func()) {
	w.Helper()
	o.Table = &table.Table{DB: w.home.DB, Streams: w.home.Streams}
	return w.start(o)
}

// start starts a server on the table of its options.
func (w *world) start(o Options) (*Service, func()) {
	w.Helper()
	s := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := s.Started(w.Context()); err != nil {
		w.Fatal(err)
	}
	return s, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the server ended with %v", err)
		}
	})
}

func (w *world) submit(s *Service, queue string, in task.Submission) task.Task {
	w.Helper()
	if in.Type == "" {
		in.Type = "t"
	}
	t, isNew, err := s.Submit(w.Context(), queue, in)
	if err != nil || !isNew {
		w.Fatalf("submit: new %v, %v", isNew, err)
	}
	w.ids = append(w.ids, t.ID)
	return t
}

const span = 10 * time.Second

// claim claims a task, which must be available within two seconds.
func (w *world) claim(s *Service, queue, worker string) task.Claim {
	w.Helper()
	c, ok, err := s.Claim(w.Context(), queue, worker, span, 2*time.Second)
	if err != nil || !ok {
		w.logTasks(s)
		w.Fatalf("claim: ok %v, %v", ok, err)
	}
	return c
}

// nothing checks that no task can be claimed within a second.
func (w *world) nothing(s *Service, queue string) {
	w.Helper()
	if c, ok, err := s.Claim(w.Context(), queue, "nosy", span, time.Second); ok || err != nil {
		w.Fatalf("task %s can be claimed, %v", c.ID, err)
	}
}

func (w *world) get(s *Service, id string) task.Task {
	w.Helper()
	t, err := s.Get(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return t
}

func (w *world) is(s *Service, id string, want task.Status) {
	w.Helper()
	if t := w.get(s, id); t.Status != want {
		w.Fatalf("task is %s, want %s", t.Status, want)
	}
}

// good fails the test on an error.
func (w *world) good(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// refused fails the test unless the error is this refusal.
func (w *world) refused(err error, why Why) *Refusal {
	w.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Why != why {
		w.Fatalf("the error is %v, want a refusal: %s", err, why)
	}
	return r
}

// replayAll compares every task with the replay of its events.
func (w *world) replayAll() {
	w.Helper()
	if len(w.ids) == 0 {
		w.Error("the test submitted no tasks")
	}
	for _, id := range w.ids {
		if err := w.replay(id); err != nil {
			w.Error(err)
		}
	}
}

func (w *world) replay(id string) error {
	t, ok, err := w.table.Get(context.Background(), id)
	if err != nil || !ok {
		return fmt.Errorf("task %s: found %v, %w", id, ok, err)
	}
	events, err := w.table.History(context.Background(), id)
	if err != nil {
		return err
	}
	return task.Matches(t, events)
}

func text(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }

// logTasks logs the state of all tasks, and what a server knows of them.
func (w *world) logTasks(s *Service) {
	for _, id := range w.ids {
		if t, _, err := w.table.Get(context.Background(), id); err == nil {
			w.Logf("task %s is %s, attempt %d, event %d, known %v", id, t.Status, t.Attempts, t.Seq, s.known[id] != nil)
		}
	}
	w.Logf("queues: %+v", s.Queues())
}
