package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// measure runs the measurements that the settings ask for, and removes all files
// but the packages that npm installed.
func (s *settings) measure(ctx context.Context) (r *report, err error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(s.dir, "run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if scratch, err = filepath.Abs(scratch); err != nil {
		return nil, err
	}
	if inMemory(scratch) {
		s.progress("note: %s is on a file system in memory: syncs are free there", s.dir)
	}
	w := &launcher{scratch: scratch, root: "..", peers: ".peers", sign: s.sign, loaders: s.loaders, cache: s.cache, progress: s.progress}
	if err := s.leaveOut(); err != nil {
		return nil, err
	}
	r = &report{Date: time.Now().UTC(), Machine: thisMachine()}
	for _, part := range []struct {
		wanted bool
		do     func() error
	}{
		{s.cold, func() (err error) { r.Cold, err = cold(ctx, w, s.specs, s.coldRuns); return err }},
		{s.measured, func() (err error) { r.Figures, err = s.compareAll(ctx, w); return err }},
		{len(s.grow) > 0, func() (err error) { r.Grow, err = grow(ctx, w, s.specs, s.grow, s.limit); return err }},
		{len(s.ages) > 0, func() (err error) { r.Ages, err = ages(ctx, w, s.plan, s.specs, s.ages, s.limit); return err }},
	} {
		if part.wanted {
			if err := part.do(); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// leaveOut removes targets whose commands are not installed. It returns an error
// if they were asked for.
func (s *settings) leaveOut() error {
	var kept []spec
	for _, t := range s.specs {
		command := t.missing()
		switch {
		case command == "":
			kept = append(kept, t)
		case s.chosen:
			return fmt.Errorf("%s needs %s, which is not installed", t.name, command)
		default:
			s.progress("%s is left out: it needs %s, which is not installed", t.name, command)
		}
	}
	s.specs = kept
	return nil
}

// compareAll starts and loads all targets, and compares them.
func (s *settings) compareAll(ctx context.Context, w *launcher) (found []figures, err error) {
	indexed := false
	for _, w := range s.workloads {
		indexed = indexed || w.indexed
	}
	c := newDataset(s.items, 0)
	var targets []*target
	defer func() { err = errors.Join(err, stopAll(targets)) }()
	for _, spec := range s.specs {
		t, err := w.open(ctx, spec, c)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
		if t.loads() {
			s.progress("loading %s", t.name)
			if err := prepareWithin(ctx, t, indexed, s.limit); err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
		}
		settle(ctx, t.pid(), settleTime)
	}
	s.progress("%d slices of %v follow", s.rounds*len(targets)*len(s.workloads)*len(s.connections), s.slice+s.warm)
	cells, err := s.compare(ctx, targets)
	if err != nil {
		return nil, err
	}
	return summarise(cells, len(targets)), nil
}

func prepareWithin(ctx context.Context, t *target, indexed bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not loaded within %v", limit))
	defer cancel()
	return t.driver.prepare(ctx, indexed)
}
