package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// costs are the settings of bench cost, which compares what a request costs in binaries
// of BenchmarkAnswer (internal/server), by instructions and by processor time. Instructions
// do not depend on what else the machine does.
type costs struct {
	targets      []costTarget
	operations   []string
	rounds       int
	requests     int // of a run whose instructions are counted
	timed        int // of a run whose processor time is measured
	instructions bool
	progress     func(format string, args ...any)
}

// A costTarget is a binary of go test -c, and the benchmark in it that has the operations.
type costTarget struct {
	name, binary, group string
}

// parseCostTarget parses NAME=BINARY or NAME=BINARY:GROUP.
func parseCostTarget(text string) (costTarget, error) {
	name, binary, found := strings.Cut(text, "=")
	binary, group, _ := strings.Cut(binary, ":")
	if !found || name == "" || binary == "" {
		return costTarget{}, fmt.Errorf("%q is not NAME=BINARY or NAME=BINARY:GROUP", text)
	}
	path, err := filepath.Abs(binary)
	return costTarget{name, path, group}, err
}

func cost(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c := &costs{operations: []string{"GetItem", "Query", "PutItem", "UpdateItem"}}
	f := flag.NewFlagSet("bench cost", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench cost [flags] NAME=BINARY[:GROUP]...\nA binary is built by go test -c ./internal/server; a group of BenchmarkAnswerWith is throttle or keys.")
		f.PrintDefaults()
	}
	f.IntVar(&c.rounds, "rounds", 5, "rounds; each target runs each operation once per round, in another order")
	f.IntVar(&c.requests, "requests", 4000, "requests whose instructions are counted")
	f.IntVar(&c.timed, "timed", 8000, "requests whose processor time is measured")
	f.BoolVar(&c.instructions, "instructions", true, "count instructions with valgrind; otherwise measure processor time only")
	f.Func("operation", "operations, separated by commas (default all)", func(text string) error {
		c.operations = strings.Split(text, ",")
		return nil
	})
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	for _, text := range f.Args() {
		t, err := parseCostTarget(text)
		if err != nil {
			return err
		}
		c.targets = append(c.targets, t)
	}
	if len(c.targets) == 0 || c.rounds < 1 || c.requests < 1 || c.timed < 1 {
		return errors.New("one target at least is needed, and --rounds, --requests and --timed must be positive")
	}
	c.progress = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	cells, err := c.measure(ctx)
	if err != nil {
		return err
	}
	return c.print(stdout, cells)
}

// A costCell holds what a request costs a target, by round.
type costCell struct {
	operation    string
	target       costTarget
	instructions []float64
	nanoseconds  []float64
	bytes        float64
	allocations  float64
}

func (c *costs) measure(ctx context.Context) ([]*costCell, error) {
	dir, err := os.MkdirTemp("", "bench-cost-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var cells []*costCell
	for _, operation := range c.operations {
		for _, t := range c.targets {
			cells = append(cells, &costCell{operation: operation, target: t})
		}
	}
	for round := range c.rounds {
		for group := range slices.Chunk(cells, len(c.targets)) {
			for i := range group {
				cell := group[(i+round)%len(group)]
				if err := c.take(ctx, dir, cell); err != nil {
					return nil, fmt.Errorf("%s of %s: %w", cell.operation, cell.target.name, err)
				}
			}
		}
		c.progress("round %d of %d", round+1, c.rounds)
	}
	return cells, nil
}

// take runs a cell once. What the start and the load of the table cost is the same in two
// runs, and their difference that of the requests between.
func (c *costs) take(ctx context.Context, dir string, cell *costCell) error {
	out, err := cell.run(ctx, c.timed, nil)
	if err != nil {
		return err
	}
	r, err := parseBenchLine(out)
	if err != nil {
		return err
	}
	cell.nanoseconds = append(cell.nanoseconds, r["cpu-ns/op"])
	cell.bytes, cell.allocations = r["B/op"], r["allocs/op"]
	if !c.instructions {
		return nil
	}
	const few = 400
	var counted [2]float64
	for i, n := range []int{few, few + c.requests} {
		if out, err = cell.run(ctx, n, []string{"valgrind", "--tool=callgrind", "--callgrind-out-file=" + filepath.Join(dir, "out")}); err != nil {
			return err
		}
		if _, err := parseBenchLine(out); err != nil {
			return err // a request failed
		}
		if counted[i], err = parseCollected(out); err != nil {
			return err
		}
	}
	cell.instructions = append(cell.instructions, (counted[1]-counted[0])/float64(c.requests))
	return nil
}

// run runs n requests of a cell on one processor, under a program if one is given. There
// Go collects no garbage, since a collection more or less would hide what is looked for: the
// bytes of a request show its garbage.
func (c *costCell) run(ctx context.Context, n int, under []string) ([]byte, error) {
	pattern := "^BenchmarkAnswer$/"
	if c.target.group != "" {
		pattern = "^BenchmarkAnswerWith$/^" + c.target.group + "$/"
	}
	args := append(slices.Clone(under), c.target.binary, "-test.run", "^$", "-test.bench", pattern+"^"+c.operation+"$", "-test.benchtime", fmt.Sprintf("%dx", n))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if under != nil {
		cmd.Env = append(cmd.Env, "GOGC=off", "GODEBUG=asyncpreemptoff=1") // valgrind does not allow the signals
	}
	cmd.Dir = filepath.Dir(c.target.binary)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out[max(0, len(out)-1000):]))
	}
	return out, nil
}

// parseBenchLine returns the figures of the only benchmark, by unit.
func parseBenchLine(out []byte) (map[string]float64, error) {
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		figures := make(map[string]float64)
		for i := 2; i+1 < len(fields); i += 2 {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			figures[fields[i+1]] = n
		}
		return figures, nil
	}
	return nil, fmt.Errorf("no benchmark in %q", out)
}

var collected = regexp.MustCompile(`Collected : (\d+)`)

// parseCollected returns the instructions that callgrind has counted.
func parseCollected(out []byte) (float64, error) {
	m := collected.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("callgrind has counted nothing: %q", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// An interval is a median, and the 95 % in which it lies by chance.
type interval struct {
	median, low, high float64
}

// resampled is the interval of the median of some values by bootstrap.
func resampled(values []float64) interval {
	random := rand.New(rand.NewPCG(1, 2))
	const times = 10_000
	medians := make([]float64, times)
	sample := make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[random.IntN(len(values))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return interval{median(values), medians[times*25/1000], medians[times*975/1000-1]}
}

// ratios divides each value by the one of the same round.
func ratios(values, by []float64) []float64 {
	all := make([]float64, len(values))
	for i := range values {
		all[i] = values[i] / by[i]
	}
	return all
}

// print prints a line for each operation and target. Ratios are those to the first target.
func (c *costs) print(w io.Writer, cells []*costCell) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "REQUEST\tTARGET\tINSTRUCTIONS\tRATIO\t95 %\tCPU ns\tRATIO\t95 %\tBYTES\tALLOCATIONS\t")
	text := func(values, by []float64) string {
		if len(values) == 0 {
			return "-\t-\t-"
		}
		x := resampled(ratios(values, by))
		return fmt.Sprintf("%.0f\t%.3f\t%.3f to %.3f", median(values), x.median, x.low, x.high)
	}
	for group := range slices.Chunk(cells, len(c.targets)) {
		for _, x := range group {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t\n", x.operation, x.target.name, text(x.instructions, group[0].instructions), text(x.nanoseconds, group[0].nanoseconds), x.bytes, x.allocations)
		}
	}
	return out.Flush()
}
