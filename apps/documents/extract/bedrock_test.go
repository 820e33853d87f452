package extract

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/stator-db/stator/apps/internal/mototest"
)

// botocore signs a request as it was received, with AWS's own implementation, sends the same
// question with AWS's own client, and prints the signature and what the client understood
// of the reply.
const botocore = `
import json, sys
import botocore.auth, botocore.awsrequest, botocore.credentials, botocore.session
got = json.load(sys.stdin)
keys = botocore.credentials.Credentials("AKID", "key", "token")
request = botocore.awsrequest.AWSRequest(got["method"], got["url"], headers=got["headers"], data=got["body"].encode())
request.context["timestamp"] = got["date"]
auth = botocore.auth.SigV4Auth(keys, "bedrock", "eu-west-1")
signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
session = botocore.session.get_session()
client = session.create_client("bedrock-runtime", region_name="eu-west-1", endpoint_url=got["base"],
    aws_access_key_id="AKID", aws_secret_access_key="key", aws_session_token="token")
body = json.loads(got["body"])
reply = client.converse(modelId=got["model"], **body)
json.dump({"signature": signature, "text": reply["output"]["message"]["content"][0]["text"], "reason": reply["stopReason"]}, sys.stdout)
`

// A request to Bedrock is the one that AWS's own client sends for the same question, its
// signature is the one that AWS's own implementation computes, and that client accepts the
// reply of the tests' server as one of Converse.
func TestBedrockAsAWS(t *testing.T) {
	python := mototest.Python(t)
	type received struct {
		Method, URL, Path, Body string
		Header                  http.Header
	}
	var requests []received
	fake := &fakeModel{t: t, reply: modelReply, reason: "end_turn"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests = append(requests, received{r.Method, "http://" + r.Host + r.URL.EscapedPath(), r.URL.EscapedPath(), string(body), r.Header.Clone()})
		r.Body = io.NopCloser(bytes.NewReader(body))
		fake.ServeHTTP(w, r)
	}))
	defer server.Close()
	m := &Model{
		API: "bedrock", URL: server.URL, Name: "maker.small-1:0", Client: server.Client(), Reader: builtin(),
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "key", "token"), Region: "eu-west-1", Now: time.Now,
	}
	if _, err := m.Extract(t.Context(), File{"a.txt", []byte(goodText)}, extraction(t, invoice)); err != nil {
		t.Fatal(err)
	}
	ours := requests[0]
	_, rest, _ := strings.Cut(ours.Header.Get("Authorization"), "SignedHeaders=")
	names, signature, _ := strings.Cut(rest, ", Signature=")
	signed := map[string]string{"Host": strings.TrimPrefix(server.URL, "http://")}
	for _, name := range strings.Split(names, ";") {
		if name != "host" {
			signed[name] = ours.Header.Get(name)
		}
	}
	in, err := json.Marshal(map[string]any{
		"method": ours.Method, "url": ours.URL, "headers": signed, "body": ours.Body, "date": ours.Header.Get("X-Amz-Date"),
		"base": server.URL, "model": m.Name,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), python, "-c", botocore)
	var faults bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(in), &faults
	out, err := c.Output()
	if err != nil {
		t.Fatalf("botocore: %v: %s", err, &faults)
	}
	var aws struct{ Signature, Text, Reason string }
	if err := json.Unmarshal(out, &aws); err != nil {
		t.Fatal(err)
	}
	if aws.Signature != signature || signature == "" {
		t.Errorf("the signature over %s is %s, but AWS computes %s", names, signature, aws.Signature)
	}
	for _, name := range []string{"host", "x-amz-date", "x-amz-security-token"} {
		if !strings.Contains(names, name) {
			t.Errorf("the header %s is not signed: %s", name, names)
		}
	}
	if aws.Text != modelReply || aws.Reason != "end_turn" {
		t.Errorf("AWS's client read %q, %q", aws.Text, aws.Reason)
	}
	theirs := requests[len(requests)-1]
	if len(requests) != 2 || ours.Method != theirs.Method || ours.Path != theirs.Path || !strings.EqualFold(ours.Header.Get("Content-Type"), theirs.Header.Get("Content-Type")) {
		t.Errorf("we send %s %s, AWS's client %s %s", ours.Method, ours.Path, theirs.Method, theirs.Path)
	}
	var a, b any
	if err := json.Unmarshal([]byte(ours.Body), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(theirs.Body), &b); err != nil {
		t.Fatal(err)
	}
	if x, y := marshal(t, a), marshal(t, b); x != y {
		t.Errorf("we send %s, AWS's client %s", x, y)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
