package mcp

import (
	"fmt"
	"strings"
	"testing"
)

// fork makes a fork with the tool, and returns its name.
func (r *toolRig) fork(arguments string) string {
	r.t.Helper()
	return member[string](r.t, r.want("fork", `{"action":"create"`+arguments+`}`, `"fork":`), "fork")
}

// deleteFork deletes a fork without the tool, as a server does that drops forks.
func (r *toolRig) deleteFork(name string) {
	r.t.Helper()
	if _, err := r.own.SendOwn(r.t.Context(), "DeleteFork", map[string]string{"ForkName": name}); err != nil {
		r.t.Fatal(err)
	}
}

// Forks that the server has dropped are forgotten.
func TestDroppedForks(t *testing.T) {
	r := newRig(t, nil, Forks)
	for i := range maxForks + 1 {
		name := r.fork("")
		r.deleteFork(name)
		switch i % 3 {
		case 0:
			r.want("fork", `{"action":"drop","name":"`+name+`"}`, `"dropped":"`+name+`"`)
		case 1:
			r.want("get", `{"table":"Orders","key":{"id":"a","n":1},"fork":"`+name+`"}`, "!Fork: "+name+" not found")
		case 2:
			r.want("fork", `{"action":"diff","name":"`+name+`"}`, "!Fork: "+name+" not found")
		}
		r.want("fork", `{"action":"list"}`, `{"forks":[]}`)
		r.want("get", `{"table":"Orders","key":{"id":"a","n":1},"fork":"`+name+`"}`, "!there is no fork")
	}
	name := r.fork("")
	r.want("get", `{"table":"None","key":{"id":"a"},"fork":"`+name+`"}`, "!cannot describe table None")
	r.want("fork", `{"action":"list"}`, `{"forks":["`+name+`"]}`)
	r.deleteFork(name)
	if err := r.server.Close(); err != nil {
		t.Errorf("the session ends with %v", err)
	}
}

// A fork of somebody else is not taken for one that had its name and was dropped.
func TestForkOfSameName(t *testing.T) {
	r := newRig(t, nil, Forks)
	name := r.fork(`,"name":"test"`)
	if !strings.HasPrefix(name, "test") {
		t.Errorf("the name is %s", name)
	}
	r.deleteFork(name)
	if _, err := r.own.SendOwn(t.Context(), "CreateFork", map[string]string{"ForkName": "test"}); err != nil {
		t.Fatal(err)
	}
	r.want("write", `{"actions":[{"action":"put","table":"Orders","item":{"id":"f","n":1}}],"fork":"test"}`, "!there is no fork")
	r.want("fork", `{"action":"drop","name":"test"}`, "!there is no fork")
	if err := r.server.Close(); err != nil {
		t.Error(err)
	}
	r.want("request", `{"operation":"Stator.ListForks"}`, `{"Forks":[{"ForkName":"test"`)

	r.fork(fmt.Sprintf(`,"name":%q`, strings.Repeat("x", maxGivenName)))
	r.want("fork", fmt.Sprintf(`{"action":"create","name":%q}`, strings.Repeat("x", maxGivenName+1)), "!50 letters")
}

// Tables beyond the first page of ListTables are compared and explained too.
func TestManyTables(t *testing.T) {
	r := newRig(t, nil, Forks)
	for i := range 100 { // a page has 100, and Orders is the one after them
		r.send("CreateTable", fmt.Sprintf(`{"TableName":"A%02d","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],
			"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`, i))
	}
	name := r.fork("")
	r.want("write", `{"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}],"fork":"`+name+`"}`, `"done":true`)
	r.want("fork", `{"action":"diff","name":"`+name+`","table":"Orders"}`, `"change":"removed"`, `"complete":true`)
	r.want("fork", `{"action":"diff","name":"`+name+`","table":"None"}`, "!there is no table \"None\"")
	r.want("explain", `{"statement":"SELECT * FROM Orders WHERE id = 'a'"}`, `"served_by":"Query of table Orders"`)
	r.want("explain", `{"statement":"SELECT * FROM None WHERE id = 'a'"}`, "!none of the 101 tables")
	r.want("request", `{"operation":"DeleteTable","body":{"TableName":"Orders"},"fork":"`+name+`"}`, `"reply"`)
	r.want("fork", `{"action":"diff","name":"`+name+`","table":"Orders"}`, `"change":"table removed"`)
}

// The forks of an endpoint that is a fork are reached.
func TestForkOfFork(t *testing.T) {
	r := newRig(t, nil, Forks)
	r.own.SendOwn(t.Context(), "CreateFork", map[string]string{"ForkName": "base"})
	r.server.Endpoint.URL += "/fork/base"
	name := r.fork("")
	r.want("write", `{"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}],"fork":"`+name+`"}`, `"done":true`)
	r.want("write", `{"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}],"dry_run":true}`, `"exists":true`, `"units":`)
	r.want("fork", `{"action":"diff","name":"`+name+`"}`, `"change":"removed"`)
	r.want("fork", `{"action":"drop","name":"`+name+`"}`, `"dropped"`)
}
