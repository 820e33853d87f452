package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A job is one slice of load.
type job struct {
	Workload    string        `json:"workload"`
	Connections int           `json:"connections"`
	Warm        time.Duration `json:"warm"` // not counted
	Slice       time.Duration `json:"slice"`
	Seed        uint64        `json:"seed"`
}

// A sample holds the results of a slice.
type sample struct {
	Ops     float64       `json:"ops"`   // operations at the edges count by the part within the slice
	Items   float64       `json:"items"` // read or written by them
	Elapsed time.Duration `json:"elapsed"`
	Latency histogram     `json:"latency"`
	AllOps  int64         `json:"all_ops"` // including those of the warm-up

	Sent, Received int64 // bytes of all operations; 0 if they are not known

	Errors int64  `json:"errors"`
	First  string `json:"first_error"`
}

// An actor executes one operation after the other. prepare is not timed, act is.
type actor interface {
	prepare()
	act() (items int, err error)
	close()
}

// drive runs one actor for each of the job's connections concurrently. An actor
// begins an operation when its last one has ended.
func drive(ctx context.Context, j job, newActor func(ctx context.Context, i int) (actor, error)) (sample, error) {
	actors := make([]actor, 0, j.Connections)
	defer func() {
		for _, a := range actors {
			a.close()
		}
	}()
	for i := range j.Connections {
		a, err := newActor(ctx, i)
		if err != nil {
			return sample{}, err
		}
		actors = append(actors, a)
	}
	counted := time.Now().Add(j.Warm)
	end := counted.Add(j.Slice)
	parts := make([]sample, len(actors))
	var wg sync.WaitGroup
	for i, a := range actors {
		wg.Go(func() { parts[i].fill(ctx, a, counted, end) })
	}
	wg.Wait()
	whole := sample{Elapsed: j.Slice}
	for i := range parts {
		whole.add(&parts[i])
	}
	return whole, ctx.Err()
}

// fill runs an actor until the end of the slice, for at least one operation.
func (s *sample) fill(ctx context.Context, a actor, counted, end time.Time) {
	for first := true; ctx.Err() == nil && !s.hopeless(1); first = false {
		a.prepare()
		began := time.Now()
		if !first && !began.Before(end) {
			return
		}
		items, err := a.act()
		s.note(began, time.Now(), counted, end, items, err)
	}
}

// note counts an operation. An operation that began before the slice or ends
// after it counts by the part of its time within the slice; otherwise slow
// operations would be underestimated.
func (s *sample) note(began, ended, counted, end time.Time, items int, err error) {
	if err != nil {
		s.fault(err)
		return
	}
	s.AllOps++
	if ended.Before(counted) {
		return
	}
	s.Latency.record(ended.Sub(began))
	part := within(began, ended, counted, end)
	s.Ops += part
	s.Items += part * float64(items)
}

// hopeless reports whether there were only errors, at least 20 for each actor.
func (s *sample) hopeless(actors int) bool { return s.AllOps == 0 && s.Errors >= 20*int64(actors) }

// within returns the part of an operation's time that lies in the slice.
func within(began, ended, counted, end time.Time) float64 {
	whole := ended.Sub(began)
	if whole <= 0 {
		return 1
	}
	if began.Before(counted) {
		began = counted
	}
	if ended.After(end) {
		ended = end
	}
	return max(0, float64(ended.Sub(began))/float64(whole))
}

func (s *sample) fault(err error) {
	if s.Errors++; s.Errors == 1 {
		s.First = err.Error()
	}
}

func (s *sample) add(other *sample) {
	s.Ops += other.Ops
	s.Items += other.Items
	s.AllOps += other.AllOps
	s.Sent += other.Sent
	s.Received += other.Received
	s.Errors += other.Errors
	s.Latency.add(&other.Latency)
	if s.First == "" {
		s.First = other.First
	}
}

// failed returns the first error of a slice in which no operation succeeded.
func (s *sample) failed() error {
	if s.Errors > 0 && s.AllOps == 0 {
		return errors.New(s.First)
	}
	return nil
}
