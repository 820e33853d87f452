package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// fake is a driver that records its runs.
type fake struct {
	name string
	log  *[]string
	err  error
}

func (f *fake) prepare(context.Context, bool) error          { return nil }
func (f *fake) load(context.Context, string, int, int) error { return nil }
func (f *fake) run(_ context.Context, j job) (sample, error) {
	*f.log = append(*f.log, f.name+" "+j.Workload)
	return sample{Ops: 1, Items: 1, AllOps: 1, Elapsed: time.Second}, f.err
}

// Targets take turns within a workload, and each round begins with another
// target. A target whose operations all fail is not run again.
func TestRoundsInterleave(t *testing.T) {
	var log []string
	var targets []*target
	for _, name := range []string{"a", "b", "c"} {
		targets = append(targets, &target{name: name, driver: &fake{name: name, log: &log}})
	}
	targets[2].driver.(*fake).err = errors.New("gone")
	put, _ := workloadNamed("put")
	get, _ := workloadNamed("get")
	p := plan{workloads: []*workload{put, get}, connections: []int{1}, rounds: 2, slice: time.Second, progress: func(string, ...any) {}}
	cells, err := p.compare(t.Context(), targets)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a put", "b put", "c put", "a get", "b get", "c get", "b put", "a put", "b get", "a get"}
	if !slices.Equal(log, want) {
		t.Errorf("ran  %q\nwant %q", log, want)
	}
	if c := cells[2]; c.sum.Errors != 1 || c.sum.First != "gone" {
		t.Errorf("the error is counted %d times, as %q", c.sum.Errors, c.sum.First)
	}
}

// An operation counts by the part of its time within the slice.
func TestWithin(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		name         string
		began, ended int
		want         float64
	}{
		{"inside", 12, 14, 1},
		{"over the beginning", 8, 12, 0.5},
		{"over the end", 19, 23, 0.25},
		{"around it", 5, 25, 0.5},
		{"too short to time", 12, 12, 1},
		{"too late", 21, 22, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := within(at(c.began), at(c.ended), at(10), at(20)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
