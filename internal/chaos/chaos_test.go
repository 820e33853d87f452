package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/inject"
)

// repeatedUpdates are how many updates repeated sends.
const repeatedUpdates = 4

// losesAnswers is a plan that loses the answer to each update of repeated once.
func losesAnswers() stator.FaultPlan {
	return stator.FaultPlan{Consecutive: 1, Rules: []stator.FaultRule{{Fault: inject.LostAnswer, Operations: []string{"UpdateItem"}}}}
}

// repeated adds to numbers, and returns how many additions were executed twice, which is how many faults of
// losesAnswers were injected.
func repeated(ctx context.Context, url string) (n int, err error) {
	p, err := newProgram(ctx, url, true)
	if err != nil {
		return 0, err
	}
	for i := range repeatedUpdates {
		out, err := p.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String(numbers), Key: numberKey(i), UpdateExpression: aws.String("ADD amount :one"), ReturnValues: types.ReturnValueUpdatedNew,
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}})
		if err != nil {
			return 0, err
		}
		n += number(out.Attributes, "amount") - 1
	}
	return n, nil
}

// A check that does not use its server cannot be searched: it would pass with every seed.
func TestCheckWithoutRequests(t *testing.T) {
	runs := 0
	o := Options{Plan: Defaults(), Seeds: 3, Check: func(context.Context, string, uint64) (string, error) {
		runs++
		return "", nil
	}}
	for name, search := range map[string]func(context.Context, Options) (*Result, error){"a search": Search, "a replay": Replay} {
		runs = 0
		result, err := search(t.Context(), o)
		if !errors.Is(err, ErrNoRequests) || result.Tried != 0 || runs != len(result.Controls) {
			t.Errorf("%s returns %v after %d runs, want the error that no request was sent after those without faults", name, err, runs)
		}
	}
}

// A run fails if the check takes longer than it may, also one that returns no error then.
func TestCheckThatHangs(t *testing.T) {
	o := Options{Timeout: time.Millisecond, Check: func(ctx context.Context, _ string, _ uint64) (string, error) {
		<-ctx.Done()
		return "", nil
	}}
	run, err := o.run(t.Context(), stator.FaultPlan{})
	if err != nil || run.Err == nil || run.Err.Error() != "it has not ended after 1ms" {
		t.Errorf("the run is %+v, %v", run, err)
	}
}

// A check that has failed by chance with fewer faults is reported with all of them, which break it.
func TestReductionByChance(t *testing.T) {
	chance, single := true, false
	o := Options{Plan: losesAnswers(), Seeds: 1, Check: func(ctx context.Context, url string, _ uint64) (string, error) {
		n, err := repeated(ctx, url)
		switch {
		case err != nil:
			return "", err
		case n > 0 && n < repeatedUpdates && chance:
			chance = false
			return "by chance", errors.New("by chance")
		case n == repeatedUpdates:
			return "all", errors.New("all answers were lost")
		}
		single = single || n == 1
		return "", nil
	}}
	result, err := Search(t.Context(), o)
	if err != nil || len(result.Failures) != 1 {
		t.Fatalf("the search returns %+v, %v", result, err)
	}
	f := &result.Failures[0]
	if chance || !single {
		t.Fatalf("the faults were not reduced by chance: %+v", f.Minimal)
	}
	if f.Minimal != nil || len(f.Replay.Rules) != repeatedUpdates || !f.Reproduced || f.Confirmed != 3 || f.Confirmations != 3 || f.Shown.Output != "all" || f.Whole {
		t.Errorf("the faults are reduced to %+v of %+v, confirmed by %d of %d runs (%v), with the output %q; want none that is enough, and all confirmed", f.Minimal, f.Replay.Rules, f.Confirmed, f.Confirmations, f.Reproduced, f.Shown.Output)
	}
	replayed, err := Replay(t.Context(), Options{Plan: f.Replay, Check: o.Check})
	if err != nil || len(replayed.Failures) != 1 || !replayed.Failures[0].Reproduced {
		t.Errorf("the replay has the failures %+v, and error %v", replayed.Failures, err)
	}
}

// A check that fails with a seed, whatever the faults, is reported with none, not with one that any would do for.
func TestFailureOfTheSeed(t *testing.T) {
	result, err := Search(t.Context(), Options{Plan: losesAnswers(), Seeds: 2, Check: func(ctx context.Context, url string, seed uint64) (string, error) {
		_, err := repeated(ctx, url)
		if err == nil && seed == 2 {
			err = errors.New("the seed")
		}
		return "", err
	}})
	if err != nil || len(result.Failures) != 1 {
		t.Fatalf("the search returns %+v, %v", result, err)
	}
	if f := &result.Failures[0]; f.Minimal == nil || len(f.Minimal) > 0 || len(f.Replay.Rules) > 0 || f.Replay.Seed != 2 || len(f.Faults) != repeatedUpdates || !f.Whole || f.Confirmed != 3 {
		t.Errorf("the faults %+v are reduced to %+v with the plan %+v, confirmed by %d runs; want none", f.Faults, f.Minimal, f.Replay, f.Confirmed)
	}
}

// A check that fails with a seed for which no fault was injected needs none, which differs from faults that could not be reduced.
func TestFailureWithoutInjectedFaults(t *testing.T) {
	other := stator.FaultPlan{Rules: []stator.FaultRule{{Fault: inject.LostAnswer, Operations: []string{"DeleteItem"}}}}
	for _, c := range []struct {
		name      string
		fails     int // runs with the seed, from the first
		confirmed int
	}{
		{"always", math.MaxInt, 3},
		{"in a confirmation", 3, 1},
		{"in no confirmation", 2, 0},
		{"only once", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := c.fails
			o := Options{Plan: other, Seeds: 1, Check: func(ctx context.Context, url string, seed uint64) (string, error) {
				_, err := repeated(ctx, url)
				if err == nil && seed > 0 && left > 0 {
					left--
					err = errors.New("the seed")
				}
				return "", err
			}}
			result, err := Search(t.Context(), o)
			if err != nil || len(result.Failures) != 1 {
				t.Fatalf("the search returns %+v, %v", result, err)
			}
			if f := &result.Failures[0]; f.Faults == nil || len(f.Faults) > 0 || (f.Minimal == nil) != (c.confirmed == 0) || len(f.Minimal) > 0 || f.Confirmed != c.confirmed || f.Reproduced != (c.confirmed > 0) {
				t.Errorf("the faults %#v are reduced to %#v, confirmed by %d runs, reproduced: %v; want %d", f.Faults, f.Minimal, f.Confirmed, f.Reproduced, c.confirmed)
			}
		})
	}
	plan := other
	plan.Seed = 1
	replayed, err := Replay(t.Context(), Options{Plan: plan, Check: func(ctx context.Context, url string, seed uint64) (string, error) {
		_, err := repeated(ctx, url)
		if err == nil && seed > 0 {
			err = errors.New("the seed")
		}
		return "", err
	}})
	if err != nil || len(replayed.Failures) != 1 || replayed.Failures[0].Minimal == nil {
		t.Errorf("the replay has the failures %+v, and error %v; want one that needs no fault", replayed.Failures, err)
	}
}

// A check that needs a fault, but has also failed by chance without any, is reported with the fault.
func TestFailureWithoutFaultsByChance(t *testing.T) {
	for _, c := range []struct {
		name    string
		without int // runs of the seed without faults that fail, from the first
		with    int // the same with faults
		minimal int
	}{
		{"once", 1, math.MaxInt, 1},
		{"and when that was confirmed", 2, math.MaxInt, 1},
		{"and when it was confirmed again", 3, math.MaxInt, 1},
		{"and never again with faults", 2, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			without, with := c.without, c.with
			result, err := Search(t.Context(), Options{Plan: losesAnswers(), Seeds: 1, Check: func(ctx context.Context, url string, seed uint64) (string, error) {
				n, err := repeated(ctx, url)
				switch {
				case err != nil:
				case n > 0 && with > 0:
					with--
					err = errors.New("an answer was lost")
				case n == 0 && seed > 0 && without > 0:
					without--
					err = errors.New("by chance")
				}
				return "", err
			}})
			if err != nil || len(result.Failures) != 1 {
				t.Fatalf("the search returns %+v, %v", result, err)
			}
			f, confirmed := &result.Failures[0], confirmations
			if c.minimal == 0 {
				confirmed = 0
			}
			if without > 0 || len(f.Minimal) != c.minimal || (f.Minimal == nil) != (c.minimal == 0) || len(f.Replay.Rules) != cmp.Or(c.minimal, repeatedUpdates) {
				t.Errorf("the faults are reduced to %+v with the plan %+v, want %d", f.Minimal, f.Replay, c.minimal)
			}
			if f.Confirmed != confirmed || f.Reproduced != (confirmed > 0) || len(f.Shown.Faults) != c.minimal {
				t.Errorf("confirmed by %d of %d runs, reproduced: %v, shown with %+v; want %d", f.Confirmed, f.Confirmations, f.Reproduced, f.Shown.Faults, confirmed)
			}
		})
	}
}

// A failure that never comes again is not reproduced, whatever it was reduced to.
func TestFailureByChance(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int // runs with faults, from the first
	}{
		{"in the run of the seed", 1},
		{"and when all faults were injected again", 2},
		{"and with some of them", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := c.fails
			o := Options{Plan: losesAnswers(), Seeds: 1, Check: func(ctx context.Context, url string, _ uint64) (string, error) {
				n, err := repeated(ctx, url)
				if err == nil && n > 0 && left > 0 {
					left--
					err = fmt.Errorf("by chance, with %d faults", n)
				}
				return "", err
			}}
			result, err := Search(t.Context(), o)
			if err != nil || len(result.Failures) != 1 {
				t.Fatalf("the search returns %+v, %v", result, err)
			}
			if f := &result.Failures[0]; f.Minimal != nil || f.Reproduced || f.Confirmed != 0 || len(f.Replay.Rules) != repeatedUpdates {
				t.Errorf("the faults are reduced to %+v of %+v, reproduced: %v, confirmed by %d runs; want all of them, not reproduced", f.Minimal, f.Replay.Rules, f.Reproduced, f.Confirmed)
			}
		})
	}
}

// A search that is cancelled while it reduces faults returns all failures that it has found, with all of their faults.
func TestCancelledReduction(t *testing.T) {
	for _, c := range []struct {
		name    string
		runs    int // with faults, before the search is cancelled
		reduced int // failures
		found   int
	}{
		{"in the search of seeds", 1, 0, 1},
		{"before the first is reduced", 3, 0, 3},
		{"while the first is reduced", 4, 0, 3},
		{"while the first is confirmed", 6, 0, 3},
		{"while the second is reduced", 10, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			left := c.runs
			result, err := Search(ctx, Options{Plan: losesAnswers(), Seeds: 3, Failures: 3, Check: func(ctx context.Context, url string, seed uint64) (string, error) {
				if left == 0 && seed > 0 {
					cancel()
				}
				n, err := repeated(ctx, url)
				if err == nil && n > 0 {
					left--
					err = errors.New("an answer was lost")
				}
				return "", err
			}})
			if !errors.Is(err, context.Canceled) || len(result.Failures) != c.found {
				t.Fatalf("the search returns %d failures, %v; want %d, and that it was cancelled", len(result.Failures), err, c.found)
			}
			for i := range result.Failures {
				f, rules := &result.Failures[i], repeatedUpdates
				if i < c.reduced {
					rules = 1
				}
				if f.Seed != uint64(i+1) || f.Err == nil || len(f.Faults) != repeatedUpdates || len(f.Replay.Rules) != rules || f.Interrupted != (i >= c.reduced) || (f.Minimal == nil) != f.Interrupted {
					t.Errorf("failure %d of seed %d was reduced to %+v and %d rules, interrupted: %v", i, f.Seed, f.Minimal, len(f.Replay.Rules), f.Interrupted)
				}
			}
		})
	}
}

// Requests are counted as the options say, or else the plan, or else as the runs without faults suggest.
func TestIdentityOfRequests(t *testing.T) {
	for _, c := range []struct {
		name, option, plan, want string
	}{
		{"the option", inject.IdentityOperation, "", inject.IdentityOperation},
		{"the option before the plan", inject.IdentityKey, inject.IdentityOperation, inject.IdentityKey},
		{"the plan", "", inject.IdentityOperation, inject.IdentityOperation},
		{"neither, with the same keys in each run", "", "", inject.IdentityKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := losesAnswers()
			plan.Identity = c.plan
			failing := func(ctx context.Context, url string, _ uint64) (string, error) {
				n, err := repeated(ctx, url)
				if err == nil && n > 0 {
					err = errors.New("an answer was lost")
				}
				return "", err
			}
			result, err := Search(t.Context(), Options{Plan: plan, Identity: c.option, Seeds: 1, MaxRuns: 1, Check: failing})
			if err != nil || len(result.Failures) != 1 || result.Identity != c.want || result.Failures[0].Replay.Identity != c.want {
				t.Errorf("the search returns %+v, %v; want requests that are counted by %s", result, err, c.want)
			}
		})
	}
}
