package browser

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// post sends a request of the API, and returns the reply.
func (s *server) post(t *testing.T, operation, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s is answered with %d %s, %v", operation, reply.StatusCode, text, err)
	}
	return string(text)
}
