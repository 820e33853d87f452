package batch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/rules"
)

// state is what a run computes for a customer, before titles and rates of the rules
// are added.
type state struct {
	customer
	saved   sums
	earlier sums                 // saved in the month before
	past    []goals.Accomplished // the newest goals of earlier months
	count   int                  // of all of them
}

// sums are the amounts of the goals, in the order of the rules.
type sums [rules.MaxGoals]goals.Money

func (s *sums) add(goal byte, amount goals.Money) {
	if goal < rules.MaxGoals {
		// Sums are limited far below an overflow.
		s[goal] = min(s[goal]+amount, goals.MaxMoney+1)
	}
}

// compute is the second stage: each part's rows become its customers, in the order of
// a roster.
func (r *run) compute(ctx context.Context) error {
	states := filepath.Join(r.folder, "states")
	if n, done := r.journal.has("compute"); done {
		r.counted = n
		return nil
	}
	if err := emptyFolder(states); err != nil {
		return err
	}
	rejects, err := newRejects(filepath.Join(r.folder, rejectedTwice), r.Rejected-r.counted.Rejected)
	if err != nil {
		return err
	}
	defer rejects.close()
	r.progress.stage("compute", int64(r.parts))
	var customers, unowned atomic.Int64
	parts, within := errgroup.WithContext(ctx)
	parts.SetLimit(runtime.GOMAXPROCS(0))
	for i := range r.parts {
		parts.Go(func() error {
			if within.Err() != nil {
				return within.Err()
			}
			n, u, err := r.computePart(i, partName(states, i), rejects)
			if err != nil {
				return fmt.Errorf("compute part %d: %w", i, err)
			}
			customers.Add(n)
			unowned.Add(u)
			r.progress.add(1)
			return nil
		})
	}
	if err := parts.Wait(); err != nil {
		return err
	}
	r.counted.Customers, r.counted.Unowned = customers.Load(), unowned.Load()
	r.counted.Rejected += rejects.n
	if err := r.journal.add("compute", r.counted); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(r.folder, "rows")); err != nil {
		return fmt.Errorf("remove the rows: %w", err)
	}
	return nil
}

func (r *run) computePart(part int, to string, rejects *rejects) (customers, unowned int64, err error) {
	rows, err := os.Open(partName(filepath.Join(r.folder, "rows"), part))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = rows.Close() }()
	all, err := collect(&reader{in: bufio.NewReaderSize(rows, 64<<10)}, rejects)
	if err != nil {
		return 0, 0, err
	}
	var known []*state
	for _, s := range all {
		if s.name == "" {
			unowned++
			continue
		}
		for i := range s.saved {
			if max(s.saved[i], s.earlier[i]) > goals.MaxMoney {
				return 0, 0, fmt.Errorf("the contributions of person %s add up to more than %s: the files cannot be right", s.id, goals.MaxMoney)
			}
		}
		s.keepNewest()
		known = append(known, s)
	}
	slices.SortFunc(known, func(a, b *state) int { return before(a.id, b.id) })
	return int64(len(known)), unowned, writeStates(to, known)
}

// collect sums a part's rows by person. Of a person with two rows, the first in the
// order of the files is used.
func collect(in *reader, rejects *rejects) (map[uuid.UUID]*state, error) {
	all := make(map[uuid.UUID]*state)
	get := func(id uuid.UUID) *state {
		s := all[id]
		if s == nil {
			s = new(state)
			s.id = id
			all[id] = s
		}
		return s
	}
	for in.more() {
		switch kind := in.byte(); kind {
		case 'C':
			c := in.customer()
			s := get(c.id)
			if s.name != "" {
				second := max(c.order, s.order)
				if err := rejects.add(fmt.Sprintf("file %d of the customers", second>>40), int64(second&(1<<40-1)), fmt.Sprintf("person %s is in the files twice", c.id)); err != nil {
					return nil, err
				}
				if c.order > s.order {
					continue
				}
			}
			s.customer = c
		case 'K', 'E':
			s, goal, amount := get(in.id()), in.byte(), in.number()
			switch {
			case in.err != nil:
			case kind == 'K':
				s.saved.add(goal, goals.Money(amount))
			default:
				s.earlier.add(goal, goals.Money(amount))
			}
		case 'A':
			s := get(in.id())
			s.past = append(s.past, in.accomplished())
		default:
			return nil, fmt.Errorf("a row of kind %q; the work folder is damaged: remove it and start again", kind)
		}
	}
	return all, in.err
}

// keepNewest sorts the goals of earlier months, that of the newest month first, and keeps
// as many as an item has. A goal that is twice in a month counts once, with the larger
// amount.
func (s *state) keepNewest() {
	slices.SortFunc(s.past, func(a, b goals.Accomplished) int {
		return cmp.Or(strings.Compare(b.Month, a.Month), strings.Compare(a.GoalID, b.GoalID), cmp.Compare(b.SavedAmount, a.SavedAmount))
	})
	s.past = slices.CompactFunc(s.past, func(a, b goals.Accomplished) bool { return a.Month == b.Month && a.GoalID == b.GoalID })
	s.count = len(s.past)
	s.past = s.past[:min(s.count, goals.MaxAccomplished)]
}

func writeStates(name string, states []*state) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 64<<10)
	var row []byte
	for _, s := range states {
		row = s.customer.append(row[:0])
		for _, all := range []*sums{&s.saved, &s.earlier} {
			for _, m := range all {
				row = binary.AppendUvarint(row, uint64(m))
			}
		}
		row = binary.AppendUvarint(binary.AppendUvarint(row, uint64(s.count)), uint64(len(s.past)))
		for i := range s.past {
			row = appendAccomplished(row, &s.past[i])
		}
		if _, err := w.Write(row); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return errors.Join(w.Flush(), file.Sync(), file.Close())
}

// eachState yields the customers of a part in the order of a roster.
func (r *run) eachState(part int, use func(*state) error) error {
	file, err := os.Open(partName(filepath.Join(r.folder, "states"), part))
	if err != nil {
		return fmt.Errorf("open part %d: %w", part, err)
	}
	defer func() { _ = file.Close() }()
	in := &reader{in: bufio.NewReaderSize(file, 32<<10)}
	for in.more() {
		s := state{customer: in.customer()}
		for _, all := range []*sums{&s.saved, &s.earlier} {
			for i := range all {
				all[i] = goals.Money(in.number())
			}
		}
		s.count = int(in.number())
		for range min(in.number(), goals.MaxAccomplished) {
			s.past = append(s.past, in.accomplished())
		}
		if in.err != nil {
			break
		}
		if err := use(&s); err != nil {
			return err
		}
	}
	if in.err != nil {
		return fmt.Errorf("read part %d: %w; remove the work folder and start again", part, in.err)
	}
	return nil
}

// item returns a customer as stored in the table.
func (r *run) item(s *state) *goals.Customer {
	c := &goals.Customer{
		PersonID:    s.id.String(),
		Name:        s.name,
		Preferences: goals.Preferences{Notifications: s.notifications, Language: s.language},
		ChosenGoal:  s.chosenGoal,
		ChosenAt:    s.chosenAt,
		LastUpdated: goals.Instant(r.manifest.AsOf),
		Goals:       make([]goals.Goal, len(r.rules.Goals)),

		Accomplished: s.past, AccomplishedCount: s.count,
	}
	for i, rule := range r.rules.Goals {
		target := rule.Targets[s.segment]
		c.Goals[i] = goals.Goal{
			GoalID: rule.ID, Title: rule.TitleIn(s.language), SpecialRate: rule.Rate,
			TargetAmount: target, SavedAmount: s.saved[i], Status: goals.Progress(s.saved[i], target),
		}
	}
	return c
}
