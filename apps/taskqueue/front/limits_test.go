package front

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Every limit of the README is accepted exactly, and refused one beyond. The figures
// are written out, so that a changed constant is found.
func TestLimits(t *testing.T) {
	at, c, _ := start(t)
	x := func(n int) string { return strings.Repeat("x", n) }
	submit := func(members string) string { return `{"type":"t",` + members + `}` }
	claimed := func() (string, string) {
		in, err := c.Submit(t.Context(), "claims", task.Submission{Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := c.ClaimTask(t.Context(), in.ID, task.ClaimRequest{Worker: "w"})
		if err != nil {
			t.Fatal(err)
		}
		return "/v1/tasks/" + in.ID, fmt.Sprintf(`{"worker":"w","claim":%q,`, claim.Token)
	}
	path, report := claimed()
	soon := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339) }
	for _, l := range []struct {
		name, method, path string
		within, beyond     string
		query              bool // within and beyond are parameters
	}{
		{"payload of 256 KB", "POST", "/v1/queues/q/tasks", submit(`"payload":"` + x(256*1024-2) + `"`), submit(`"payload":"` + x(256*1024-1) + `"`), false},
		{"key of 200 bytes", "POST", "/v1/queues/q/tasks", submit(`"key":"` + x(200) + `"`), submit(`"key":"` + x(201) + `"`), false},
		{"type of 100 characters", "POST", "/v1/queues/q/tasks", `{"type":"` + x(100) + `"}`, `{"type":"` + x(101) + `"}`, false},
		{"priority of 9", "POST", "/v1/queues/q/tasks", submit(`"priority":9`), submit(`"priority":10`), false},
		{"priority of 0", "POST", "/v1/queues/q/tasks", submit(`"priority":0`), submit(`"priority":-1`), false},
		{"100 attempts", "POST", "/v1/queues/q/tasks", submit(`"maxAttempts":100`), submit(`"maxAttempts":101`), false},
		{"delay of 30 days", "POST", "/v1/queues/q/tasks", submit(`"delay":"720h"`), submit(`"delay":"720h0m1s"`), false},
		{"time in 30 days", "POST", "/v1/queues/q/tasks", submit(`"runAt":"` + soon(719*time.Hour) + `"`), submit(`"runAt":"` + soon(721*time.Hour) + `"`), false},
		{"backoff of an hour", "POST", "/v1/queues/q/tasks", submit(`"backoff":"1h"`), submit(`"backoff":"1h0m1s"`), false},
		{"lease of a second", "POST", "/v1/queues/none/claim", `{"worker":"w","lease":"1s"}`, `{"worker":"w","lease":"999ms"}`, false},
		{"lease of 12 hours", "POST", "/v1/queues/none/claim", `{"worker":"w","lease":"12h"}`, `{"worker":"w","lease":"12h0m1s"}`, false},
		{"worker of 100 characters", "POST", "/v1/queues/none/claim", `{"worker":"` + x(100) + `"}`, `{"worker":"` + x(101) + `"}`, false},
		{"result of 4 KB", "POST", path + "/complete", report + `"result":"` + x(4096) + `"}`, report + `"result":"` + x(4097) + `"}`, false},
		{"reason of 4 KB", "POST", path + "/cancel", `{"reason":"` + x(4096) + `"}`, `{"reason":"` + x(4097) + `"}`, false},
		{"10,000,000 waiting tasks", "PUT", "/v1/queues/q", `{"maxPending":10000000}`, `{"maxPending":10000001}`, false},
		{"one waiting task", "PUT", "/v1/queues/q", `{"maxPending":1}`, `{"maxPending":0}`, false},
		{"1,000 running tasks", "PUT", "/v1/queues/q", `{"maxRunning":1000}`, `{"maxRunning":1001}`, false},
		{"page of 1,000 tasks", "GET", "/v1/tasks?limit=", "1000", "1001", true},
		{"page of one task", "GET", "/v1/tasks?limit=", "1", "0", true},
		{"count of 10,000,000", "GET", "/v1/counts?max=", "10000000", "10000001", true},
	} {
		t.Run(l.name, func(t *testing.T) {
			for _, v := range []struct {
				text string
				ok   bool
			}{{l.beyond, false}, {l.within, true}} {
				target, body := at+l.path, v.text
				if l.query {
					target, body = target+v.text, ""
				}
				status, text := send(t, l.method, target, body)
				// A task that was completed cannot be cancelled: its reason was accepted.
				if accepted := status < 300 || status == 409; accepted != v.ok || !accepted && status != 400 {
					t.Errorf("%.60s is answered with %d %.200s", v.text, status, text)
				}
			}
		})
	}
	if status, text := send(t, "POST", at+"/v1/queues/none/claim", `{"worker":"w","wait":"1m1ms"}`); status != 400 {
		t.Errorf("a wait of more than a minute is answered with %d %s", status, text)
	}
	if err := check(&task.ClaimRequest{Wait: task.Duration(time.Minute)}); err != nil {
		t.Errorf("a wait of a minute is refused: %v", err)
	}
}

// The defaults are those of the README and of the description.
func TestDefaults(t *testing.T) {
	at, c, _ := start(t)
	in, err := c.Submit(t.Context(), "q", task.Submission{Type: "t"})
	if err != nil || in.Priority != 5 || in.MaxAttempts != 5 || in.Backoff != task.Duration(time.Second) {
		t.Errorf("a plain submission becomes %+v, %v", in, err)
	}
	claim, err := c.ClaimTask(t.Context(), in.ID, task.ClaimRequest{Worker: "w"})
	if err != nil || claim.Lease != task.Duration(30*time.Second) {
		t.Errorf("a plain claim has the lease %v, %v", time.Duration(claim.Lease), err)
	}
	if status, text := send(t, "PUT", at+"/v1/queues/q", `{}`); status != 200 || !strings.Contains(text, `"maxPending":100000,"maxRunning":0,"paused":false`) {
		t.Errorf("a queue without limits is %d %s", status, text)
	}
	for range 51 {
		if _, err := c.Submit(t.Context(), "many", task.Submission{Type: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, text := send(t, "GET", at+"/v1/queues/many/tasks", ""); strings.Count(text, `"id":`) != 50 || !strings.Contains(text, `"next":`) {
		t.Errorf("a plain page has %d tasks", strings.Count(text, `"id":`))
	}
}
