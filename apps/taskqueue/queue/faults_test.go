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
		if puts.Load() > 10 { // a server that has just started reads the waiting tasks twice
			w.Errorf("%d claims were written", puts.Load())
		}
	})
}

// A server crashes between a claim and its task, and the same worker claims at the
// next server. It gets the task without waiting for the lease of the first claim.
func TestClaimAgainAfterACrash(t *testing.T) {
	inWorld(t, func(w *world) {
		c := crashesAt(claimsTask)
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

// sentOnce sends the first request of a kind, and loses its reply.
func sentOnce(which func(any) bool) fault {
	var lost atomic.Bool
	return func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
		if which(in) && lost.CompareAndSwap(false, true) {
			return true, errors.Join(send(ctx, in), errors.New("the reply is lost"))
		}
		return false, nil
	}
}

// updatesTo reports whether a request updates a task by an event of a type.
func updatesTo(in any, e task.EventType) bool {
	u, ok := in.(*dynamodb.UpdateItemInput)
	return ok && textOf(u.ExpressionAttributeValues[":last"]) == string(e)
}

func claimsTask(in any) bool { return updatesTo(in, task.Claimed) }

// One request of a claim fails, so that its worker gets an error. The task and the slot
// are free again long before the lease of the claim is over.
func TestFailedClaimsAreGivenBack(t *testing.T) {
	expires := failsOnce(func(in any) bool { return updatesTo(in, task.Expired) })
	var claimed atomic.Bool
	for _, c := range []struct {
		name  string
		fault fault
	}{
		{"the update of the task", failsOnce(claimsTask)},
		{"the reply of the update", sentOnce(claimsTask)},
		{"the update of the task, and the first end of the claim", func() fault {
			claims := failsOnce(claimsTask)
			return func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
				if handled, err := claims(ctx, in, send); handled {
					return handled, err
				}
				return expires(ctx, in, send)
			}
		}()},
		{"the read of the payload", func() fault {
			fails := failsOnce(func(in any) bool { _, ok := in.(*dynamodb.GetItemInput); return ok && claimed.Load() })
			return func(ctx context.Context, in any, send func(context.Context, any) error) (bool, error) {
				if claimsTask(in) {
					claimed.Store(true)
				}
				return fails(ctx, in, send)
			}
		}()},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				first, stop := w.serverUntil(Options{})
				w.limited(first, "q", 1)
				w.submit(first, "q", task.Submission{Payload: text("p")})
				stop()
				s, _ := w.faulty(c.fault, Options{}) // it reads the task from the index, which has no payload
				if _, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 2*time.Second); ok || err == nil {
					w.Fatalf("the claim is %v, %v", ok, err)
				}
				got, ok, err := s.Claim(w.Context(), "q", "v", time.Hour, 20*time.Second)
				if !ok || err != nil {
					w.Fatalf("the claim of another worker is %v, %v", ok, err)
				}
				if got.Attempts != 1 {
					w.Errorf("it is attempt %d: the failed claim counts", got.Attempts)
				}
				time.Sleep(5 * time.Second)
				if broken := w.promises("q"); len(broken) > 0 {
					w.Error(broken)
				}
				if n, m := len(w.items("WORKER#w")), len(w.items("QUEUE#q")); n != 0 || m != 1 {
					w.Errorf("%d claims of the first worker and %d slots are left", n, m)
				}
				w.good(s.Heartbeat(w.Context(), got.ID, "v", got.Token))
			})
		})
	}
}

// A claim of a worker succeeds while the same worker claims the task by a second request. The
// task stays with the claim.
func TestClaimByTwoRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		going := make(chan struct{})
		a, _ := w.faulty(func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if claimsTask(in) {
				<-going
			}
			return false, nil
		}, Options{})
		b := w.server(Options{})
		in := w.submit(b, "q", task.Submission{})
		result := make(chan task.Claim)
		go func() {
			c, err := a.ClaimTask(w.Context(), in.ID, "w", time.Hour)
			w.good(err)
			result <- c
		}()
		time.Sleep(time.Second)
		_, err := b.ClaimTask(w.Context(), in.ID, "w", time.Hour)
		w.refused(err, Conflict)
		close(going)
		c := <-result
		time.Sleep(10 * time.Second)
		w.is(b, in.ID, task.Processing)
		w.good(b.Heartbeat(w.Context(), c.ID, "w", c.Token))
	})
}

// crashesAt makes a server crash instead of sending a request of a kind.
func crashesAt(which func(any) bool) *crash {
	c := new(crash)
	c.fault = func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
		if !which(in) {
			return false, nil
		}
		c.mutex.Lock()
		c.dead = true
		c.mutex.Unlock()
		return true, errCrashed
	}
	return c
}

// A server crashes between the end of a task and the deletion of its claim. Another
// server reads the record of the claim after that of the end: they are in different shards of
// the stream. It ends the claim within seconds, not when the lease is over.
func TestClaimReadAfterTheEndOfItsTask(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.serverWith(crashesAt(func(in any) bool { _, ok := in.(*dynamodb.DeleteItemInput); return ok }))
		b := w.server(Options{})
		w.limited(b, "q", 1)
		w.submit(b, "q", task.Submission{})
		c, ok, err := a.Claim(w.Context(), "q", "w", time.Hour, 2*time.Second)
		if !ok || err != nil {
			w.Fatal(ok, err)
		}
		time.Sleep(time.Second)
		w.good(a.Complete(w.Context(), c.ID, "w", c.Token, ""))
		time.Sleep(time.Second)
		w.is(b, c.ID, task.Completed)
		b.mutex.Lock()
		claim := b.leases[leaseKey{c.ID, "w", 2}].Claim
		b.mutex.Unlock()
		b.knowClaim(claim, true) // as if the shard of the claim were read last
		b.knowClaim(claim, false)
		time.Sleep(10 * time.Second)
		if n, m := len(w.items("WORKER#w")), len(w.items("QUEUE#q")); n != 0 || m != 0 {
			w.Errorf("%d claims and %d slots are left", n, m)
		}
	})
}

// A claim of a long task is compared with its task once.
func TestClaimsOfLongTasksAreReadOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		var reads atomic.Int64
		s, _ := w.faulty(func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if g, ok := in.(*dynamodb.GetItemInput); ok && textOf(g.Key["SK"]) == "META" {
				reads.Add(1)
			}
			return false, nil
		}, Options{})
		w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		before := reads.Load()
		for range 20 {
			time.Sleep(span / 2)
			w.good(s.Heartbeat(w.Context(), c.ID, "w", c.Token))
		}
		if n := reads.Load() - before; n != 1 {
			w.Errorf("the task was read %d times", n)
		}
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
	})
}

// A worker ends a task with a token whose slot is not that of the claim. It is refused, so the
// slot is freed by the token that was given to the worker.
func TestTokenWithAnotherSlot(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		w.limited(s, "q", 1)
		w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		for _, token := range []string{"2.0.q", "2.2.q"} {
			w.refused(s.Complete(w.Context(), c.ID, "w", token, ""), Conflict)
			w.is(s, c.ID, task.Processing)
		}
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, "")) // repeated
		if n := len(w.items("QUEUE#q")); n != 0 {
			w.Errorf("%d slots are left", n)
		}
	})
}

// A request with the key of another finds no task, which is stored in the next moment, and then
// its first event. The task has not been deleted.
func TestTaskThatIsJustBeingStored(t *testing.T) {
	inWorld(t, func(w *world) {
		looked, stored := make(chan struct{}), make(chan struct{})
		var waited, found atomic.Bool
		a, _ := w.faulty(func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if put, ok := in.(*dynamodb.PutItemInput); ok && textOf(put.Item["SK"]) == "META" && waited.CompareAndSwap(false, true) {
				<-looked
			}
			return false, nil
		}, Options{})
		b, _ := w.faulty(func(_ context.Context, in any, _ func(context.Context, any) error) (bool, error) {
			if get, ok := in.(*dynamodb.GetItemInput); ok && strings.HasPrefix(textOf(get.Key["SK"]), "EVENT#") && found.CompareAndSwap(false, true) {
				close(looked)
				<-stored
			}
			return false, nil
		}, Options{})
		submission := task.Submission{Type: "t", Key: "same", Payload: text("x")}
		go func() {
			defer close(stored)
			first := w.submit(a, "q", submission)
			time.Sleep(2 * time.Second) // its first event is stored
			if done, err := w.table.WasStored(w.Context(), first.ID); !done || err != nil {
				w.Errorf("the first event is stored: %v, %v", done, err)
			}
		}()
		time.Sleep(time.Second)
		got, isNew, err := b.Submit(w.Context(), "q", submission)
		if err != nil || isNew || len(w.ids) != 1 || got.ID != w.ids[0] {
			w.Errorf("the second request returns %s, %v, %v, want %q", got.ID, isNew, err, w.ids)
		}
	})
}
