// Package chaos looks for faults that break a program: it runs a check over many seeds, each with a
// server that injects other faults, and reduces those of a failed run to the smallest set that
// still breaks it.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/inject"
)

// Check is what a program must do with the server at a URL, whatever faults that injects. It returns
// what the program has printed, and whether it failed. The seed may select what the program does.
type Check func(ctx context.Context, url string, seed uint64) (output string, err error)

// Options configure a Search.
type Options struct {
	Plan  stator.FaultPlan // its seed is replaced by those that are tried
	Check Check

	First uint64 // the first seed; defaults to 1
	Seeds int    // how many are tried

	Controls int           // runs without faults; defaults to 2
	Parallel int           // runs at a time; defaults to 1
	Timeout  time.Duration // of one run, which fails then; defaults to 2 minutes
	MaxRuns  int           // to minimize the faults of a run; defaults to 200
	Failures int           // the search ends after so many failed seeds; defaults to 1

	// Identity is how requests are counted: inject.IdentityKey, inject.IdentityOperation, or
	// empty for that of Plan. If this is empty too, a search uses the former if the control
	// runs send requests for the same keys. A replay has that of Plan, on which the ids of requests depend.
	Identity string

	// Progress, if set, is called after each run.
	Progress func(tried, failed int)
}

// Run is one run of the check.
type Run struct {
	Seed     uint64
	Faults   []stator.InjectedFault // not nil
	Injected int                    // of which Faults are the newest
	Output   string
	Err      error // nil if the check has passed
	Took     time.Duration

	seen    map[string]int
	seenAll bool
}

// Failure is a seed with which the check fails.
type Failure struct {
	Run

	// Minimal is a smallest part of the injected faults with which the check fails. It is empty if the seed alone
	// breaks it: no fault was injected, or all Confirmations without faults fail. It is nil if they could not be
	// reduced: then the check depends on more than the faults, or it is Interrupted.
	Minimal     []stator.InjectedFault
	Replay      stator.FaultPlan // injects Minimal, or else all of the faults
	Runs        int              // that it took
	Interrupted bool             // the search ended before the faults were reduced
	Whole       bool             // Minimal was reduced as far as possible, within MaxRuns

	// Confirmed says in how many of Confirmations runs the check fails with the faults of Replay, and
	// Reproduced whether it does in any. There are none if it has passed when all were injected again at first.
	Confirmed, Confirmations int
	Reproduced               bool
	Shown                    Run // the last of them that has failed
}

// Result is what a search has found.
type Result struct {
	Controls []Run
	Identity string
	Tried    int // seeds
	Injected int // faults in all runs of seeds
	Failures []Failure
}

// ErrControl is returned when the check fails without faults.
var ErrControl = errors.New("the check fails without faults")

// ErrNoRequests is returned when the check does not use its server, so that faults cannot break it.
var ErrNoRequests = errors.New("no run without faults sent its server a request that can get a fault")

// Search runs the check without faults first, and then with those of each seed. With an error, the result has what
// was found before it.
func Search(ctx context.Context, o Options) (*Result, error) {
	o.First, o.Controls, o.Parallel = cmp.Or(o.First, 1), cmp.Or(o.Controls, 2), cmp.Or(o.Parallel, 1)
	o.Timeout, o.MaxRuns, o.Failures = cmp.Or(o.Timeout, 2*time.Minute), cmp.Or(o.MaxRuns, 200), cmp.Or(o.Failures, 1)
	o.Identity = cmp.Or(o.Identity, o.Plan.Identity)
	result := new(Result)
	if err := o.control(ctx, result); err != nil {
		return result, err
	}
	o.Plan.Identity = result.Identity
	failed, err := o.seeds(ctx, result)
	for _, run := range failed {
		f := &Failure{Run: *run, Replay: o.replay(run.Seed, run.Faults), Interrupted: true}
		if err == nil {
			var reduced *Failure
			if reduced, err = o.minimize(ctx, run); err == nil {
				f = reduced
			}
		}
		result.Failures = append(result.Failures, *f)
	}
	return result, err
}

// Replay runs the check without faults first, and then with those of a plan that Failure.Replay
// is, as often as there are seeds. With an error, the result has what was found before it.
func Replay(ctx context.Context, o Options) (*Result, error) {
	o.Controls, o.Timeout = cmp.Or(o.Controls, 1), cmp.Or(o.Timeout, 2*time.Minute)
	o.Identity = cmp.Or(o.Plan.Identity, inject.IdentityKey)
	result := new(Result)
	if err := o.control(ctx, result); err != nil {
		return result, err
	}
	for range max(1, o.Seeds) {
		run, err := o.run(ctx, o.Plan)
		if err != nil {
			return result, err
		}
		result.Tried++
		result.Injected += run.Injected
		if run.Err != nil {
			result.Failures = append(result.Failures, Failure{Run: *run, Minimal: run.Faults, Replay: o.Plan, Whole: true, Reproduced: true, Shown: *run})
		}
	}
	return result, nil
}

// control runs the check without faults.
func (o *Options) control(ctx context.Context, result *Result) error {
	failed, requests := 0, 0
	for range o.Controls {
		run, err := o.run(ctx, stator.FaultPlan{})
		if err != nil {
			return err
		}
		if run.Err != nil {
			failed++
		}
		requests += len(run.seen)
		result.Controls = append(result.Controls, *run)
	}
	switch {
	case failed == o.Controls:
		return fmt.Errorf("%w, in %d of %d runs: %w", ErrControl, failed, o.Controls, result.Controls[0].Err)
	case failed > 0:
		return fmt.Errorf("%w, but not always: it failed in %d of %d runs", ErrControl, failed, o.Controls)
	case requests == 0:
		return ErrNoRequests
	}
	if result.Identity = o.Identity; result.Identity == "" {
		result.Identity = identityOf(result.Controls)
	}
	return nil
}

// sameRequests is the share of the requests of two runs that must have the same keys.
const sameRequests = 0.9

// identityOf returns how to count the requests of a check: by their keys, if each run has the same.
func identityOf(runs []Run) string {
	for i := 1; i < len(runs); i++ {
		if !runs[i].seenAll || inject.Common(runs[0].seen, runs[i].seen) < sameRequests {
			return inject.IdentityOperation
		}
	}
	return inject.IdentityKey
}

// seeds tries the seeds, and returns the runs that failed, by their seeds.
func (o *Options) seeds(ctx context.Context, result *Result) (failed []*Run, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var work sync.WaitGroup
	next, enough := 0, false
	for range min(o.Parallel, o.Seeds) {
		work.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= o.Seeds || enough || err != nil
				mu.Unlock()
				if stop {
					return
				}
				plan := o.Plan
				plan.Seed = o.First + uint64(i)
				run, runErr := o.run(ctx, plan)
				mu.Lock()
				switch {
				case runErr != nil:
					err = cmp.Or(err, runErr)
				default:
					result.Tried++
					result.Injected += run.Injected
					if run.Err != nil {
						failed = append(failed, run)
						enough = len(failed) >= o.Failures
					}
					if o.Progress != nil {
						o.Progress(result.Tried, len(failed))
					}
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	slices.SortFunc(failed, func(a, b *Run) int { return cmp.Compare(a.Seed, b.Seed) })
	return failed[:min(len(failed), o.Failures)], err
}

// confirmations is how often the check runs with the smallest set of faults.
const confirmations = 3

// minimize reduces the faults of a run that failed.
func (o *Options) minimize(ctx context.Context, run *Run) (*Failure, error) {
	f := &Failure{Run: *run, Whole: true}
	var failure error
	fails := func(faults []stator.InjectedFault) bool {
		if f.Runs >= o.MaxRuns || failure != nil {
			f.Whole = false
			return false
		}
		f.Runs++
		again, err := o.run(ctx, o.replay(run.Seed, faults))
		if err != nil {
			failure = err
			return false
		}
		return again.Err != nil
	}
	f.Replay = o.replay(run.Seed, run.Faults)
	reproduced := false
	for range confirmations {
		reproduced = reproduced || fails(run.Faults)
	}
	if failure != nil || !reproduced {
		return f, failure
	}
	if len(run.Faults) == 0 {
		err := o.confirm(ctx, f)
		if f.Reproduced {
			f.Minimal = []stator.InjectedFault{}
		}
		return f, err
	}
	whole := f.Replay
	if fails(nil) {
		f.Minimal, f.Replay = []stator.InjectedFault{}, o.replay(run.Seed, nil)
		// A check that passes in any of these runs may need a fault, and have failed by chance without.
		if err := o.confirm(ctx, f); err != nil || f.Confirmed == f.Confirmations {
			return f, err
		}
	}
	kinds := byKind(run.Faults)
	if len(kinds) > 1 {
		kinds = inject.Minimize(kinds, func(part [][]stator.InjectedFault) bool { return fails(inOrder(part)) })
	}
	f.Minimal = withoutRetries(inject.Minimize(inOrder(kinds), fails), fails)
	f.Replay = o.replay(run.Seed, f.Minimal)
	if failure != nil {
		return f, failure
	}
	if err := o.confirm(ctx, f); err != nil || f.Reproduced {
		return f, err
	}
	// It has failed by chance with a part of the faults.
	f.Minimal, f.Replay, f.Whole = nil, whole, false
	return f, o.confirm(ctx, f)
}

// confirm runs the check with the faults of f.Replay.
func (o *Options) confirm(ctx context.Context, f *Failure) error {
	f.Confirmations, f.Confirmed, f.Reproduced, f.Shown = 0, 0, false, Run{}
	for range confirmations {
		again, err := o.run(ctx, f.Replay)
		if err != nil {
			return err
		}
		f.Confirmations++
		if again.Err != nil {
			f.Confirmed++
			f.Reproduced, f.Shown = true, *again
		}
	}
	return nil
}

// withoutRetries removes faults that are needed only because the request that was repeated after them
// moves the later ones: it removes one, and counts the later requests like it one less.
func withoutRetries(faults []stator.InjectedFault, fails func([]stator.InjectedFault) bool) []stator.InjectedFault {
	for i := 0; i < len(faults) && len(faults) > 1; i++ {
		gone, moved := faults[i], false
		fewer := slices.Delete(slices.Clone(faults), i, i+1)
		for j := range fewer {
			if f := &fewer[j]; f.Request == gone.Request && f.Occurrence > gone.Occurrence {
				f.Occurrence--
				moved = true
			}
		}
		if moved && fails(fewer) {
			faults, i = fewer, -1
		}
	}
	return faults
}

// replay returns a plan that injects these faults only.
func (o *Options) replay(seed uint64, faults []stator.InjectedFault) stator.FaultPlan {
	p := stator.FaultPlan{Seed: seed, Identity: o.Plan.Identity}
	for i := range faults {
		p.Rules = append(p.Rules, faults[i].Replay())
	}
	return p
}

// byKind returns the faults of each kind.
func byKind(faults []stator.InjectedFault) (kinds [][]stator.InjectedFault) {
	at := make(map[inject.Fault]int)
	for _, f := range faults {
		i, known := at[f.Fault]
		if !known {
			i = len(kinds)
			at[f.Fault], kinds = i, append(kinds, nil)
		}
		kinds[i] = append(kinds[i], f)
	}
	return kinds
}

// inOrder returns the faults of some kinds as they were injected.
func inOrder(kinds [][]stator.InjectedFault) []stator.InjectedFault {
	all := slices.Concat(kinds...)
	slices.SortFunc(all, func(a, b stator.InjectedFault) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// run runs the check once, with a server of its own. Its error is one of the search: that of the
// check is in the Run.
func (o *Options) run(ctx context.Context, plan stator.FaultPlan) (*Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db, err := stator.Open(ctx, stator.Options{Faults: &plan})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	var requests sync.WaitGroup
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		defer requests.Done()
		db.Handler().ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	run := &Run{Seed: plan.Seed}
	began := time.Now()
	run.Output, run.Err = o.Check(limited, "http://"+listener.Addr().String(), plan.Seed)
	run.Took = time.Since(began)
	if limited.Err() != nil && ctx.Err() == nil {
		run.Err = fmt.Errorf("it has not ended after %v", o.Timeout)
	}
	run.Faults = append([]stator.InjectedFault{}, db.InjectedFaults()...)
	if n := len(run.Faults); n > 0 {
		run.Injected = run.Faults[n-1].Number
	}
	run.seen, run.seenAll = db.RequestsSeen()
	closeErr := stop(web)
	<-served
	requests.Wait() // Close has cancelled what is left
	if err := errors.Join(closeErr, db.Close()); err != nil {
		return nil, fmt.Errorf("stop the server of a run: %w", err)
	}
	return run, ctx.Err()
}

// stopTime is how long requests may take that a check has left behind.
const stopTime = 2 * time.Second

// stop stops a server, and waits for its requests.
func stop(web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if web.Shutdown(ctx) != nil {
		return web.Close()
	}
	return nil
}
