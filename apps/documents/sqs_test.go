package documents

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// moto starts a server with AWS's APIs and returns its URL.
func moto(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("moto_server is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-H", "127.0.0.1", "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	for range 600 {
		if answer, err := http.Get("http://" + address + "/moto-api/"); err == nil {
			answer.Body.Close()
			return "http://" + address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Skip("moto_server does not answer")
	return ""
}

// Notices of a queue of SQS, in S3's format and in that of EventBridge, have their
// files ingested before the next pass through the inbox, and are removed from the
// queue.
func TestNoticesBySQS(t *testing.T) {
	url := moto(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	settings, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"), config.WithBaseEndpoint(url))
	if err != nil {
		t.Fatal(err)
	}
	queues := sqs.NewFromConfig(settings)
	q, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("files")})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(*q.QueueUrl, "://")
	s := start(t, func(o *Options) {
		o.Notices = "awssqs://" + rest + "?region=us-east-1&endpoint=" + url
		o.Look = time.Hour // the passes through the inbox find nothing in time
	})
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Process(ctx) }()
	folder := inbox(c, project, workflow, "a")
	for name, body := range map[string]string{
		"s3.txt":     `{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"%s"}}}]}`,
		"bridge.txt": `{"detail-type":"Object Created","source":"aws.s3","detail":{"object":{"key":"%s"}}}`,
	} {
		s.drop(folder+name, []byte("Total: EUR 1.50"))
		if _, err := queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String(fmt.Sprintf(body, folder+name))}); err != nil {
			t.Fatal(err)
		}
	}
	id := inboxBatch(c, project, workflow, "a")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, text := c.request("GET", "/v1/batches/"+id, nil)
		if status == 200 && strings.Contains(text, `"documentCount":2`) && !strings.Contains(text, "PROCESSING") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s", status, text)
		}
	}
	left := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out, err := queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: q.QueueUrl, AttributeNames: []types.QueueAttributeName{"All"}})
		if err != nil {
			t.Fatal(err)
		}
		if left = out.Attributes["ApproximateNumberOfMessages"] + out.Attributes["ApproximateNumberOfMessagesNotVisible"]; left == "00" {
			break
		}
	}
	if left != "00" {
		t.Errorf("the queue has %s messages, visible and not", left)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
