package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/goals"
)

// reached is a goal that is complete in a run, in a list sorted by person, in the order
// of a roster, and goal.
type reached struct {
	PersonID uuid.UUID   `json:"personId"`
	GoalID   string      `json:"goalId"`
	Amount   goals.Money `json:"amount"`
}

func (a *reached) compare(b *reached) int {
	if n := before(a.PersonID, b.PersonID); n != 0 {
		return n
	}
	return strings.Compare(a.GoalID, b.GoalID)
}

// rewardsAtOnce is how many rewards are sent together.
const rewardsAtOnce = 500

// reward is the sixth stage: it records the rewards of goals that are reached, or have
// more saved, since the last run of the month. It stores the list of reached goals, with
// which the next run compares its own. A run that is repeated gives the same rewards.
func (r *run) reward(ctx context.Context) error {
	current := r.ledger.Current
	if current != nil && current.Run == r.id {
		return nil // it was complete, with its rewards
	}
	month := r.manifest.AsOf.UTC().Format(goals.MonthLayout)
	previous := func(func(reached, error) bool) {}
	if current != nil && current.AsOf.UTC().Format(goals.MonthLayout) == month {
		previous = r.reachedBefore(ctx, current.Run)
	}
	next, stop := iter.Pull2(previous)
	defer stop()
	all, err := newObject(ctx, r.State, r.ledger.reached(r.id))
	if err != nil {
		return err
	}
	defer all.stop()
	orders, err := newObject(ctx, r.State, r.ledger.rewards(r.id))
	if err != nil {
		return err
	}
	defer orders.stop()
	var some []goals.Reward
	send := func() error {
		if r.Reward == nil || len(some) == 0 {
			return nil
		}
		err := r.Reward(ctx, some)
		some = some[:0]
		return err
	}
	old, err, more := next()
	for i := range r.parts {
		if err := r.eachState(i, func(s *state) error {
			for _, g := range r.completed(s) {
				for more && err == nil && old.compare(&g) < 0 {
					old, err, more = next()
				}
				if err != nil {
					return err
				}
				all.line(g)
				reward := goals.Reward{PersonID: g.PersonID.String(), GoalID: g.GoalID, Month: month, Amount: g.Amount, SpecialRate: r.rateOf(g.GoalID), ReachedAt: r.manifest.AsOf.UTC()}
				if more && old.compare(&g) == 0 {
					reward.Before = old.Amount
				}
				if reward.Amount <= reward.Before {
					continue
				}
				reward.Identify()
				orders.line(reward)
				r.report.Rewards++
				if some = append(some, reward); len(some) == rewardsAtOnce {
					if err := send(); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("record the rewards: %w", err)
		}
	}
	if err := send(); err != nil {
		return fmt.Errorf("send the rewards: %w", err)
	}
	if err := all.close(); err != nil {
		return err
	}
	r.report.RewardList = r.ledger.rewards(r.id)
	return orders.close()
}

// completed returns the goals that a customer has reached, by goal.
func (r *run) completed(s *state) (found []reached) {
	for i, rule := range r.rules.Goals {
		if s.saved[i] >= rule.Targets[s.segment] {
			found = append(found, reached{s.id, rule.ID, s.saved[i]})
		}
	}
	slices.SortFunc(found, func(a, b reached) int { return a.compare(&b) })
	return found
}

func (r *run) rateOf(goalID string) goals.Rate {
	for _, g := range r.rules.Goals {
		if g.ID == goalID {
			return g.Rate
		}
	}
	return 0
}

// reachedBefore yields the list of an earlier run. A run of an older version has none:
// then all rewards of the month are recorded.
func (r *run) reachedBefore(ctx context.Context, run string) iter.Seq2[reached, error] {
	return func(yield func(reached, error) bool) {
		if ok, err := r.State.Exists(ctx, r.ledger.reached(run)); err != nil || !ok {
			if err != nil {
				yield(reached{}, fmt.Errorf("find the goals reached before: %w", err))
			}
			return
		}
		object, err := r.State.NewReader(ctx, r.ledger.reached(run), nil)
		if err != nil {
			yield(reached{}, fmt.Errorf("read the goals reached before: %w", err))
			return
		}
		defer func() { _ = object.Close() }()
		for lines := json.NewDecoder(bufio.NewReaderSize(object, 64<<10)); ; {
			var one reached
			err := lines.Decode(&one)
			if err == io.EOF {
				return
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}
