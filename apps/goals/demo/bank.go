// Package demo simulates the systems around the application: the bank that takes
// deposits and reconciles them, and the data platform that makes gold files.
package demo

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
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

// Bank is the demonstration's bank. Its state is in memory. It computes balances from
// its own books, never from what the app shows.
type Bank struct {
	Rules    *rules.Source
	Producer *stream.Producer
	Bucket   *blob.Bucket
	Plan     gold.Plan // generates the customers
	Batch    batch.Options
	Changed  func(personID string)
	Log      *slog.Logger
	Now      func() time.Time

	mutex     sync.Mutex
	numbers   map[string]int // number of each customer in the plan
	open      []deposit      // await reconciliation
	confirmed []gold.Contribution
	settled   time.Time // asOf of the last night
	last      time.Time // of the last event
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
	e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: personID, Product: product}
	if err := b.book(&e, amount); err != nil {
		return err
	}
	return b.Producer.Send(ctx, e)
}

// book enters a deposit in the books, and sets the time and the balance of its event.
func (b *Bank) book(e *goals.Event, amount goals.Money) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if _, ok := b.number(e.PersonID); !ok {
		return web.Refuse(http.StatusNotFound, "unknown_person", "the bank has no customer %s", e.PersonID)
	}
	if len(b.open) == maxOpen {
		return web.Refuse(http.StatusTooManyRequests, "full", "too many open deposits: run a night first")
	}
	e.OccurredAt = b.tick()
	b.open = append(b.open, deposit{*e, amount})
	balance := b.balance(e.PersonID, e.Product)
	if balance > goals.MaxMoney {
		b.open = b.open[:len(b.open)-1]
		return web.Refuse(http.StatusBadRequest, "bad_amount", "the balance would exceed %s", goals.MaxMoney)
	}
	e.Balance = &balance
	return nil
}

// Fail makes the reconciliation of a person's last deposit for a goal fail.
func (b *Bank) Fail(ctx context.Context, personID, goalID string) error {
	product, err := b.product(ctx, goalID)
	if err != nil {
		return err
	}
	e, ok := b.revert(personID, product)
	if !ok {
		return web.Refuse(http.StatusConflict, "nothing_open", "no deposit for this goal awaits reconciliation")
	}
	return b.Producer.Send(ctx, e)
}

// revert takes a person's last deposit out of the books, and returns the event of its
// failed reconciliation, with the balance after it.
func (b *Bank) revert(personID, product string) (goals.Event, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for i := len(b.open) - 1; i >= 0; i-- {
		e := b.open[i].event
		if e.PersonID != personID || e.Product != product {
			continue
		}
		b.open = slices.Delete(b.open, i, i+1)
		failed := reconciled(e, goals.Failed, b.tick())
		balance := b.balance(personID, product)
		failed.Balance = &balance
		return failed, true
	}
	return goals.Event{}, false
}

// balance is what a person has saved for a product this month: what the last night's
// files had, what was confirmed since, and what awaits confirmation.
func (b *Bank) balance(personID, product string) (sum goals.Money) {
	number, _ := b.number(personID)
	plan := b.Plan
	plan.AsOf = b.settled
	_, made := plan.Made(number)
	for _, c := range append(made, b.confirmed...) {
		if c.PersonID == personID && c.Product == product && sameMonth(c.ContributedAt, b.last) {
			sum += c.Amount
		}
	}
	for _, d := range b.open {
		if d.event.PersonID == personID && d.event.Product == product && sameMonth(d.event.OccurredAt, b.last) {
			sum += d.amount
		}
	}
	return sum
}

func sameMonth(a, b time.Time) bool {
	return a.UTC().Year() == b.UTC().Year() && a.UTC().Month() == b.UTC().Month()
}

// number returns the number of a customer in the plan.
func (b *Bank) number(personID string) (int, bool) {
	if b.numbers == nil {
		b.numbers = make(map[string]int, b.Plan.Customers)
		for i := range b.Plan.Customers {
			b.numbers[gold.Person(b.Plan.Seed, i).String()] = i
		}
	}
	n, ok := b.numbers[personID]
	return n, ok
}

// tick returns the time of a new event, which is later than that of all others.
func (b *Bank) tick() time.Time {
	now := b.Now().UTC().Truncate(time.Microsecond)
	if !now.After(b.last) {
		now = b.last.Add(time.Microsecond)
	}
	b.last = now
	return now
}

func reconciled(e goals.Event, outcome string, now time.Time) goals.Event {
	return goals.Event{
		Type: goals.Reconciliation, EventID: uuid.NewString(), PersonID: e.PersonID, Product: e.Product, OccurredAt: now,
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
	plan.AsOf = b.tick()
	b.settled = plan.AsOf
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
