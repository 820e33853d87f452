package browser

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// request sends a request of the API, signed with any key.
func request(ctx context.Context, url, target, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	return http.DefaultClient.Do(r)
}

// post sends a request of the API, and returns the reply.
func (s *server) post(t *testing.T, operation, body string) string {
	t.Helper()
	reply, err := request(t.Context(), s.url, "DynamoDB_20120810."+operation, body)
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
