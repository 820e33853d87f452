package server_test

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/aws/smithy-go/private/requestcompression"

	"github.com/stator-db/stator/internal/server/door"
)

// codingCounter counts the requests and the replies that are compressed.
type codingCounter struct{ requests, replies atomic.Int32 }

func (c *codingCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Content-Encoding") == "gzip" {
		c.requests.Add(1)
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && reply.Header.Get("Content-Encoding") == "gzip" && !reply.Uncompressed {
		c.replies.Add(1)
	}
	return reply, err
}

// The SDK for Go sends compressed bodies with its own middleware, and reads compressed
// replies, whose checksum it verifies.
func TestSDKCompresses(t *testing.T) {
	h := newHandler(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted, coded := &countingDoorHandler{Handler: h}, new(codingCounter)
	s := door.New(counted, &http.Server{Handler: h}, slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	defer func() { s.Close(); <-served }()
	client := dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://" + l.Addr().String()), Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient: &http.Client{Transport: coded}, EnableAcceptEncodingGzip: true,
		APIOptions: []func(*middleware.Stack) error{func(stack *middleware.Stack) error {
			return requestcompression.AddRequestCompression(stack, false, 1, []string{"gzip"})
		}},
	})
	must(t, h, "CreateTable", `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`)
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}
	for n, size := range []int{1, 10_000, 390_000} {
		text := strings.Repeat("0123456789 äöü ", size/18+1)
		item := map[string]types.AttributeValue{"id": key["id"], "text": &types.AttributeValueMemberS{Value: text}}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: item}); err != nil {
			t.Fatal(err)
		}
		got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("Orders"), Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := got.Item["text"].(*types.AttributeValueMemberS); !ok || s.Value != text {
			t.Errorf("the text of %d bytes comes back as %.100v", len(text), got.Item["text"])
		}
		// The reply to the first GetItem is small.
		if requests, replies := int(coded.requests.Load()), int(coded.replies.Load()); requests != 2*(n+1) || replies != n {
			t.Errorf("after %d items %d requests and %d replies were compressed, want %d and %d", n+1, requests, replies, 2*(n+1), n)
		}
	}
	if read := counted.answered.Load(); read != 6 {
		t.Errorf("the door read %d requests, want 6", read)
	}
}
