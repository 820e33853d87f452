// Release runs the fault rigs until the goals of a release are reached or a budget of time
// is spent, and prints what was reached on the present commit.
//
// Each run of a rig adds a line to torture/LEDGER.md. The counts of the lines of one commit,
// and of others with the same server, add up, so that a run that was interrupted, or had too
// little time, continues where it ended.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stator-db/stator/torture/ledger"
)

const ledgerPath = "torture/" + ledger.Name // from the root of the module

func main() {
	budget := flag.Duration("budget", time.Hour, "time for all rows together")
	only := flag.String("rows", "", "rows to run, such as R1,R3; defaults to all")
	dry := flag.Bool("report", false, "only print what was reached")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	held, err := release(ctx, *budget, *only, *dry)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
	}
	if err != nil || !held {
		os.Exit(1)
	}
}

// release runs the rows and prints the table. It reports whether no row failed.
func release(ctx context.Context, budget time.Duration, only string, dry bool) (held bool, err error) {
	commit := ledger.Commit()
	chosen, err := choose(only)
	if err != nil {
		return false, err
	}
	counts, err := sameProgram(commit)
	if err != nil {
		return false, err
	}
	runs := record{commit, counts}
	if !dry {
		if err := runAll(ctx, chosen, runs, time.Now().Add(budget)); err != nil {
			return false, err
		}
	}
	lines, err := runs.lines()
	if err != nil {
		return false, err
	}
	text, held := report(chosen, lines, commit)
	fmt.Print(text)
	return held, nil
}

// record is what was reached on a commit, and on others with the same server and rigs.
type record struct {
	commit string
	counts func(commit string) bool
}

func (r record) lines() ([]ledger.Line, error) {
	lines, err := ledger.Read(ledgerPath, r.counts)
	return slices.DeleteFunc(lines, func(l ledger.Line) bool { return l.Rig == mutantsRig && l.Commit != r.commit }), err
}

func choose(only string) ([]row, error) {
	if only == "" {
		return rows, nil
	}
	var chosen []row
	for id := range strings.SplitSeq(only, ",") {
		found := len(chosen)
		for _, r := range rows {
			if r.id == id {
				chosen = append(chosen, r)
			}
		}
		if len(chosen) == found {
			return nil, fmt.Errorf("there is no row %s", id)
		}
	}
	return chosen, nil
}

// runAll runs the rows one after another. Time that a row does not need is left to those
// after it.
func runAll(ctx context.Context, chosen []row, runs record, end time.Time) error {
	weights := 0
	for _, r := range chosen {
		weights += r.weight
	}
	for _, r := range chosen {
		share := time.Duration(float64(time.Until(end)) * float64(r.weight) / float64(max(1, weights)))
		weights -= r.weight
		if r.command == nil {
			continue
		}
		if err := r.run(ctx, runs, time.Now().Add(max(share, leastTime))); err != nil {
			return err
		}
	}
	return nil
}

// leastTime is how long a row may run even if others have used up the budget: no row is left
// out.
const leastTime = 5 * time.Second

// sliceTime is how long a row runs at once: an interruption loses at most this much.
const sliceTime = 5 * time.Minute

// run runs a row until its goals are reached, a fault is found, or its time is over.
func (r row) run(ctx context.Context, runs record, end time.Time) error {
	var took time.Duration
	for first := true; ctx.Err() == nil; first = false {
		lines, err := runs.lines()
		if err != nil {
			return err
		}
		missing := r.missing(lines)
		left := time.Until(end)
		if r.failed(lines) || len(missing) == 0 || !first && left < max(took/2, 10*time.Second) {
			return nil
		}
		if !r.whole {
			left = min(left, sliceTime)
		}
		began := time.Now()
		if err := r.runOnce(ctx, runs.commit, missing, max(left, time.Second)); err != nil {
			return err
		}
		took = time.Since(began)
		if after, err := runs.lines(); err != nil || len(after) == len(lines) {
			fmt.Printf("%s: nothing was counted; it may need root, or was interrupted\n", r.id)
			return err
		}
	}
	return ctx.Err()
}

// runOnce runs the command of a row. If its tests do not write to the ledger, it does.
func (r row) runOnce(ctx context.Context, commit string, missing []goal, span time.Duration) error {
	args := r.command(missing, span)
	fmt.Printf("%s %s: %s\n", time.Now().UTC().Format("15:04:05"), r.id, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if err != nil {
		fmt.Printf("%s\n", out[max(0, len(out)-20_000):])
	}
	if r.rig == "" && err != nil && !strings.Contains(string(out), "--- FAIL") {
		return fmt.Errorf("%s: %w", r.id, err) // it did not run
	}
	if r.rig == "" {
		return nil
	}
	return ledger.Line{
		Began: began, Commit: commit, Rig: r.rig, Seed: seedIn(string(out)), Took: time.Since(began),
		Counts: countsIn(string(out)), Failed: err != nil,
	}.Append(ledgerPath)
}

var (
	countsPattern  = regexp.MustCompile(`(?m)ledger: (.*)$`)
	mutantsPattern = regexp.MustCompile(`(?m)^all: (\d+) of (\d+) mutants found`)
	seedPattern    = regexp.MustCompile(`seed[= ](\d+)`)
)

// countsIn returns the counts that a test has logged for the ledger.
func countsIn(output string) string {
	if found := countsPattern.FindStringSubmatch(output); found != nil {
		return strings.TrimSpace(found[1])
	}
	if found := mutantsPattern.FindStringSubmatch(output); found != nil {
		return fmt.Sprintf("%s mutants found, %s mutants", found[1], found[2])
	}
	return "1 runs"
}

func seedIn(output string) string {
	if found := seedPattern.FindStringSubmatch(output); found != nil {
		return found[1]
	}
	return "0"
}
