package batch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/rules"
)

// reached is the amount that was ordered for a goal and month, in a list sorted by
// person, in the order of a roster, month and goal.
type reached struct {
	PersonID uuid.UUID   `json:"personId"`
	Month    string      `json:"month"`
	GoalID   string      `json:"goalId"`
	Amount   goals.Money `json:"amount"`

	rate goals.Rate // of the terms
}

func (a *reached) compare(b *reached) int {
	return cmp.Or(before(a.PersonID, b.PersonID), strings.Compare(a.Month, b.Month), strings.Compare(a.GoalID, b.GoalID))
}

// terms are the rules by which goals of a month are reached.
type terms struct {
	Month string       `json:"month"`
	Goals []rules.Goal `json:"goals"`
}

// terms returns the rules of the month of the run (0) or of the one before (-1). Those
// of the month before are the ones with which its last run was made, so that later
// targets do not change what was reached in it. They are nil if no run was made in it.
func (r *run) terms(offset int) *terms {
	month := monthOf(r.manifest.AsOf, offset)
	own := &terms{month, r.rules.Goals}
	if offset == 0 {
		return own
	}
	last := r.ledger.Current
	switch {
	case last == nil:
		return nil
	case monthOf(last.AsOf, 0) == month:
		return cmp.Or(last.Terms, own) // a run of an older version has none
	case last.Earlier != nil && last.Earlier.Month == month:
		return last.Earlier
	}
	return nil
}

// monthOf returns the month of a time, or one before it.
func monthOf(at time.Time, offset int) string {
	at = at.UTC()
	return time.Date(at.Year(), at.Month()+time.Month(offset), 1, 0, 0, 0, 0, time.UTC).Format(goals.MonthLayout)
}

// rewardsAtOnce is how many rewards are sent together.
const rewardsAtOnce = 500

// reward is the sixth stage: it records the rewards of goals that are reached, or have
// more saved than was ordered, in the month of the run and in the one before: the files
// of a month's last day do not have all its contributions. It stores the list of what
// was ordered, with which the next run compares its own. A run that is repeated gives
// the same rewards.
func (r *run) reward(ctx context.Context) error {
	if current := r.ledger.Current; current != nil && current.Run == r.id {
		return nil // it was complete, with its rewards
	}
	all, err := newObject(ctx, r.State, r.ledger.reached(r.id))
	if err != nil {
		return err
	}
	defer all.to.discard()
	orders, err := newObject(ctx, r.State, r.ledger.rewards(r.id))
	if err != nil {
		return err
	}
	defer orders.to.discard()
	o := &ordering{run: r, oldest: monthOf(r.manifest.AsOf, -1), all: all, orders: orders}
	var stop func()
	o.next, stop = iter.Pull2(r.reachedBefore(ctx))
	defer stop()
	if err := o.each(ctx); err != nil {
		return fmt.Errorf("record the rewards: %w", err)
	}
	if err := o.send(ctx); err != nil {
		return err
	}
	if err := all.close(); err != nil {
		return err
	}
	r.report.RewardList = r.ledger.rewards(r.id)
	return orders.close()
}

// ordering merges the goals that are reached with what earlier runs have ordered.
type ordering struct {
	*run
	oldest      string // month that is kept
	all, orders *object
	some        []goals.Reward // not yet sent

	next func() (reached, error, bool)
	old  reached // the next of the list of the last run, if more
	more bool
}

func (o *ordering) each(ctx context.Context) error {
	if err := o.advance(); err != nil {
		return err
	}
	now, past := o.terms(0), o.terms(-1)
	for i := range o.parts {
		if err := o.eachState(i, func(s *state) error {
			for _, g := range append(o.completed(s, past, &s.earlier), o.completed(s, now, &s.saved)...) {
				if err := o.add(ctx, g); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return o.keepUntil(nil)
}

func (o *ordering) advance() (err error) {
	o.old, err, o.more = o.next()
	return err
}

// keepUntil keeps what was ordered for goals before another, or for all that are left:
// they may be reached again.
func (o *ordering) keepUntil(g *reached) error {
	for o.more && (g == nil || o.old.compare(g) < 0) {
		if o.old.Month >= o.oldest {
			o.all.line(o.old)
		}
		if err := o.advance(); err != nil {
			return err
		}
	}
	return nil
}

// add orders what a goal has more than was ordered.
func (o *ordering) add(ctx context.Context, g reached) error {
	if err := o.keepUntil(&g); err != nil {
		return err
	}
	reward := goals.Reward{PersonID: g.PersonID.String(), GoalID: g.GoalID, Month: g.Month, Amount: g.Amount, SpecialRate: g.rate, ReachedAt: o.manifest.AsOf.UTC()}
	if o.more && o.old.compare(&g) == 0 {
		reward.Before = o.old.Amount
		if err := o.advance(); err != nil {
			return err
		}
	}
	g.Amount = max(g.Amount, reward.Before)
	o.all.line(g)
	if reward.Amount <= reward.Before {
		return nil
	}
	reward.Identify()
	o.orders.line(reward)
	o.report.Rewards++
	if o.some = append(o.some, reward); len(o.some) < rewardsAtOnce {
		return nil
	}
	return o.send(ctx)
}

func (o *ordering) send(ctx context.Context) error {
	if o.Reward == nil || len(o.some) == 0 {
		return nil
	}
	err := o.Reward(ctx, o.some)
	o.some = o.some[:0]
	if err != nil {
		return fmt.Errorf("send the rewards: %w", err)
	}
	return nil
}

// completed returns the goals that a customer has reached in a month, by goal.
func (r *run) completed(s *state, by *terms, saved *sums) (found []reached) {
	if by == nil {
		return nil
	}
	for i, rule := range r.rules.Goals {
		at := slices.IndexFunc(by.Goals, func(g rules.Goal) bool { return g.ID == rule.ID })
		if at < 0 {
			continue
		}
		if target, ok := by.Goals[at].Targets[s.segment]; ok && saved[i] >= target {
			found = append(found, reached{PersonID: s.id, Month: by.Month, GoalID: rule.ID, Amount: saved[i], rate: by.Goals[at].Rate})
		}
	}
	slices.SortFunc(found, func(a, b reached) int { return a.compare(&b) })
	return found
}

// reachedBefore yields the list of the last run. A run of an older version has none:
// then all rewards of the month are recorded; or a list without months.
func (r *run) reachedBefore(ctx context.Context) iter.Seq2[reached, error] {
	return func(yield func(reached, error) bool) {
		if r.ledger.Current == nil {
			return
		}
		run, month := r.ledger.Current.Run, monthOf(r.ledger.Current.AsOf, 0)
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
			one.Month = cmp.Or(one.Month, month)
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}
