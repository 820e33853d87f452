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
	Warm        time.Duration `json:"warm"` // before counting
	Slice       time.Duration `json:"slice"`
	Seed        uint64        `json:"seed"`
}

// A sample is what a slice showed.
type sample struct {
	Ops     float64       `json:"ops"`   // those at its edges by the part within it
	Items   float64       `json:"items"` // read or written by them
	Elapsed time.Duration `json:"elapsed"`
	Latency histogram     `json:"latency"`
	AllOps  int64         `json:"all_ops"` // with those of warming up
	Errors  int64         `json:"errors"`
	First   string        `json:"first_error"`
}

// An actor does one operation after the other. What it needs is prepared
// first, so that act is what is timed.
type actor interface {
	prepare()
	act() (items int, err error)
	close()
}

// drive has as many actors as the job has connections work side by side, each
// beginning an operation when its last has ended.
func drive(ctx context.Context, j job, hire func(ctx context.Context, i int) (actor, error)) (sample, error) {
	actors := make([]actor, 0, j.Connections)
	defer func() {
		for _, a := range actors {
			a.close()
		}
	}()
	for i := range j.Connections {
		a, err := hire(ctx, i)
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

// fill lets an actor work until the end. Each does at least one operation.
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

// note counts an operation. One that began before the slice or ends after it
// counts by the part of its time that lies within: otherwise slow operations
// would seem slower still.
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

// hopeless tells whether there were only errors, and enough of them for so many
// actors.
func (s *sample) hopeless(actors int) bool { return s.AllOps == 0 && s.Errors >= 20*int64(actors) }

// within is the part of an operation's time that lies in the slice.
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
	s.Errors += other.Errors
	s.Latency.add(&other.Latency)
	if s.First == "" {
		s.First = other.First
	}
}

// failed tells why nothing came of a slice; nil if something did.
func (s *sample) failed() error {
	if s.Errors > 0 && s.AllOps == 0 {
		return errors.New(s.First)
	}
	return nil
}
