package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// A coldLine holds a target's start-up times and its memory at rest.
type coldLine struct {
	Target  string  `json:"target"`
	New     float64 `json:"start_new_ms"`             // without data
	Again   float64 `json:"start_again_ms,omitempty"` // on the data of the first start
	Memory  int64   `json:"idle_memory_bytes"`
	Problem string  `json:"problem,omitempty"`
}

// cold starts each target several times, in turns, and takes medians.
func cold(ctx context.Context, w *launcher, specs []spec, runs int) ([]coldLine, error) {
	c := newDataset(perPartition, 0)
	lines := make([]coldLine, len(specs))
	fresh, again, memory := make([][]float64, len(specs)), make([][]float64, len(specs)), make([][]float64, len(specs))
	for run := range runs {
		for i, s := range specs {
			lines[i].Target = s.name
			if s.kind == nil || lines[i].Problem != "" {
				continue
			}
			first, second, bytes, err := coldRun(ctx, w, s, c)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				lines[i].Problem = err.Error()
				continue
			}
			w.progress("start %d of %d: %s: %v", run+1, runs, s.name, first)
			fresh[i], memory[i] = append(fresh[i], millis(first)), append(memory[i], float64(bytes))
			if s.kind.disk {
				again[i] = append(again[i], millis(second))
			}
		}
	}
	var printed []coldLine
	for i, s := range specs {
		if s.kind != nil { // a server that runs already cannot be started
			lines[i].New, lines[i].Again, lines[i].Memory = median(fresh[i]), median(again[i]), int64(median(memory[i]))
			printed = append(printed, lines[i])
		}
	}
	return printed, nil
}

// coldRun starts a target on an empty folder, waits until it is idle, stops it, and
// starts it again.
func coldRun(ctx context.Context, w *launcher, s spec, c *dataset) (first, second time.Duration, memory int64, err error) {
	folder, err := w.folder(s.name)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	t, err := w.start(ctx, s, c, folder)
	if err != nil {
		return 0, 0, 0, err
	}
	first = t.took
	settle(ctx, t.pid(), settleTime)
	if err := pause(ctx, time.Second); err == nil {
		memory, _, _ = memoryOf(t.pid())
	}
	t.process.stop()
	if !s.kind.disk {
		return first, 0, memory, nil
	}
	if t, err = w.start(ctx, s, c, folder); err != nil {
		return 0, 0, 0, err
	}
	t.process.stop()
	return first, t.took, memory, nil
}

func coldRows(lines []coldLine) [][]string {
	rows := [][]string{{"TARGET", "NEW ms", "AGAIN ms", "MEMORY", "PROBLEM"}}
	for _, l := range lines {
		rows = append(rows, []string{l.Target, figure(l.New, 1), figure(l.Again, 1), megabytes(l.Memory), orDash(l.Problem)})
	}
	return rows
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return fmt.Sprintf("%.120q", s)
}
