package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stator-db/stator"
)

// remoteConsole is a running stator console.
type remoteConsole struct {
	url, token   string
	cookie, page string // the secrets of the session
}

// startConsole runs stator console until the test ends.
func startConsole(t *testing.T, f consoleFlags) *remoteConsole {
	t.Helper()
	f.addr = "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	printed, stderr := io.Pipe()
	over := make(chan error, 1)
	go func() {
		err := f.run(ctx, stderr)
		over <- err
		stderr.CloseWithError(errors.Join(err, io.EOF))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(printed)
	address := regexp.MustCompile(`(http://\S+/console/)#token=(\S+)`)
	for lines.Scan() {
		if found := address.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, printed) }()
			return &remoteConsole{url: found[1], token: found[2]}
		}
	}
	t.Fatalf("no address is printed: %v", lines.Err())
	return nil
}

// send sends a request of the page, after change, and returns the status and the reply.
func (c *remoteConsole) send(t *testing.T, path, target, mode, body string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Stator-Console", mode)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("X-Amz-Target", target)
	if c.cookie != "" {
		r.Header.Set("Cookie", c.cookie)
		r.Header.Set("X-Stator-Session", c.page)
	}
	if change != nil {
		change(r)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text), reply.Header
}

func (c *remoteConsole) signIn(t *testing.T) {
	t.Helper()
	status, text, header := c.send(t, "api/session", "", "read", `{"secret":"`+c.token+`"}`, nil)
	if status != http.StatusOK {
		t.Fatalf("signing in is answered with %d %s", status, text)
	}
	c.cookie, _, _ = strings.Cut(header.Get("Set-Cookie"), ";")
	var reply struct{ Page string }
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatal(err)
	}
	c.page = reply.Page
}

// awsEnvironment is all that the SDK finds.
func awsEnvironment(t *testing.T, accessKey, secret string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

const (
	consoleCreate = `{"TableName":"Notes","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`
	dynamoTarget  = "DynamoDB_20120810."
)

// A console signs requests with the credentials in the environment. The server checks them.
func TestConsoleSigns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.yaml")
	if err := os.WriteFile(path, []byte("keys:\n  - access_key: ADAKEY\n    secret: ada-secret-0123456789\n    principal: arn:aws:iam::000000000000:user/ada\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name              string
		access            bool
		accessKey, secret string
		want              int
		text              string
	}{
		{name: "no keys, no credentials", want: 200, text: `"Notes"`},
		{name: "no keys, credentials", accessKey: "ANY", secret: "any", want: 200, text: `"Notes"`},
		{name: "keys, the right secret", access: true, accessKey: "ADAKEY", secret: "ada-secret-0123456789", want: 200, text: `"Notes"`},
		{name: "keys, a wrong secret", access: true, accessKey: "ADAKEY", secret: "wrong-secret-0123456789", want: 400, text: "SignatureException"},
		{name: "keys, no credentials", access: true, want: 400, text: "UnrecognizedClientException"},
	} {
		t.Run(test.name, func(t *testing.T) {
			awsEnvironment(t, test.accessKey, test.secret)
			var o stator.Options
			if test.access {
				access, err := stator.OpenAccess(stator.AccessOptions{Keys: path})
				if err != nil {
					t.Fatal(err)
				}
				o.Access = access
			}
			db, err := stator.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			web := httptest.NewServer(db.Handler())
			defer web.Close()
			c := startConsole(t, consoleFlags{endpoint: web.URL, mode: "write"})
			c.signIn(t)
			if status, text, _ := c.send(t, "api", dynamoTarget+"CreateTable", "write", consoleCreate, nil); status != test.want {
				t.Errorf("CreateTable is answered with %d %s", status, text)
			}
			if status, text, _ := c.send(t, "api", dynamoTarget+"ListTables", "read", "{}", nil); status != test.want || !strings.Contains(text, test.text) {
				t.Errorf("ListTables is answered with %d %s, want %d and %s", status, text, test.want, test.text)
			}
		})
	}
}

// A console needs its token, its own page and a loopback host, and changes nothing in mode read.
func TestConsoleGuards(t *testing.T) {
	awsEnvironment(t, "", "")
	var reached []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached = append(reached, r.Header.Get("X-Amz-Target"))
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-north-1/dynamodb/aws4_request") {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, "{}")
	}))
	defer web.Close()
	c := startConsole(t, consoleFlags{endpoint: web.URL, region: "eu-north-1", mode: "read"})
	check := func(what string, want int, path, target, mode, body string, change func(*http.Request)) {
		t.Helper()
		if status, text, _ := c.send(t, path, dynamoTarget+target, mode, body, change); status != want {
			t.Errorf("%s is answered with %d %s, want %d", what, status, text, want)
		}
	}
	check("a request before signing in", 401, "api", "ListTables", "read", "{}", nil)
	check("a wrong token", 401, "api/session", "", "read", `{"secret":"wrong"}`, nil)
	check("no token", 401, "api/session", "", "read", `{}`, nil)
	c.signIn(t)
	check("a request", 200, "api", "ListTables", "read", "{}", nil)
	check("another host", 403, "api", "ListTables", "read", "{}", func(r *http.Request) { r.Host = "evil.example:8002" })
	check("a host that begins with localhost", 403, "api", "ListTables", "read", "{}", func(r *http.Request) { r.Host = "localhost.evil.example:8002" })
	check("another site", 403, "api", "ListTables", "read", "{}", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	check("another origin", 403, "api", "ListTables", "read", "{}", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") })
	check("no header of the page", 403, "api", "ListTables", "read", "{}", func(r *http.Request) { r.Header.Del("X-Stator-Console") })
	check("a change in mode read", 403, "api", "DeleteTable", "write", `{"TableName":"Notes"}`, nil)
	check("a statement that changes in mode read", 403, "api", "ExecuteStatement", "write", `{"Statement":"DELETE FROM \"Notes\" WHERE id = '1'"}`, nil)
	if len(reached) != 1 {
		t.Errorf("the endpoint has got %q", reached)
	}
	w := startConsole(t, consoleFlags{endpoint: web.URL, region: "eu-north-1", mode: "write"})
	w.signIn(t)
	c = w
	check("a change that is switched off", 403, "api", "DeleteTable", "read", `{"TableName":"Notes"}`, nil)
	check("a change", 200, "api", "DeleteTable", "write", `{"TableName":"Notes"}`, nil)
	web.Close()
	check("a request to an endpoint that is gone", 502, "api", "ListTables", "read", "{}", nil)
}

func TestConsoleFlags(t *testing.T) {
	awsEnvironment(t, "", "")
	for _, test := range []struct {
		flags consoleFlags
		want  string
	}{
		{consoleFlags{addr: "127.0.0.1:0", mode: "read"}, "--endpoint"},
		{consoleFlags{endpoint: "localhost:8000", addr: "127.0.0.1:0", mode: "read"}, "--endpoint"},
		{consoleFlags{endpoint: "ftp://127.0.0.1:8000", addr: "127.0.0.1:0", mode: "read"}, "--endpoint"},
		{consoleFlags{endpoint: "http://127.0.0.1:8000", addr: "127.0.0.1:0", mode: "all"}, "--mode"},
		{consoleFlags{endpoint: "http://127.0.0.1:8000", addr: "0.0.0.0:0", mode: "read"}, "--addr"},
		{consoleFlags{endpoint: "http://127.0.0.1:8000", addr: ":0", mode: "read"}, "--addr"},
		{consoleFlags{endpoint: "https://dynamodb.eu-west-1.amazonaws.com", addr: "127.0.0.1:0", mode: "read"}, "no AWS credentials"},
	} {
		if err := test.flags.run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %s", test.flags, err, test.want)
		}
	}
}

// AWS has a host for each service, and no operations of ours.
func TestConsoleAddressesOfAWS(t *testing.T) {
	awsEnvironment(t, "a", "b")
	f := consoleFlags{endpoint: "https://dynamodb.eu-west-1.amazonaws.com"}
	e, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if about := e.About(); about.Region != "eu-west-1" || !about.AWS || about.Notice == "" {
		t.Errorf("the page shows %+v", about)
	}
	for target, want := range map[string]string{
		"DynamoDB_20120810.Scan":              "https://dynamodb.eu-west-1.amazonaws.com",
		"DynamoDBStreams_20120810.GetRecords": "https://streams.dynamodb.eu-west-1.amazonaws.com",
		"Stator.GetHistory":                   "",
	} {
		if got, ok := e.addressOf(target); got != want || ok != (want != "") {
			t.Errorf("%s is sent to %q", target, got)
		}
	}
}

// The credentials of a machine in AWS are for AWS alone.
func TestConsoleAsksNoMetadata(t *testing.T) {
	awsEnvironment(t, "", "")
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusForbidden)
	}))
	defer web.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", web.URL)
	f := consoleFlags{endpoint: "http://127.0.0.1:8000"}
	e, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if with, err := e.credentials.Retrieve(t.Context()); err != nil || with.AccessKeyID != "stator" || asked != 0 {
		t.Errorf("the credentials are those of %s, %v, and the metadata of the machine were asked %d times", with.AccessKeyID, err, asked)
	}
}
