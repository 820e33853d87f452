package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// A plan lists the slices of a comparison.
type plan struct {
	workloads   []*workload
	connections []int
	rounds      int
	warm, slice time.Duration
	seed        uint64
	pause       bool // stop the processes of the other targets during a slice
	progress    func(format string, args ...any)
}

// A cell holds the results of one target, workload and number of connections.
type cell struct {
	workload    *workload
	connections int
	target      *target
	able        bool      // the target supports the workload
	rounds      []float64 // items per second of each round
	sum         sample
	cpu         time.Duration // of sum.AllOps operations
	cpuKnown    bool
	dead        bool // all operations failed, so it is not tried again
}

// compare runs all slices. Within a round the targets follow each other for each
// workload, and each round has another order, so that a disturbance of the
// machine affects all targets alike.
func (p *plan) compare(ctx context.Context, targets []*target) ([]*cell, error) {
	var cells []*cell
	for _, w := range p.workloads {
		for _, n := range p.connections {
			for _, t := range targets {
				cells = append(cells, &cell{workload: w, connections: n, target: t, able: t.can(w.name), cpuKnown: true})
			}
		}
	}
	for round := range p.rounds {
		for group := range slices.Chunk(cells, len(targets)) {
			for i := range group {
				c := group[(i+round)%len(group)]
				if !c.able || c.dead {
					continue
				}
				others := slices.DeleteFunc(slices.Clone(targets), func(t *target) bool { return t == c.target || !p.pause })
				if err := stopped(others, func() error { return p.take(ctx, c, round) }); err != nil {
					return nil, err
				}
			}
		}
	}
	return cells, nil
}

// stopped calls f while the processes of the targets that bench has started are stopped.
func stopped(targets []*target, f func() error) error {
	for _, t := range targets {
		if t.process == nil {
			continue
		}
		group := -t.process.pid()
		if err := syscall.Kill(group, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("stop the process of %s: %w", t.name, err)
		}
		defer syscall.Kill(group, syscall.SIGCONT) //nolint:errcheck // it may have ended
	}
	return f()
}

// take runs one slice. Processor time is counted until the server is idle again,
// so that background work is included.
func (p *plan) take(ctx context.Context, c *cell, round int) error {
	pid := c.target.pid()
	before, err := cpuOf(pid)
	known := err == nil
	s, err := c.target.driver.run(ctx, job{
		Workload: c.workload.name, Connections: c.connections,
		Warm: p.warm, Slice: p.slice, Seed: p.seed + uint64(round),
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s = sample{}
		s.fault(err)
	}
	if known {
		settle(ctx, pid, settleTime)
		after, err := cpuOf(pid)
		c.cpu += after - before
		known = err == nil
	}
	c.cpuKnown = c.cpuKnown && known
	c.dead = s.failed() != nil
	c.sum.add(&s)
	rate := 0.0
	if s.Elapsed > 0 {
		rate = s.Items / s.Elapsed.Seconds()
	}
	c.rounds = append(c.rounds, rate)
	p.progress("round %d of %d: %s over %d, %s: %s items/s", round+1, p.rounds, c.workload.name, c.connections, c.target.name, thousands(rate))
	return nil
}

// ratio returns the target's rate relative to another's, as the median over the
// rounds that both were in; 0 if there are none.
func (c *cell) ratio(to *cell) float64 {
	var all []float64
	for i := range min(len(c.rounds), len(to.rounds)) {
		if to.rounds[i] > 0 {
			all = append(all, c.rounds[i]/to.rounds[i])
		}
	}
	return median(all)
}

// median returns 0 if there are no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
