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

// failsOnce fails the first request of a kind, without sending it.
func failsOnce(which func(any) bool) fault {
	var failed atomic.Bool
	return func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
		if which(in) && failed.CompareAndSwap(false, true) {
			return true, errors.New("throttled")
		}
		return false, nil
	}
}

// An update of a task fails after the claim was stored. The same worker claims again at
// once: it gets the next task, without a loop, and the first one when the claim that is
// left has been ended, long before its lease is over.
func TestClaimAgainAfterAFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		var puts atomic.Int64
		fails := failsOnce(updatesTask)
		s, _ := w.faulty(func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
			if putsAt(in, "WORKER#") && puts.Add(1) > 100 {
				return true, errors.New("the test ends the loop")
			}
			return fails(ctx, in, send)
		}, Options{})
		first := w.submit(s, "q", task.Submission{})
		time.Sleep(time.Second)
		second := w.submit(s, "q", task.Submission{})
		time.Sleep(time.Second)
		if _, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 0); ok || err == nil {
			w.Fatalf("the claim is %v, %v", ok, err)
		}
		c, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 0)
		if !ok || err != nil || c.ID != second.ID {
			w.Fatalf("the second claim is %v of %s, %v, after %d writes", ok, c.ID, err, puts.Load())
		}
		if _, err := s.ClaimTask(w.Context(), first.ID, "w", time.Hour); err == nil {
			w.Error("the task has two claims")
		}
		c, ok, err = s.Claim(w.Context(), "q", "w", time.Hour, 10*time.Second)
		if !ok || err != nil || c.ID != first.ID {
			w.Fatalf("the third claim is %v of %s, %v", ok, c.ID, err)
		}
		time.Sleep(time.Second)
		if n := len(w.items("WORKER#w")); n != 2 {
			w.Errorf("there are %d claims", n)
		}
		if broken := w.promises("q"); len(broken) > 0 {
			w.Error(broken)
		}
		if puts.Load() > 6 {
			w.Errorf("%d claims were written", puts.Load())
		}
	})
}

// A server crashes between a claim and its task, and the same worker claims at the
// next server. It gets the task without waiting for the lease of the first claim.
func TestClaimAgainAfterACrash(t *testing.T) {
	inWorld(t, func(w *world) {
		c := &crash{}
		c.fault = func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if u, ok := in.(*dynamodb.UpdateItemInput); ok && textOf(u.ExpressionAttributeValues[":last"]) == string(task.Claimed) {
				c.mutex.Lock()
				c.dead = true
				c.mutex.Unlock()
				return true, errCrashed
			}
			return false, nil
		}
		id, _ := w.live(c, "q", func(ctx context.Context, s *Service, queue string) string {
			id := submitted(ctx, s, queue)
			s.Claim(ctx, queue, "w", time.Hour, 3*time.Second)
			return id
		})
		w.ids = append(w.ids, id)
		s := w.server(Options{})
		if _, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 0); ok || err != nil {
			w.Fatalf("the first claim is %v, %v", ok, err)
		}
		got, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 10*time.Second)
		if !ok || err != nil {
			w.Fatalf("the claim is %v, %v", ok, err)
		}
		w.good(s.Heartbeat(w.Context(), got.ID, "w", got.Token))
	})
}

// The write of a slot takes longer than the lease: another server has ended the claim
// when the slot is stored, and the update of the task fails. The slot is freed, and
// the queue goes on.
func TestSlotThatComesTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		var late atomic.Bool
		a, stop := w.faulty(func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if putsAt(in, "QUEUE#") && late.CompareAndSwap(false, true) {
				time.Sleep(span + 2*time.Second) // the SDK repeats a throttled request
			} else if updatesTask(in) && late.Load() {
				return true, errors.New("throttled")
			}
			return false, nil
		}, Options{Poll: time.Second})
		b := w.server(Options{})
		w.limited(a, "q", 1)
		in := w.submit(b, "q", task.Submission{})
		if _, ok, err := a.Claim(w.Context(), "q", "w", span, 5*time.Second); ok || err == nil {
			w.Fatalf("the claim is %v, %v", ok, err)
		}
		stop()
		w.is(b, in.ID, task.Pending)
		if claims, slots := len(w.items("WORKER#w")), len(w.items("QUEUE#q")); claims != 0 || slots != 1 {
			w.Fatalf("the test has %d claims and %d slots", claims, slots)
		}
		c, ok, err := b.Claim(w.Context(), "q", "v", span, 2*time.Minute)
		if !ok || err != nil {
			w.Fatalf("the claim of another worker is %v, %v", ok, err)
		}
		time.Sleep(2 * time.Second)
		if n := len(w.items("QUEUE#q")); n != 1 {
			w.Errorf("the running task has %d slots", n)
		}
		w.good(b.Complete(w.Context(), c.ID, "v", c.Token, ""))
	})
}

// The slots of running tasks are not freed, however often they are counted, also by a
// server that has just started.
func TestSlotsOfRunningTasksStay(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		w.limited(s, "q", 2)
		w.submit(s, "q", task.Submission{})
		w.submit(s, "q", task.Submission{})
		for range 2 {
			if _, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 2*time.Second); !ok || err != nil {
				w.Fatal(ok, err)
			}
		}
		time.Sleep(5 * time.Minute)
		w.server(Options{})
		time.Sleep(5 * time.Minute)
		if n := len(w.items("QUEUE#q")); n != 2 {
			w.Errorf("two running tasks have %d slots", n)
		}
	})
}

// All servers are away for more than a day while a task runs. The next server finds the claim.
func TestClaimsOutliveTheServers(t *testing.T) {
	inWorld(t, func(w *world) {
		s, stop := w.serverUntil(Options{Poll: time.Second})
		in := w.submit(s, "q", task.Submission{})
		w.claim(s, "q", "w")
		stop()
		time.Sleep(30 * time.Hour)
		s = w.server(Options{Poll: time.Second})
		time.Sleep(time.Minute)
		w.is(s, in.ID, task.Pending)
		time.Sleep(20 * time.Minute)
		if n := len(w.items("WORKERS")); n != 0 {
			w.Errorf("%d workers without claims are left", n)
		}
	})
}

// A worker has two claims of one task for a moment: the first has ended and is not
// deleted yet.
func TestWorkersWithTwoClaimsOfOneTask(t *testing.T) {
	inWorld(t, func(w *world) {
		var again atomic.Bool
		s, _ := w.faulty(func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if deletesClaim(in) && !again.Load() {
				return true, errors.New("throttled")
			}
			return false, nil
		}, Options{})
		defer again.Store(true)
		w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		w.good(s.Release(w.Context(), c.ID, "w", c.Token))
		_, err := s.ClaimTask(w.Context(), c.ID, "w", span)
		w.good(err)
		time.Sleep(time.Second)
		if n := len(w.items("WORKER#w")); n != 2 {
			w.Fatalf("the worker has %d claims", n)
		}
		all, err := s.Workers(w.Context())
		w.good(err)
		if len(all) != 1 || len(all[0].Tasks) != 1 {
			w.Errorf("the workers are %+v", all)
		}
		busy, err := s.AtWork(w.Context())
		w.good(err)
		if len(busy) != 1 || len(busy[0].Tasks) != 1 {
			w.Errorf("at work are %+v", busy)
		}
	})
}
