package documents

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gocloud.dev/pubsub"
)

// A subscription to notices that fails for good does not end the service: it is opened
// again.
func TestNoticesFail(t *testing.T) {
	topic, err := pubsub.OpenTopic(t.Context(), "mem://failing")
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Shutdown(context.Background())
	s := start(t, func(o *Options) {
		o.Notices = "mem://failing"
		o.Look = time.Hour // the passes through the inbox find nothing in time
	})
	// From now on it returns an error, as that of a deleted queue does.
	if err := s.notices.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { s.notices = nil }() // it is shut down already
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Process(ctx) }()
	select {
	case err := <-done:
		t.Fatalf("the service ends: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	file := inbox(c, project, workflow, "a") + "a.txt"
	s.drop(file, []byte("Total: EUR 1.50"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		// The topic keeps no messages for later subscriptions.
		if err := topic.Send(t.Context(), &pubsub.Message{Body: fmt.Appendf(nil, `{"key":%q}`, file)}); err != nil {
			t.Fatal(err)
		}
		there, err := s.Bucket.Exists(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no notice is received any more")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
