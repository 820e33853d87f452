package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// faulty starts a server whose requests fail as a fault says. The returned function
// stops it.
func (w *world) faulty(f fault, o Options) (*Service, func()) {
	w.Helper()
	c := &crash{fault: f}
	o.Table = &table.Table{DB: dynamodb.New(w.home.DB.Options(), c.options), Streams: w.home.Streams}
	s, stop := w.start(o)
	w.Cleanup(stop)
	return s, stop
}

// deletesClaim reports whether a request deletes a claim.
func deletesClaim(in any) bool {
	switch in := in.(type) {
	case *dynamodb.BatchWriteItemInput:
		return in.RequestItems[table.Name][0].DeleteRequest != nil
	case *dynamodb.DeleteItemInput:
		return strings.HasPrefix(textOf(in.Key["PK"]), "WORKER#")
	}
	return false
}

// twice sends a request that deletes a claim a second time, after a while: its first
// reply is lost.
func twice(after time.Duration) fault {
	var lost atomic.Bool
	return func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
		if !deletesClaim(in) || !lost.CompareAndSwap(false, true) {
			return false, nil
		}
		if err := send(ctx, in); err != nil {
			return true, err
		}
		if _, ok := in.(*dynamodb.BatchWriteItemInput); ok {
			return true, errors.New("the reply is lost") // and the batch is repeated
		}
		go func() {
			time.Sleep(after)
			send(context.WithoutCancel(ctx), in)
		}()
		return true, nil
	}
}

// limited sets a limit of running tasks, which all servers then know.
func (w *world) limited(s *Service, queue string, running int) {
	w.Helper()
	_, err := s.SetQueue(w.Context(), task.Queue{Name: queue, MaxPending: 10, MaxRunning: running})
	w.good(err)
	time.Sleep(2 * time.Second)
}

// A server chooses a slot that is taken, deletes the claim, and claims the task again
// with another slot. The deletion arrives a second time, and does not delete the new
// claim.
func TestRepeatedDeletionOfAClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		a, _ := w.faulty(twice(500*time.Millisecond), Options{})
		b := w.server(Options{})
		w.limited(a, "q", 2)
		w.submit(b, "q", task.Submission{})
		first := w.claim(b, "q", "v")
		w.submit(b, "q", task.Submission{})
		time.Sleep(time.Second)
		a.mutex.Lock()
		delete(a.queue("q").slots, 1) // as if the stream had not delivered it yet
		a.mutex.Unlock()
		c := w.claim(a, "q", "w")
		time.Sleep(time.Second)
		if broken := w.promises("q"); len(broken) > 0 {
			w.Error(broken)
		}
		w.good(a.Heartbeat(w.Context(), c.ID, "w", c.Token))
		w.good(a.Complete(w.Context(), c.ID, "w", c.Token, ""))
		w.good(b.Complete(w.Context(), first.ID, "v", first.Token, ""))
		time.Sleep(time.Second)
		if n := len(w.items("QUEUE#q")); n != 0 {
			w.Errorf("%d slots are left", n)
		}
	})
}
