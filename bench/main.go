// Command bench puts load on DynamoDB endpoints and compares them: stator,
// other servers that it installs and starts, and servers that run already.
//
// It prints the results to stdout, as a table, and progress to stderr.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "ceiling" {
		if err := ceiling(os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	if len(os.Args) > 1 && os.Args[1] == "cost" {
		err := cost(ctx, os.Args[2:], os.Stdout, os.Stderr)
		stop()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes the program and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parseSettings(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	}
	s.progress = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	found, err := s.measure(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	found.Command = args
	found.print(stdout)
	if s.json != "" {
		if err := found.writeJSON(s.json); err != nil {
			fmt.Fprintf(stderr, "bench: %v\n", err)
			return 1
		}
	}
	return 0
}

// settings are the values of the flags.
type settings struct {
	specs    []spec
	chosen   bool // by flags; otherwise targets that cannot run are skipped
	measured bool // whether to run workloads
	plan
	items    int
	loaders  int
	cache    int
	sign     bool
	cold     bool
	coldRuns int
	grow     []int
	ages     []int
	limit    time.Duration
	dir      string
	json     string
}

func parseSettings(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	var targets, pids []string
	f.Func("target", "what to load: a kind, NAME=http://HOST:PORT, or NAME=KIND:BINARY; separated by commas, or repeated (default all kinds without keys and TLS)", list(&targets))
	f.Func("pid", "NAME=PID of a server given by its address, to measure its processor time and memory", list(&pids))
	var names []string
	f.Func("workload", "workloads to run, separated by commas (default all)", list(&names))
	f.Func("connections", "numbers of connections, separated by commas (default 1,16,64)", numbers(&s.connections))
	f.IntVar(&s.rounds, "rounds", 3, "rounds; each target runs each slice once per round")
	f.DurationVar(&s.slice, "slice", 2*time.Second, "measured time of a slice")
	f.DurationVar(&s.warm, "warm", 500*time.Millisecond, "time that a slice runs before it is measured")
	f.BoolVar(&s.pause, "pause", false, "stop the processes of the other targets during a slice, so that their background work does not count")
	f.IntVar(&s.items, "items", 50_000, "items in each table")
	f.IntVar(&s.loaders, "loaders", 16, "connections that load tables")
	f.IntVar(&s.cache, "cache", 0, "size of stator's cache in MB; 0 is stator's default")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the random choice of items")
	f.BoolVar(&s.sign, "sign", false, "sign each request; otherwise all carry the same signature")
	f.BoolVar(&s.cold, "cold", false, "measure the time from start to the first reply, and memory at rest")
	f.IntVar(&s.coldRuns, "cold-runs", 5, "how often --cold starts each target")
	f.Func("grow", "measure memory and disk usage with these numbers of items, separated by commas", numbers(&s.grow))
	f.Func("ages", "measure get and query on tables with these numbers of items, separated by commas", numbers(&s.ages))
	f.DurationVar(&s.limit, "limit", 30*time.Minute, "time limit for loading a table")
	f.StringVar(&s.dir, "dir", ".data", "folder for the servers' data during the run; it should be on a disk")
	f.StringVar(&s.json, "json", "", "file to write the report to as JSON")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	if len(s.connections) == 0 {
		s.connections = []int{1, 16, 64}
	}
	s.measured = len(names) > 0 || !s.cold && s.grow == nil && s.ages == nil
	if err := s.chooseWorkloads(names); err != nil {
		return nil, err
	}
	if err := s.chooseTargets(targets, pids); err != nil {
		return nil, err
	}
	return s, s.check()
}

// check rejects settings that are out of bounds.
func (s *settings) check() error {
	most := 1
	for _, n := range s.connections {
		most = max(most, n)
	}
	least := max(perBatch, perTransaction*most)
	for _, sizes := range [][]int{{s.items}, s.grow, s.ages} {
		for i, n := range sizes {
			switch {
			case n < least || n > 100_000_000 || n%perPartition != 0:
				return fmt.Errorf("a table cannot have %d items: with these connections it must have %d to 100,000,000, in whole partitions of %d", n, least, perPartition)
			case i > 0 && n <= sizes[i-1]:
				return fmt.Errorf("sizes must ascend, but %d follows %d", n, sizes[i-1])
			}
		}
	}
	switch {
	case most > 10_000:
		return fmt.Errorf("--connections is %d, but can be at most 10,000", most)
	case s.rounds < 1 || s.loaders < 1 || s.coldRuns < 1:
		return errors.New("--rounds, --loaders and --cold-runs must be at least 1")
	case s.cache < 0:
		return errors.New("--cache must not be negative")
	case s.slice <= 0 || s.warm < 0 || s.slice+s.warm > 10*time.Minute:
		return errors.New("--slice must be positive, and --slice and --warm together at most ten minutes")
	}
	return nil
}

func (s *settings) chooseWorkloads(names []string) error {
	if len(names) == 0 {
		for _, w := range workloads {
			names = append(names, w.name)
		}
	}
	for _, name := range names {
		w, err := workloadNamed(name)
		if err != nil {
			return err
		}
		s.workloads = append(s.workloads, w)
	}
	return nil
}

func (s *settings) chooseTargets(targets, pids []string) error {
	s.chosen = len(targets) > 0
	if !s.chosen {
		for _, k := range kinds {
			if !k.asked {
				targets = append(targets, k.name)
			}
		}
	}
	seen := map[string]int{}
	for i, text := range targets {
		t, err := parseSpec(text)
		if err != nil {
			return err
		}
		if _, twice := seen[t.name]; twice {
			return fmt.Errorf("--target names %s twice", t.name)
		}
		seen[t.name] = i
		s.specs = append(s.specs, t)
	}
	for _, text := range pids {
		name, number, _ := strings.Cut(text, "=")
		pid, err := strconv.Atoi(number)
		i, known := seen[name]
		if err != nil || !known || s.specs[i].kind != nil {
			return fmt.Errorf("--pid is %q, but must be NAME=PID of a target given by its address", text)
		}
		s.specs[i].pid = pid
	}
	return nil
}

// list parses values that are separated by commas.
func list(to *[]string) func(string) error {
	return func(text string) error {
		*to = append(*to, strings.Split(text, ",")...)
		return nil
	}
}

func numbers(to *[]int) func(string) error {
	return func(text string) error {
		*to = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(strings.ReplaceAll(part, "_", ""))
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a positive number", part)
			}
			*to = append(*to, n)
		}
		return nil
	}
}
