package mcp

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

const maxListSize = 20 << 10 // it is in every conversation

// The list of tools is as expected, short, and says of each tool what it does.
func TestList(t *testing.T) {
	for _, c := range []struct {
		name  string
		allow []Group
		also  string // tools beyond those that read
		file  string
	}{
		{"read", nil, "", "testdata/read.json"},
		{"forks", []Group{Forks}, "fork table_apply undo write", "testdata/all.json"},
		{"write", []Group{Write}, "fork table_apply undo write", "testdata/all.json"},
		{"tables", []Group{Tables}, "table_apply", ""},
		{"all", Groups, "fork table_apply undo write", "testdata/all.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil, c.allow...)
			listed, err := r.client.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.MarshalIndent(listed.Tools, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if short, _ := json.Marshal(listed.Tools); len(short) > maxListSize {
				t.Errorf("the list has %d bytes, want %d at most", len(short), maxListSize)
			}
			if c.file != "" {
				compareList(t, c.file, text)
			}
			var writers []string
			for _, tool := range listed.Tools {
				a := tool.Annotations
				if a == nil || a.Title == "" || a.DestructiveHint == nil || a.OpenWorldHint == nil || *a.OpenWorldHint {
					t.Errorf("tool %s has annotations %+v", tool.Name, a)
				} else if !a.ReadOnlyHint && tool.Name != "request" {
					writers = append(writers, tool.Name)
				}
			}
			if slices.Sort(writers); strings.Join(writers, " ") != c.also {
				t.Errorf("the tools that write are %q, want %q", writers, c.also)
			}
		})
	}
}

func compareList(t *testing.T, file string, text []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != string(text)+"\n" {
		t.Errorf("the list differs from %s, %v; read the difference after go test -run List ./internal/mcp -rewrite", file, err)
	}
}

// Every tool that is listed can be called, and answers.
func TestEveryTool(t *testing.T) {
	r := newRig(t, nil, Groups...)
	called := make(map[string]bool)
	want := func(tool, arguments string, want ...string) string {
		t.Helper()
		called[tool] = true
		return r.want(tool, arguments, want...)
	}
	want("overview", `{}`, `"allowed":["read","forks","write","tables"]`, `"key":"id, n"`, `"key":"customer, placed"`)
	want("overview", `{"table":"Orders"}`, `"point_in_time_recovery":"DISABLED"`)
	want("get", `{"table":"Orders","key":{"id":"a","n":1}}`, `"total":{"$n":"12345678901234567890"}`, `"tags":{"$ss":["x","y"]}`, `"found":true`)
	want("get", `{"table":"Orders","key":{"id":"a","n":"1"}}`, `"found":true`)
	want("get", `{"table":"Orders","key":{"id":"z","n":1}}`, `"found":false`)
	want("get", `{"table":"Orders","key":{"id":"a"}}`, "!the key of table Orders is id and n; to read the items of a partition, use query")
	want("get", `{"table":"None","key":{"id":"a"}}`, "!cannot describe table None")
	want("query", `{"table":"Orders","where":{"id":"a"}}`, `"count":2`, `"served_by":"Query of table Orders"`, `"units":0.5`, `"KeyConditionExpression":"#a0 = :v0"`)
	want("query", `{"table":"Orders","where":{"customer":"ada","placed":{"begins_with":"2026-02"}}}`, `"count":1`, `"served_by":"Query of index byCustomer of table Orders"`)
	want("query", `{"table":"Orders","where":{"id":"a","total":{"<":8}}}`, `"count":1`, `"looked_at":2`, `"FilterExpression"`)
	want("query", `{"table":"Orders","where":{"total":9}}`, "!no key serves these conditions", "!about 3 items")
	want("query", `{"table":"Orders","where":{"total":9},"allow_scan":true}`, `"count":1`, `"served_by":"Scan of table Orders"`)
	page := want("query", `{"table":"Orders","where":{"id":"a"},"limit":1,"descending":true,"select":["total"]}`, `"items":[{"total":7}]`, `"truncated":true`)
	next, _ := json.Marshal(member[json.RawMessage](t, page, "next"))
	want("query", `{"table":"Orders","where":{"id":"a"},"limit":1,"descending":true,"next":`+string(next)+`}`, `"n":1`)
	want("sample", `{"table":"Orders"}`, `"sampled":3`, `"name":"customer"`)
	want("explain", `{"statement":"SELECT * FROM Orders WHERE id = 'a'"}`, `"served_by":"Query of table Orders"`, `"scan":false`)
	want("explain", `{"statement":"SELECT * FROM Orders WHERE total = ?","parameters":[9]}`, `"scan":true`, `byCustomer (customer, placed)`)
	want("explain", `{"operation":"GetItem","body":{"TableName":"Orders","Key":{"id":{"S":"a"},"n":{"N":"1"}}}}`, `"patterns":["order by id"]`)
	want("explain", `{"operation":"Query","body":{"TableName":"Orders","KeyConditionExpression":"x = :v","ExpressionAttributeValues":{":v":{"S":"a"}}}}`, `"fault":"ValidationException`)
	want("explain", `{"statement":"DELETE FROM Orders WHERE id = 'a' AND n = 1"}`, `"served_by":"DeleteItem of table Orders"`)
	want("history", `{"table":"Orders","key":{"id":"a","n":1}}`, `"event":"INSERT"`)
	r.own.Uncounted = false
	r.send("GetItem", `{"TableName":"Orders","Key":{"id":{"S":"a"},"n":{"N":"1"}}}`)
	want("traffic", `{}`, `"operation":"GetItem"`, `"now":{"tables":1}`)
	want("why_denied", `{"request_id":"none"}`, "!the server does not explain the request")
	want("request", `{"operation":"DescribeTimeToLive","body":{"TableName":"Orders"}}`, `"TimeToLiveStatus":"DISABLED"`)
	want("request", `{"operation":"Stator.ListForks"}`, `"Forks":[]`)
	want("request", `{"operation":"ListStreams"}`, `"StreamArn"`)
	want("request", `{"operation":"Stator.CreateAccessKey","body":{}}`, "!CreateAccessKey is not for agents")
	want("model_check", `{}`, `"ok":true`, `"served_by":"Orders"`)
	want("model_check", `{"pattern":"order by id"}`, `"operation":"GetItem"`)
	want("model_check", `{"pattern":"none"}`, "!no access pattern")
	want("model_check", `{"text":"model: 2"}`, "!text:1")
	want("model_cost", `{}`, `"dollars_per_month"`)
	want("model_cost", strings.ReplaceAll(`{"text":`+quote(ordersModel)+`}`, "10/s", "20/s"), `"against_the_model"`)
	want("model_drift", `{}`, `"report"`)
	want("model_prove", `{}`, `"ok":true`, `"wrong":0`)
	want("table_plan", `{}`, `"changes":[]`)
	want("table_apply", `{}`, `the tables match the model already`)
	want("write", `{"actions":[{"action":"put","table":"Orders","item":{"id":"c","n":1,"x":null}}],"dry_run":true}`, `"done":false`, `"changed":{"id":[null,"c"]`)
	want("write", `{"actions":[{"action":"put","table":"Orders","item":{"id":"c","n":1,"x":{"$ns":[1,2]}}},{"action":"check","table":"Orders","key":{"id":"a","n":2},"if":{"total":7}}]}`, `"done":true`, `"undo":"undo of Orders from`)
	want("write", `{"actions":[{"action":"update","table":"Orders","key":{"id":"a","n":2},"add":{"total":1}}]}`, `"done":false`, `"total":[7,8]`, `"confirm":`)
	want("undo", `{"table":"Orders","from":"1h","to":"30m"}`, "!cannot undo")
	trial := member[string](t, want("fork", `{"action":"create","name":"Trial"}`, `"fork":"trial-`), "fork")
	want("write", `{"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}],"fork":"`+trial+`"}`, `"done":true`, `"undo":"drop the fork"`)
	want("fork", `{"action":"diff","name":"`+trial+`"}`, `"change":"removed"`, `"complete":true`)
	want("get", `{"table":"Orders","key":{"id":"b","n":1},"fork":"`+trial+`"}`, `"found":false`)
	want("get", `{"table":"Orders","key":{"id":"b","n":1}}`, `"found":true`)
	want("fork", `{"action":"drop","name":"`+trial+`"}`, `"dropped":"`+trial+`"`)

	listed, err := r.client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		if !called[tool.Name] {
			t.Errorf("tool %s is not called", tool.Name)
		}
	}
	if log := r.log.String(); !strings.Contains(log, `client="tester 1" tool=query table=Orders units=0.5`) {
		t.Errorf("the log is %s", log)
	}
}

func quote(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}
