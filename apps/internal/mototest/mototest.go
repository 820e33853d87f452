// Package mototest starts a server with the APIs of SQS and S3 for a test: moto, a
// program in Python.
package mototest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Program is the environment variable with the path of moto_server, which is otherwise
// searched in PATH. `make test` installs it and sets the variable.
const Program = "MOTO_SERVER"

// Server is a running server. It ends with the test.
type Server struct {
	URL string
	SQS *sqs.Client
	S3  *s3.Client
}

// Environment has the credentials with which clients of the server sign their requests.
// The server accepts any; these are also the credentials of an application whose policy
// applies (package hometest).
var Environment = []string{"AWS_ACCESS_KEY_ID=app", "AWS_SECRET_ACCESS_KEY=app", "AWS_REGION=us-east-1"}

// Start starts a server, and sets Environment for the test. It skips the test if moto is
// not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	program := os.Getenv(Program)
	if program == "" {
		var err error
		if program, err = exec.LookPath("moto_server"); err != nil {
			t.Skip("moto is not installed (pip: moto[server])")
		}
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
	var log output
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start moto: %v", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	await(t, "http://"+address+"/moto-api/", ended, &log)

	for _, pair := range Environment {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	settings, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"), config.WithBaseEndpoint("http://"+address),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("test", "test", "")))
	if err != nil {
		t.Fatal(err)
	}
	return &Server{
		URL: "http://" + address,
		SQS: sqs.NewFromConfig(settings),
		S3:  s3.NewFromConfig(settings, func(o *s3.Options) { o.UsePathStyle = true }),
	}
}

// await waits until the server answers.
func await(t testing.TB, url string, ended chan struct{}, log *output) {
	t.Helper()
	for range 1200 {
		if answer, err := http.Get(url); err == nil {
			answer.Body.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("moto ended:\n%s", log)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("moto does not answer:\n%s", log)
}

// output is what the server prints.
type output struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

// Queue is a queue of SQS.
type Queue struct {
	URL  string // as an application's flag has it: awssqs://…
	t    testing.TB
	sqs  *sqs.Client
	name *string
}

// Queue creates a queue whose messages become visible again after the visibility timeout
// of some seconds.
func (s *Server) Queue(t testing.TB, name string, visibility string) *Queue {
	t.Helper()
	made, err := s.SQS.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name),
		Attributes: map[string]string{"VisibilityTimeout": visibility}})
	if err != nil {
		t.Fatalf("create the queue %s: %v", name, err)
	}
	_, rest, _ := strings.Cut(*made.QueueUrl, "://")
	return &Queue{URL: "awssqs://" + rest + "?region=us-east-1&endpoint=" + s.URL, t: t, sqs: s.SQS, name: made.QueueUrl}
}

// Send sends a message.
func (q *Queue) Send(body string) {
	q.t.Helper()
	if _, err := q.sqs.SendMessage(q.t.Context(), &sqs.SendMessageInput{QueueUrl: q.name, MessageBody: &body}); err != nil {
		q.t.Fatalf("send a message to SQS: %v", err)
	}
}

// Empty waits until the queue has no messages, neither visible ones nor those that were
// received and not acknowledged.
func (q *Queue) Empty() {
	q.t.Helper()
	left := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out, err := q.sqs.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: q.name, AttributeNames: []types.QueueAttributeName{"All"}})
		if err != nil {
			q.t.Fatalf("count the messages of the queue: %v", err)
		}
		left = out.Attributes["ApproximateNumberOfMessages"] + " visible, " + out.Attributes["ApproximateNumberOfMessagesNotVisible"] + " not"
		if left == "0 visible, 0 not" {
			return
		}
	}
	q.t.Errorf("the queue has messages: %s", left)
}

// Bucket creates a bucket of S3, and returns its URL as an application's flag has it.
func (s *Server) Bucket(t testing.TB, name string) string {
	t.Helper()
	if _, err := s.S3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatalf("create the bucket %s: %v", name, err)
	}
	return "s3://" + name + "?region=us-east-1&use_path_style=true&endpoint=" + s.URL
}

// Python returns the Python that has moto's packages, among them botocore, AWS's own client. It
// skips the test if there is none.
func Python(t testing.TB) string {
	t.Helper()
	python := "python3"
	if program := os.Getenv(Program); program != "" {
		if own := filepath.Join(filepath.Dir(program), "python"); exec.Command(own, "--version").Run() == nil {
			python = own
		}
	}
	if err := exec.Command(python, "-c", "import botocore").Run(); err != nil {
		t.Skip("botocore is not installed (pip: moto[server])")
	}
	return python
}
