package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

func TestFullLife(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "mail", task.Submission{Type: "send", Payload: text("hello"), Key: "k"})
		if in.Status != task.Pending || in.Attempts != 0 {
			w.Errorf("submitted it is %+v", in)
		}
		c := w.claim(s, "mail", "w1")
		if c.ID != in.ID || string(c.Payload) != `"hello"` || c.Worker != "w1" || c.Attempts != 1 || c.Status != task.Processing {
			w.Errorf("the claim is %+v", c)
		}
		w.good(s.Heartbeat(w.Context(), c.ID, "w1", c.Token))
		w.good(s.Complete(w.Context(), c.ID, "w1", c.Token, "42"))
		if done := w.get(s, c.ID); done.Status != task.Completed || done.Result != "42" || done.Worker != "w1" || done.Expires == 0 {
			w.Errorf("completed it is %+v", done)
		}
		events, err := s.History(w.Context(), c.ID)
		if err != nil || len(events) != 3 || events[0].Type != task.Submitted || events[1].Type != task.Claimed || events[2].Type != task.Done {
			w.Errorf("the history is %+v, %v", events, err)
		}
		w.nothing(s, "mail")
	})
}

// The control: a change that bypasses the events is found by the replay.
func TestReplayFindsAChangeWithoutEvent(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{})
		if err := w.replay(in.ID); err != nil {
			w.Fatal(err)
		}
		spoil := func(status string) {
			_, err := hometest.Examine(w.home.DB).UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String("tasks"), UpdateExpression: aws.String("SET #s = :s"), ExpressionAttributeNames: map[string]string{"#s": "status"},
				Key:                       map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "TASK#" + in.ID}, "SK": &types.AttributeValueMemberS{Value: "META"}},
				ExpressionAttributeValues: map[string]types.AttributeValue{":s": &types.AttributeValueMemberS{Value: status}},
			})
			w.good(err)
		}
		spoil("COMPLETED")
		if w.replay(in.ID) == nil {
			w.Error("a status without an event is not found")
		}
		spoil("PENDING")
	})
}

func TestIdempotency(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.server(Options{}), w.server(Options{})
		var group sync.WaitGroup
		ids, news := make([]string, 20), make([]bool, 20)
		for i := range ids {
			group.Go(func() {
				got, isNew, err := []*Service{a, b}[i%2].Submit(w.Context(), "q", task.Submission{Type: "t", Key: "same", Payload: text("x")})
				if err != nil {
					w.Error(err)
				}
				ids[i], news[i] = got.ID, isNew
			})
		}
		group.Wait()
		count := 0
		for i := range ids {
			if ids[i] != ids[0] {
				w.Errorf("the key returns %s and %s", ids[0], ids[i])
			}
			if news[i] {
				count++
			}
		}
		if count != 1 {
			w.Errorf("%d submissions were new, want 1", count)
		}
		w.ids = append(w.ids, ids[0])
		for name, other := range map[string]task.Submission{
			"payload": {Type: "t", Key: "same", Payload: text("y")},
			"type":    {Type: "u", Key: "same", Payload: text("x")},
			"delay":   {Type: "t", Key: "same", Payload: text("x"), Delay: 1e9},
		} {
			_, _, err := a.Submit(w.Context(), "q", other)
			w.refused(err, Reused)
			_ = name
		}
		_, _, err := a.Submit(w.Context(), "another", task.Submission{Type: "t", Key: "same", Payload: text("x")})
		w.refused(err, Reused)
		c := w.claim(a, "q", "w")
		w.good(a.Complete(w.Context(), c.ID, "w", c.Token, ""))
		if again, isNew, err := b.Submit(w.Context(), "q", task.Submission{Type: "t", Key: "same", Payload: text("x")}); err != nil || isNew || again.Status != task.Completed {
			w.Errorf("a key of a task that is done gives %+v, %v, %v", again, isNew, err)
		}
		w.nothing(a, "q")
	})
}

// A key can be used again when it has expired, even if the table has not deleted
// it yet.
func TestKeysAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{KeepKey: time.Minute, Poll: time.Second})
		first := w.submit(s, "q", task.Submission{Key: "k"})
		time.Sleep(2 * time.Minute)
		second := w.submit(s, "q", task.Submission{Key: "k", Payload: text("other")})
		if first.ID == second.ID {
			w.Error("it is the same task")
		}
	})
}

func TestClaimTellsWhoHasIt(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{})
		c, err := s.ClaimTask(w.Context(), in.ID, "first", span)
		w.good(err)
		_, err = s.ClaimTask(w.Context(), in.ID, "second", span)
		if r := w.refused(err, Conflict); r.Task == nil || r.Task.Worker != "first" || r.Task.Status != task.Processing {
			w.Errorf("the refusal has %+v", r.Task)
		}
		w.good(s.Complete(w.Context(), in.ID, "first", c.Token, ""))
		_, err = s.ClaimTask(w.Context(), in.ID, "second", span)
		if r := w.refused(err, Conflict); r.Task.Status != task.Completed {
			w.Errorf("the refusal has %+v", r.Task)
		}
		_, err = s.ClaimTask(w.Context(), task.NewID(time.Now()), "second", span)
		w.refused(err, NotFound)
	})
}

func TestUrgentTasksGoFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		for n, p := range []int{5, 1, 9, 5, 9, 0} {
			w.submit(s, "q", task.Submission{Priority: &p, Payload: text(fmt.Sprint(p, "-", n))})
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Second)
		for _, want := range []string{"9-2", "9-4", "5-0", "5-3", "1-1", "0-5"} {
			if c := w.claim(s, "q", "w"); string(c.Payload) != `"`+want+`"` {
				w.Errorf("%s is claimed, want %s", c.Payload, want)
			}
		}
	})
}

func TestDelayedTasksWait(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{Delay: task.Duration(20 * time.Second)})
		w.is(s, in.ID, task.Delayed)
		time.Sleep(15 * time.Second)
		w.nothing(s, "q")
		time.Sleep(4 * time.Second)
		w.claim(s, "q", "w")
	})
}

// A task that is due later than the horizon of memory is found by the index.
func TestTasksThatAreDueMuchLater(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{Poll: 2 * time.Second})
		late := w.submit(s, "q", task.Submission{Delay: task.Duration(30 * time.Minute)})
		time.Sleep(5 * time.Second)
		if q, err := s.Queue("q"); err != nil || q.Delayed != 0 {
			w.Errorf("in memory there are %+v, %v", q, err)
		}
		time.Sleep(29 * time.Minute)
		w.is(s, late.ID, task.Delayed)
		time.Sleep(2 * time.Minute)
		w.claim(s, "q", "w")
	})
}

func TestRetriesBackOffAndEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{MaxAttempts: 3, Backoff: task.Duration(4 * time.Second)})
		for attempt := 1; attempt <= 3; attempt++ {
			c := w.claim(s, "q", "w")
			if c.Attempts != attempt {
				w.Fatalf("attempt %d is numbered %d", attempt, c.Attempts)
			}
			status, err := s.Fail(w.Context(), c.ID, "w", c.Token, Failure{Reason: fmt.Sprint("no ", attempt)})
			w.good(err)
			if attempt < 3 {
				if status != task.Delayed {
					w.Fatalf("after attempt %d it is %s", attempt, status)
				}
				wait := w.get(s, c.ID).RunAt.Sub(w.get(s, c.ID).Updated)
				if full := time.Duration(4<<(attempt-1)) * time.Second; wait > full || wait < full*3/4 {
					w.Errorf("after attempt %d it waits %v", attempt, wait)
				}
				time.Sleep(wait)
			} else if status != task.Dead {
				w.Errorf("in the end it is %s", status)
			}
		}
		if dead := w.get(s, in.ID); dead.Status != task.Dead || dead.Reason != "no 3" {
			w.Errorf("it is %+v", dead)
		}
		w.nothing(s, "q")
		page, err := s.List(w.Context(), task.Selection{Queue: "q", Status: task.Dead}, "", 10)
		if err != nil || len(page.Tasks) != 1 {
			w.Errorf("the dead letters are %+v, %v", page, err)
		}
		again, err := s.Requeue(w.Context(), in.ID)
		if err != nil || again.Status != task.Pending || again.Attempts != 0 {
			w.Errorf("requeued it is %+v, %v", again, err)
		}
		c := w.claim(s, "q", "w")
		if status, err := s.Fail(w.Context(), c.ID, "w", c.Token, Failure{Reason: "hopeless", Never: true}); err != nil || status != task.Failed {
			w.Errorf("a task that must not be retried is %s, %v", status, err)
		}
		if _, err := s.Requeue(w.Context(), in.ID); err != nil {
			w.Error(err)
		}
		c = w.claim(s, "q", "w")
		if _, err := s.Fail(w.Context(), c.ID, "w", c.Token, Failure{After: time.Minute}); err != nil || w.get(s, c.ID).RunAt.Sub(w.get(s, c.ID).Updated) != time.Minute {
			w.Errorf("the worker's delay is not used: %v", err)
		}
	})
}

// A worker's report can be lost and repeated; a report of a worker that no longer
// has the task is rejected.
func TestWordsAreSaidOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		for _, c := range []struct {
			name string
			say  func(c task.Claim) error
		}{
			{"complete", func(c task.Claim) error { return s.Complete(w.Context(), c.ID, c.Worker, c.Token, "r") }},
			{"fail", func(c task.Claim) error {
				_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: "r"})
				return err
			}},
			{"fail for good", func(c task.Claim) error {
				_, err := s.Fail(w.Context(), c.ID, c.Worker, c.Token, Failure{Reason: "r", Never: true})
				return err
			}},
			{"release", func(c task.Claim) error { return s.Release(w.Context(), c.ID, c.Worker, c.Token) }},
		} {
			q := "q" + c.name[:1] + c.name[len(c.name)-1:]
			w.submit(s, q, task.Submission{})
			claim := w.claim(s, q, "w")
			w.good(c.say(claim))
			was := w.get(s, claim.ID)
			if err := c.say(claim); err != nil {
				w.Errorf("%s repeated: %v", c.name, err)
			}
			if now := w.get(s, claim.ID); now.Seq < was.Seq || now.Seq > was.Seq+1 {
				w.Errorf("%s repeated leads from %+v to %+v", c.name, was, now)
			}
			stranger := claim
			stranger.Worker = "other"
			w.refused(c.say(stranger), Conflict)
			forged := claim
			forged.Token = task.Token{Seq: 7, Queue: q}.String()
			w.refused(c.say(forged), Conflict)
			forged.Token = task.Token{Seq: 2, Queue: "elsewhere"}.String()
			if err := c.say(forged); c.name != "complete" && err == nil {
				continue // a repetition, by the number of the claim
			}
			w.good(s.table.Flush(w.Context())) // claims are deleted after the reply
			w.refused(s.Heartbeat(w.Context(), claim.ID, "w", claim.Token), Conflict)
		}
	})
}

func TestCancel(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		pending := w.submit(s, "q", task.Submission{})
		delayed := w.submit(s, "q", task.Submission{Delay: task.Duration(5 * time.Second)})
		running := w.submit(s, "r", task.Submission{})
		c := w.claim(s, "r", "w")
		for _, x := range []task.Task{pending, delayed, running} {
			got, err := s.Cancel(w.Context(), x.ID, "enough")
			if err != nil || got.Status != task.Cancelled || got.Reason != "enough" {
				w.Errorf("cancelled it is %+v, %v", got, err)
			}
			if _, err := s.Cancel(w.Context(), x.ID, "again"); err != nil {
				w.Errorf("cancelling twice returns %v", err)
			}
		}
		w.refused(s.Heartbeat(w.Context(), c.ID, "w", c.Token), Conflict)
		w.refused(s.Complete(w.Context(), c.ID, "w", c.Token, ""), Conflict)
		time.Sleep(10 * time.Second)
		w.nothing(s, "q")
		done := w.submit(s, "q", task.Submission{})
		c = w.claim(s, "q", "w")
		w.good(s.Complete(w.Context(), done.ID, "w", c.Token, ""))
		_, err := s.Cancel(w.Context(), done.ID, "late")
		w.refused(err, Conflict)
		_, err = s.Requeue(w.Context(), done.ID)
		w.refused(err, Conflict)
	})
}

func TestLists(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		for range 25 {
			w.submit(s, "q", task.Submission{})
			time.Sleep(time.Millisecond)
		}
		w.submit(s, "other", task.Submission{})
		var got []string
		next, pages := "", 0
		for {
			page, err := s.List(w.Context(), task.Selection{Queue: "q", Status: task.Pending}, next, 10)
			w.good(err)
			pages++
			for _, x := range page.Tasks {
				got = append(got, x.ID)
			}
			if next = page.Next; next == "" {
				break
			}
		}
		if len(got) != 25 || pages != 3 {
			w.Fatalf("%d tasks on %d pages", len(got), pages)
		}
		for i, id := range got {
			if id != w.ids[24-i] {
				w.Fatalf("place %d is %s, want %s", i, id, w.ids[24-i])
			}
		}
		c := w.claim(s, "q", "w")
		page, err := s.List(w.Context(), task.Selection{Queue: "q", Status: task.Processing}, "", 10)
		if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != c.ID || page.Tasks[0].Worker != "w" {
			w.Errorf("tasks in processing are %+v, %v", page, err)
		}
		workers, err := s.Workers(w.Context())
		if err != nil || len(workers) != 1 || len(workers[0].Tasks) != 1 {
			w.Errorf("the workers are %+v, %v", workers, err)
		}
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		if page, err := s.List(w.Context(), task.Selection{Queue: "q", Status: task.Completed}, "", 10); err != nil || len(page.Tasks) != 1 || page.Tasks[0].Worker != "w" {
			w.Errorf("completed tasks are %+v, %v", page, err)
		}
	})
}

func TestBadWordsAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{})
		ctx := w.Context()
		long := string(make([]byte, 5000))
		for name, err := range map[string]error{
			"a queue with a hash":   second(s.Submit(ctx, "a#b", task.Submission{Type: "t"})),
			"a lease of zero":       second(s.Claim(ctx, "q", "w", 0, 0)),
			"a lease of days":       second(s.Claim(ctx, "q", "w", 48*time.Hour, 0)),
			"a worker with a space": second(s.Claim(ctx, "q", "a b", span, 0)),
			"no worker":             second(s.Claim(ctx, "q", "", span, 0)),
			"an invalid id":         s.Complete(ctx, "x", "w", "2.0.q", ""),
			"no token":              s.Complete(ctx, in.ID, "w", "", ""),
			"a long result":         s.Complete(ctx, in.ID, "w", "2.0.q", long),
			"an unknown status":     first(s.List(ctx, task.Selection{Queue: "q", Status: "SLEEPING"}, "", 10)),
			"an empty page":         first(s.List(ctx, task.Selection{Queue: "q", Status: task.Pending}, "", 0)),
			"a negative limit":      first(s.SetQueue(ctx, task.Queue{Name: "q", MaxPending: 1, MaxRunning: -1})),
		} {
			var f *task.Fault
			if !errors.As(err, &f) {
				w.Errorf("%s: %v, want a fault", name, err)
			}
		}
		w.is(s, in.ID, task.Pending)
	})
}

func first[A any](_ A, err error) error          { return err }
func second[A, B any](_ A, _ B, err error) error { return err }

// A task is not lost when a worker disconnects while it waits for one.
func TestWorkersThatDisconnect(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		var claimed atomic.Int32
		for round := range 50 {
			ctx, cancel := context.WithCancel(w.Context())
			var group sync.WaitGroup
			for i := range 5 {
				group.Go(func() {
					worker := fmt.Sprint("hasty", i)
					c, ok, _ := s.Claim(ctx, "q", worker, span, time.Minute)
					if ok {
						claimed.Add(1)
						w.good(s.Complete(w.Context(), c.ID, worker, c.Token, ""))
					}
				})
			}
			w.submit(s, "q", task.Submission{})
			time.Sleep(time.Duration(round) * time.Millisecond)
			cancel()
			group.Wait()
		}
		for range 50 - claimed.Load() {
			c := w.claim(s, "q", "w")
			if c.Attempts != 1 {
				w.Errorf("it is attempt %d", c.Attempts)
			}
			w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		}
		for _, id := range w.ids {
			w.is(s, id, task.Completed)
		}
	})
}
