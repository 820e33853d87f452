// Package front serves the task queue over HTTP: its API and its pages.
package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue/openapi"
	"github.com/stator-db/stator/apps/taskqueue/queue"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Front is the HTTP handler of the task queue.
type Front struct {
	Queue   *queue.Service
	Live    *web.Live
	Log     *slog.Logger
	Metrics prometheus.Gatherer
}

// maxBody fits a payload and the members around it; other bodies have a reason
// or a result.
const (
	maxBody  = task.MaxPayload + 64<<10
	maxWords = 64 << 10
)

// routes returns the handlers of the API by their patterns. Package openapi describes
// them.
func (f *Front) routes() map[string]http.HandlerFunc {
	routes := map[string]http.HandlerFunc{
		"POST /v1/queues/{queue}/tasks": f.submit,
	}
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) (any, error){
		"GET /v1/tasks":                 f.list,
		"POST /v1/tasks/requeue":        f.bulk(task.RequeueTasks),
		"POST /v1/tasks/cancel":         f.bulk(task.CancelTasks),
		"GET /v1/counts":                f.counts,
		"GET /v1/queues/{queue}/tasks":  f.list,
		"POST /v1/queues/{queue}/claim": f.claim,
		"GET /v1/queues": func(http.ResponseWriter, *http.Request) (any, error) {
			return task.QueueList{Queues: f.Queue.Queues()}, nil
		},
		"GET /v1/queues/{queue}": func(_ http.ResponseWriter, r *http.Request) (any, error) { return f.Queue.Queue(r.PathValue("queue")) },
		"PUT /v1/queues/{queue}": f.setQueue,
		"GET /v1/workers":        f.workers,
		"GET /v1/tasks/{id}": func(_ http.ResponseWriter, r *http.Request) (any, error) {
			return f.Queue.Get(r.Context(), r.PathValue("id"))
		},
		"GET /v1/tasks/{id}/history":    f.history,
		"POST /v1/tasks/{id}/claim":     f.claimTask,
		"POST /v1/tasks/{id}/heartbeat": f.heartbeat,
		"POST /v1/tasks/{id}/complete":  f.complete,
		"POST /v1/tasks/{id}/fail":      f.fail,
		"POST /v1/tasks/{id}/release":   f.release,
		"POST /v1/tasks/{id}/cancel":    f.cancel,
		"POST /v1/tasks/{id}/requeue":   f.requeue,
	} {
		routes[pattern] = f.handler(answer)
	}
	return routes
}

// Handler returns the handler of the API below /v1/, its description, the pages,
// /metrics and /healthz.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range f.routes() {
		mux.HandleFunc(pattern, handler)
	}
	mux.HandleFunc("/v1/", f.handler(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		return nil, web.Refuse(http.StatusNotFound, "not_found", "there is no %s %s; /openapi.json describes the requests", r.Method, r.URL.Path)
	}))
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(openapi.Text)
	})
	web.Operate(mux, f.Metrics, f.Queue.Healthy)
	web.Static(mux)
	f.pages(mux)
	return mux
}

// handler turns errors into replies.
func (f *Front) handler(answer func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return web.Handler(f.Log, func(w http.ResponseWriter, r *http.Request) (any, error) {
		v, err := answer(w, r)
		return v, worded(err)
	})
}

var statuses = map[queue.Why]int{
	queue.NotFound: http.StatusNotFound,
	queue.Conflict: http.StatusConflict,
	queue.Reused:   http.StatusConflict,
	queue.Full:     http.StatusTooManyRequests,
	queue.Busy:     http.StatusServiceUnavailable,
}

func worded(err error) error {
	var fault *task.Fault
	if errors.As(err, &fault) {
		return web.Refuse(http.StatusBadRequest, "bad_"+fault.Field, "%s", fault.Error())
	}
	var refusal *queue.Refusal
	if errors.As(err, &refusal) {
		worded := web.Refuse(statuses[refusal.Why], string(refusal.Why), "%s", refusal.Message)
		if t := refusal.Task; t != nil {
			worded.Detail = map[string]any{"status": t.Status, "worker": t.Worker, "attempts": t.Attempts}
		}
		return worded
	}
	return err
}

// submit replies 201 with a new task, or 200 with the task that has the key.
func (f *Front) submit(w http.ResponseWriter, r *http.Request) {
	var in task.Submission
	err := web.Read(w, r, maxBody, &in)
	var t task.Task
	isNew := false
	if err == nil {
		t, isNew, err = f.Queue.Submit(r.Context(), r.PathValue("queue"), in)
	}
	if err != nil {
		web.Fail(w, r, f.Log, worded(err))
		return
	}
	t.Payload = nil // the client has it
	status := http.StatusOK
	if isNew {
		status = http.StatusCreated
	}
	web.Write(w, status, t)
}

// selection reads the parameters that select tasks. The status defaults to
// PENDING.
func selection(r *http.Request) (task.Selection, error) {
	q := r.URL.Query()
	sel := task.Selection{Status: task.Status(q.Get("status")), Queue: q.Get("queue"), Type: q.Get("type"), Reason: q.Get("reason")}
	if name := r.PathValue("queue"); name != "" {
		sel.Queue = name
	}
	if sel.Status == "" {
		sel.Status = task.Pending
	}
	if s := q.Get("olderThan"); s != "" {
		if err := sel.OlderThan.UnmarshalText([]byte(s)); err != nil {
			return sel, &task.Fault{Field: "olderThan", Message: "is wrong: " + err.Error()}
		}
	}
	return sel, nil
}

// number reads a parameter that is a number.
func number(r *http.Request, name string, usual int) (int, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, &task.Fault{Field: name, Message: fmt.Sprintf("is %q, which is not a number", s)}
	}
	return n, nil
}

func (f *Front) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	sel, err := selection(r)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", 50)
	if err != nil {
		return nil, err
	}
	return f.Queue.List(r.Context(), sel, r.URL.Query().Get("next"), limit)
}

func (f *Front) counts(_ http.ResponseWriter, r *http.Request) (any, error) {
	most, err := number(r, "max", queue.UsualCount)
	if err != nil {
		return nil, err
	}
	statuses := task.Statuses
	if some := r.URL.Query()["status"]; len(some) > 0 {
		statuses = nil
		for _, s := range some {
			statuses = append(statuses, task.Status(s))
		}
	}
	return f.Queue.Count(r.Context(), r.URL.Query().Get("queue"), statuses, most)
}

func (f *Front) bulk(what task.Change) func(http.ResponseWriter, *http.Request) (any, error) {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		var in task.BulkRequest
		if err := web.Read(w, r, maxWords, &in); err != nil {
			return nil, err
		}
		return f.Queue.Bulk(r.Context(), what, in)
	}
}

const (
	usualLease = 30 * time.Second
	maxWait    = time.Minute
)

func check(c *task.ClaimRequest) error {
	if c.Lease == 0 {
		c.Lease = task.Duration(usualLease)
	}
	if c.Wait < 0 || time.Duration(c.Wait) > maxWait {
		return &task.Fault{Field: "wait", Message: fmt.Sprintf("is %v, but must be 0 to %v", time.Duration(c.Wait), maxWait)}
	}
	return nil
}

func (f *Front) claim(w http.ResponseWriter, r *http.Request) (any, error) {
	var in task.ClaimRequest
	if err := web.Read(w, r, maxWords, &in); err != nil {
		return nil, err
	}
	if err := check(&in); err != nil {
		return nil, err
	}
	c, ok, err := f.Queue.Claim(r.Context(), r.PathValue("queue"), in.Worker, time.Duration(in.Lease), time.Duration(in.Wait))
	if err != nil || !ok {
		return nil, err
	}
	return c, nil
}

func (f *Front) claimTask(w http.ResponseWriter, r *http.Request) (any, error) {
	var in task.ClaimRequest
	if err := web.Read(w, r, maxWords, &in); err != nil {
		return nil, err
	}
	if err := check(&in); err != nil {
		return nil, err
	}
	return f.Queue.ClaimTask(r.Context(), r.PathValue("id"), in.Worker, time.Duration(in.Lease))
}

func (f *Front) word(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, id string, in task.Report) (any, error)) (any, error) {
	var in task.Report
	if err := web.Read(w, r, maxWords, &in); err != nil {
		return nil, err
	}
	// A worker's report counts even if the worker disconnects before the reply.
	return do(context.WithoutCancel(r.Context()), r.PathValue("id"), in)
}

func (f *Front) heartbeat(w http.ResponseWriter, r *http.Request) (any, error) {
	return f.word(w, r, func(ctx context.Context, id string, in task.Report) (any, error) {
		return nil, f.Queue.Heartbeat(ctx, id, in.Worker, in.Claim)
	})
}

func (f *Front) complete(w http.ResponseWriter, r *http.Request) (any, error) {
	return f.word(w, r, func(ctx context.Context, id string, in task.Report) (any, error) {
		return nil, f.Queue.Complete(ctx, id, in.Worker, in.Claim, in.Result)
	})
}

func (f *Front) fail(w http.ResponseWriter, r *http.Request) (any, error) {
	return f.word(w, r, func(ctx context.Context, id string, in task.Report) (any, error) {
		status, err := f.Queue.Fail(ctx, id, in.Worker, in.Claim, queue.Failure{Reason: in.Reason, Never: in.Never, After: time.Duration(in.After)})
		if err != nil || status == "" {
			return nil, err
		}
		return task.FailReply{Status: status}, nil
	})
}

func (f *Front) release(w http.ResponseWriter, r *http.Request) (any, error) {
	return f.word(w, r, func(ctx context.Context, id string, in task.Report) (any, error) {
		return nil, f.Queue.Release(ctx, id, in.Worker, in.Claim)
	})
}

func (f *Front) cancel(w http.ResponseWriter, r *http.Request) (any, error) {
	var in task.Cancellation
	if err := web.Read(w, r, maxWords, &in); err != nil {
		return nil, err
	}
	return f.Queue.Cancel(r.Context(), r.PathValue("id"), in.Reason)
}

func (f *Front) requeue(_ http.ResponseWriter, r *http.Request) (any, error) {
	return f.Queue.Requeue(r.Context(), r.PathValue("id"))
}

func (f *Front) history(_ http.ResponseWriter, r *http.Request) (any, error) {
	events, err := f.Queue.History(r.Context(), r.PathValue("id"))
	return task.History{Events: events}, err
}

func (f *Front) workers(_ http.ResponseWriter, r *http.Request) (any, error) {
	workers, err := f.Queue.Workers(r.Context())
	return task.WorkerList{Workers: workers}, err
}

func (f *Front) setQueue(w http.ResponseWriter, r *http.Request) (any, error) {
	name := r.PathValue("queue")
	in := task.Limits{MaxPending: queue.Unlimited(name).MaxPending}
	if err := web.Read(w, r, maxWords, &in); err != nil {
		return nil, err
	}
	return f.Queue.SetQueue(r.Context(), task.Queue{Name: name, MaxPending: in.MaxPending, MaxRunning: in.MaxRunning, Paused: in.Paused})
}
