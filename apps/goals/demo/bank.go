// Package demo simulates the systems around the application: the bank that takes
// deposits and reconciles them, and the data platform that makes gold files.
package demo

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/web"
)

// Bank is the demonstration's bank. Its state is in memory.
type Bank struct {
	Tables   *goals.Tables
	Rules    *rules.Source
	Producer *stream.Producer
	Bucket   *blob.Bucket
	Plan     gold.Plan // generates the customers
	Batch    batch.Options
	Changed  func(personID string)
	Log      *slog.Logger
	Now      func() time.Time

	mutex     sync.Mutex
	open      []deposit // await reconciliation
	confirmed []gold.Contribution
	nightly   sync.Mutex
}

type deposit struct {
	event  goals.Event
	amount goals.Money
}

// maxOpen is the maximum number of open deposits between two nights.
const maxOpen = 100_000

// Deposit makes a deposit and sends the event with the new balance.
func (b *Bank) Deposit(ctx context.Context, personID, goalID string, amount goals.Money) error {
	product, err := b.product(ctx, goalID)
	if err != nil {
		return err
	}
	if amount == 0 {
		return web.Refuse(http.StatusBadRequest, "bad_amount", "a deposit must be above zero")
	}
	view, _, err := b.Tables.Person(ctx, personID)
	if err != nil {
		return err
	}
	balance := amount
	for _, g := range view.Goals {
		if g.GoalID == goalID {
			balance += g.SavedAmount
		}
	}
	e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: personID, Product: product, OccurredAt: b.Now().UTC().Truncate(time.Microsecond), Balance: &balance}
	b.mutex.Lock()
	if len(b.open) == maxOpen {
		b.mutex.Unlock()
		return web.Refuse(http.StatusTooManyRequests, "full", "too many open deposits: run a night first")
	}
	b.open = append(b.open, deposit{e, amount})
	b.mutex.Unlock()
	return b.Producer.Send(ctx, e)
}

// Fail makes the reconciliation of a person's last deposit for a goal fail.
func (b *Bank) Fail(ctx context.Context, personID, goalID string) error {
	product, err := b.product(ctx, goalID)
	if err != nil {
		return err
	}
	b.mutex.Lock()
	var last goals.Event
	for i := len(b.open) - 1; i >= 0; i-- {
		if e := b.open[i].event; e.PersonID == personID && e.Product == product {
			last = e
			b.open = append(b.open[:i], b.open[i+1:]...)
			break
		}
	}
	b.mutex.Unlock()
	if last.EventID == "" {
		return web.Refuse(http.StatusConflict, "nothing_open", "no deposit for this goal awaits reconciliation")
	}
	return b.Producer.Send(ctx, reconciled(last, goals.Failed, b.Now()))
}

func reconciled(e goals.Event, outcome string, now time.Time) goals.Event {
	return goals.Event{
		Type: goals.Reconciliation, EventID: uuid.NewString(), PersonID: e.PersonID, Product: e.Product, OccurredAt: now.UTC(),
		Outcome: outcome, Deposit: &goals.DepositRef{EventID: e.EventID, OccurredAt: e.OccurredAt},
	}
}

// Night confirms all open deposits, generates the gold files of this time and runs
// the batch.
func (b *Bank) Night(ctx context.Context) error {
	b.nightly.Lock()
	defer b.nightly.Unlock()
	b.mutex.Lock()
	settled := b.open
	b.open = nil
	for _, d := range settled {
		b.confirmed = append(b.confirmed, gold.Contribution{PersonID: d.event.PersonID, Product: d.event.Product, Amount: d.amount, ContributedAt: d.event.OccurredAt})
	}
	plan := b.Plan
	plan.Extra = append([]gold.Contribution(nil), b.confirmed...)
	plan.AsOf = b.Now().UTC()
	plan.Day = plan.AsOf.Format(time.DateOnly)
	b.mutex.Unlock()
	var events []goals.Event
	for _, d := range settled {
		events = append(events, reconciled(d.event, goals.Confirmed, plan.AsOf))
	}
	if len(events) > 0 {
		if err := b.Producer.Send(ctx, events...); err != nil {
			return err
		}
	}
	if _, err := gold.Generate(ctx, b.Bucket, plan); err != nil {
		return err
	}
	options := b.Batch
	options.Day = plan.Day
	done, err := batch.Run(ctx, options)
	if err != nil {
		return err
	}
	b.Log.Info("a night is complete", "day", done.Day, "customers", done.Customers, "seconds", fmt.Sprintf("%.1f", done.Seconds))
	for _, d := range settled {
		b.Changed(d.event.PersonID)
	}
	return nil
}

func (b *Bank) product(ctx context.Context, goalID string) (string, error) {
	set, err := b.Rules.Load(ctx)
	if err != nil {
		return "", err
	}
	for product, i := range set.Products {
		if set.Goals[i].ID == goalID {
			return product, nil
		}
	}
	return "", web.Refuse(http.StatusBadRequest, "unknown_goal", "the rules have no goal %.60q", goalID)
}

// Traffic makes random deposits until the context ends; one in eight fails.
func (b *Bank) Traffic(ctx context.Context, people []string, perSecond float64) error {
	set, err := b.Rules.Load(ctx)
	if err != nil {
		return err
	}
	ticks := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		person, goal := people[rand.IntN(len(people))], set.Goals[rand.IntN(len(set.Goals))].ID
		err := b.Deposit(ctx, person, goal, goals.Money(500*(1+rand.IntN(20))))
		if err == nil && rand.IntN(8) == 0 {
			err = b.Fail(ctx, person, goal)
		}
		if err != nil && ctx.Err() == nil {
			b.Log.Warn("a generated deposit failed", "error", err)
		}
	}
}
