package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/mototest"
)

// SQS delivers a message again that was rejected, at once, and one that was not acknowledged
// by a receiver that ended, after the visibility timeout. An invalid message is acknowledged
// and does not come again.
func TestSQS(t *testing.T) {
	files := mototest.Start(t).Queue(t, "files", "2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	first, err := Open(ctx, files.URL, files.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for n := range 12 {
		id := fmt.Sprintf("file%d-2026-02-28", n)
		want[id] = true
		if err := first.Send(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	files.Send("{")
	next := func(q *Queue) (*Message, string) {
		t.Helper()
		m, err := q.Receive(ctx)
		if err != nil {
			t.Fatalf("%d messages are missing: %v", len(want), err)
		}
		id, err := m.FileID()
		if err != nil {
			id = "invalid"
			m.Ack()
		}
		return m, id
	}

	// The first receiver rejects a message until it comes again, acknowledges one, and
	// ends with others that it has received.
	rejected := ""
	for {
		m, id := next(first)
		if id == "invalid" {
			continue
		}
		if rejected == "" {
			rejected = id
		}
		if id != rejected {
			continue // neither acknowledged nor rejected
		}
		if want[id] {
			delete(want, id)
			m.Again()
			continue
		}
		m.Ack()
		break
	}
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}

	second, err := Open(ctx, "", files.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	for len(want) > 0 {
		m, id := next(second)
		m.Ack()
		if id == rejected {
			t.Errorf("%s comes again although it was acknowledged", id)
		}
		delete(want, id)
	}
	// The last acknowledgements, and those of messages that came twice.
	done := make(chan struct{})
	rest, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for {
			m, err := second.Receive(rest)
			if err != nil {
				return
			}
			m.Ack()
		}
	}()
	files.Empty()
	stop()
	<-done
}
