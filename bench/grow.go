package main

import (
	"context"
	"fmt"
	"time"
)

// A growLine holds a target's memory and disk usage at a number of items.
type growLine struct {
	Target  string  `json:"target"`
	Items   int     `json:"items"`
	Seconds float64 `json:"load_seconds,omitempty"` // since the previous line
	Memory  int64   `json:"memory_bytes,omitempty"`
	Most    int64   `json:"most_memory_bytes,omitempty"`
	Disk    int64   `json:"disk_bytes,omitempty"`
	Problem string  `json:"problem,omitempty"`
}

// grow loads the targets, one after the other, with increasing numbers of items.
// Each step has a time limit.
func grow(ctx context.Context, w *launcher, specs []spec, sizes []int, limit time.Duration) ([]growLine, error) {
	var lines []growLine
	for _, s := range specs {
		if !s.can("batch") {
			continue
		}
		found, err := growOne(ctx, w, s, sizes, limit)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			found = append(found, growLine{Target: s.name, Problem: err.Error()})
		}
		lines = append(lines, found...)
	}
	return lines, nil
}

func growOne(ctx context.Context, w *launcher, s spec, sizes []int, limit time.Duration) (lines []growLine, err error) {
	t, err := w.open(ctx, s, newDataset(sizes[len(sizes)-1], 0))
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := t.stop(); err == nil {
			err = stopErr
		}
	}()
	if t.api != nil {
		if err := t.api.makeTable(ctx, tableItems, createItems); err != nil {
			return nil, err
		}
	}
	from := 0
	for _, to := range sizes {
		w.progress("loading %s up to %s items", t.name, thousands(float64(to)))
		began := time.Now()
		if err := loadWithin(ctx, t, from, to, limit); err != nil {
			return append(lines, growLine{Target: t.name, Items: to, Problem: err.Error()}), nil
		}
		line := growLine{Target: t.name, Items: to, Seconds: time.Since(began).Seconds()}
		settle(ctx, t.pid(), time.Minute)
		line.Memory, line.Most, _ = memoryOf(t.pid())
		if t.kind != nil && t.kind.disk {
			line.Disk, _ = diskOf(t.folder)
		}
		lines = append(lines, line)
		from = to
	}
	return lines, nil
}

func loadWithin(ctx context.Context, t *target, from, to int, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not loaded within %v", limit))
	defer cancel()
	return t.driver.load(ctx, tableItems, from, to)
}

func growRows(lines []growLine) [][]string {
	rows := [][]string{{"TARGET", "ITEMS", "LOAD s", "MEMORY", "PEAK", "DISK", "PROBLEM"}}
	for i, l := range lines {
		if i > 0 && l.Target != lines[i-1].Target {
			rows = append(rows, nil)
		}
		rows = append(rows, []string{l.Target, figure(float64(l.Items), 0), figure(l.Seconds, 1),
			megabytes(l.Memory), megabytes(l.Most), megabytes(l.Disk), orDash(l.Problem)})
	}
	return rows
}
