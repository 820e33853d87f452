package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	var of *loaded
	for _, l := range r.ledger.runs() {
		if monthOf(l.AsOf, 0) == month && (of == nil || l.AsOf.After(of.AsOf)) {
			of = l
		}
	}
	if of != nil {
		return cmp.Or(of.Terms, own) // a run of an older version has none
	}
	for _, l := range r.ledger.runs() {
		if l.Earlier != nil && l.Earlier.Month == month {
			return l.Earlier
		}
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

// reward is the sixth stage: it orders the rewards of goals that are reached, and sends
// those that were ordered by this run and by earlier ones that could not send them.
func (r *run) reward(ctx context.Context) error {
	switch {
	case r.ledger.Current != nil && r.ledger.Current.Run == r.id:
		// it was complete
	case r.ledger.Ordered == r.id:
		r.report.RewardList = r.ledger.rewards(r.id)
		for _, err := range objectLines[goals.Reward](ctx, r.State, r.report.RewardList) {
			if err != nil {
				return err
			}
			r.report.Rewards++
		}
	default:
		if err := r.order(ctx); err != nil {
			return fmt.Errorf("record the rewards: %w", err)
		}
		r.report.RewardList = r.ledger.rewards(r.id)
	}
	return r.sendRewards(ctx)
}

// order records the rewards of goals that are reached, or have more saved than was
// ordered, in the month of the run and in the one before: the files of a month's last
// day do not have all its contributions. It stores the list of what was ordered, with
// which the next run compares its own. From then on the rewards are sent, by this run or
// a later one, even if this one is never finished.
func (r *run) order(ctx context.Context) error {
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
	if err := o.each(); err != nil {
		return err
	}
	if err := errors.Join(all.close(), orders.close()); err != nil {
		return err
	}
	r.compared, r.ledger.Ordered = r.ledger.ordered(), r.id
	if r.Reward != nil && o.report.Rewards > 0 {
		r.ledger.Unsent = append(r.ledger.Unsent, r.id)
	}
	return r.ledger.save(ctx)
}

// sendRewards sends the lists that were not sent, in the order of their runs.
func (r *run) sendRewards(ctx context.Context) error {
	if r.Reward == nil {
		if n := len(r.ledger.Unsent); n > 0 {
			r.Log.Warn("rewards of earlier runs were not sent; a run with Kafka sends them", "runs", n)
		}
		return nil
	}
	for len(r.ledger.Unsent) > 0 {
		if err := r.sendList(ctx, r.ledger.rewards(r.ledger.Unsent[0])); err != nil {
			return fmt.Errorf("send the rewards: %w", err)
		}
		r.ledger.Unsent = r.ledger.Unsent[1:]
		if err := r.ledger.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) sendList(ctx context.Context, name string) error {
	some := make([]goals.Reward, 0, rewardsAtOnce)
	for reward, err := range objectLines[goals.Reward](ctx, r.State, name) {
		if err != nil {
			return err
		}
		if some = append(some, reward); len(some) == rewardsAtOnce {
			if err := r.Reward(ctx, some); err != nil {
				return err
			}
			some = some[:0]
		}
	}
	if len(some) == 0 {
		return nil
	}
	return r.Reward(ctx, some)
}

// ordering merges the goals that are reached with what earlier runs have ordered.
type ordering struct {
	*run
	oldest      string // month that is kept
	all, orders *object

	next func() (reached, error, bool)
	old  reached // the next of the list of the last run, if more
	more bool
}

func (o *ordering) each() error {
	if err := o.advance(); err != nil {
		return err
	}
	now, past := o.terms(0), o.terms(-1)
	for i := range o.parts {
		if err := o.eachState(i, func(s *state) error {
			for _, g := range append(o.completed(s, past, &s.earlier), o.completed(s, now, &s.saved)...) {
				if err := o.add(g); err != nil {
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
func (o *ordering) add(g reached) error {
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

// reachedBefore yields the list of the last run that ordered rewards. A run of an older
// version has none: then all rewards of the month are recorded; or a list without months.
func (r *run) reachedBefore(ctx context.Context) iter.Seq2[reached, error] {
	return func(yield func(reached, error) bool) {
		run := r.ledger.ordered()
		if run == "" {
			return
		}
		if ok, err := r.State.Exists(ctx, r.ledger.reached(run)); err != nil || !ok {
			if err != nil {
				yield(reached{}, fmt.Errorf("find the goals reached before: %w", err))
			}
			return
		}
		for one, err := range objectLines[reached](ctx, r.State, r.ledger.reached(run)) {
			if one.Month == "" && r.ledger.Current != nil {
				one.Month = monthOf(r.ledger.Current.AsOf, 0)
			}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}
