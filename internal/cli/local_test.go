package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/sqlite"
)

// startLocal runs stator local until the test ends, and returns its URL. stop ends it before.
func startLocal(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	f, err := parseLocal(append(args, "-port", "0"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	printed, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := f.serve(ctx, stdout, io.Discard)
		_ = stdout.CloseWithError(err)
		ended <- err
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	var text strings.Builder
	for !strings.HasSuffix(text.String(), "\n\n") {
		var b [512]byte
		n, err := printed.Read(b[:])
		text.Write(b[:n])
		if err != nil {
			t.Fatalf("it printed %q and ended: %v", text.String(), err)
		}
	}
	port := regexp.MustCompile(`(?m)^Port:\t(\d+)$`).FindStringSubmatch(text.String())
	if port == nil {
		t.Fatalf("no port in %q", text.String())
	}
	return "http://127.0.0.1:" + port[1], stop
}

const createLocal = `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`

// localSend sends a request as a signer, and returns the reply or the error.
func localSend(t *testing.T, url, key, region, operation, body string) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	reply, err := clientOf(url, region).Send(t.Context(), operation, json.RawMessage(body))
	if err != nil {
		return err.Error()
	}
	return string(reply)
}

// Without -sharedDb each access key and region has tables of its own, which are there again after a
// restart; with it there is one set of tables.
func TestLocalDatabases(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, other string
		args        []string
	}{
		{"separate in memory", `{"TableNames":[]}`, []string{"-inMemory"}},
		{"shared in memory", `{"TableNames":["Orders"]}`, []string{"-inMemory", "-sharedDb"}},
		{"separate in a folder", `{"TableNames":[]}`, []string{"-dbPath", dir}},
		{"shared in a folder, as a command of Java", `{"TableNames":["Orders"]}`, []string{"-Djava.library.path=./DynamoDBLocal_lib", "-Xmx512m", "-jar", "DynamoDBLocal.jar", "-sharedDb", "-dbPath", dir}},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, stop := startLocal(t, c.args...)
			if reply := localSend(t, url, "one", "eu-west-1", "CreateTable", createLocal); !strings.HasPrefix(reply, `{"TableDescription"`) {
				t.Fatal(reply)
			}
			for _, signer := range [][2]string{{"two", "eu-west-1"}, {"one", "us-east-1"}} {
				if reply := localSend(t, url, signer[0], signer[1], "ListTables", "{}"); reply != c.other {
					t.Errorf("%s in %s: %s, want %s", signer[0], signer[1], reply, c.other)
				}
			}
			if !strings.Contains(c.name, "folder") {
				return
			}
			stop()
			url, _ = startLocal(t, c.args...)
			if reply := localSend(t, url, "one", "eu-west-1", "ListTables", "{}"); reply != `{"TableNames":["Orders"]}` {
				t.Errorf("after a restart: %s", reply)
			}
		})
	}
}

// With -sharedDb the paths besides the API are those of the one database; without it, there is
// more than one.
func TestLocalPaths(t *testing.T) {
	shared, _ := startLocal(t, "-inMemory", "-sharedDb")
	separate, _ := startLocal(t, "-inMemory")
	for path, reached := range map[string]int{"/metrics": http.StatusOK, "/shapes": http.StatusBadRequest, "/backups": http.StatusBadRequest} { // two are signed
		for url, want := range map[string]int{shared: reached, separate: http.StatusNotFound} {
			if status, text := localGet(t, url+path); status != want {
				t.Errorf("%s: %d, %.200s, want %d", path, status, text, want)
			}
		}
	}
}

// A request without a signature gets status 400, as from DynamoDB Local: health checks of compose files
// and plugins such as @shelf/jest-dynamodb wait for it. The connection of a probe is closed: that plugin does not read
// the reply, and its process would run for as long as the connection is open.
func TestLocalWithoutSignature(t *testing.T) {
	for name, args := range map[string][]string{"shared": {"-inMemory", "-sharedDb"}, "separate": {"-inMemory"}} {
		url, _ := startLocal(t, args...)
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodPost} {
			status, closed, text := localRequest(t, method, url)
			if status != http.StatusBadRequest || closed != (method != http.MethodPost) || (method != http.MethodHead) != strings.Contains(text, "MissingAuthenticationToken") {
				t.Errorf("%s, %s: %d, closed %v, %s, want 400", name, method, status, closed, text)
			}
		}
		for _, path := range []string{"/livez", "/readyz", "/healthz"} {
			if status, text := localGet(t, url+path); status != http.StatusOK {
				t.Errorf("%s, %s: %d, %s", name, path, status, text)
			}
		}
	}
}

func localGet(t *testing.T, url string) (status int, text string) {
	t.Helper()
	status, _, text = localRequest(t, http.MethodGet, url)
	return status, text
}

func localRequest(t *testing.T, method, url string) (status int, closed bool, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	read, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, reply.Close, string(read)
}

// No database is opened after close, which would never be closed.
func TestLocalClose(t *testing.T) {
	d := &localDatabases{flags: &localFlags{inMemory: true}, log: slog.New(slog.DiscardHandler), max: maxLocalDatabases, open: make(map[string]*localDatabase)}
	var opening sync.WaitGroup
	for i := range 4 {
		opening.Go(func() { _, _ = d.database(t.Context(), strconv.Itoa(i)) })
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	opening.Wait()
	if _, err := d.database(t.Context(), "late"); !errors.Is(err, errLocalClosed) {
		t.Errorf("opened after close: %v", err)
	}
}

// Where names that differ in case are names of one folder, their keys share its database, as they would
// share the file of DynamoDB Local. The link stands for such a file system.
func TestLocalFoldersWithoutCase(t *testing.T) {
	dir := t.TempDir()
	url, _ := startLocal(t, "-dbPath", dir)
	if reply := localSend(t, url, "Test", "eu-west-1", "CreateTable", createLocal); !strings.HasPrefix(reply, `{"TableDescription"`) {
		t.Fatal(reply)
	}
	if err := os.Symlink("Test_eu-west-1.stator", filepath.Join(dir, "test_eu-west-1.stator")); err != nil {
		t.Skip(err)
	}
	for key, want := range map[string]string{"test": `{"TableNames":["Orders"]}`, "TEST": `{"TableNames":[]}`} {
		if reply := localSend(t, url, key, "eu-west-1", "ListTables", "{}"); reply != want {
			t.Errorf("%s: %s, want %s", key, reply, want)
		}
	}
}

// A key beyond the last database is rejected, and the databases that exist remain reachable.
func TestLocalDatabasesAreBounded(t *testing.T) {
	d := &localDatabases{flags: &localFlags{inMemory: true}, log: slog.New(slog.DiscardHandler), max: 2, open: make(map[string]*localDatabase)}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		key     string
		refused bool
	}{{"one", false}, {"two", false}, {"three", true}, {"one", false}} {
		_, err := d.handler(t.Context(), c.key, "eu-west-1")
		if refused := err != nil && strings.Contains(err.Error(), "This server has 2 databases"); refused != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: %v, want refused %v", c.key, err, c.refused)
		}
	}
}

// A description of a table without one of an index is damaged.
func TestImportLocalIndex(t *testing.T) {
	for _, list := range []string{"GSIList", "LSIList"} {
		row := []sqlite.Value{nil, []byte(`{"` + list + `":[null]}`), int64(0), int64(1), int64(1), []byte("false")}
		if _, err := describeLocal("Orders", append(row, make([]sqlite.Value, 8)...)); !errors.Is(err, sqlite.ErrCorrupt) {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// A request for a fork does not reach the database of the signer.
func TestLocalHasNoForks(t *testing.T) {
	url, _ := startLocal(t, "-inMemory")
	for _, path := range []string{"/fork/one", "/fork/one/"} {
		if reply := localSend(t, url+path, "one", "eu-west-1", "ListTables", "{}"); !strings.Contains(reply, "Fork: one not found") {
			t.Errorf("%s: %s", path, reply)
		}
	}
}

// A name of an access key cannot reach another folder.
func TestLocalAccessKeys(t *testing.T) {
	dir := t.TempDir()
	url, _ := startLocal(t, "-dbPath", dir)
	for _, key := range []string{"..", "a_b", strings.Repeat("a", 129)} {
		if reply := localSend(t, url, key, "eu-west-1", "ListTables", "{}"); !strings.Contains(reply, "The Access Key ID or security token is invalid.") {
			t.Errorf("%s: %s", key, reply)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// Pages of the sites in -cors may send requests, those of others may not, and make no database.
func TestLocalOrigins(t *testing.T) {
	dir := t.TempDir()
	url, _ := startLocal(t, "-dbPath", dir, "-cors", "http://localhost:3000, https://*.example.org")
	for _, c := range []struct {
		origin string
		want   int
	}{
		{"http://evil.example", 403},
		{"http://x.example.org", 403}, // another scheme
		{"null", 403},
		{"http://localhost:3000", 200},
		{"https://a.example.org", 200},
	} {
		for _, method := range []string{http.MethodOptions, http.MethodPost} {
			r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Origin", c.origin)
			r.Header.Set("Access-Control-Request-Headers", "x-amz-target")
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
			r.Header.Set("X-Amz-Date", "20261118T202400Z")
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=one/20261118/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=aa")
			reply, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
			allowed := ""
			if c.want == 200 {
				allowed = c.origin
			}
			if reply.StatusCode != c.want || reply.Header.Get("Access-Control-Allow-Origin") != allowed {
				t.Errorf("%s from %s: %d, Access-Control-Allow-Origin %q", method, c.origin, reply.StatusCode, reply.Header.Get("Access-Control-Allow-Origin"))
			}
		}
		if entries, _ := os.ReadDir(dir); c.want != 200 && len(entries) != 0 {
			t.Errorf("a page of %s made %v", c.origin, entries)
		}
	}
}

func TestLocalOptions(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-inMemory -dbPath .", "cannot be combined"},
		{"-optimizeDbBeforeStartup", "requires -dbPath"},
		{"-port 70000", "-port is 70000"},
		{"-port abc", "invalid value"},
		{"-cors http://localhost:3000,", "has no name"},
		{"-cors https://", "has no name"},
		{"-cors http://localhost:3000/app", "browsers send no paths"},
		{"-cors https://*", "* alone is for all sites"},
		{"-cors *example.org", "* alone is for all sites"},
		{"-cors https://a.*.org", "* alone is for all sites"},
		{"-foo", "-foo"},
		{"extra", `"extra" is not an option`},
	} {
		if _, err := parseLocal(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
	var out, errs strings.Builder
	if code := Run([]string{"local", "-inMemory", "-bind", "0.0.0.0"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "-allowAnyone") {
		t.Errorf("an open address: %d, %s", code, errs.String())
	}
	if code := Run([]string{"local", "-dbPath", "no such folder"}, &out, &errs); code != exitFailed {
		t.Errorf("no folder: %d", code)
	}
}

// localFixture was written by DynamoDB Local 3.3.1: tables My-Table.1 with both kinds of indexes, a stream, time to
// live and an item that needs several pages, and Prov with provisioned units.
const localFixture = "testdata/dynamodb-local-3.3.1.db"

// All tables and items of a file of DynamoDB Local are imported, exactly.
func TestImportLocal(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	var out, errs strings.Builder
	if code := Run([]string{"import-local", localFixture, "--data", data, "--json"}, &out, &errs); code != exitDone {
		t.Fatalf("%d: %s", code, errs.String())
	}
	var done []importedTable
	if err := json.Unmarshal([]byte(out.String()), &done); err != nil || len(done) != 2 || done[0].Items != 4 || done[1].Items != 3 {
		t.Errorf("%s: %v", out.String(), err)
	}
	errs.Reset()
	if code := Run([]string{"import-local", localFixture, "--data", data}, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "nothing was imported") {
		t.Errorf("again: %d: %s", code, errs.String())
	}
	url, _ := startServeOn(t, data)
	client := clientOf(url, "eu-west-1")
	for _, c := range []struct{ operation, body, want string }{
		{"GetItem", `{"TableName":"My-Table.1","Key":{"p":{"S":"a"},"s":{"N":"-1.5"}}}`, `{"Item":{"bs":{"BS":["AA==","AQ=="]},"e":{"S":""},"g":{"S":"x"},"l":{"B":"AAEC"},"m":{"M":{"a":{"L":[{"N":"12345678901234567890123456789012345678"},{"S":"é\u0000"}]}}},"n":{"NULL":true},"ns":{"NS":["1","2.5"]},"p":{"S":"a"},"s":{"N":"-1.5"},"ss":{"SS":["a","b"]},"t":{"BOOL":true}}}`},
		{"GetItem", `{"TableName":"My-Table.1","Key":{"p":{"S":"p3"},"s":{"N":"3"}}}`, strings.Repeat("x", 3600)},
		{"Query", `{"TableName":"My-Table.1","IndexName":"gsi","KeyConditionExpression":"g=:g","ExpressionAttributeValues":{":g":{"S":"x"}}}`, `{"Count":1,"Items":[{"g":{"S":"x"},"n":{"NULL":true},"p":{"S":"a"},"s":{"N":"-1.5"}}],"ScannedCount":1}`},
		{"Query", `{"TableName":"My-Table.1","IndexName":"lsi","KeyConditionExpression":"p=:p","ExpressionAttributeValues":{":p":{"S":"a"}}}`, `"Count":1`},
		{"DescribeTimeToLive", `{"TableName":"My-Table.1"}`, `{"TimeToLiveDescription":{"AttributeName":"exp","TimeToLiveStatus":"ENABLED"}}`},
		{"DescribeTable", `{"TableName":"My-Table.1"}`, `"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}`},
		{"DescribeTable", `{"TableName":"Prov"}`, `"ReadCapacityUnits":5,"WriteCapacityUnits":7`},
		{"DescribeTable", `{"TableName":"Prov"}`, `"DeletionProtectionEnabled":true`},
	} {
		reply, err := client.Send(t.Context(), c.operation, json.RawMessage(c.body))
		if err != nil || !strings.Contains(string(reply), c.want) {
			t.Errorf("%s %s: %.600s, %v, want %s", c.operation, c.body, reply, err, c.want)
		}
	}
}

// A file that is cut or damaged is reported, and never imported as if it were whole.
func TestImportLocalDamage(t *testing.T) {
	whole, err := os.ReadFile(localFixture)
	if err != nil {
		t.Fatal(err)
	}
	url, _ := startLocal(t, "-inMemory", "-sharedDb")
	dir := t.TempDir()
	for _, c := range []struct {
		name    string
		content []byte
		journal bool
		want    string
	}{
		{"cut", whole[:len(whole)/2], false, "damaged"},
		{"empty", nil, false, "no SQLite database"},
		{"open", whole, true, "DynamoDB Local has it open"},
	} {
		name := filepath.Join(dir, c.name+".db")
		if err := os.WriteFile(name, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.journal {
			if err := os.WriteFile(name+"-journal", []byte("journal"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs strings.Builder
		if code := Run([]string{"import-local", name, "--endpoint", url}, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d, %s, want %s", c.name, code, errs.String(), c.want)
		}
	}
}

// A server that is stopped while it opens its database ends without an error.
func TestLocalIsStoppedWhileItOpens(t *testing.T) {
	f, err := parseLocal([]string{"-inMemory", "-sharedDb", "-port", "0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.serve(ctx, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

// startServeOn serves a data folder until the test ends.
func startServeOn(t *testing.T, data string) (url string, lines []string) {
	t.Helper()
	lines = startServe(t, &serveFlags{addr: "127.0.0.1:0", data: data, cacheMB: 64, log: "error", durability: "strict"})
	return urlIn(t, lines, "stator listens on "), lines
}

func TestHealth(t *testing.T) {
	url, stop := startLocal(t, "-inMemory")
	var out, errs strings.Builder
	if code := Run([]string{"health", "--endpoint", url}, &out, &errs); code != exitDone {
		t.Errorf("a server that runs: %d, %s", code, errs.String())
	}
	stop()
	if code := Run([]string{"health", "--endpoint", url}, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "is not ready") {
		t.Errorf("a server that has ended: %d, %s", code, errs.String())
	}
}
