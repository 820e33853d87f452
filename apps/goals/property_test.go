package goals_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

var (
	start   = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	goalIDs = []string{"SAVINGS_ACCOUNT", "GOVERNMENT_BONDS"}
)

// world is the tables, and a record of all deliveries in their order.
type world struct {
	tables *goals.Tables
	save   func(context.Context, goals.Pending) (bool, error)
	person string
	now    time.Time

	delivered []goals.Event // every delivery, duplicates included
	saved     map[string]goals.Money
	asOf      time.Time
}

// tablesThen returns tables whose clock is fixed at the time of the tests' events;
// otherwise these would have expired and be deleted during a test.
func tablesThen(t *testing.T) *home.Home {
	t.Helper()
	return hometest.StartWith(t, home.Options{Model: goals.Model, Now: func() time.Time { return start.Add(24 * time.Hour) }})
}

func newWorld(h *home.Home) *world {
	w := &world{person: uuid.NewString(), now: start.Add(24 * time.Hour), saved: make(map[string]goals.Money)}
	w.tables = &goals.Tables{DB: h.DB, Now: func() time.Time { return w.now }}
	w.save = w.tables.Save
	return w
}

// batch is a nightly run.
func (w *world) batch(ctx context.Context, asOf time.Time, saved map[string]goals.Money) error {
	w.asOf, w.saved = asOf, saved
	c := goals.Customer{PersonID: w.person, Name: "Ana", Preferences: goals.Preferences{Language: "en"}, LastUpdated: goals.Instant(asOf)}
	for _, id := range goalIDs {
		c.Goals = append(c.Goals, goals.Goal{GoalID: id, TargetAmount: 50000, SavedAmount: saved[id], Status: goals.Progress(saved[id], 50000)})
	}
	_, err := hometest.Examine(w.tables.DB).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(goals.BatchTable), Item: c.Item()})
	return err
}

// deliver does what the stream does, without the broker.
func (w *world) deliver(ctx context.Context, e goals.Event) error {
	w.delivered = append(w.delivered, e)
	p, writes := e.Pending(e.Product, w.now) // products have the names of goals here
	if !writes {
		return nil
	}
	_, err := w.save(ctx, p)
	return err
}

// check compares the reply with that of the simple model.
func (w *world) check(ctx context.Context) error {
	view, units, err := w.tables.Person(ctx, w.person)
	if err != nil {
		return err
	}
	if units > 1 {
		return fmt.Errorf("the request cost %v units", units)
	}
	var wrong error
	for _, g := range view.Goals {
		saved, status := w.expected(g.GoalID)
		if g.SavedAmount != saved || g.Status != status {
			wrong = errors.Join(wrong, fmt.Errorf("%s shows %s %s, want %s %s", g.GoalID, g.SavedAmount, g.Status, saved, status))
		}
	}
	return wrong
}

// expected is the simple model. The balance of the last event that was delivered counts;
// of two at the same time, that which is later in the topic.
func (w *world) expected(goal string) (goals.Money, goals.Status) {
	var last *goals.Event
	for _, e := range w.delivered {
		if e.Product == goal && e.Outcome != goals.Confirmed && (last == nil || order(e).compare(order(*last)) > 0) {
			last = &e
		}
	}
	if last == nil || !order(*last).at.After(w.asOf) || *last.Balance == w.saved[goal] {
		return w.saved[goal], goals.Progress(w.saved[goal], 50000)
	}
	return *last.Balance, goals.PendingConfirmation
}

// rank is the position of an event in the order of all events of a goal.
type rank struct {
	at     time.Time
	offset int64
}

func order(e goals.Event) rank { return rank{e.OccurredAt, e.Offset} }

func (r rank) compare(o rank) int { return cmp.Or(r.at.Compare(o.at), cmp.Compare(r.offset, o.offset)) }

func deposit(person, goal string, at time.Time, balance goals.Money) goals.Event {
	return goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: person, Product: goal, OccurredAt: at, Balance: &balance}
}

// reconciled is the outcome of a deposit, with the balance after it.
func reconciled(e goals.Event, outcome string, after goals.Money) goals.Event {
	return goals.Event{Type: goals.Reconciliation, EventID: uuid.NewString(), PersonID: e.PersonID, Product: e.Product, OccurredAt: e.OccurredAt, Offset: e.Offset + 1, Outcome: outcome, Balance: &after, Deposit: &goals.DepositRef{EventID: e.EventID, OccurredAt: e.OccurredAt}}
}

// Whatever the order of batches, events, duplicates, late events and failures, the
// reply is that of the simple model, after every step.
func TestMergeInAnyOrder(t *testing.T) {
	h := tablesThen(t)
	rapid.Check(t, func(r *rapid.T) {
		ctx := context.Background()
		w := newWorld(h)
		minute := func(name string) time.Time {
			return start.Add(time.Duration(rapid.IntRange(0, 12).Draw(r, name)) * time.Minute)
		}
		amounts := func() map[string]goals.Money {
			m := make(map[string]goals.Money)
			for _, id := range goalIDs {
				m[id] = goals.Money(rapid.IntRange(0, 60000).Draw(r, "saved"))
			}
			return m
		}
		// What happens, in the order in which it happens …
		var happened []goals.Event
		for range rapid.IntRange(1, 6).Draw(r, "deposits") {
			d := deposit(w.person, rapid.SampledFrom(goalIDs).Draw(r, "goal"), minute("at"), goals.Money(rapid.IntRange(1, 90000).Draw(r, "balance")))
			happened = append(happened, d)
			switch rapid.IntRange(0, 3).Draw(r, "outcome") {
			case 0:
				happened = append(happened, reconciled(d, goals.Failed, goals.Money(rapid.IntRange(0, 90000).Draw(r, "after"))))
			case 1:
				happened = append(happened, reconciled(d, goals.Confirmed, 0))
			}
		}
		for i := range happened {
			happened[i].Offset = int64(i)
		}
		// … and how it is delivered: some of it twice, in any order, with batches
		// in between. A later batch never has an earlier asOf.
		deliveries := append([]goals.Event(nil), happened...)
		for range rapid.IntRange(0, 4).Draw(r, "duplicates") {
			deliveries = append(deliveries, rapid.SampledFrom(happened).Draw(r, "again"))
		}
		deliveries = rapid.Permutation(deliveries).Draw(r, "order")
		if err := w.batch(ctx, start, amounts()); err != nil {
			r.Fatal(err)
		}
		for _, e := range deliveries {
			if rapid.IntRange(0, 4).Draw(r, "batch") == 0 {
				asOf := minute("asOf")
				if asOf.Before(w.asOf) {
					asOf = w.asOf // the same day again
				}
				if err := w.batch(ctx, asOf, amounts()); err != nil {
					r.Fatal(err)
				}
			}
			if err := w.deliver(ctx, e); err != nil {
				r.Fatal(err)
			}
			if err := w.check(ctx); err != nil {
				r.Fatal(err)
			}
		}
	})
}

// The controls: the world finds a write without its condition, and a rejection that
// deletes the item.
func TestMergeControl(t *testing.T) {
	h := tablesThen(t)
	ctx := t.Context()
	first := deposit("", goalIDs[0], start.Add(time.Minute), 100)
	second := deposit("", goalIDs[0], start.Add(2*time.Minute), 200)
	for _, c := range []struct {
		name       string
		deliveries []goals.Event
		save       func(*world) func(context.Context, goals.Pending) (bool, error)
	}{
		{"without the condition an older event overwrites a newer", []goals.Event{second, first}, func(w *world) func(context.Context, goals.Pending) (bool, error) {
			return func(ctx context.Context, p goals.Pending) (bool, error) {
				it, err := attributevalue.MarshalMap(map[string]any{
					"personId": p.PersonID, "goalId": p.GoalID, "currentBalance": p.CurrentBalance, "status": p.Status,
					"eventId": p.EventID, "updatedAt": p.UpdatedAt, "version": p.Version, "ttl": p.TTL,
				})
				if err != nil {
					return false, err
				}
				_, err = hometest.Examine(w.tables.DB).PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(goals.NRTTable), Item: it})
				return true, err
			}
		}},
		{"without the balance after it a rejected deposit reappears", []goals.Event{second, reconciled(second, goals.Failed, 100), second}, func(w *world) func(context.Context, goals.Pending) (bool, error) {
			return func(ctx context.Context, p goals.Pending) (bool, error) {
				if p.EventID == second.EventID {
					return w.tables.Save(ctx, p)
				}
				key, err := attributevalue.MarshalMap(map[string]string{"personId": p.PersonID, "goalId": p.GoalID})
				if err != nil {
					return false, err
				}
				_, err = hometest.Examine(w.tables.DB).DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(goals.NRTTable), Key: key})
				return true, err
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, faulty := range []bool{false, true} {
				w := newWorld(h)
				if faulty {
					w.save = c.save(w)
				}
				if err := w.batch(ctx, start, map[string]goals.Money{}); err != nil {
					t.Fatal(err)
				}
				for _, e := range c.deliveries {
					e.PersonID = w.person
					if err := w.deliver(ctx, e); err != nil {
						t.Fatal(err)
					}
				}
				err := w.check(ctx)
				if faulty && (err == nil || !strings.Contains(err.Error(), ", want ")) || !faulty && err != nil {
					t.Errorf("faulty is %v, and the check returns %v", faulty, err)
				}
			}
		})
	}
}

// The reader of a bank's events sees, after each of them, what is confirmed and what is
// still pending, whatever fails; and the same in the end, whatever the order.
func TestFailuresKeepWhatIsPending(t *testing.T) {
	h := tablesThen(t)
	rapid.Check(t, func(r *rapid.T) {
		ctx := context.Background()
		w := newWorld(h)
		confirmed := goals.Money(rapid.IntRange(0, 20000).Draw(r, "confirmed"))
		if err := w.batch(ctx, start, map[string]goals.Money{goalIDs[0]: confirmed}); err != nil {
			r.Fatal(err)
		}
		type booked struct {
			event  goals.Event
			amount goals.Money
		}
		var open []booked
		truth := func() (sum goals.Money) {
			sum = confirmed
			for _, d := range open {
				sum += d.amount
			}
			return sum
		}
		shows := func() {
			view, _, err := w.tables.Person(ctx, w.person)
			if err != nil {
				r.Fatal(err)
			}
			g, pending := view.Goals[0], len(open) > 0
			if g.SavedAmount != truth() || (g.Status == goals.PendingConfirmation) != pending || pending && *g.ConfirmedAmount != confirmed {
				r.Fatalf("shows %s %s with %d deposits pending, want %s", g.SavedAmount, g.Status, len(open), truth())
			}
		}
		var events []goals.Event
		at := start.Add(time.Microsecond)
		for range rapid.IntRange(1, 8).Draw(r, "events") {
			at = at.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, time.Second}).Draw(r, "later"))
			var e goals.Event
			if n := len(open); n > 0 && rapid.Bool().Draw(r, "fails") {
				i := rapid.IntRange(0, n-1).Draw(r, "which")
				failed := open[i].event
				open = slices.Delete(open, i, i+1)
				e = reconciled(failed, goals.Failed, truth())
				e.OccurredAt = at
			} else {
				e = deposit(w.person, goalIDs[0], at, 0)
				open = append(open, booked{e, goals.Money(rapid.IntRange(1, 9000).Draw(r, "amount"))})
				balance := truth()
				e.Balance = &balance
			}
			e.Offset = int64(len(events))
			events = append(events, e)
			if err := w.deliver(ctx, e); err != nil {
				r.Fatal(err)
			}
			shows()
		}
		w.person = uuid.NewString() // another reader, another order
		if err := w.batch(ctx, start, map[string]goals.Money{goalIDs[0]: confirmed}); err != nil {
			r.Fatal(err)
		}
		for _, e := range rapid.Permutation(append(events, events[:len(events)/2]...)).Draw(r, "order") {
			e.PersonID = w.person
			if err := w.deliver(ctx, e); err != nil {
				r.Fatal(err)
			}
		}
		shows()
	})
}

// A reconciliation whose clock is behind that of its deposit still comes after it.
func TestFailureWithAnEarlierTime(t *testing.T) {
	ctx := t.Context()
	w := newWorld(tablesThen(t))
	if err := w.batch(ctx, start, map[string]goals.Money{}); err != nil {
		t.Fatal(err)
	}
	d := deposit(w.person, goalIDs[0], start.Add(time.Hour), 700)
	failed := reconciled(d, goals.Failed, 0)
	failed.OccurredAt = start.Add(time.Minute)
	for _, e := range []goals.Event{d, failed, d} {
		if err := w.deliver(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	if view, _, err := w.tables.Person(ctx, w.person); err != nil || view.Goals[0].Status != goals.NotStarted {
		t.Errorf("%+v, %v", view.Goals, err)
	}
}

// A pending balance disappears from the reply five days after its event, even if the
// table has not deleted it yet.
func TestFiveDays(t *testing.T) {
	ctx := t.Context()
	w := newWorld(tablesThen(t))
	if err := w.batch(ctx, start, map[string]goals.Money{}); err != nil {
		t.Fatal(err)
	}
	if err := w.deliver(ctx, deposit(w.person, goalIDs[0], start.Add(time.Hour), 700)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  goals.Status
	}{
		{5*24*time.Hour - time.Second, goals.PendingConfirmation},
		{5 * 24 * time.Hour, goals.NotStarted},
	} {
		w.now = start.Add(time.Hour + c.after)
		view, _, err := w.tables.Person(ctx, w.person)
		if err != nil || view.Goals[0].Status != c.want {
			t.Errorf("after %s: %+v, %v", c.after, view.Goals, err)
		}
	}
	e := deposit(w.person, goalIDs[0], start, 1)
	p, _ := e.Pending(goalIDs[0], start)
	if after := p.TTL - start.Unix(); after != 432_000 {
		t.Errorf("an item expires %d s after its event, want five days, which are 432,000 s", after)
	}
	for after, want := range map[time.Duration]bool{5*24*time.Hour - time.Second: true, 5 * 24 * time.Hour: false} {
		if _, writes := e.Pending(goalIDs[0], start.Add(after)); writes != want {
			t.Errorf("an event of %s ago is written: %v", after, writes)
		}
	}
	got, err := hometest.Examine(w.tables.DB).DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(goals.NRTTable)})
	if err != nil {
		t.Fatal(err)
	}
	if got.TimeToLiveDescription.TimeToLiveStatus != "ENABLED" || aws.ToString(got.TimeToLiveDescription.AttributeName) != "ttl" {
		t.Errorf("the table's time to live: %+v, %v", got.TimeToLiveDescription, err)
	}
}

// The largest item that the rules and the files allow is read with half a unit.
func TestLargestItem(t *testing.T) {
	w := newWorld(tablesThen(t))
	long := strings.Repeat("x", 60)
	c := goals.Customer{PersonID: w.person, Name: strings.Repeat("n", 200), Preferences: goals.Preferences{Language: strings.Repeat("l", 20)}, ChosenGoal: long, ChosenAt: goals.Instant(start), LastUpdated: goals.Instant(start), AccomplishedCount: 1000}
	for range 8 {
		c.Goals = append(c.Goals, goals.Goal{GoalID: long, Title: long, TargetAmount: goals.MaxMoney - 1, SavedAmount: goals.MaxMoney - 1, Status: goals.NotStarted, SpecialRate: 1234})
	}
	for range goals.MaxAccomplished {
		c.Accomplished = append(c.Accomplished, goals.Accomplished{Month: "2026-04", GoalID: long, SavedAmount: goals.MaxMoney - 1, SpecialRate: 1234})
	}
	if _, err := hometest.Examine(w.tables.DB).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(goals.BatchTable), Item: c.Item()}); err != nil {
		t.Fatal(err)
	}
	if _, units, err := w.tables.Person(t.Context(), w.person); err != nil || units != 1 {
		t.Errorf("a request costs %v units, %v; want 1", units, err)
	}
}

// Two reads of a half unit each, with all pending and the longest texts.
func TestRequestCostsOneUnit(t *testing.T) {
	ctx := t.Context()
	w := newWorld(tablesThen(t))
	if err := w.batch(ctx, start, map[string]goals.Money{}); err != nil {
		t.Fatal(err)
	}
	for _, pending := range []int{0, 2} {
		for _, id := range goalIDs[:pending] {
			if err := w.deliver(ctx, deposit(w.person, id, start.Add(time.Hour), goals.MaxMoney)); err != nil {
				t.Fatal(err)
			}
			if err := w.tables.Choose(ctx, w.person, id); err != nil {
				t.Fatal(err)
			}
		}
		if _, units, err := w.tables.Person(ctx, w.person); err != nil || units != 1 {
			t.Errorf("with %d pending a request costs %v units, %v; want 1", pending, units, err)
		}
	}
}
