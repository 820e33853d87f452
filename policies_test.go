package stator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// accessRig is a server with keys, policies and an audit log.
type accessRig struct {
	*testing.T
	folder string
	db     *DB
	access *Access
	server *httptest.Server
	log    bytes.Buffer
	region string // that requests are signed for
	fork   string // that requests are for
}

const rigKeys = `keys:
  - {access_key: ROOTKEY, secret: planted-secret-of-root, principal: "arn:aws:iam::000000000000:root"}
  - {access_key: ALICEKEY, secret: planted-secret-of-alice, principal: "arn:aws:iam::000000000000:user/alice"}
`

const rigPrincipals = `principals:
  - arn: arn:aws:iam::000000000000:user/alice
    policies: [alice.json]
`

func (r *accessRig) write(name, text string) string {
	r.Helper()
	path := filepath.Join(r.folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	return path
}

func allows(actions string) string {
	return `{"Version":"2012-10-17","Statement":{"Sid":"Items","Effect":"Allow","Action":[` + actions + `],"Resource":"*"}}`
}

func startAccessRig(t *testing.T) *accessRig {
	t.Helper()
	r := &accessRig{T: t, folder: t.TempDir(), region: "us-east-1"}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.write("alice.json", allows(`"dynamodb:PutItem"`))
	var err error
	if r.access, err = OpenAccess(AccessOptions{Keys: r.write("keys.yaml", rigKeys), Policies: r.write("policies.yaml", rigPrincipals), Log: log}); err != nil {
		t.Fatal(err)
	}
	if r.db, err = Open(context.Background(), Options{Access: r.access, Audit: filepath.Join(r.folder, "audit.log"), Forks: &ForkOptions{}, Log: log}); err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(r.db.Handler())
	return r
}

// send sends a request, signed with a key, and returns the status and the reply.
func (r *accessRig) send(accessKey, method, path, target, body string) (int, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if target != "" {
		req.Header.Set("X-Amz-Target", target)
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	}
	if r.fork != "" {
		req.Header.Set("X-Stator-Fork", r.fork)
	}
	service := "dynamodb"
	if strings.HasPrefix(target, "Granite") {
		service = "monitoring"
	}
	sum := sha256.Sum256([]byte(body))
	with := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: map[string]string{"ROOTKEY": "planted-secret-of-root", "ALICEKEY": "planted-secret-of-alice", "BOBKEY": "planted-secret-of-bob"}[accessKey]}
	if err := v4.NewSigner().SignHTTP(r.Context(), with, req, hex.EncodeToString(sum[:]), service, r.region, time.Now()); err != nil {
		r.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer reply.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(reply.Body); err != nil {
		r.Fatal(err)
	}
	return reply.StatusCode, text.String()
}

func (r *accessRig) do(accessKey, operation, body string) (int, string) {
	r.Helper()
	return r.send(accessKey, "POST", "/", "DynamoDB_20120810."+operation, body)
}

// A principal may do what its policies allow, by all ways to the data; a file that cannot be
// used changes nothing; all requests are written down without secrets and contents of items.
func TestPoliciesOfServer(t *testing.T) {
	r := startAccessRig(t)
	want := func(accessKey, operation, body string, allowed bool) {
		t.Helper()
		status, reply := r.do(accessKey, operation, body)
		if (status == http.StatusOK) != allowed || !allowed && !strings.Contains(reply, "AccessDeniedException") {
			t.Errorf("%s %s: %d %s", accessKey, operation, status, reply)
		}
	}
	const create = `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`
	const put, get = `{"TableName":"Orders","Item":{"pk":{"S":"planted-key"},"v":{"S":"planted-value"}}}`, `{"TableName":"Orders","Key":{"pk":{"S":"planted-key"}}}`
	want("ALICEKEY", "CreateTable", create, false)
	want("ROOTKEY", "CreateTable", create, true)
	want("ALICEKEY", "PutItem", put, true)
	want("ALICEKEY", "GetItem", get, false)
	want("ROOTKEY", "GetItem", get, true)
	want("ALICEKEY", "ExecuteStatement", `{"Statement":"SELECT * FROM Orders WHERE pk = 'planted-key'"}`, false)
	want("ROOTKEY", "ExecuteStatement", `{"Statement":"SELECT * FROM Orders WHERE pk = 'planted-key'"}`, true)

	for _, way := range []struct{ method, path, target, body string }{
		{"GET", "/metrics", "", ""}, {"GET", "/shapes", "", ""}, {"DELETE", "/shapes", "", ""}, {"GET", "/backups", "", ""},
		{"POST", "/", "Stator.Backup", ""}, {"POST", "/", "Stator.Verify", "{}"}, {"POST", "/", "Stator.SetThrottling", `{"TableName":"Orders","Throttling":"on"}`},
		{"POST", "/", "GraniteServiceVersion20100801.ListMetrics", "{}"}, {"POST", "/", "DynamoDBStreams_20120810.ListStreams", "{}"},
	} {
		if status, reply := r.send("ALICEKEY", way.method, way.path, way.target, way.body); status < 400 || !strings.Contains(reply, "not authorized to perform") {
			t.Errorf("%v: %d %s", way, status, reply)
		}
		if status, reply := r.send("ROOTKEY", way.method, way.path, way.target, way.body); status == http.StatusBadRequest || strings.Contains(reply, "authorized") {
			t.Errorf("%v of root: %d %s", way, status, reply)
		}
	}

	// Policies name resources with their region, which the client does not choose.
	r.region = "us-east-2"
	if status, reply := r.do("ROOTKEY", "GetItem", get); status != http.StatusBadRequest || !strings.Contains(reply, "scoped to a valid region") {
		t.Errorf("another region: %d %s", status, reply)
	}
	r.region = "us-east-1"

	// A change of the files.
	r.write("alice.json", `{"Statement":`)
	if _, err := r.access.Reload(); err == nil || !strings.Contains(err.Error(), "alice.json:1:") {
		t.Errorf("a file that is no policy: %v", err)
	}
	want("ALICEKEY", "PutItem", put, true)
	r.write("alice.json", allows(`"dynamodb:GetItem"`))
	if _, err := r.access.Reload(); err != nil {
		t.Fatal(err)
	}
	want("ALICEKEY", "PutItem", put, false)
	want("ALICEKEY", "GetItem", get, true)

	r.server.Close()
	if err := r.db.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(r.folder, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, planted := range []string{"planted-secret", "planted-key", "planted-value"} {
		if strings.Contains(string(written), planted) || strings.Contains(r.log.String(), planted) {
			t.Errorf("%s is in the audit log or in the log", planted)
		}
	}
	denied, named := 0, make(map[string]int)
	for line := range bytes.Lines(written) {
		var record struct {
			EventSource, EventName, ErrorCode, RequestID, SourceIPAddress string
			UserIdentity                                                  struct{ ARN string }
		}
		if err := json.Unmarshal(line, &record); err != nil || record.EventName == "" || record.RequestID == "" || record.SourceIPAddress == "" || record.UserIdentity.ARN == "" {
			t.Errorf("%s: %v", line, err)
		}
		named[strings.TrimSpace(record.EventSource+" "+record.EventName+" "+record.ErrorCode)]++
		if record.ErrorCode == "AccessDeniedException" {
			denied++
		}
	}
	// Requests that are no operations of DynamoDB are written down, too; metrics if they are denied.
	for _, want := range []string{"monitoring.amazonaws.com ListMetrics", "stator GetShapes", "stator DeleteShapes", "stator GetBackups", "stator GetMetrics"} {
		if named[want+" AccessDeniedException"] != 1 || want != "stator GetMetrics" && named[want] != 1 || want == "stator GetMetrics" && named[want] != 0 {
			t.Errorf("%s is written down %d times, and denied %d times", want, named[want], named[want+" AccessDeniedException"])
		}
	}
	if denied < 5 {
		t.Errorf("%d denials are written down:\n%s", denied, written)
	}
}

// Keys and policies are replaced together or not at all, and not by empty files.
func TestReloadAccess(t *testing.T) {
	r := startAccessRig(t)
	defer func() {
		r.server.Close()
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	}()
	const bob = "  - {access_key: BOBKEY, secret: planted-secret-of-bob, principal: \"arn:aws:iam::000000000000:user/bob\"}\n"
	const bobs = "  - {arn: \"arn:aws:iam::000000000000:user/bob\", policies: [alice.json]}\n"
	for _, c := range []struct{ name, keys, principals, want string }{
		{"a policy that does not exist", rigKeys + bob, rigPrincipals + strings.Replace(bobs, "alice", "none", 1), "none.json"},
		{"principals that are empty", rigKeys + bob, "", "policies.yaml: the file is empty"},
		{"keys that are empty", "", rigPrincipals + bobs, "keys.yaml: the file is empty"},
		{"keys that are not whole", rigKeys + "  - {access_key: BOBKEY", rigPrincipals + bobs, "keys.yaml:"},
	} {
		r.write("keys.yaml", c.keys)
		r.write("policies.yaml", c.principals)
		if _, err := r.access.Reload(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, reply := r.do("BOBKEY", "GetItem", "{}"); !strings.Contains(reply, "UnrecognizedClientException") {
			t.Errorf("after %s a new key is answered %s", c.name, reply)
		}
	}
	r.write("keys.yaml", rigKeys+bob)
	r.write("policies.yaml", rigPrincipals+bobs)
	if a, err := r.access.Reload(); err != nil || a != (AccessCounts{Keys: 3, Principals: 2, Files: 2}) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, reply := r.do("BOBKEY", "PutItem", `{"TableName":"None","Item":{}}`); !strings.Contains(reply, "ResourceNotFoundException") && !strings.Contains(reply, "Validation") {
		t.Errorf("the new key is answered %s", reply)
	}
}

// What a client sends in place of a signature is in the reply, as on AWS, but neither in the log nor
// in the audit log; nor is more than a bounded part of its Host.
func TestAuthorizationIsNotLogged(t *testing.T) {
	r := startAccessRig(t)
	long := strings.Repeat("a", 1000)
	secured := httptest.NewUnstartedServer(r.db.Handler())
	secured.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secured.StartTLS()
	defer secured.Close()
	for _, authorization := range []string{"AWS4-HMAC-SHA256 planted-part", "AWS4-HMAC-SHA256 Credential=planted-part", "planted-part",
		"AWS4-HMAC-SHA256 Credential=ALICEKEY/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=planted-part"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, secured.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = long + ".test"
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
		req.Header.Set("Authorization", authorization)
		reply, err := secured.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if reply.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is answered %d", authorization, reply.StatusCode)
		}
		reply.Body.Close()
	}
	r.server.Close()
	if err := r.db.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(r.folder, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(written, []byte("\n")); n != 4 || !bytes.Contains(written, []byte(`"`+long[:255]+`"`)) || bytes.Contains(written, []byte(long[:256])) {
		t.Errorf("%d requests are written down:\n%s", n, written)
	}
	if i := strings.Index(r.log.String()+string(written), "planted-part"); i >= 0 {
		t.Errorf("the Authorization of a request is written down:\n%s\n%s", &r.log, written)
	}
}

// A client of the handler is verified as one over a network is.
func TestHandlerClient(t *testing.T) {
	r := startAccessRig(t)
	defer func() {
		r.server.Close()
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for secret, want := range map[string]string{"planted-secret-of-root": "", "another": "InvalidSignatureException"} {
		client := dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String("http://stator.invalid"), Region: "us-east-1",
			Credentials: credentials.NewStaticCredentialsProvider("ROOTKEY", secret, ""), HTTPClient: HandlerClient(r.db.Handler())})
		_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with the secret %s: %v", secret, err)
		}
	}
}
