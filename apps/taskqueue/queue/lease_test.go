package queue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// A task whose worker sends no heartbeats is given to another worker; a task whose
// worker does is not, however long it takes.
func TestLeases(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		w.submit(s, "q", task.Submission{Payload: text("dies")})
		dead := w.claim(s, "q", "dies")
		w.submit(s, "q", task.Submission{Payload: text("lives")})
		live := w.claim(s, "q", "lives")
		for range 10 {
			time.Sleep(span / 2)
			w.good(s.Heartbeat(w.Context(), live.ID, "lives", live.Token))
		}
		again := w.claim(s, "q", "other")
		if again.ID != dead.ID || again.Attempts != 2 {
			w.Errorf("the task claimed again is %+v", again.Task)
		}
		w.nothing(s, "q")
		// The first worker is back. Its reports are rejected.
		w.refused(s.Heartbeat(w.Context(), dead.ID, "dies", dead.Token), Conflict)
		w.refused(s.Complete(w.Context(), dead.ID, "dies", dead.Token, "late"), Conflict)
		w.refused(s.Release(w.Context(), dead.ID, "dies", dead.Token), Conflict)
		w.good(s.Complete(w.Context(), again.ID, "other", again.Token, ""))
		w.good(s.Complete(w.Context(), live.ID, "lives", live.Token, ""))
	})
}

// A lease lasts as long as requested: not less, and not much more.
func TestLeasesLast(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{})
		w.claim(s, "q", "w")
		time.Sleep(span - 100*time.Millisecond)
		w.is(s, in.ID, task.Processing)
		time.Sleep(time.Second)
		w.is(s, in.ID, task.Pending)
	})
}

// A worker that lost a task and claimed it again has another claim.
func TestClaimsOfOneWorkerAreToldApart(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		w.submit(s, "q", task.Submission{})
		old := w.claim(s, "q", "w")
		time.Sleep(span + time.Second)
		now := w.claim(s, "q", "w")
		w.refused(s.Complete(w.Context(), old.ID, "w", old.Token, "old"), Conflict)
		w.refused(s.Heartbeat(w.Context(), old.ID, "w", old.Token), Conflict)
		w.good(s.Complete(w.Context(), now.ID, "w", now.Token, "now"))
		if got := w.get(s, now.ID); got.Result != "now" {
			w.Errorf("the result is %q", got.Result)
		}
	})
}

// A task that crashes its workers becomes dead.
func TestPoison(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{})
		in := w.submit(s, "q", task.Submission{MaxAttempts: 3})
		for range 3 {
			w.claim(s, "q", "w")
			time.Sleep(span + time.Second)
		}
		w.is(s, in.ID, task.Dead)
		w.nothing(s, "q")
	})
}

// A server that starts finds the claims of workers that crashed while no server
// ran, and gives each a whole lease: it cannot know when their last heartbeat was.
func TestLeasesOutliveServers(t *testing.T) {
	inWorld(t, func(w *world) {
		first, stop := w.serverUntil(Options{})
		in := w.submit(first, "q", task.Submission{})
		w.claim(first, "q", "w")
		waiting := w.submit(first, "q", task.Submission{})
		delayed := w.submit(first, "later", task.Submission{Delay: task.Duration(time.Minute)})
		stop()
		time.Sleep(time.Hour)
		second := w.server(Options{})
		for queue, want := range map[string]string{"q": waiting.ID, "later": delayed.ID} {
			c := w.claim(second, queue, "v")
			if c.ID != want {
				w.Errorf("%s is claimed, want %s", c.ID, want)
			}
			w.good(second.Complete(w.Context(), c.ID, "v", c.Token, ""))
		}
		w.is(second, in.ID, task.Processing)
		time.Sleep(span)
		if c := w.claim(second, "q", "v"); c.ID != in.ID {
			w.Errorf("%s is claimed, want %s", c.ID, in.ID)
		}
	})
}

// A server that starts finds a queue at which a worker waited before any task was
// submitted.
func TestQueuesThatBeganWithAWorker(t *testing.T) {
	inWorld(t, func(w *world) {
		first, stop := w.serverUntil(Options{})
		w.nothing(first, "q")
		in := w.submit(first, "q", task.Submission{})
		stop()
		second := w.server(Options{})
		if q, err := second.Queue("q"); err != nil || q.Pending != 1 {
			w.Errorf("the queue is %+v, %v", q, err)
		}
		if c := w.claim(second, "q", "w"); c.ID != in.ID {
			w.Errorf("%s is claimed, want %s", c.ID, in.ID)
		}
	})
}

// A clock that jumps expires no lease and loses no task, and a delayed task runs
// when the clock says so.
func TestClocksThatJump(t *testing.T) {
	inWorld(t, func(w *world) {
		var jump atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
		s := w.server(Options{Now: now})
		in := w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		delayed := w.submit(s, "later", task.Submission{Delay: task.Duration(time.Hour)})
		for _, d := range []time.Duration{30 * time.Minute, -6 * time.Hour} {
			jump.Add(int64(d))
			time.Sleep(span / 2)
			w.is(s, in.ID, task.Processing)
			w.good(s.Heartbeat(w.Context(), c.ID, "w", c.Token))
		}
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		w.is(s, delayed.ID, task.Delayed)
		early := w.submit(s, "q", task.Submission{})
		if got := w.claim(s, "q", "w"); got.ID != early.ID {
			w.Errorf("%s is claimed, want %s", got.ID, early.ID)
		}
		jump.Store(int64(2 * time.Hour))
		time.Sleep(2 * time.Minute) // it was too far ahead to be in memory
		if got := w.claim(s, "later", "w"); got.ID != delayed.ID {
			w.Errorf("%s is claimed, want %s", got.ID, delayed.ID)
		}
	})
}

// A task that waits too long becomes dead.
func TestOldTasksBecomeDead(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{MaxAge: 10 * time.Minute, Poll: time.Second})
		old := w.submit(s, "q", task.Submission{})
		delayed := w.submit(s, "p", task.Submission{Delay: task.Duration(8 * time.Minute)})
		time.Sleep(12 * time.Minute)
		w.is(s, old.ID, task.Dead)
		w.is(s, delayed.ID, task.Pending) // it waits since it was due
	})
}
