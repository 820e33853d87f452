// Package client is the Go side of the task queue's HTTP API: a client for those
// who submit, and a worker for those who do.
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

// Client talks to a server.
type Client struct {
	url  string
	http *http.Client

	// Patience is how long a request is tried again while the server cannot be
	// reached or has trouble; 30 s unless set, and less if the context ends. All
	// requests can be sent twice without harm.
	Patience time.Duration
}

// New makes a client for the server at a URL.
func New(server string) *Client {
	return &Client{
		url: strings.TrimSuffix(server, "/"), Patience: 30 * time.Second,
		http: &http.Client{Transport: &http.Transport{
			DialContext:  (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConns: 1000, MaxIdleConnsPerHost: 1000, IdleConnTimeout: 90 * time.Second,
		}},
	}
}

// Error is a server's refusal.
type Error struct {
	Status  int            `json:"-"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Detail  map[string]any `json:"detail"`
}

func (e *Error) Error() string { return e.Message }

// IsConflict tells whether an error says that somebody was faster: a claim that
// another has, a word about a task that is no longer the worker's.
func IsConflict(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == "conflict"
}

// Submit submits a task. Without a key it gets one, so that it is not there twice
// when the request has to be sent twice.
func (c *Client) Submit(ctx context.Context, queue string, s task.Submission) (task.Task, error) {
	if s.Key == "" {
		s.Key = uuid.NewString()
	}
	var t task.Task
	_, err := c.do(ctx, http.MethodPost, path("queues", queue, "tasks"), s, &t)
	return t, err
}

// Get reads a task.
func (c *Client) Get(ctx context.Context, id string) (task.Task, error) {
	var t task.Task
	_, err := c.do(ctx, http.MethodGet, path("tasks", id), nil, &t)
	return t, err
}

// History reads the events of a task.
func (c *Client) History(ctx context.Context, id string) ([]task.Event, error) {
	var out struct{ Events []task.Event }
	_, err := c.do(ctx, http.MethodGet, path("tasks", id, "history"), nil, &out)
	return out.Events, err
}

// List reads tasks of a queue in a state, newest first; next is "" or what the
// page before returned.
func (c *Client) List(ctx context.Context, queue string, s task.Status, next string, limit int) (task.Page, error) {
	var p task.Page
	q := url.Values{"status": {string(s)}, "limit": {strconv.Itoa(limit)}, "next": {next}}
	_, err := c.do(ctx, http.MethodGet, path("queues", queue, "tasks")+"?"+q.Encode(), nil, &p)
	return p, err
}

// Claim asks for a task; not ok if none came in time.
func (c *Client) Claim(ctx context.Context, queue string, in task.Claiming) (claim task.Claim, ok bool, err error) {
	ok, err = c.do(ctx, http.MethodPost, path("queues", queue, "claim"), in, &claim)
	return claim, ok, err
}

// ClaimTask asks for one task. If it is not free the error is a conflict, whose
// detail tells who has it.
func (c *Client) ClaimTask(ctx context.Context, id string, in task.Claiming) (task.Claim, error) {
	var claim task.Claim
	_, err := c.do(ctx, http.MethodPost, path("tasks", id, "claim"), in, &claim)
	return claim, err
}

// Heartbeat prolongs a lease.
func (c *Client) Heartbeat(ctx context.Context, claim task.Claim) error {
	return c.say(ctx, claim, "heartbeat", task.Word{})
}

// Complete ends a task well.
func (c *Client) Complete(ctx context.Context, claim task.Claim, result string) error {
	return c.say(ctx, claim, "complete", task.Word{Result: result})
}

// Fail ends an attempt badly. Worker and claim of the word are filled in.
func (c *Client) Fail(ctx context.Context, claim task.Claim, w task.Word) error {
	return c.say(ctx, claim, "fail", w)
}

// Release gives a task back.
func (c *Client) Release(ctx context.Context, claim task.Claim) error {
	return c.say(ctx, claim, "release", task.Word{})
}

func (c *Client) say(ctx context.Context, claim task.Claim, what string, w task.Word) error {
	w.Worker, w.Claim = claim.Worker, claim.Token
	_, err := c.do(ctx, http.MethodPost, path("tasks", claim.ID, what), w, nil)
	return err
}

// Cancel calls a task off.
func (c *Client) Cancel(ctx context.Context, id, reason string) (task.Task, error) {
	var t task.Task
	_, err := c.do(ctx, http.MethodPost, path("tasks", id, "cancel"), map[string]string{"reason": reason}, &t)
	return t, err
}

// Requeue lets a task that failed or is dead begin anew.
func (c *Client) Requeue(ctx context.Context, id string) (task.Task, error) {
	var t task.Task
	_, err := c.do(ctx, http.MethodPost, path("tasks", id, "requeue"), nil, &t)
	return t, err
}

// Queues are all queues.
func (c *Client) Queues(ctx context.Context) ([]task.QueueView, error) {
	var out struct{ Queues []task.QueueView }
	_, err := c.do(ctx, http.MethodGet, path("queues"), nil, &out)
	return out.Queues, err
}

// SetQueue sets a queue's limits.
func (c *Client) SetQueue(ctx context.Context, q task.Queue) error {
	in := map[string]any{"maxPending": q.MaxPending, "maxRunning": q.MaxRunning, "paused": q.Paused}
	_, err := c.do(ctx, http.MethodPut, path("queues", q.Name), in, nil)
	return err
}

// Workers are the workers that were seen lately.
func (c *Client) Workers(ctx context.Context) ([]task.WorkerView, error) {
	var out struct{ Workers []task.WorkerView }
	_, err := c.do(ctx, http.MethodGet, path("workers"), nil, &out)
	return out.Workers, err
}

func path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/" + strings.Join(parts, "/")
}

// do sends a request until it is answered; ok is false for an answer without
// content.
func (c *Client) do(ctx context.Context, method, path string, in, out any) (ok bool, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return false, fmt.Errorf("write the request: %w", err)
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
		return false, fmt.Errorf("read the task queue's answer: %w", err)
	}
	if answer.StatusCode >= 300 {
		var told struct{ Error Error }
		if json.Unmarshal(text, &told) != nil || told.Error.Message == "" {
			told.Error.Message = fmt.Sprintf("%s answers %s; is it a task queue?", c.url, answer.Status)
		}
		told.Error.Status = answer.StatusCode
		return false, &told.Error
	}
	if answer.StatusCode == http.StatusNoContent {
		return false, nil
	}
	if out == nil {
		return true, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("read the task queue's answer: %w", err)
	}
	return true, nil
}
