package cli

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// The commands for the past read, show and undo changes.
func TestPastCommands(t *testing.T) {
	var nanos atomic.Int64
	nanos.Store(time.Now().Truncate(time.Second).UnixNano())
	// nextSecond moves the server's clock, and returns the second that is over.
	nextSecond := func() time.Time { return time.Unix(0, nanos.Add(int64(time.Second))).Add(-time.Second) }
	d, err := stator.Open(t.Context(), stator.Options{Now: func() time.Time { return time.Unix(0, nanos.Load()) }})
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
	send("CreateTable", `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"},{"AttributeName":"n","AttributeType":"N"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"},{"AttributeName":"n","KeyType":"RANGE"}]}`)
	send("UpdateContinuousBackups", `{"TableName":"Orders","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`)
	send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"a"},"n":{"N":"1"},"c":{"S":"old"}}}`)
	at := nextSecond()
	send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"a"},"n":{"N":"1"},"c":{"S":"new"},"d":{"BOOL":true}}}`)
	to := nextSecond()
	nextSecond()
	last := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	var change string
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"the present", []string{"get", "Orders", "id=a", "n=1"}, 0, `c  {"S":"new"}`},
		{"an item", []string{"get", "Orders", "id=a", "n=1", "--at", last(at)}, 0, `c  {"S":"old"}`},
		{"an item in JSON", []string{"get", "Orders", `{"id":{"S":"a"},"n":{"N":"1"}}`, "--at", last(at), "--json"}, 0, `{"Item":{"c":{"S":"old"},"id":{"S":"a"},"n":{"N":"1"}}}`},
		{"no item", []string{"get", "Orders", "id=b", "n=1", "--at", last(at)}, 1, "table Orders has no item with this key at "},
		{"a partition", []string{"query", "Orders", "id=a", "--at", last(at)}, 0, `{"c":{"S":"old"},"id":{"S":"a"},"n":{"N":"1"}}`},
		{"a scan", []string{"query", "Orders", "--limit", "1", "--at", last(at)}, 0, `{"c":{"S":"old"},"id":{"S":"a"},"n":{"N":"1"}}`},
		{"a time that is not kept", []string{"query", "Orders", "--at", "1h"}, 1, "cannot be read: what is kept is from"},
		{"a time that is none", []string{"query", "Orders", "--at", "yesterday"}, 2, "must be a time such as"},
		{"an attribute that is in no key", []string{"get", "Orders", "c=1"}, 2, "c is in no key; those of the table are id and n"},
		{"history", []string{"history", "Orders", "id=a", "n=1"}, 0, "  ~ c  {\"S\":\"old\"} -> {\"S\":\"new\"}\n  + d  {\"BOOL\":true}\n"},
		{"history in JSON", []string{"history", "Orders", "id=a", "n=1", "--json", "--limit", "1"}, 0, `"EventName":"MODIFY"`},
		{"a plan", []string{"undo", "Orders", "--from", last(at.Add(time.Second)), "--to", last(to)}, 0, "  ~ c  {\"S\":\"new\"} -> {\"S\":\"old\"}\n  - d  {\"BOOL\":true}\n1 items in 1 transactions would be undone; nothing was written"},
		{"an undo", []string{"undo", "Orders", "--from", last(at.Add(time.Second)), "--to", last(to), "--confirm"}, 0, "1 items in 1 transactions undone"},
		{"the item after it", []string{"get", "Orders", "id=a", "n=1"}, 0, `c  {"S":"old"}`},
		{"an undo of a change", []string{"undo", "Orders", "--key", "id=a", "--key", "n=1", "--change", "CHANGE", "--json"}, 0, `"AlreadyUndone":1`},
		{"neither a window nor a change", []string{"undo", "Orders", "--from", "1m"}, 2, "needs --from and --to, or --change and --key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.args {
				c.args[i] = strings.Replace(c.args[i], "CHANGE", change, 1)
			}
			code, stdout, stderr := runStator(t, append(c.args, "--endpoint", server.URL)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			if found := regexp.MustCompile(`MODIFY  (\d{21})`).FindStringSubmatch(stdout); found != nil {
				change = found[1]
			}
		})
	}
}
