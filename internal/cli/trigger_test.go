package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// The commands list triggers and dead letters, and replay one or all.
func TestTriggerCommands(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusBadRequest)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(endpoint.Close)
	none := 0
	d, err := stator.Open(t.Context(), stator.Options{Triggers: []stator.Trigger{{
		Name: "mail", Table: "Orders", URL: endpoint.URL, StartingPosition: "TRIM_HORIZON", BatchSize: 1, MaxRetries: &none, DeadLetter: filepath.Join(t.TempDir(), "mail.jsonl"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	client := clientOf(server.URL, "us-east-1")
	send := func(operation, body string) {
		t.Helper()
		if _, err := client.Send(t.Context(), operation, json.RawMessage(body)); err != nil {
			t.Fatal(err)
		}
	}
	send("CreateTable", `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_IMAGE"}}`)
	for _, id := range []string{"a", "b", "c"} {
		send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"`+id+`\u001b[2J"}}}`)
	}
	command := func(args ...string) (int, string) {
		t.Helper()
		code, stdout, stderr := runStator(t, append([]string{"trigger", args[0], "--endpoint", server.URL}, args[1:]...)...)
		return code, stdout + stderr
	}
	var out string
	for deadline := time.Now().Add(time.Minute); !regexp.MustCompile(`mail +Orders +ACTIVE +0 +0 +3 +http`).MatchString(out); {
		if _, out = command("list"); time.Now().After(deadline) {
			t.Fatalf("there are no three dead letters: %s", out)
		}
	}
	code, out := command("deadletters", "mail")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 4 || !regexp.MustCompile(`RetryAttemptsExhausted +1 +INSERT +{"id":{"S":"`).MatchString(out) || strings.Contains(out, "\x1b") {
		t.Fatalf("exit code %d, %q", code, out)
	}
	id, _, _ := strings.Cut(lines[2], " ")
	for _, c := range []struct {
		name   string
		status int
		args   []string
		code   int
		want   string
	}{
		{"triggers as JSON", 400, []string{"list", "--json"}, 0, `"TriggerName":"mail"`},
		{"a page of letters as JSON", 400, []string{"deadletters", "mail", "--limit", "1", "--json"}, 0, `"Condition":"RetryAttemptsExhausted","Attempts":1,"Error":"the endpoint answered 400","Record":{"awsRegion"`},
		{"letters of no trigger", 400, []string{"deadletters", "other"}, 1, "Trigger: other not found"},
		{"neither ids nor all", 400, []string{"replay", "mail"}, 2, "or replay all of them with --all"},
		{"a rejected replay", 418, []string{"replay", "mail", "--all"}, 1, "rejected 3 of 3 dead letters; they remain"},
		{"a replay of one", 200, []string{"replay", "mail", id, "--json"}, 0, `{"Replayed":1,"Rejected":0,"Failed":[]}`},
		{"a replay of one that is gone", 200, []string{"replay", "mail", id}, 1, "unknown   " + id},
		{"a replay of all", 200, []string{"replay", "mail", "--all"}, 0, "replayed 2 dead letters of trigger mail"},
		{"nothing left", 200, []string{"replay", "mail", "--all"}, 0, "replayed 0 dead letters"},
	} {
		status.Store(int64(c.status))
		if code, out := command(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, %s", c.name, code, out)
		}
	}
}
