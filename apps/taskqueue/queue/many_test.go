package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// watch records which worker runs which task.
type watch struct {
	mutex   sync.Mutex
	running map[string]string
	most    map[string]int // maximum of concurrent tasks of each queue
	now     map[string]int
	runs    map[string]int
	faults  []string
}

func newWatch() *watch {
	return &watch{running: make(map[string]string), most: make(map[string]int), now: make(map[string]int), runs: make(map[string]int)}
}

func (w *watch) begin(queue, id, worker string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if other := w.running[id]; other != "" {
		w.faults = append(w.faults, fmt.Sprintf("%s and %s run task %s at the same time", other, worker, id))
	}
	w.running[id] = worker
	w.runs[id]++
	w.now[queue]++
	w.most[queue] = max(w.most[queue], w.now[queue])
}

func (w *watch) end(queue, id string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.running, id)
	w.now[queue]--
}

// work claims and executes tasks until the context ends. Some workers stop in the
// middle of a task without a report, as if they were killed.
func work(ctx context.Context, s *Service, queue, worker string, r *rand.Rand, see *watch) {
	for ctx.Err() == nil {
		c, ok, err := s.Claim(ctx, queue, worker, span, time.Second)
		if err != nil || !ok {
			continue
		}
		see.begin(queue, c.ID, worker)
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		see.end(queue, c.ID)
		say := context.WithoutCancel(ctx)
		switch n := r.IntN(20); {
		case n == 0: // killed
		case n == 1:
			s.Fail(say, c.ID, worker, c.Token, Failure{Reason: "by chance", After: time.Second})
		case n == 2:
			s.Release(say, c.ID, worker, c.Token)
		default:
			s.Complete(say, c.ID, worker, c.Token, "")
		}
	}
}

// Several servers over one table, workers that fail and are killed: every task
// ends exactly once in a final state, and none runs twice at the same time.
func TestManyServers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inWorld(t, func(w *world) {
		servers := []*Service{w.server(Options{}), w.server(Options{}), w.server(Options{MaxKnown: 100})}
		if _, err := servers[0].SetQueue(w.Context(), task.Queue{Name: "narrow", MaxPending: 1000, MaxRunning: 3}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(time.Second) // until all servers have read the limits
		see := newWatch()
		ctx, stop := context.WithCancel(w.Context())
		var workers sync.WaitGroup
		queues := []string{"wide", "narrow"}
		for i := range 24 {
			workers.Go(func() {
				work(ctx, servers[i%3], queues[i%2], fmt.Sprint("w", i), rand.New(rand.NewPCG(seed, uint64(i))), see)
			})
		}
		r := rand.New(rand.NewPCG(seed, 99))
		for n := range 150 {
			in := task.Submission{MaxAttempts: 50}
			if r.IntN(5) == 0 {
				in.Delay = task.Duration(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			w.submit(servers[n%3], queues[n%4/3], in)
		}
		left := func() (n int) {
			for _, id := range w.ids {
				if x, _, err := w.table.Get(w.Context(), id); err != nil || !x.Status.Final() {
					n++
				}
			}
			return n
		}
		for range 200 {
			if left() == 0 {
				break
			}
			time.Sleep(5 * time.Second)
		}
		stop()
		workers.Wait()
		if n := left(); n > 0 {
			w.Errorf("%d tasks have not ended", n)
		}
		for _, f := range see.faults {
			w.Error(f)
		}
		if see.most["narrow"] > 3 || see.most["wide"] <= 3 {
			w.Errorf("at most %d tasks of the narrow queue ran at the same time and %d of the wide one", see.most["narrow"], see.most["wide"])
		}
		for _, id := range w.ids {
			events, err := w.table.History(w.Context(), id)
			w.good(err)
			finals, taken := 0, 0
			for _, e := range events {
				switch e.Type {
				case task.Done, task.FailedForGood, task.DeadLettered, task.CancelledByClient:
					finals++
				case task.Claimed:
					taken++
				}
			}
			if finals != 1 || taken != see.runs[id] {
				w.Errorf("task %s ended %d times, and ran %d times for %d claims", id, finals, see.runs[id], taken)
			}
		}
	})
}

// The watch finds tasks that run twice at the same time: servers that hand out
// tasks from memory without the condition do that.
func TestWatchFindsClaimsWithoutCondition(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.server(Options{}), w.server(Options{})
		for range 20 {
			w.submit(a, "q", task.Submission{})
		}
		time.Sleep(time.Second)
		see := newWatch()
		var workers sync.WaitGroup
		for i, s := range []*Service{a, b} {
			workers.Go(func() {
				for {
					e, _, _, err := s.pick("q", false)
					if err != nil || e == nil {
						return
					}
					see.begin("q", e.ID, fmt.Sprint("w", i))
					time.Sleep(10 * time.Millisecond)
					see.end("q", e.ID)
				}
			})
		}
		workers.Wait()
		if len(see.faults) == 0 {
			w.Error("no overlap is found")
		}
	})
}

// More tasks than a server holds in memory are all executed, and submissions
// beyond a queue's limit are rejected.
func TestMoreTasksThanMemory(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{MaxKnown: 100})
		for range 350 {
			w.submit(s, "q", task.Submission{})
		}
		time.Sleep(time.Second)
		if q, err := s.Queue("q"); err != nil || q.Pending > 100 || !q.More {
			w.Errorf("in memory there are %+v, %v", q, err)
		}
		seen := make(map[string]bool)
		for range 350 {
			c, ok, err := s.Claim(w.Context(), "q", "w", time.Hour, 10*time.Second)
			if err != nil || !ok || seen[c.ID] {
				w.Fatalf("after %d tasks: ok %v, %v", len(seen), ok, err)
			}
			seen[c.ID] = true
			w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		}
		w.nothing(s, "q")
	})
}

func TestLimitOfWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.server(Options{}), w.server(Options{})
		if _, err := a.SetQueue(w.Context(), task.Queue{Name: "q", MaxPending: 10}); err != nil {
			w.Fatal(err)
		}
		for range 10 {
			w.submit(a, "q", task.Submission{})
		}
		time.Sleep(time.Second)
		for _, s := range []*Service{a, b} {
			_, _, err := s.Submit(w.Context(), "q", task.Submission{Type: "t"})
			w.refused(err, Full)
		}
		w.claim(a, "q", "w")
		time.Sleep(time.Second)
		w.submit(b, "q", task.Submission{})
	})
}

func TestPausedQueuesHandNothingOut(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.server(Options{}), w.server(Options{})
		in := w.submit(a, "q", task.Submission{})
		_, err := a.SetQueue(w.Context(), task.Queue{Name: "q", MaxPending: 10, Paused: true})
		w.good(err)
		time.Sleep(time.Second)
		w.nothing(a, "q")
		w.nothing(b, "q")
		_, err = b.ClaimTask(w.Context(), in.ID, "w", span)
		w.refused(err, Conflict)
		got := make(chan bool)
		go func() {
			_, ok, _ := b.Claim(w.Context(), "q", "w", span, time.Minute)
			got <- ok
		}()
		time.Sleep(5 * time.Second)
		_, err = a.SetQueue(w.Context(), task.Queue{Name: "q", MaxPending: 10})
		w.good(err)
		if !<-got {
			w.Error("a waiting worker is not woken when the queue is resumed")
		}
	})
}

// The stream still wakes workers after its shards have been closed and replaced,
// which happens every four hours.
func TestShardsRoll(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.server(Options{Poll: 5 * time.Second})
		time.Sleep(4*time.Hour + time.Minute)
		w.submit(s, "q", task.Submission{})
		c, ok, err := s.Claim(w.Context(), "q", "w", span, 50*time.Second)
		if err != nil || !ok {
			w.Fatalf("no task arrives: %v", err)
		}
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		w.good(s.Healthy(w.Context()))
	})
}
