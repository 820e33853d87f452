package documents

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/mototest"
)

// Notices of a queue of SQS, in S3's format and in that of EventBridge, have their
// files ingested before the next pass through the inbox, and are removed from the
// queue.
func TestNoticesBySQS(t *testing.T) {
	queue := mototest.Start(t).Queue(t, "files", "30")
	s := start(t, func(o *Options) {
		o.Notices = queue.URL
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
		queue.Send(fmt.Sprintf(body, folder+name))
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
	queue.Empty()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
