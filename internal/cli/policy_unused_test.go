package cli

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model/iam"
)

// A policy is compared with the counts of a server, or with those that were saved from one.
func TestPolicyUnused(t *testing.T) {
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	e := clientOf(server.URL, "us-east-1")
	for _, request := range []struct{ operation, body string }{
		{"CreateTable", `{"TableName":"Orders","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST"}`},
		{"PutItem", `{"TableName":"Orders","Item":{"id":{"S":"1"}}}`},
		{"GetItem", `{"TableName":"Orders","Key":{"id":{"S":"1"}}}`},
		{"GetItem", `{"TableName":"Orders","Key":{"id":{"S":"1"}}}`},
	} {
		if _, err := e.Send(t.Context(), request.operation, json.RawMessage(request.body)); err != nil {
			t.Fatal(err)
		}
	}
	shapes, err := e.Get(t.Context(), "/shapes")
	if err != nil {
		t.Fatal(err)
	}
	saved := file("shapes.json", string(shapes))
	read := file("read.json", goodPolicy)
	write := file("write.json", `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": "arn:aws:dynamodb:*:*:table/Orders"}}`)
	get := file("get.json", `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "arn:aws:dynamodb:*:*:table/Orders"}}`)
	broken := file("broken.json", brokenPolicy)
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"a server", []string{"--policy", read, "--endpoint", server.URL}, 1,
			[]string{read + ":2:69  Read       action  dynamodb:Query", "fault    the policy refuses dynamodb:PutItem on Orders: 1 request", "1 unused part, 1 refused action since "}},
		{"saved counts", []string{"--policy", read, "--shapes", saved}, 1, []string{"1 unused part, 1 refused action since "}},
		{"a refused action", []string{"--policy", get, "--shapes", saved, "--allow-unused"}, 1, []string{"the policy refuses dynamodb:PutItem on Orders: 1 request"}},
		{"several policies", []string{"--policy", get, "--policy", write, "--shapes", saved}, 0, []string{"ok       0 unused parts, 0 refused actions since "}},
		{"unused is allowed", []string{"--policy", read, "--policy", write, "--shapes", saved, "--allow-unused"}, 0, []string{"dynamodb:Query", "ok       1 unused part"}},
		{"an invalid policy", []string{"--policy", broken, "--shapes", saved}, 2, []string{"broken.json: the policy is invalid"}},
		{"no policy", []string{"--shapes", saved}, 2, []string{"--policy must name a file"}},
		{"no file", []string{"--policy", read + "x", "--shapes", saved}, 2, []string{"cannot read the policy"}},
		{"no counts", []string{"--policy", read}, 2, []string{"--endpoint must name the server"}},
		{"both", []string{"--policy", read, "--shapes", saved, "--endpoint", server.URL}, 2, []string{"--shapes cannot be combined"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"policy", "unused"}, c.args...)...)
			for _, want := range c.want {
				if code != c.code || !strings.Contains(out+errs, want) {
					t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, want)
				}
			}
		})
	}
	code, out, _ := runStator(t, "policy", "unused", "--policy", read, "--shapes", saved, "--json")
	var got struct {
		OK     bool
		Unused []struct {
			File, Sid, Kind, Text string
			Line                  int
		}
		Denied []struct {
			Action, Table string
			Requests      int
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || got.OK || len(got.Unused) != 1 || len(got.Denied) != 1 ||
		got.Unused[0].Text != "dynamodb:Query" || got.Unused[0].Line != 2 || got.Denied[0].Action != "dynamodb:PutItem" || got.Denied[0].Requests != 1 {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
}

// The policy of a model is used by the traffic of its patterns, all of it and nothing else.
func TestPolicyOfModelIsUsed(t *testing.T) {
	for _, file := range []string{"../model/testdata/shapes.model.yaml", "../../apps/taskqueue/taskqueue.model.yaml"} {
		m := readTestModel(t, file)
		s := newPolicyServer(t, "")
		s.create(m)
		prepares := *s.admin
		prepares.Uncounted = true
		s.admin = &prepares
		s.prove(m)
		text, err := s.admin.Get(t.Context(), "/shapes")
		if err != nil {
			t.Fatal(err)
		}
		g, err := iam.Generate(m, iam.PolicyOptions{Region: "*", Account: "000000000000", Role: iam.All})
		if err != nil {
			t.Fatal(err)
		}
		document, err := json.Marshal(g.Policy)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := iam.ParseFile(file, document)
		if err != nil {
			t.Fatal(err)
		}
		saved := filepath.Join(t.TempDir(), "shapes.json")
		if err := os.WriteFile(saved, text, 0o600); err != nil {
			t.Fatal(err)
		}
		traffic, err := savedTraffic([]string{saved})
		if err != nil {
			t.Fatal(err)
		}
		if use := iam.CompareTraffic([]*iam.PolicyFile{parsed}, traffic); len(use.Unused) > 0 || len(use.Denied) > 0 {
			got, _ := json.Marshal(use)
			t.Errorf("%s: %s", file, got)
		}
	}
}
