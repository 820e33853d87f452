package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
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
	if _, err := batches.Create(ctx, id, date); err != nil {
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
	if _, err := batches.Expect(ctx, id, ids, ""); err != nil {
		t.Fatal(err)
	}
	// An earlier batch timed out. It expected the same files, whose jobs are of the other.
	late := ledger.NewID(date)
	if _, err := batches.Create(ctx, late, date); err != nil {
		t.Fatal(err)
	}
	if _, err := batches.Expect(ctx, late, ids[:2], ""); err != nil {
		t.Fatal(err)
	}
	if _, err := batches.Finish(ctx, late, ledger.Timeout, nil, ids[1:2], "too late"); err != nil {
		t.Fatal(err)
	}
	server := "--server=" + serving(t, "http://"+tables.Address)
	audits := t.TempDir()
	// Of the days before, none has a batch; on the first of a month there is none.
	days := "are not complete"
	if strings.HasSuffix(date, "-01") {
		days = ""
	}
	for _, c := range []struct {
		args string
		has  string
		hasn string
		fail string
		use  bool
	}{
		{args: "status " + date, has: id},
		{args: "status " + date, has: "  4         1          1            1        1       2  "},
		{args: "status " + date + " --files", has: "no luck"},
		{args: "status " + date + " --status timeout", has: late, hasn: id},
		{args: "status " + date + " --status timeout --files", has: "done-" + date},
		{args: "status " + date + " --status failed", fail: "has no batch that is failed"},
		{args: "status " + date + " --status late", fail: "not a status of batches", use: true},
		{args: "status 2020-01-01", fail: "has no batch"},
		{args: "status today", fail: "is not a day", use: true},
		{args: "status", fail: "takes a date", use: true},
		{args: "files " + id, has: "no luck"},
		{args: "files " + id + " --status completed", has: "done-" + date, hasn: "failed-"},
		{args: "files " + id + " --status nonsense", fail: "is not a status", use: true},
		{args: "files nothing", fail: "does not exist"},
		{args: "counts", has: "completed    1"},
		{args: "counts --json", has: `"downloading": 1`},
		{args: "stuck --older 30m", has: "stuck-" + date, hasn: "failed-"},
		{args: "stuck --older 2h", hasn: "stuck-" + date},
		{args: "stuck", has: "stuck-" + date},
		{args: "stuck --older 30m --status available", has: "waiting-" + date},
		{args: "stuck --status nonsense", fail: "is not a status", use: true},
		{args: "audit March", fail: "is not a month", use: true},
		{args: "audit " + date[:7] + " --file " + audits + "/a.txt", fail: "must end in", use: true},
		{args: "audit " + date[:7] + " --file " + audits + "/a.csv", fail: days},
		{args: "audit " + date[:7] + " --file " + audits + "/a.json", fail: days},
		{args: "requeue", fail: "files are missing", use: true},
		{args: "requeue nobody-" + date, fail: "the record does not exist"},
		{args: "requeue done-" + date, fail: "1 files were not queued again"},
		{args: "requeue --batch " + id + " --status completed", fail: "not queued again", use: true},
		{args: "requeue --batch " + id + " --status failed", has: "failed-" + date, hasn: "no luck"},
		{args: "requeue --older 30m --status downloading", has: "stuck-" + date},
		{args: "stuck --older 0s --status available --json", has: `"file": "stuck-` + date},
		{args: "recover " + date + " --at yesterday", fail: "must be a time", use: true},
		{args: "recover --at 2026-01-01T00:00:00Z", fail: "name the days", use: true},
		{args: "recover 2026-02-30 --at 2026-01-01T00:00:00Z", fail: "is not a day", use: true},
		{args: "nothing", fail: "unknown command", use: true},
		{args: "status --what", fail: "unknown flag", use: true},
	} {
		args := strings.Fields(c.args)
		switch args[0] {
		case "nothing":
		case "requeue":
			args = append(args, server)
		default:
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
	if code != command.Done || json.Unmarshal([]byte(out), &statuses) != nil || len(statuses) != 2 || statuses[0].Batch != id && statuses[1].Batch != id {
		t.Errorf("as JSON: %d %s", code, out)
	}
	for _, file := range []string{"a.csv", "a.json"} {
		text, err := os.ReadFile(filepath.Join(audits, file))
		if err != nil || !strings.Contains(string(text), "failed-"+date) {
			t.Errorf("%s: %v %s", file, err, text)
		}
	}
	if out, code := execute(t, "status", date); code != command.WrongUsage || !strings.Contains(out, "the tables are missing") {
		t.Errorf("without tables: %d %s", code, out)
	}
}

// serving serves the requests of a poller with the tables of an endpoint, and returns its
// URL. It drives no batches.
func serving(t *testing.T, endpoint string) string {
	t.Helper()
	o := downloads.Defaults()
	o.Home.Endpoint, o.Upstream, o.Log = endpoint, "http://127.0.0.1:1", slog.New(slog.DiscardHandler)
	o.KeyFile = filepath.Join(t.TempDir(), "key.pem")
	if _, err := seal.MakeKey(o.KeyFile); err != nil {
		t.Fatal(err)
	}
	s, err := downloads.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// Records that were spoilt and deleted are restored from a time before. Newer ones are
// listed, and restored only if they are named. Without recovery the reason is reported.
func TestRecover(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	hometest.AsAdministrator(t) // the policy of the pipeline does not allow to recover tables
	clock := time.Now().Add(-time.Hour)
	// The traffic is not compared with the model, which has no recovery to a point in time.
	tables, err := home.Open(t.Context(), home.Options{Model: downloads.Model, DynamoDB: "127.0.0.1:0", Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := func() time.Time { return clock }
	jobs, batches := &ledger.Jobs{DB: tables.DB, Now: now}, &ledger.Batches{DB: tables.DB, Now: now}
	date := clock.UTC().Format(time.DateOnly)
	id := ledger.ScheduledID(date)
	_, err = batches.Create(ctx, id, date)
	must(err)
	var ids []string
	for _, e := range []string{"a", "b", "c", "d"} {
		ids = append(ids, ledger.FileID(e, date))
		_, err := jobs.Queue(ctx, ledger.Job{FileID: ledger.FileID(e, date), BatchID: id, Entity: e, DownloadDate: date})
		must(err)
	}
	_, err = batches.Expect(ctx, id, ids, "")
	must(err)
	clock = clock.Add(time.Minute)
	at := clock.UTC().Format(time.RFC3339)
	clock = clock.Add(time.Minute)
	key := func(e string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"FileID": &types.AttributeValueMemberS{Value: ledger.FileID(e, date)}}
	}
	_, err = tables.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(ledger.JobsTable), Key: key("a")})
	must(err)
	_, err = tables.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String(ledger.JobsTable), Key: key("b"), UpdateExpression: aws.String("SET Entity = :e"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":e": &types.AttributeValueMemberS{Value: "spoilt"}}})
	must(err)
	for _, e := range []string{"c", "d"} {
		j, err := jobs.Claim(ctx, ledger.FileID(e, date), "x")
		must(err)
		if e == "c" {
			must(jobs.Complete(ctx, j))
		}
	}
	_, err = batches.Finish(ctx, id, ledger.Completed, ids, nil, "")
	must(err)
	clock = clock.Add(time.Minute)
	recover := func(args ...string) string {
		t.Helper()
		out, code := execute(t, append([]string{"recover", date, "--at", at, "--endpoint=http://" + tables.Address, "--json"}, args...)...)
		if code != command.Done || !strings.Contains(out, `"files": 4`) {
			t.Fatalf("%v: %d %s", args, code, out)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for e, want := range want {
			got := "gone"
			if j, err := jobs.Get(ctx, ledger.FileID(e, date)); err == nil {
				got = string(j.Status) + " " + j.Entity
			}
			if got != want {
				t.Errorf("%s, %s is %s, want %s", when, e, got, want)
			}
		}
		if b, err := batches.Get(ctx, id); err != nil || b.Status != ledger.Completed || len(b.CompletedFiles) != 4 {
			t.Errorf("%s, the batch is %+v, %v", when, b, err)
		}
	}
	found := fmt.Sprintf(`"differ": 4, "gone": 1, "newer": [ "%s", "%s", "%s" ]`, id, ledger.FileID("c", date), ledger.FileID("d", date))
	if out := recover(); !strings.Contains(out, found+`, "written": 0`) {
		t.Errorf("compared: %s, want %s", out, found)
	}
	check("compared", map[string]string{"a": "gone", "b": "available spoilt", "c": "completed c", "d": "downloading d"})
	if out := recover("--write"); !strings.Contains(out, found+`, "written": 2`) {
		t.Errorf("written: %s, want %s", out, found)
	}
	check("written", map[string]string{"a": "available a", "b": "available b", "c": "completed c", "d": "downloading d"})
	recover("--write", "--overwrite", ledger.FileID("d", date))
	check("overwritten", map[string]string{"a": "available a", "b": "available b", "c": "completed c", "d": "available d"})
	other := hometest.StartWith(t, home.Options{Model: downloads.ModelOf("dev"), DynamoDB: "127.0.0.1:0"})
	if out, code := execute(t, "recover", date, "--at", at, "--endpoint=http://"+other.Address); code != command.Failed || !strings.Contains(out, "--environment prod") {
		t.Errorf("without recovery: %d %s", code, out)
	}
}

// Tables can be recovered in prod only, whatever they were created as before.
func TestEnvironments(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	if _, err := seal.MakeKey(key); err != nil {
		t.Fatal(err)
	}
	for environment, want := range map[string]types.PointInTimeRecoveryStatus{"dev": "DISABLED", "test": "DISABLED", "staging": "DISABLED", "prod": "ENABLED"} {
		o := downloads.Defaults()
		o.Upstream, o.KeyFile, o.Log, o.Environment = "http://127.0.0.1:1", key, slog.New(slog.DiscardHandler), environment
		s, err := downloads.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{ledger.JobsTable, ledger.BatchesTable} {
			answer, err := s.Home.DB.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String(table)})
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus; got != want {
				t.Errorf("in %s the recovery of %s is %s", environment, table, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
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
		"serve --upstream http://x --environment production":             "must be one of dev",
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

// Without --older, files are stuck that have had their status for 30 minutes, as the design
// has it.
func TestStuckByDefault(t *testing.T) {
	found, _, err := root().Find([]string{"stuck"})
	if err != nil {
		t.Fatal(err)
	}
	if got := found.Flags().Lookup("older").DefValue; got != "30m0s" {
		t.Errorf("files are stuck after %s", got)
	}
}
