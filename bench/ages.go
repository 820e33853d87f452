package main

import (
	"context"
	"errors"
	"time"
)

// idleDelay is how long some servers with a large table are idle before they
// start background work such as compaction.
const (
	idleDelay = 25 * time.Second
	large     = 1_000_000
)

// ages compares a target with itself over tables of several sizes. The servers
// run side by side and take part in rounds as different targets do. Each table is
// scanned once before, so that caches are warm.
func ages(ctx context.Context, w *launcher, p plan, specs []spec, sizes []int, limit time.Duration) ([]figures, error) {
	p.workloads = nil
	for _, name := range []string{"get", "query"} {
		w, err := workloadNamed(name)
		if err != nil {
			return nil, err
		}
		p.workloads = append(p.workloads, w)
	}
	var all []figures
	for _, s := range specs {
		if s.kind == nil || !s.can("query") {
			continue // a server that runs already has one size only
		}
		found, err := ageOne(ctx, w, p, s, sizes, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func ageOne(ctx context.Context, w *launcher, p plan, s spec, sizes []int, limit time.Duration) (found []figures, err error) {
	var targets []*target
	defer func() { err = errors.Join(err, stopAll(targets)) }()
	for _, n := range sizes {
		t, err := w.open(ctx, s, newDataset(n, 0))
		if err != nil {
			return nil, err
		}
		t.name += " with " + thousands(float64(n))
		targets = append(targets, t)
		w.progress("loading %s items", t.name)
		if err := prepareWithin(ctx, t, false, limit); err != nil {
			return nil, err
		}
		w.progress("waiting until the server is idle")
		window := quick
		if n >= large {
			window = idleDelay
		}
		rest(ctx, t.pid(), window, 10*time.Minute)
		if t.api == nil {
			continue
		}
		w.progress("reading the table once")
		if err := t.api.readAll(ctx); err != nil {
			return nil, err
		}
	}
	cells, err := p.compare(ctx, targets)
	if err != nil {
		return nil, err
	}
	return summarise(cells, len(targets)), nil
}

func stopAll(targets []*target) error {
	var all error
	for _, t := range targets {
		all = errors.Join(all, t.stop())
	}
	return all
}
