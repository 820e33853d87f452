package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/queue"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// start serves a queue with tables in memory.
func start(t *testing.T) (at string, c *client.Client, log *bytes.Buffer) {
	t.Helper()
	f, log := newFront(t)
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	c = client.New(server.URL)
	c.Patience = 0
	return server.URL, c, log
}

// newFront starts a queue with tables in memory.
func newFront(t *testing.T) (*Front, *bytes.Buffer) {
	t.Helper()
	h := hometest.Start(t, taskqueue.Model)
	log := new(bytes.Buffer)
	registry := prometheus.NewRegistry()
	live := new(web.Live)
	service := queue.New(queue.Options{Table: &table.Table{DB: h.DB, Streams: h.Streams}, Metrics: registry, Poll: 5 * time.Millisecond, Changed: func() { live.Broadcast("changed") }})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	if err := service.Started(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &Front{Queue: service, Live: live, Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: registry}, log
}

func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// Every invalid request gets an error that describes it, and none is logged as an
// internal error.
func TestBadInput(t *testing.T) {
	url, c, log := start(t)
	in, err := c.Submit(t.Context(), "q", task.Submission{Type: "t", Key: "used"})
	if err != nil {
		t.Fatal(err)
	}
	unknown := task.NewID(time.Now())
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for _, x := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"no JSON", "POST", "/v1/queues/q/tasks", "hello", 400, "bad_json"},
		{"half JSON", "POST", "/v1/queues/q/tasks", `{"type":"t"`, 400, "bad_json"},
		{"two values", "POST", "/v1/queues/q/tasks", `{"type":"t"} {}`, 400, "bad_json"},
		{"an unknown member", "POST", "/v1/queues/q/tasks", `{"type":"t","prio":3}`, 400, "bad_json"},
		{"a list", "POST", "/v1/queues/q/tasks", `[]`, 400, "bad_json"},
		{"no body", "POST", "/v1/queues/q/tasks", ``, 400, "bad_json"},
		{"deep JSON", "POST", "/v1/queues/q/tasks", `{"type":"t","payload":` + deep + `}`, 400, "bad_json"},
		{"no type", "POST", "/v1/queues/q/tasks", `{}`, 400, "bad_type"},
		{"a high priority", "POST", "/v1/queues/q/tasks", `{"type":"t","priority":10}`, 400, "bad_priority"},
		{"an invalid delay", "POST", "/v1/queues/q/tasks", `{"type":"t","delay":"soon"}`, 400, "bad_json"},
		{"a delay as a number", "POST", "/v1/queues/q/tasks", `{"type":"t","delay":5}`, 400, "bad_json"},
		{"a large payload", "POST", "/v1/queues/q/tasks", `{"type":"t","payload":"` + strings.Repeat("x", task.MaxPayload) + `"}`, 400, "bad_payload"},
		{"a huge body", "POST", "/v1/queues/q/tasks", `{"type":"t","payload":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "too_large"},
		{"a queue that is a path", "POST", "/v1/queues/..%2f..%2fetc/tasks", `{"type":"t"}`, 400, "bad_queue"},
		{"a queue with a hash", "POST", "/v1/queues/a%23b/tasks", `{"type":"t"}`, 400, "bad_queue"},
		{"a queue with a zero byte", "POST", "/v1/queues/a%00b/tasks", `{"type":"t"}`, 400, "bad_queue"},
		{"a key for other content", "POST", "/v1/queues/q/tasks", `{"type":"other","key":"used"}`, 409, "key_reused"},
		{"an unknown id", "GET", "/v1/tasks/" + unknown, "", 404, "not_found"},
		{"an unknown id's history", "GET", "/v1/tasks/" + unknown + "/history", "", 404, "not_found"},
		{"no id", "GET", "/v1/tasks/..%2fMETA", "", 400, "bad_id"},
		{"an unknown id to cancel", "POST", "/v1/tasks/" + unknown + "/cancel", "{}", 404, "not_found"},
		{"an unknown id to requeue", "POST", "/v1/tasks/" + unknown + "/requeue", "", 404, "not_found"},
		{"an unknown id to claim", "POST", "/v1/tasks/" + unknown + "/claim", `{"worker":"w"}`, 404, "not_found"},
		{"an unknown id to complete", "POST", "/v1/tasks/" + unknown + "/complete", `{"worker":"w","claim":"2.0.q"}`, 404, "not_found"},
		{"a claim that does not exist", "POST", "/v1/tasks/" + in.ID + "/complete", `{"worker":"w","claim":"2.0.q"}`, 409, "conflict"},
		{"an invalid claim", "POST", "/v1/tasks/" + in.ID + "/complete", `{"worker":"w","claim":"x"}`, 400, "bad_claim"},
		{"a heartbeat without a claim", "POST", "/v1/tasks/" + in.ID + "/heartbeat", `{"worker":"w","claim":"2.0.q"}`, 409, "conflict"},
		{"a failure without a claim", "POST", "/v1/tasks/" + in.ID + "/fail", `{"worker":"w","claim":"2.0.q"}`, 409, "conflict"},
		{"a release without a claim", "POST", "/v1/tasks/" + in.ID + "/release", `{"worker":"w","claim":"2.0.q"}`, 409, "conflict"},
		{"a requeue of a task that has not ended", "POST", "/v1/tasks/" + in.ID + "/requeue", "", 409, "conflict"},
		{"a worker with a space", "POST", "/v1/queues/q/claim", `{"worker":"a b"}`, 400, "bad_worker"},
		{"a wait of a day", "POST", "/v1/queues/q/claim", `{"worker":"w","wait":"24h"}`, 400, "bad_wait"},
		{"a lease that is too short", "POST", "/v1/queues/q/claim", `{"worker":"w","lease":"1ms"}`, 400, "bad_lease"},
		{"an unknown status", "GET", "/v1/queues/q/tasks?status=ASLEEP", "", 400, "bad_status"},
		{"a limit that is not a number", "GET", "/v1/queues/q/tasks?limit=many", "", 400, "bad_limit"},
		{"a limit of a million", "GET", "/v1/queues/q/tasks?limit=1000000", "", 400, "bad_limit"},
		{"a long next parameter", "GET", "/v1/queues/q/tasks?next=" + strings.Repeat("x", 200), "", 400, "bad_next"},
		{"an unknown queue", "GET", "/v1/queues/unknown", "", 404, "not_found"},
		{"limits below zero", "PUT", "/v1/queues/q", `{"maxRunning":-1}`, 400, "bad_maxRunning"},
		{"no such path", "GET", "/v1/nothing", "", 404, "not_found"},
		{"an unknown status over all queues", "GET", "/v1/tasks?status=ASLEEP", "", 400, "bad_status"},
		{"a type that is a path", "GET", "/v1/tasks?type=a/b", "", 400, "bad_type"},
		{"an age that is not a duration", "GET", "/v1/tasks?olderThan=long", "", 400, "bad_olderThan"},
		{"a negative age", "GET", "/v1/tasks?olderThan=-1s", "", 400, "bad_olderThan"},
		{"a count of an unknown status", "GET", "/v1/counts?status=ASLEEP", "", 400, "bad_status"},
		{"a count of an unknown queue", "GET", "/v1/counts?queue=unknown", "", 404, "not_found"},
		{"a count up to zero", "GET", "/v1/counts?max=0", "", 400, "bad_max"},
		{"a count up to too many", "GET", "/v1/counts?max=10000001", "", 400, "bad_max"},
		{"a bulk requeue without a status", "POST", "/v1/tasks/requeue", `{}`, 400, "bad_status"},
		{"a bulk requeue of pending tasks", "POST", "/v1/tasks/requeue", `{"status":"PENDING"}`, 400, "bad_status"},
		{"a bulk cancellation of dead tasks", "POST", "/v1/tasks/cancel", `{"status":"DEAD"}`, 400, "bad_status"},
		{"a bulk cancellation with a long note", "POST", "/v1/tasks/cancel", `{"status":"PENDING","note":"` + strings.Repeat("x", task.MaxReason+1) + `"}`, 400, "bad_reason"},
	} {
		t.Run(x.name, func(t *testing.T) {
			status, text := send(t, x.method, url+x.path, x.body)
			var reply struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal([]byte(text), &reply); err != nil || status != x.status || reply.Error.Code != x.code || reply.Error.Message == "" {
				t.Errorf("the reply is %d %s, want %d %s", status, text, x.status, x.code)
			}
		})
	}
	if got, err := c.Get(t.Context(), in.ID); err != nil || got.Status != task.Pending || got.Seq != 1 {
		t.Errorf("after all that the task is %+v, %v", got, err)
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log)
	}
}

func TestSubmitStatusOfNewAndKnown(t *testing.T) {
	url, _, _ := start(t)
	for _, want := range []int{http.StatusCreated, http.StatusOK, http.StatusOK} {
		if status, text := send(t, "POST", url+"/v1/queues/q/tasks", `{"type":"t","key":"k","payload":{"a":[1,2]}}`); status != want {
			t.Errorf("the reply is %d %s, want %d", status, text, want)
		}
	}
}

// A worker of the client package executes tasks, fails some and sees its claims.
func TestClientAndWorker(t *testing.T) {
	_, c, _ := start(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := &client.Worker{Client: c, Queue: "q", ID: "w", Parallel: 3, Do: func(_ context.Context, claim task.Claim) (string, error) {
		switch claim.Type {
		case "panics":
			panic("oh")
		case "never":
			return "", client.Never(fmt.Errorf("hopeless"))
		case "second":
			if claim.Attempts == 1 {
				return "", fmt.Errorf("not yet")
			}
		}
		return "did " + string(claim.Payload), nil
	}}
	go func() { ended <- w.Run(ctx) }()
	want := map[string]task.Status{"good": task.Completed, "panics": task.Dead, "never": task.Failed, "second": task.Completed}
	ids := make(map[string]string)
	for kind := range want {
		in, err := c.Submit(t.Context(), "q", task.Submission{Type: kind, Payload: json.RawMessage(`7`), MaxAttempts: 2, Backoff: task.Duration(10 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		ids[kind] = in.ID
	}
	for kind, status := range want {
		var got task.Task
		for {
			var err error
			if got, err = c.Get(t.Context(), ids[kind]); err != nil {
				t.Fatal(err)
			}
			if got.Status.Final() {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if got.Status != status || status == task.Completed && got.Result != "did 7" {
			t.Errorf("%s is %+v, want %s", kind, got, status)
		}
		events, err := c.History(t.Context(), ids[kind])
		if err != nil {
			t.Fatal(err)
		}
		if err := task.Matches(got, events); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if page, err := c.List(t.Context(), task.Selection{Queue: "q", Status: task.Completed}, "", 10); err != nil || len(page.Tasks) != 2 {
		t.Errorf("completed tasks are %+v, %v", page, err)
	}
	if workers, err := c.Workers(t.Context()); err != nil || len(workers) != 1 || workers[0].ID != "w" {
		t.Errorf("the workers are %+v, %v", workers, err)
	}
	if err := c.SetQueue(t.Context(), task.Queue{Name: "q", MaxPending: 5, MaxRunning: 1}); err != nil {
		t.Error(err)
	}
	if queues, err := c.Queues(t.Context()); err != nil || len(queues) != 1 || queues[0].MaxRunning != 1 {
		t.Errorf("the queues are %+v, %v", queues, err)
	}
	in, err := c.Submit(t.Context(), "q", task.Submission{Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := c.ClaimTask(t.Context(), in.ID, task.ClaimRequest{Worker: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ClaimTask(t.Context(), in.ID, task.ClaimRequest{Worker: "y"})
	if refused := new(client.Error); !client.IsConflict(err) || !errors.As(err, &refused) || refused.Detail["worker"] != "x" {
		t.Errorf("claiming a claimed task returns %v", err)
	}
	if err := c.Release(t.Context(), claim); err != nil {
		t.Error(err)
	}
	if got, err := c.Cancel(t.Context(), in.ID, "done"); err != nil || got.Status != task.Cancelled {
		t.Errorf("cancelled it is %+v, %v", got, err)
	}
}

// The pages show the tasks; text from clients is escaped.
func TestPages(t *testing.T) {
	url, c, _ := start(t)
	in, err := c.Submit(t.Context(), "mail", task.Submission{Type: "send", Payload: json.RawMessage(`{"x":"<script>alert(1)</script>"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetQueue(t.Context(), task.Queue{Name: "empty", MaxPending: 1}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		path, want string
		status     int
	}{
		{"/", "/queues/mail", 200},
		{"/queues/mail", in.ID, 200},
		{"/queues/empty?status=DEAD", "There are no such tasks", 200},
		{"/tasks", in.ID, 200},
		{"/tasks?queue=empty", "There are no such tasks", 200},
		{"/tasks?queue=mail&type=send&olderThan=1ns", in.ID, 200},
		{"/tasks?olderThan=soon", "is not a duration", 400},
		{"/queues/mail", `action="/queues/mail/limits"`, 200},
		{"/queues/mail", `action="/bulk/cancel"`, 200},
		{"/queues/mail?status=DEAD", `action="/bulk/requeue"`, 200},
		{"/", `action="/submit"`, 200},
		{"/queues/mail?status=NONE", "must be one of", 400},
		{"/queues/unknown", "there is no queue unknown", 404},
		{"/tasks/" + in.ID, "SUBMITTED", 200},
		{"/tasks/nonsense", "not the id of a task", 400},
		{"/tasks/" + task.NewID(time.Now()), "there is no task", 404},
		{"/static/style.css", "--accent", 200},
		{"/static/taskqueue.css", ".halves", 200},
		{"/static/live.js", "EventSource", 200},
		{"/metrics", `taskqueue_events_total{queue="mail",type="SUBMITTED"} 1`, 200},
		{"/healthz", "ok", 200},
	} {
		status, text := send(t, "GET", url+x.path, "")
		if status != x.status || !strings.Contains(text, x.want) {
			t.Errorf("%s is %d without %q:\n%s", x.path, status, x.want, text)
		}
		if strings.Contains(text, "<script>alert") {
			t.Errorf("%s has a payload as a script", x.path)
		}
	}
	if status, _ := send(t, "POST", url+"/tasks/"+in.ID+"/cancel", ""); status != 200 { // by the page that follows
		t.Errorf("the button answers %d", status)
	}
	if got, err := c.Get(t.Context(), in.ID); err != nil || got.Status != task.Cancelled {
		t.Errorf("the task is %+v, %v", got, err)
	}
}

// sent sends a form and returns the page that follows.
func sent(t *testing.T, address string, fields ...string) (int, string, string) {
	t.Helper()
	v := make(url.Values)
	for i := 0; i < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	answer, err := http.PostForm(address, v)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Request.URL.Path, string(text)
}

// The forms submit tasks, set limits and pause.
func TestForms(t *testing.T) {
	at, c, log := start(t)
	var path string
	for range 2 { // the same form twice
		status, p, text := sent(t, at+"/submit", "key", "k", "queue", "mail", "type", "send", "priority", "7", "delay", "", "maxAttempts", "3", "payload", `{"to":"a"}`)
		if status != 200 || path != "" && p != path {
			t.Fatalf("submitting leads to %d %s %s", status, p, text)
		}
		path = p
	}
	got, err := c.Get(t.Context(), strings.TrimPrefix(path, "/tasks/"))
	if err != nil || got.Queue != "mail" || got.Type != "send" || got.Priority != 7 || got.MaxAttempts != 3 || string(got.Payload) != `{"to":"a"}` {
		t.Errorf("the form submits %+v, %v", got, err)
	}
	if status, p, _ := sent(t, at+"/queues/mail/limits", "maxPending", "9", "maxRunning", "3"); status != 200 || p != "/queues/mail" {
		t.Errorf("the limits lead to %d %s", status, p)
	}
	if status, _, text := sent(t, at+"/queues/mail/limits", "paused", "true"); status != 200 || !strings.Contains(text, "Resume") {
		t.Errorf("pausing leads to %d %s", status, text)
	}
	if q, err := c.Queue(t.Context(), "mail"); err != nil || q.MaxPending != 9 || q.MaxRunning != 3 || !q.Paused {
		t.Errorf("the queue is %+v, %v", q, err)
	}
	if status, _, text := sent(t, at+"/queues/mail/limits", "maxPending", "9", "maxRunning", "3", "paused", "false"); status != 200 || !strings.Contains(text, "Pause") {
		t.Errorf("resuming leads to %d %s", status, text)
	}
	for name, x := range map[string][]string{
		"no type":            {"/submit", "queue", "mail"},
		"no JSON":            {"/submit", "queue", "mail", "type", "t", "payload", "hello"},
		"no number":          {"/submit", "queue", "mail", "type", "t", "priority", "high"},
		"no duration":        {"/submit", "queue", "mail", "type", "t", "delay", "long"},
		"no limit":           {"/queues/mail/limits", "maxPending", "0"},
		"an unknown queue":   {"/queues/unknown/limits", "maxPending", "1"},
		"an unknown change":  {"/bulk/delete", "status", "DEAD"},
		"an impossible bulk": {"/bulk/requeue", "status", "PENDING"},
	} {
		if status, _, text := sent(t, at+x[0], x[1:]...); status < 400 || status >= 500 || !strings.Contains(text, "<h2>Error</h2>") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log)
	}
}

// The page of dead letters shows their reasons and their number, and requeues them
// after it has shown what it would do.
func TestBulkOnPage(t *testing.T) {
	at, c, _ := start(t)
	for i := range 3 {
		if _, err := c.Submit(t.Context(), "mail", task.Submission{Type: fmt.Sprintf("t%d", i), MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
		claim, ok, err := c.Claim(t.Context(), "mail", task.ClaimRequest{Worker: "w", Wait: task.Duration(10 * time.Second)})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := c.Fail(t.Context(), claim, task.Report{Reason: "no route to <host>"}); err != nil {
			t.Fatal(err)
		}
	}
	if status, text := send(t, "GET", at+"/tasks?status=DEAD", ""); status != 200 || strings.Count(text, "no route to &lt;host&gt;") != 3 {
		t.Errorf("the dead letters are %d %s", status, text)
	}
	if _, text := send(t, "GET", at, ""); !strings.Contains(text, "<b>3</b><span>dead letters") {
		t.Errorf("the overview does not count the dead letters:\n%s", text)
	}
	_, _, text := sent(t, at+"/bulk/requeue", "status", "DEAD", "type", "t1")
	if !strings.Contains(text, "1 task matches. Nothing is changed yet.") {
		t.Errorf("the preview is %s", text)
	}
	if page, err := c.List(t.Context(), task.Selection{Status: task.Dead}, "", 10); err != nil || len(page.Tasks) != 3 {
		t.Errorf("after the preview %d tasks are dead, %v", len(page.Tasks), err)
	}
	if _, _, text := sent(t, at+"/bulk/requeue", "status", "DEAD", "type", "t1", "confirmed", "true"); !strings.Contains(text, "1 requeued.") {
		t.Errorf("the page says %s", text)
	}
	counts, err := c.Counts(t.Context(), "", 0, task.Dead, task.Pending)
	if err != nil || counts.Total[task.Dead] != 2 || counts.Total[task.Pending] != 1 {
		t.Errorf("the counts are %+v, %v", counts, err)
	}
	if _, _, text := sent(t, at+"/bulk/cancel", "status", "PENDING", "confirmed", "true", "note", "enough"); !strings.Contains(text, "1 cancelled.") {
		t.Errorf("the page says %s", text)
	}
}
