package main

import (
	"context"
	"errors"
	"time"
)

// putOff is how long a server may do nothing before it tidies up, which some do
// with a large table.
const (
	putOff = 25 * time.Second
	large  = 1_000_000
)

// ages compares a target with itself over tables of several sizes. All run
// side by side, so that rounds can go over them as over different targets. Each
// is read once before, so that a cache holds what it has room for.
func ages(ctx context.Context, w *workshop, p plan, specs []spec, sizes []int, limit time.Duration) ([]figures, error) {
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
			continue // one that is started elsewhere is there only once
		}
		found, err := ageOne(ctx, w, p, s, sizes, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func ageOne(ctx context.Context, w *workshop, p plan, s spec, sizes []int, limit time.Duration) (found []figures, err error) {
	var targets []*target
	defer func() { err = errors.Join(err, stopAll(targets)) }()
	for _, n := range sizes {
		t, err := w.open(ctx, s, newCatalogue(n, 0))
		if err != nil {
			return nil, err
		}
		t.name += " with " + thousands(float64(n))
		targets = append(targets, t)
		w.progress("loading %s items", t.name)
		if err := prepareWithin(ctx, t, false, limit); err != nil {
			return nil, err
		}
		w.progress("waiting until it is settled")
		window := quick
		if n >= large {
			window = putOff
		}
		rest(ctx, t.pid(), window, 10*time.Minute)
		if t.api == nil {
			continue
		}
		w.progress("reading it once")
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
