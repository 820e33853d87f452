// Package client implements the client side of the task queue's HTTP API: Client
// submits tasks, and Worker executes them.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

//go:generate go run ./generate

// Client talks to a server.
type Client struct {
	url  string
	http *http.Client

	// Patience is how long a request is retried while the server cannot be
	// reached or reports an internal error; it defaults to 30 s, and the context
	// limits it too. All requests are idempotent.
	Patience time.Duration
}

// New returns a client for the server at a URL.
func New(server string) *Client {
	return &Client{
		url: strings.TrimSuffix(server, "/"), Patience: 30 * time.Second,
		http: &http.Client{Transport: &http.Transport{
			DialContext:  (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConns: 1000, MaxIdleConnsPerHost: 1000, IdleConnTimeout: 90 * time.Second,
		}},
	}
}

// Error is an error that the server returned.
type Error struct {
	Status  int            `json:"-"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Detail  map[string]any `json:"detail"`
}

func (e *Error) Error() string { return e.Message }

// IsConflict reports whether an error is a conflict: another worker has the
// claim, or the task no longer belongs to the worker.
func IsConflict(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == "conflict"
}

// Submit submits a task. A submission without a key gets one, so that a retried
// request does not create the task twice.
func (c *Client) Submit(ctx context.Context, queue string, s task.Submission) (task.Task, error) {
	if s.Key == "" {
		s.Key = uuid.NewString()
	}
	var t task.Task
	_, err := c.do(ctx, http.MethodPost, path("queues", queue, "tasks"), s, &t)
	return t, err
}

// Get returns a task.
func (c *Client) Get(ctx context.Context, id string) (task.Task, error) {
	var t task.Task
	_, err := c.do(ctx, http.MethodGet, path("tasks", id), nil, &t)
	return t, err
}

// History returns the events of a task.
func (c *Client) History(ctx context.Context, id string) ([]task.Event, error) {
	var out task.History
	_, err := c.do(ctx, http.MethodGet, path("tasks", id, "history"), nil, &out)
	return out.Events, err
}

// List returns tasks of a selection without their payloads, newest first; next is
// "" or what the previous page returned. A page may be empty and have a next one.
func (c *Client) List(ctx context.Context, sel task.Selection, next string, limit int) (task.Page, error) {
	var p task.Page
	q := url.Values{"status": {string(sel.Status)}, "limit": {strconv.Itoa(limit)}}
	for name, v := range map[string]string{"queue": sel.Queue, "type": sel.Type, "reason": sel.Reason, "next": next} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if sel.OlderThan != 0 {
		q.Set("olderThan", time.Duration(sel.OlderThan).String())
	}
	_, err := c.do(ctx, http.MethodGet, path("tasks")+"?"+q.Encode(), nil, &p)
	return p, err
}

// Counts returns the numbers of tasks by status, of one queue or of all if queue is
// "". No statuses mean all. Of each status up to most tasks of a queue are counted;
// 0 means 10,000.
func (c *Client) Counts(ctx context.Context, queue string, most int, statuses ...task.Status) (task.Counts, error) {
	var counts task.Counts
	q := make(url.Values)
	if queue != "" {
		q.Set("queue", queue)
	}
	if most != 0 {
		q.Set("max", strconv.Itoa(most))
	}
	for _, s := range statuses {
		q.Add("status", string(s))
	}
	_, err := c.do(ctx, http.MethodGet, path("counts")+"?"+q.Encode(), nil, &counts)
	return counts, err
}

// Bulk requeues or cancels tasks of a selection, some at a time: the request must
// be repeated with the reply's Next until that is "".
func (c *Client) Bulk(ctx context.Context, what task.Change, in task.BulkRequest) (task.BulkReply, error) {
	var reply task.BulkReply
	_, err := c.do(ctx, http.MethodPost, path("tasks", string(what)), in, &reply)
	return reply, err
}

// Claim claims a task; ok is false if there was none in time.
func (c *Client) Claim(ctx context.Context, queue string, in task.ClaimRequest) (claim task.Claim, ok bool, err error) {
	ok, err = c.do(ctx, http.MethodPost, path("queues", queue, "claim"), in, &claim)
	return claim, ok, err
}

// ClaimTask claims one task. If it is not free the error is a conflict, whose
// detail has the worker that holds it.
func (c *Client) ClaimTask(ctx context.Context, id string, in task.ClaimRequest) (task.Claim, error) {
	var claim task.Claim
	_, err := c.do(ctx, http.MethodPost, path("tasks", id, "claim"), in, &claim)
	return claim, err
}

// Heartbeat extends a lease.
func (c *Client) Heartbeat(ctx context.Context, claim task.Claim) error {
	return c.say(ctx, claim, "heartbeat", task.Report{})
}

// Complete reports that a task is done.
func (c *Client) Complete(ctx context.Context, claim task.Claim, result string) error {
	return c.say(ctx, claim, "complete", task.Report{Result: result})
}

// Fail reports that an attempt failed. It fills in worker and claim of the report.
func (c *Client) Fail(ctx context.Context, claim task.Claim, w task.Report) error {
	return c.say(ctx, claim, "fail", w)
}

// Release gives a task back.
func (c *Client) Release(ctx context.Context, claim task.Claim) error {
	return c.say(ctx, claim, "release", task.Report{})
}

func (c *Client) say(ctx context.Context, claim task.Claim, what string, w task.Report) error {
	w.Worker, w.Claim = claim.Worker, claim.Token
	_, err := c.do(ctx, http.MethodPost, path("tasks", claim.ID, what), w, nil)
	return err
}

// Cancel cancels a task.
func (c *Client) Cancel(ctx context.Context, id, reason string) (task.Task, error) {
	var t task.Task
	_, err := c.do(ctx, http.MethodPost, path("tasks", id, "cancel"), task.Cancellation{Reason: reason}, &t)
	return t, err
}

// Requeue restarts a failed or dead task.
func (c *Client) Requeue(ctx context.Context, id string) (task.Task, error) {
	var t task.Task
	_, err := c.do(ctx, http.MethodPost, path("tasks", id, "requeue"), nil, &t)
	return t, err
}

// Queues returns all queues.
func (c *Client) Queues(ctx context.Context) ([]task.QueueView, error) {
	var out task.QueueList
	_, err := c.do(ctx, http.MethodGet, path("queues"), nil, &out)
	return out.Queues, err
}

// Queue returns one queue.
func (c *Client) Queue(ctx context.Context, name string) (task.QueueView, error) {
	var q task.QueueView
	_, err := c.do(ctx, http.MethodGet, path("queues", name), nil, &q)
	return q, err
}

// SetQueue sets a queue's limits.
func (c *Client) SetQueue(ctx context.Context, q task.Queue) error {
	in := task.Limits{MaxPending: q.MaxPending, MaxRunning: q.MaxRunning, Paused: q.Paused}
	_, err := c.do(ctx, http.MethodPut, path("queues", q.Name), in, nil)
	return err
}

// Workers returns the workers that were seen lately.
func (c *Client) Workers(ctx context.Context) ([]task.WorkerView, error) {
	var out task.WorkerList
	_, err := c.do(ctx, http.MethodGet, path("workers"), nil, &out)
	return out.Workers, err
}

func path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/" + strings.Join(parts, "/")
}

// do sends a request until there is a reply; ok is false for a reply without
// content.
func (c *Client) do(ctx context.Context, method, path string, in, out any) (ok bool, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return false, fmt.Errorf("encode the request: %w", err)
		}
	}
	began := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ok, err := c.once(ctx, method, path, body, out)
		var refused *Error
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) && refused.Status < 500 || time.Since(began)+wait > c.Patience {
			return ok, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, out any) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("make the request: %w", err)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return false, fmt.Errorf("reach the task queue: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if err != nil {
		return false, fmt.Errorf("read the task queue's reply: %w", err)
	}
	if answer.StatusCode >= 300 {
		var failed struct{ Error Error }
		if json.Unmarshal(text, &failed) != nil || failed.Error.Message == "" {
			failed.Error.Message = fmt.Sprintf("%s answers %s; is it a task queue?", c.url, answer.Status)
		}
		failed.Error.Status = answer.StatusCode
		return false, &failed.Error
	}
	if answer.StatusCode == http.StatusNoContent {
		return false, nil
	}
	if out == nil {
		return true, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("read the task queue's reply: %w", err)
	}
	return true, nil
}
