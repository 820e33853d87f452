package door

import (
	"context"
	"net/http"
)

// fixedReply answers each request with the same bytes, through the door and through
// net/http.
type fixedReply struct{ body []byte }

func (fixedReply) Accepts(*Request) bool { return true }

func (h fixedReply) Answer(_ context.Context, r *Request, a *Reply) {
	if _, err := r.Read(1<<20, nil); err != nil {
		return
	}
	for i := range a.ID {
		a.ID[i] = 'A'
	}
	a.Status, a.ContentType = 200, "application/x-amz-json-1.0"
	a.Checksum, a.HasChecksum = 12345, true
	a.Write(append(a.Memory.Empty(), h.body...))
}

func (h fixedReply) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := Begin(w, r)
	defer x.End()
	h.Answer(r.Context(), &x.Request, &x.Reply)
	x.Reply.Send(w)
}

// sample is the head of a request as an SDK sends it.
const sample = "POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: aws-sdk-go-v2/1.41.0 ua/2.1 os/linux lang/go#1.26 md/GOOS#linux md/GOARCH#amd64 api/dynamodb#1.53.0\r\n" +
	"Content-Length: 1024\r\nAccept-Encoding: identity\r\nAmz-Sdk-Invocation-Id: 0dc3d4fd-9d9e-4d7b-a1e1-8f6a0d8f2d3e\r\nAmz-Sdk-Request: attempt=1; max=3\r\n" +
	"Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=accept-encoding;amz-sdk-invocation-id;content-length;content-type;host;x-amz-date;x-amz-target, Signature=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n" +
	"Content-Type: application/x-amz-json-1.0\r\nX-Amz-Date: 20260101T000000Z\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\n\r\n"
