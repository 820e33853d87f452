package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// execute runs a command line and returns its output and exit code.
func execute(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	code := command.Run(t.Context(), cmd, args)
	return out.String(), code
}

// Each operation, on tables with suitable data.
func TestOperations(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	tables := hometest.StartWith(t, home.Options{Model: downloads.Model, DynamoDB: "127.0.0.1:0"})
	endpoint := "--endpoint=http://" + tables.Address
	ctx := t.Context()
	now := time.Now().Add(-time.Hour)
	jobs := &ledger.Jobs{DB: tables.DB, Now: func() time.Time { return now }}
	batches := &ledger.Batches{DB: tables.DB, Now: func() time.Time { return now }}
	date := time.Now().UTC().Format(time.DateOnly)
	id := ledger.ScheduledID(date)
	if err := batches.Create(ctx, id, date); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range []string{"done", "failed", "stuck", "waiting"} {
		j := ledger.Job{FileID: ledger.FileID(e, date), BatchID: id, Entity: e, DownloadDate: date, SHA256: make([]byte, 32)}
		ids = append(ids, j.FileID)
		if _, err := jobs.Queue(ctx, j); err != nil {
			t.Fatal(err)
		}
		if e == "waiting" {
			continue
		}
		c, err := jobs.Claim(ctx, j.FileID, "claim1")
		switch {
		case err != nil:
		case e == "done":
			err = jobs.Complete(ctx, c)
		case e == "failed":
			err = jobs.Fail(ctx, c, ledger.Failed, "no luck")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := batches.Expect(ctx, id, ids, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		has  string
		hasn string
		fail string
		use  bool
	}{
		{args: "status " + date, has: id},
		{args: "status " + date + " --files", has: "downloading"},
		{args: "status 2020-01-01", fail: "has no batch"},
		{args: "status today", fail: "is not a day", use: true},
		{args: "status", fail: "takes a date", use: true},
		{args: "stuck --older 30m", has: "stuck-" + date, hasn: "failed-"},
		{args: "stuck --older 2h", hasn: "stuck-" + date},
		{args: "stuck --older 30m --status available", has: "waiting-" + date},
		{args: "stuck --status nonsense", fail: "is not a status", use: true},
		{args: "audit " + date[:7], fail: "are not complete"},
		{args: "audit March", fail: "is not a month", use: true},
		{args: "requeue", fail: "files are missing", use: true},
		{args: "requeue nobody-" + date, fail: "the record does not exist"},
		{args: "requeue done-" + date, fail: "1 files were not queued again"},
		{args: "requeue --batch " + id + " --status completed", fail: "not queued again", use: true},
		{args: "requeue --batch " + id + " --status failed", has: "failed-" + date, hasn: "done-"},
		{args: "requeue --older 30m --status downloading", has: "stuck-" + date},
		{args: "stuck --older 0s --status available --json", has: `"file": "stuck-` + date},
		{args: "nothing", fail: "unknown command", use: true},
		{args: "status --what", fail: "unknown flag", use: true},
	} {
		args := strings.Fields(c.args)
		if args[0] != "nothing" {
			args = append(args, endpoint)
		}
		out, code := execute(t, args...)
		want := command.Done
		switch {
		case c.use:
			want = command.WrongUsage
		case c.fail != "":
			want = command.Failed
		}
		if !strings.Contains(out, c.has) || c.hasn != "" && strings.Contains(out, c.hasn) || !strings.Contains(out, c.fail) || code != want {
			t.Errorf("downloads %s: exit code %d, want %d\n%s", c.args, code, want, out)
		}
	}
	out, code := execute(t, "status", date, "--json", endpoint)
	var statuses []struct{ Batch, Status string }
	if code != command.Done || json.Unmarshal([]byte(out), &statuses) != nil || len(statuses) != 1 || statuses[0].Batch != id || statuses[0].Status != "queued" {
		t.Errorf("as JSON: %d %s", code, out)
	}
	if out, code := execute(t, "status", date); code != command.WrongUsage || !strings.Contains(out, "the tables are missing") {
		t.Errorf("without tables: %d %s", code, out)
	}
}

// A process that cannot start reports the reason.
func TestWrongStarts(t *testing.T) {
	folder := t.TempDir()
	notKey := filepath.Join(folder, "not.pem")
	if err := os.WriteFile(notKey, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(nil)
	defer server.Close()
	for args, want := range map[string]string{
		"serve": "--upstream URL", "serve --upstream ftp://x": "must be a URL", "serve --upstream http://x": "set --key FILE",
		"serve --upstream http://x --key " + notKey: "not a PEM file", "serve --upstream http://x --topic mem://a --subscription mem://b": "private to its process",
		"serve --upstream http://x --listen 0.0.0.0:0": "--allow-anyone", "serve --upstream http://x --schedule noon": "must be a time", "serve --upstream http://x --schedule 06:00 --timezone Mars": "is unknown",
		"poll --upstream http://x": "needs --topic", "download --upstream http://x": "needs --subscription", "serve --upstream http://x --parallel 0": "must be positive",
		"key " + notKey: "is not overwritten", "trigger 2026-02-28 --server " + server.URL: "the poller rejects", "upstream --key " + notKey: "not a PEM file",
		"serve --upstream http://x --endpoint http://x --data " + folder: "cannot be combined",
	} {
		args := strings.Fields(args)
		if args[0] == "serve" && !strings.Contains(strings.Join(args, " "), "--listen") {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		if out, code := execute(t, args...); code == command.Done || !strings.Contains(out, want) {
			t.Errorf("downloads %v: exit code %d, want …%s…\n%s", args, code, want, out)
		}
	}
	if out, code := execute(t, "key", filepath.Join(folder, "new.pem")); code != command.Done || !strings.Contains(out, "BEGIN PUBLIC KEY") {
		t.Errorf("a new key: %d %s", code, out)
	}
}
