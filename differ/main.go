// Command differ sends the same random requests to stator, DynamoDB Local and
// dynoxide, and reports where their answers differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the flags of a run.
type settings struct {
	requests int
	seed     uint64
	duration time.Duration
	perRound int
	shrink   int
	json     bool
	modules  string
	replay   string
	record   string
	recorded string
	control  bool
	only     string
	first    uint64
	faults   int
}

func main() {
	s := settings{}
	flag.IntVar(&s.requests, "requests", 100_000, "requests to send to each server")
	flag.Uint64Var(&s.seed, "seed", 0, "seed of the requests; 0 chooses one")
	flag.Uint64Var(&s.first, "round", 0, "round of the seed to begin with")
	flag.DurationVar(&s.duration, "duration", 30*time.Minute, "end after this time, if the requests are not sent by then")
	flag.IntVar(&s.perRound, "per-round", 150, "requests to one set of tables")
	flag.IntVar(&s.shrink, "shrink", 20, "classes of differences for which the shortest sequence is searched")
	flag.BoolVar(&s.json, "json", false, "print the report as JSON")
	flag.StringVar(&s.modules, "modules", "node_modules", "folder of the other servers, as npm ci makes it")
	flag.StringVar(&s.replay, "replay", "", "file with the requests of a report (lines that begin with >): send them, and print all answers")
	flag.StringVar(&s.record, "record", "", "file to which all requests and answers are written")
	flag.StringVar(&s.recorded, "recorded", "", "file written by --record: compare its answers again, without servers")
	flag.BoolVar(&s.control, "control", false, "plant faults in stator's answers as well, and count how many are reported")
	flag.StringVar(&s.only, "only", "", "send only requests of one area: "+strings.Join(areas(), ", "))
	flag.IntVar(&s.faults, "faults", defaultFaults, "one request in this many gets a fault; 1 is all")
	known := flag.Bool("known", false, "print the list of known faults")
	flag.Parse()
	if *known {
		printKnown(os.Stdout)
		return
	}
	if s.only != "" && !slices.Contains(areas(), s.only) {
		fmt.Fprintf(os.Stderr, "differ: there is no area %q; areas are %s\n", s.only, strings.Join(areas(), ", "))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := s.run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "differ:", err)
		os.Exit(1)
	case len(r.Unexplained) > 0:
		os.Exit(1)
	}
}

// run starts the servers, sends the requests and prints the report.
func (s settings) run(ctx context.Context) (*report, error) {
	if s.recorded != "" {
		return s.compareRecorded()
	}
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	fmt.Fprintf(os.Stderr, "differ: seed %d\n", s.seed)
	dir, err := os.MkdirTemp("", "differ-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := buildStator(ctx, dir)
	if err != nil {
		return nil, err
	}
	modules, err := filepath.Abs(s.modules)
	if err != nil {
		return nil, err
	}
	servers, err := startAll(ctx, binary, modules)
	defer stopAll(servers)
	if err != nil {
		return nil, err
	}
	if s.replay != "" {
		return new(report), group(servers).replay(ctx, s.replay, os.Stdout)
	}
	r, err := s.searchRecording(ctx, group(servers))
	if r == nil {
		return nil, err
	}
	return r, errors.Join(err, s.print(r)) // a run that could not be recorded has a report, too
}

func (s settings) newReport() *report {
	r := newReport(s.seed)
	if s.control {
		r.Control = newControl()
	}
	return r
}

func (s settings) print(r *report) error {
	if s.json {
		return r.json(os.Stdout)
	}
	r.print(os.Stdout)
	return nil
}
