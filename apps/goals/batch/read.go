package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
)

// read is the first stage: it validates all rows of all files and writes them to the
// parts on disk.
func (r *run) read(ctx context.Context) error {
	if n, done := r.journal.has("read"); done {
		r.counted = n
		return nil
	}
	folder := filepath.Join(r.folder, "rows")
	if err := emptyFolder(folder); err != nil {
		return err
	}
	rejects, err := newRejects(filepath.Join(r.folder, rejectedRows), r.Rejected)
	if err != nil {
		return err
	}
	defer rejects.close()
	out, err := newSpread(folder, r.parts)
	if err != nil {
		return err
	}
	defer out.close()
	r.progress.stage("read", r.manifest.Rows())
	var outside atomic.Int64
	files, within := errgroup.WithContext(ctx)
	files.SetLimit(max(1, r.Readers))
	for i, f := range r.manifest.Customers {
		files.Go(func() error {
			return gold.Read(within, r.Bucket, r.Day, f, r.folder, func(n int64, row *gold.Customer, bad *gold.BadRow) error {
				r.progress.add(1)
				var c customer
				reason := ""
				if bad != nil {
					reason = bad.Reason
				} else {
					c, reason = r.checkCustomer(row)
				}
				if reason != "" {
					return rejects.add(f.Name, n, reason)
				}
				c.order = uint64(i)<<40 | uint64(n)
				return out.customer(&c)
			})
		})
	}
	for _, f := range r.manifest.Contributions {
		files.Go(func() error {
			return gold.Read(within, r.Bucket, r.Day, f, r.folder, func(n int64, row *gold.Contribution, bad *gold.BadRow) error {
				r.progress.add(1)
				var c contribution
				reason := ""
				if bad != nil {
					reason = bad.Reason
				} else {
					c, reason = r.checkContribution(row)
				}
				if reason != "" {
					return rejects.add(f.Name, n, reason)
				}
				if c.month < 0 {
					outside.Add(1)
				}
				if c.month < -1 {
					return nil
				}
				return out.contribution(&c)
			})
		})
	}
	for _, f := range r.manifest.Accomplished {
		files.Go(func() error {
			return gold.Read(within, r.Bucket, r.Day, f, r.folder, func(n int64, row *gold.Accomplished, bad *gold.BadRow) error {
				r.progress.add(1)
				var a accomplished
				reason := ""
				if bad != nil {
					reason = bad.Reason
				} else {
					a, reason = r.checkAccomplished(row)
				}
				if reason != "" {
					return rejects.add(f.Name, n, reason)
				}
				return out.accomplished(&a)
			})
		})
	}
	if err := files.Wait(); err != nil {
		return fmt.Errorf("read the gold files of day %s: %w", r.Day, err)
	}
	if err := out.finish(); err != nil {
		return err
	}
	r.counted = counts{Outside: outside.Load(), Rejected: rejects.n}
	return r.journal.add("read", r.counted)
}

// Longer texts could make an item exceed one read unit.
const (
	maxName     = 200
	maxLanguage = 20
	maxGoalID   = 60
)

func (r *run) checkCustomer(row *gold.Customer) (c customer, reason string) {
	id, err := goals.ParsePerson(row.PersonID)
	switch {
	case err != nil:
		return c, err.Error()
	case row.Name == "" || len(row.Name) > maxName:
		return c, fmt.Sprintf("the name has %d bytes; it must have 1 to %d", len(row.Name), maxName)
	case row.Language == "" || len(row.Language) > maxLanguage:
		return c, fmt.Sprintf("the language has %d bytes; it must have 1 to %d", len(row.Language), maxLanguage)
	case !r.rules.Has(row.Segment):
		return c, fmt.Sprintf("the rules have no targets for segment %.60q", row.Segment)
	case (row.ChosenGoal == nil) != (row.ChosenAt == nil):
		return c, "chosenGoal and chosenAt must be set together"
	}
	c = customer{id: id, name: row.Name, segment: row.Segment, language: row.Language, notifications: row.Notifications}
	if row.ChosenGoal != nil {
		if !r.hasGoal(*row.ChosenGoal) {
			return c, fmt.Sprintf("the rules have no goal %.60q", *row.ChosenGoal)
		}
		c.chosenGoal, c.chosenAt = *row.ChosenGoal, goals.Instant(*row.ChosenAt)
	}
	return c, ""
}

func (r *run) hasGoal(id string) bool {
	for _, g := range r.rules.Goals {
		if g.ID == id {
			return true
		}
	}
	return false
}

func (r *run) checkContribution(row *gold.Contribution) (c contribution, reason string) {
	id, err := goals.ParsePerson(row.PersonID)
	goal, known := r.rules.Products[row.Product]
	switch {
	case err != nil:
		return c, err.Error()
	case !known:
		return c, fmt.Sprintf("the rules have no product %.60q", row.Product)
	case row.Amount <= 0 || row.Amount > goals.MaxMoney:
		return c, fmt.Sprintf("the amount is %d cents; it must be above zero and at most %s", int64(row.Amount), goals.MaxMoney)
	case row.ContributedAt.Year() < 2000:
		return c, "contributedAt is missing or before the year 2000"
	case row.ContributedAt.After(r.manifest.AsOf):
		return c, fmt.Sprintf("contributedAt is %s, after the asOf of the files", row.ContributedAt.UTC().Format(time.RFC3339))
	}
	at, of := row.ContributedAt.UTC(), r.manifest.AsOf.UTC()
	month := 12*(at.Year()-of.Year()) + int(at.Month()) - int(of.Month())
	return contribution{id: id, goal: goal, amount: row.Amount, month: month}, ""
}

func (r *run) checkAccomplished(row *gold.Accomplished) (a accomplished, reason string) {
	id, err := goals.ParsePerson(row.PersonID)
	month, badMonth := time.Parse(goals.MonthLayout, row.Month)
	at := r.manifest.AsOf.UTC()
	switch {
	case err != nil:
		return a, err.Error()
	case row.GoalID == "" || len(row.GoalID) > maxGoalID:
		return a, fmt.Sprintf("the goal has %d bytes; it must have 1 to %d", len(row.GoalID), maxGoalID)
	case badMonth != nil || month.Year() < 2000:
		return a, fmt.Sprintf("the month is %.20q, but must be like 2026-04", row.Month)
	case !month.Before(time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)):
		return a, fmt.Sprintf("the month %s is not before that of the files", row.Month)
	case row.Amount <= 0 || row.Amount > goals.MaxMoney:
		return a, fmt.Sprintf("the amount is %d cents; it must be above zero and at most %s", int64(row.Amount), goals.MaxMoney)
	case row.Rate < 0 || row.Rate > 10_000:
		return a, fmt.Sprintf("the rate is %s; it must be 0 to 1", row.Rate)
	}
	return accomplished{id, goals.Accomplished{Month: row.Month, GoalID: row.GoalID, SavedAmount: row.Amount, SpecialRate: row.Rate}}, ""
}

// Where rejected rows are listed: of the first and of the second stage.
const (
	rejectedRows  = "rejected.jsonl"
	rejectedTwice = "twice.jsonl"
)

// rejects are the rows that are skipped. They are written to a file, and more than the
// limit end the run.
type rejects struct {
	mutex sync.Mutex
	file  *os.File
	limit int64
	n     int64
}

func newRejects(name string, limit int64) (*rejects, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create a file for rejected rows: %w", err)
	}
	return &rejects{file: file, limit: limit}, nil
}

func (r *rejects) add(file string, row int64, reason string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.n++
	if r.n > r.limit {
		return fmt.Errorf("row %d of %s: %s; more than %d rows are invalid (--reject-up-to); nothing was written to the table", row, file, reason, r.limit)
	}
	line, err := json.Marshal(map[string]any{"file": file, "row": row, "reason": reason})
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write a rejected row: %w", err)
	}
	return nil
}

func (r *rejects) close() { _ = r.file.Close() }

func emptyFolder(name string) error {
	if err := os.RemoveAll(name); err != nil {
		return fmt.Errorf("empty %s: %w", name, err)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return nil
}
