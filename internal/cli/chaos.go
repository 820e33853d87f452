package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/chaos"
	"github.com/stator-db/stator/internal/inject"
)

// chaosFlags are the flags of stator chaos.
type chaosFlags struct {
	check       string
	faults      string
	replay      string
	seeds       int
	first       uint64
	controls    int
	parallel    int
	failures    int
	maxRuns     int
	timeout     time.Duration
	identity    string
	endpointEnv []string
	out         string
	printFaults bool
	json        bool
}

func chaosCommand() *cobra.Command {
	var f chaosFlags
	cmd := &cobra.Command{
		Use:   "chaos --check COMMAND",
		Short: "Run a test command over many seeds of injected faults, and find the smallest set that breaks it",
		Long: `Run a test command over many seeds, each with a server in memory of its own that injects
other faults into its requests. When the command fails, the faults are reduced to the smallest set
with which it still fails, and written to a file that repeats them.

The command finds the server by the environment of the AWS SDKs: AWS_ENDPOINT_URL and
AWS_ENDPOINT_URL_DYNAMODB, a region and credentials. STATOR_SEED has the seed. It is run without faults
first: a command that fails then, or sends the server no request, is reported as such. Tests that start a
stator of their own send none.

  stator chaos --check 'go test -count=1 ./...' --seeds 200
  stator chaos --check 'go test -count=1 ./...' --replay stator-chaos-17.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.printFaults {
				_, err := io.WriteString(cmd.OutOrStdout(), chaos.DefaultPlan)
				return err
			}
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.check, "check", "", "command that must succeed whatever faults there are; run by the shell")
	flags.StringVar(&f.faults, "faults", "", "file of faults to try; see docs/faults.md. Defaults to those of --print-faults")
	flags.StringVar(&f.replay, "replay", "", "file of faults that a failure has left; they are injected again, with the seed of the file")
	flags.IntVar(&f.seeds, "seeds", 100, "how many seeds to try; with --replay how often, once by default")
	flags.Uint64Var(&f.first, "first-seed", 1, "the first seed")
	flags.IntVar(&f.controls, "controls", 2, "runs without faults at the beginning")
	flags.IntVar(&f.parallel, "parallel", 1, "runs at a time")
	flags.IntVar(&f.failures, "failures", 1, "end after so many seeds that break the command")
	flags.IntVar(&f.maxRuns, "max-runs", 200, "runs to minimize the faults of one seed")
	durationVar(cmd, &f.timeout, "timeout", 2*time.Minute, "how long one run may take; it has failed then")
	flags.StringVar(&f.identity, "identity", "auto", "count requests by key or by operation; auto is what the file of faults has as identity, or else by key if the runs without faults have the same keys")
	flags.StringArrayVar(&f.endpointEnv, "endpoint-env", nil, "further environment variable with the URL of the server; can be repeated")
	flags.StringVar(&f.out, "out", "", "file to write the smallest set of faults to; defaults to stator-chaos-SEED.yaml")
	flags.BoolVar(&f.printFaults, "print-faults", false, "print the faults that are tried without --faults")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// options checks the flags.
func (f *chaosFlags) options(cmd *cobra.Command) (o chaos.Options, err error) {
	switch {
	case strings.TrimSpace(f.check) == "":
		return o, usageError{errors.New("--check must be a command, such as 'go test -count=1 ./...'")}
	case f.replay != "" && f.faults != "":
		return o, usageError{errors.New("--replay and --faults cannot be combined")}
	case f.replay != "" && cmd.Flags().Changed("identity"):
		return o, usageError{errors.New("--replay and --identity cannot be combined: the file has requests by ids that depend on its identity")}
	case f.replay != "" && ofSearch(cmd) != "":
		return o, usageError{fmt.Errorf("--replay and --%s cannot be combined: the faults of the file are injected as they are, one run after the other", ofSearch(cmd))}
	case f.seeds < 1 || f.controls < 1 || f.parallel < 1 || f.failures < 1 || f.maxRuns < 1:
		return o, usageError{errors.New("--seeds, --controls, --parallel, --failures and --max-runs must be at least 1")}
	case f.parallel > maxParallelRuns:
		return o, usageError{fmt.Errorf("--parallel is %d, but must be at most %d", f.parallel, maxParallelRuns)}
	case f.timeout == 0:
		return o, usageError{errors.New("--timeout must be more than 0")}
	case !slices.Contains([]string{"auto", inject.IdentityKey, inject.IdentityOperation}, f.identity):
		return o, usageError{fmt.Errorf("--identity is %q, but must be auto, key or operation", f.identity)}
	}
	o = chaos.Options{Plan: chaos.Defaults(), Check: f.command, First: f.first, Seeds: f.seeds, Controls: f.controls, Parallel: f.parallel, Timeout: f.timeout, MaxRuns: f.maxRuns, Failures: f.failures}
	if f.identity != "auto" {
		o.Identity = f.identity
	}
	if file := f.faults + f.replay; file != "" {
		plan, err := readFaults(file)
		if err != nil {
			return o, err
		}
		o.Plan = *plan
	}
	if f.replay != "" && !cmd.Flags().Changed("seeds") {
		o.Seeds = 1
	}
	return o, nil
}

// ofSearch returns a flag that was given and that only a search uses, or nothing.
func ofSearch(cmd *cobra.Command) string {
	for _, name := range []string{"first-seed", "parallel", "failures", "max-runs", "out"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// maxParallelRuns bounds --parallel: each run has a server and a command.
const maxParallelRuns = 64

// errBroken and errBrokenBySeed are returned when a seed has broken the command, which is printed: the latter if it needs no fault.
var (
	errBroken       = errors.New("the command fails with injected faults")
	errBrokenBySeed = errors.New("the command fails with a seed, without injected faults")
)

func (f *chaosFlags) run(cmd *cobra.Command) error {
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	progress := newProgressLine(cmd.ErrOrStderr())
	o.Progress = func(tried, failed int) { progress.update("%d of %d seeds tried, %d failed", tried, o.Seeds, failed) }
	search := chaos.Search
	if f.replay != "" {
		search = chaos.Replay
	}
	result, err := search(cmd.Context(), o)
	progress.end()
	if errors.Is(err, chaos.ErrControl) {
		for _, run := range result.Controls {
			if run.Err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "a run without faults failed: %v\n%s", run.Err, indented(run.Output))
				break
			}
		}
		return fmt.Errorf("cannot search: %w\n        make the command pass against %s without faults first", err, "stator serve --in-memory")
	}
	if errors.Is(err, chaos.ErrNoRequests) {
		return fmt.Errorf("cannot search: %w\n        %s", err, `the URL of the server is in AWS_ENDPOINT_URL: name another variable that the command reads with --endpoint-env
        tests that start a stator of their own cannot be searched`)
	}
	if err != nil && len(result.Failures) == 0 {
		return fmt.Errorf("cannot search: %w", err)
	}
	if err != nil { // what was found may have taken hours
		err = fmt.Errorf("cannot complete the search: %w", err)
	}
	var files []string
	for i := range result.Failures {
		file, writeErr := f.write(&result.Failures[i], i)
		files, err = append(files, file), cmp.Or(err, writeErr)
	}
	if f.json {
		err = cmp.Or(err, f.printJSON(cmd.OutOrStdout(), result, files))
	} else {
		err = cmp.Or(err, f.print(cmd.OutOrStdout(), &o.Plan, result, files))
	}
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(result.Failures, hasFaults):
		return errBroken
	case len(result.Failures) > 0:
		return errBrokenBySeed
	case result.Injected == 0 && !f.replaysSeed(&o.Plan):
		return f.nothingInjected(result)
	}
	return nil
}

// hasFaults reports whether a failure has faults that broke the command, or may have.
func hasFaults(failure chaos.Failure) bool {
	return len(failure.Minimal) > 0 || failure.Minimal == nil && len(failure.Faults) > 0
}

// replaysSeed reports whether a plan is replayed that has no faults: that of a seed which breaks the command without any.
func (f *chaosFlags) replaysSeed(plan *stator.FaultPlan) bool {
	return f.replay != "" && len(plan.Rules) == 0
}

// nothingInjected returns the error of a search without failures that has tested nothing.
func (f *chaosFlags) nothingInjected(r *chaos.Result) error {
	if f.replay != "" {
		return fmt.Errorf("no fault of %s was injected: the command does not send the requests that it names\n        search again without --replay", f.replay)
	}
	return fmt.Errorf("no fault was injected in %d runs: nothing was tested\n        try more seeds, or faults for the requests of the command with --faults", r.Tried)
}

// write writes the faults of a failure to a file, and returns its name, which is empty with an error.
func (f *chaosFlags) write(failure *chaos.Failure, i int) (file string, err error) {
	if f.replay != "" {
		return f.replay, nil
	}
	if file = f.out; file == "" {
		file = fmt.Sprintf("stator-chaos-%d.yaml", failure.Seed)
	} else if i > 0 {
		file += "." + strconv.Itoa(i+1)
	}
	if err := os.WriteFile(file, failure.Replay.Format(), 0o644); err != nil {
		return "", fmt.Errorf("cannot write the faults: %w", err)
	}
	return file, nil
}

// print prints a result for people, with the files that have the faults of its failures.
func (f *chaosFlags) print(w io.Writer, plan *stator.FaultPlan, r *chaos.Result, files []string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "without faults  %d of %d runs passed, requests are counted by %s\n", len(r.Controls), len(r.Controls), r.Identity)
	if f.replaysSeed(plan) {
		fmt.Fprintf(&b, "%-14s  %d of %d runs failed; %s has no faults\n", fmt.Sprintf("with seed %d", plan.Seed), len(r.Failures), r.Tried, f.replay)
	} else {
		fmt.Fprintf(&b, "with faults     %d of %d runs failed, %d faults injected\n", len(r.Failures), r.Tried, r.Injected)
		if r.Injected == 0 {
			fmt.Fprintln(&b, "no fault was injected into any run")
		}
	}
	for i := range r.Failures {
		failure := &r.Failures[i]
		shown := &failure.Shown
		if !failure.Reproduced {
			shown = &failure.Run
		}
		switch {
		case f.replay != "" && len(failure.Faults) == 0:
			fmt.Fprintf(&b, "\nit fails with seed %d of %s, without injected faults: %v\n", failure.Seed, f.replay, failure.Err)
		case f.replay != "":
			fmt.Fprintf(&b, "\nit fails with the faults of %s: %v\n\n", f.replay, failure.Err)
		case failure.Interrupted && len(failure.Faults) == 0:
			fmt.Fprintf(&b, "\nseed %d has broken it: %v\nNo fault was injected. The search ended before it was run again with this seed\n", failure.Seed, failure.Err)
		case failure.Interrupted:
			fmt.Fprintf(&b, "\nseed %d has broken it: %v\nThe search ended before its %d faults were reduced. All of them:\n\n", failure.Seed, failure.Err, len(failure.Faults))
		case failure.Confirmations > 0 && len(failure.Faults) == 0:
			fmt.Fprintf(&b, "\nseed %d breaks it: %v\nNo fault was injected; without faults %d of %d further runs with this seed failed\n", failure.Seed, failure.Err, failure.Confirmed, failure.Confirmations)
		case failure.Confirmations > 0 && failure.Minimal != nil && len(failure.Minimal) == 0:
			fmt.Fprintf(&b, "\nseed %d breaks it: %v\nIt needs no fault: without faults %d of %d further runs with this seed failed\n", failure.Seed, failure.Err,
				failure.Confirmed, failure.Confirmations)
		case failure.Confirmations > 0 && failure.Minimal == nil:
			fmt.Fprintf(&b, "\nseed %d has broken it: %v\nIts %d faults could not be reduced (%d runs): with all of them %d of %d further runs failed, and with\nfewer only by chance. It also depends on something else, such as time or the order of parallel requests:\n\n", failure.Seed, failure.Err,
				len(failure.Faults), failure.Runs, failure.Confirmed, failure.Confirmations)
		case failure.Minimal == nil && len(failure.Faults) == 0:
			fmt.Fprintf(&b, "\nseed %d has broken it: %v\nNo fault was injected, and it passed when it was run again with this seed: it depends on something else,\nsuch as time or the order of parallel requests\n", failure.Seed, failure.Err)
		case failure.Minimal == nil:
			fmt.Fprintf(&b, "\nseed %d has broken it: %v\nIt passed when the same %d faults were injected again: it also depends on something else, such as\ntime or the order of parallel requests. All of its faults:\n\n", failure.Seed, failure.Err, len(failure.Faults))
		default:
			fmt.Fprintf(&b, "\nseed %d breaks it: %v\n%d of %d faults are enough (%d runs%s); with them %d of %d runs failed\n\n", failure.Seed, failure.Err,
				len(failure.Minimal), len(failure.Faults), failure.Runs, unlessWhole(failure), failure.Confirmed, failure.Confirmations)
		}
		if len(shown.Faults) > 0 {
			if err := inject.WriteTimeline(&b, shown.Faults); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "\nthe end of what the command said:\n%s", indented(shown.Output))
		if files[i] != "" {
			fmt.Fprintf(&b, "\nrepeat with: stator chaos --check %s --replay %s\n", quoted(f.check), files[i])
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func unlessWhole(f *chaos.Failure) string {
	if f.Whole {
		return ""
	}
	return ", as many as --max-runs allows: there may be a smaller set"
}

// quoted returns a text as an argument of the shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// shownLines is how much of the output of a command is printed.
const shownLines = 30

// indented returns the last lines of an output.
func indented(output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	lines = lines[max(0, len(lines)-shownLines):]
	return "    " + strings.Join(lines, "\n    ") + "\n"
}

func (f *chaosFlags) printJSON(w io.Writer, r *chaos.Result, files []string) error {
	type jsonFailure struct {
		Seed          uint64                 `json:"seed"`
		Error         string                 `json:"error"`
		Reproduced    bool                   `json:"reproduced"`
		Interrupted   bool                   `json:"interrupted"`
		Minimal       []stator.InjectedFault `json:"minimal"`
		Injected      []stator.InjectedFault `json:"injected"`
		Runs          int                    `json:"runs"`
		Whole         bool                   `json:"whole"`
		Confirmed     int                    `json:"confirmed"`
		Confirmations int                    `json:"confirmations"`
		File          string                 `json:"file"`
		Output        string                 `json:"output"`
	}
	out := struct {
		Controls int           `json:"controls"`
		Identity string        `json:"identity"`
		Seeds    int           `json:"seeds"`
		Injected int           `json:"injected"`
		Failures []jsonFailure `json:"failures"`
	}{len(r.Controls), r.Identity, r.Tried, r.Injected, []jsonFailure{}}
	for i := range r.Failures {
		x := &r.Failures[i]
		out.Failures = append(out.Failures, jsonFailure{x.Seed, x.Err.Error(), x.Reproduced, x.Interrupted, x.Minimal, x.Faults, x.Runs, x.Whole, x.Confirmed, x.Confirmations, files[i], x.Output})
	}
	return json.NewEncoder(w).Encode(out)
}

// outputDelay is how long the output of processes is read that the check has left behind.
const outputDelay = 5 * time.Second

// command runs the check.
func (f *chaosFlags) command(ctx context.Context, url string, seed uint64) (output string, err error) {
	cmd := shell(ctx, f.check)
	cmd.Env = f.environment(os.Environ(), url, seed)
	var said tail
	err = runShell(cmd, &said)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("the command ended with %s", exit.ProcessState)
	}
	return said.String(), err
}

// environment returns the environment of a check.
func (f *chaosFlags) environment(of []string, url string, seed uint64) []string {
	set := map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_DYNAMODB": url, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": url,
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
		"AWS_EC2_METADATA_DISABLED": "true", "STATOR_SEED": strconv.FormatUint(seed, 10),
	}
	for _, name := range f.endpointEnv {
		set[name] = url
	}
	unset := []string{"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}
	env := slices.DeleteFunc(slices.Clone(of), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := set[name]
		return replaced || slices.Contains(unset, name)
	})
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

// maxTail is how much of the output of a command is kept.
const maxTail = 64 << 10

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	if len(b) > maxTail {
		b = b[len(b)-maxTail:]
	}
	if over := t.Len() + len(b) - maxTail; over > 0 {
		t.Next(over)
	}
	_, err := t.Buffer.Write(b)
	return n, err
}
