package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// load is a running part of the benchmark.
type load struct {
	c       *client.Client
	queue   string
	payload []byte

	mutex     sync.Mutex
	lives     map[string]*life
	submits   []time.Duration
	refused   int
	completed atomic.Int64
	submitted atomic.Int64
	failed    error
}

// life holds the benchmark's observations of a task.
type life struct {
	submitted, done time.Time
	runs            int
	running         bool
	overlapping     bool
}

// part runs one part: at a rate, or at full speed.
func (o *benching) part(ctx context.Context, url, name string, span time.Duration, paced bool) (Part, error) {
	l := &load{c: newClient(url), queue: o.queue, payload: payloadOf(o.payload), lives: make(map[string]*life)}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	for i := range o.workers {
		workers.Go(func() {
			if err := l.work(working, fmt.Sprintf("%s-%03d", name, i)); err != nil {
				l.fail(err)
			}
		})
	}
	cpu, began := cpuTime(), time.Now()
	if paced {
		l.paced(ctx, o.rate, span)
	} else {
		l.flatOut(ctx, o.submitter, span)
	}
	l.drain(ctx)
	took, cpu := time.Since(began), cpuTime()-cpu
	stop()
	workers.Wait()
	if l.failed != nil {
		return Part{}, l.failed
	}
	p := l.sum()
	p.Name, p.Seconds, p.PerSecond = name, took.Seconds(), float64(p.Completed)/took.Seconds()
	p.CoresUsed = cpu.Seconds() / took.Seconds()
	return p, l.verify(ctx, &p)
}

func (l *load) fail(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// paced submits each task at its scheduled time. Latency is counted from that
// time, even if the request was sent late.
func (l *load) paced(ctx context.Context, rate int, span time.Duration) {
	var group sync.WaitGroup
	underWay := make(chan struct{}, 2000)
	began := time.Now()
	for n := range int(float64(rate) * span.Seconds()) {
		moment := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(moment))
		if ctx.Err() != nil {
			break
		}
		underWay <- struct{}{}
		group.Go(func() {
			l.submit(ctx, moment)
			<-underWay
		})
	}
	group.Wait()
}

// flatOut submits as fast as tasks are completed, with at most 1,000 pending.
func (l *load) flatOut(ctx context.Context, submitters int, span time.Duration) {
	until := time.Now().Add(span)
	var group sync.WaitGroup
	for range submitters {
		group.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				if l.submitted.Load()-l.completed.Load() > 1000 {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				l.submit(ctx, time.Now())
			}
		})
	}
	group.Wait()
}

func (l *load) submit(ctx context.Context, moment time.Time) {
	t, err := l.c.Submit(ctx, l.queue, task.Submission{Type: "bench", Payload: l.payload})
	took := time.Since(moment)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var refused *client.Error
	switch {
	case errors.As(err, &refused):
		l.refused++
		return
	case err != nil:
		l.failed = errors.Join(l.failed, err)
		return
	}
	l.submitted.Add(1)
	l.submits = append(l.submits, took)
	l.life(t.ID).submitted = moment
}

func (l *load) life(id string) *life {
	if l.lives[id] == nil {
		l.lives[id] = new(life)
	}
	return l.lives[id]
}

// work claims and completes tasks until the context ends, and records overlaps.
func (l *load) work(ctx context.Context, worker string) error {
	for ctx.Err() == nil {
		c, ok, err := l.c.Claim(ctx, l.queue, task.ClaimRequest{Worker: worker, Lease: task.Duration(time.Minute), Wait: task.Duration(10 * time.Second)})
		if ctx.Err() != nil && !ok {
			return nil
		}
		if err != nil {
			return fmt.Errorf("claim a task: %w", err)
		}
		if !ok {
			continue
		}
		l.mutex.Lock()
		x := l.life(c.ID)
		x.runs++
		x.overlapping = x.overlapping || x.running
		x.running = true
		l.mutex.Unlock()
		if err := l.c.Complete(context.WithoutCancel(ctx), c, ""); err != nil {
			return fmt.Errorf("complete task %s: %w", c.ID, err)
		}
		l.mutex.Lock()
		x.running = false
		x.done = time.Now()
		l.mutex.Unlock()
		l.completed.Add(1)
	}
	return nil
}

// drain waits until all submitted tasks are done, as long as there is progress.
func (l *load) drain(ctx context.Context) {
	last, since := l.completed.Load(), time.Now()
	for l.completed.Load() < l.submitted.Load() && time.Since(since) < 40*time.Second && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
		if n := l.completed.Load(); n != last {
			last, since = n, time.Now()
		}
	}
}

func (l *load) sum() (p Part) {
	var lives []time.Duration
	for _, x := range l.lives {
		if x.runs > 1 {
			p.RunTwice++
		}
		if x.overlapping {
			p.Overlapping++
		}
		if !x.done.IsZero() {
			p.Completed++
			lives = append(lives, x.done.Sub(x.submitted))
		}
	}
	p.Submitted, p.Refused = len(l.submits), l.refused
	p.Submit, p.Life = spread(l.submits), spread(lives)
	return p
}

// verify reads all tasks back and checks them.
func (l *load) verify(ctx context.Context, p *Part) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for id := range l.lives {
		group.Go(func() error {
			fault, err := l.fault(ctx, id)
			if err != nil || fault == "" {
				return err
			}
			l.mutex.Lock()
			defer l.mutex.Unlock()
			p.Wrong++
			p.First = fault
			return nil
		})
	}
	return group.Wait()
}

// fault returns what is wrong with a task, or "".
func (l *load) fault(ctx context.Context, id string) (string, error) {
	t, err := l.c.Get(ctx, id)
	if err != nil {
		return "", fmt.Errorf("read back task %s: %w", id, err)
	}
	events, err := l.c.History(ctx, id)
	if err != nil {
		return "", fmt.Errorf("read back the history of task %s: %w", id, err)
	}
	if t.Status != task.Completed {
		return fmt.Sprintf("task %s is %s", id, t.Status), nil
	}
	finals := 0
	for _, e := range events {
		if e.Type == task.Done {
			finals++
		}
	}
	if finals != 1 {
		return fmt.Sprintf("task %s was completed %d times", id, finals), nil
	}
	if err := task.Matches(t, events); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// Spread holds quantiles of durations, in milliseconds.
type Spread struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Most float64 `json:"most"`
}

func spread(d []time.Duration) (s Spread) {
	if len(d) == 0 {
		return s
	}
	slices.Sort(d)
	at := func(q float64) float64 {
		return float64(d[min(len(d)-1, int(q*float64(len(d))))].Microseconds()) / 1000
	}
	return Spread{at(.5), at(.99), at(.999), at(1)}
}
