package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

func isBatch(in any) bool { _, ok := in.(*dynamodb.BatchWriteItemInput); return ok }

// The history of a task is read while the task is being cancelled, which writes the event
// of the end before the cancellation does. The claim is deleted all the same, so the
// next heartbeat is refused.
func TestHistoryDuringACancellation(t *testing.T) {
	inWorld(t, func(w *world) {
		var s *Service
		var id string
		var held atomic.Bool
		s, _ = w.faulty(func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
			if _, ok := in.(*dynamodb.DeleteItemInput); ok { // of the slot, between the task and the event
				held.Store(true)
				_, err := s.History(ctx, id)
				return false, err
			}
			if isBatch(in) && held.Load() {
				time.Sleep(10 * time.Millisecond)
			}
			return false, nil
		}, Options{})
		w.limited(s, "q", 1)
		w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		id = c.ID
		time.Sleep(time.Second)
		_, err := s.Cancel(w.Context(), id, "enough")
		w.good(err)
		w.refused(s.Heartbeat(w.Context(), id, "w", c.Token), Conflict)
	})
}

// withoutBatches starts a server whose batches fail while a switch is on, and which lets
// three writes wait.
func (w *world) withoutBatches(denied *atomic.Bool) *Service {
	w.Helper()
	c := &crash{fault: func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
		return isBatch(in) && denied.Load(), errors.New("access denied")
	}}
	s, stop := w.start(Options{Table: &table.Table{DB: dynamodb.New(w.home.DB.Options(), c.options), Streams: w.home.Streams, Backlog: 3}})
	w.Cleanup(stop)
	return s
}

// The batches of events and deletions fail and nothing else does. The server says that it
// is not healthy; a request that has no space for its event fails before it stores
// anything; a request that has stored its task succeeds.
func TestBatchesThatFail(t *testing.T) {
	inWorld(t, func(w *world) {
		var denied atomic.Bool
		s := w.withoutBatches(&denied)
		w.submit(s, "q", task.Submission{})
		running := w.claim(s, "q", "w")
		waiting := w.submit(s, "q", task.Submission{})
		time.Sleep(time.Second)
		denied.Store(true)
		if _, err := s.Cancel(w.Context(), running.ID, "enough"); err != nil {
			w.Errorf("a cancellation that is stored is answered with %v", err)
		}
		stored := 2
		for ; ; stored++ {
			if stored == 20 {
				w.Fatal("submissions are accepted without end")
			}
			in, _, err := s.Submit(w.Context(), "q", task.Submission{Type: "t"})
			if err != nil {
				break
			}
			w.ids = append(w.ids, in.ID)
		}
		if n := len(w.tasksOf("q")); n != stored {
			w.Errorf("%d tasks are stored, and %d were acknowledged", n, stored)
		}
		if _, ok, err := s.Claim(w.Context(), "q", "w", span, 0); ok || err == nil {
			w.Errorf("the claim is %v, %v", ok, err)
		}
		if now := w.get(s, waiting.ID); now.Status != task.Pending || now.Attempts != 0 {
			w.Errorf("the task is %s after %d attempts", now.Status, now.Attempts)
		}
		if err := s.Healthy(w.Context()); err == nil {
			w.Error("the server says that it is healthy")
		}
		denied.Store(false)
		time.Sleep(5 * time.Second)
		w.good(s.Healthy(w.Context()))
		for range stored - 1 {
			c := w.claim(s, "q", "w")
			w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		}
		time.Sleep(time.Second)
		if n := len(w.items("WORKER#w")); n != 0 {
			w.Errorf("%d claims are left", n)
		}
	})
}

// A batch that fails once does not make a server unhealthy.
func TestBatchThatFailsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		s, _ := w.faulty(failsOnce(isBatch), Options{})
		w.submit(s, "q", task.Submission{})
		for range 10 {
			w.good(s.Healthy(w.Context()))
			time.Sleep(time.Second)
		}
	})
}
