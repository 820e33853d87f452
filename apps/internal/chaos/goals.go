package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"gocloud.dev/blob/memblob"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/goals/stream"
)

// goalsCustomers is how many customers a day has.
const goalsCustomers = 60

// bank is what the check of the goals uses.
type bank struct {
	*run
	tables *goals.Tables
	rules  *rules.Source
	batch  batch.Options
	now    time.Time

	mutex   sync.Mutex
	changed map[string]bool // people whose open page must be read again
	rewards map[string]goals.Reward
}

// checkGoals loads two days, of which the second lacks some customers, with deposits and choices in
// between. The batch view must be exactly that of the files, the near-real-time view that of the last
// events, and the page of a customer must be notified of each change.
func checkGoals(ctx context.Context, r *run) (err error) {
	h, err := r.open(ctx, goals.Model)
	if err != nil {
		return err
	}
	source, err := rules.Open(ctx, "")
	if err != nil {
		return err
	}
	defer source.Close()
	work, err := os.MkdirTemp("", "goals-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	now := time.Now().UTC().Truncate(time.Second)
	b := &bank{run: r, rules: source, now: now, tables: &goals.Tables{DB: h.DB, Now: time.Now}, changed: make(map[string]bool), rewards: make(map[string]goals.Reward)}
	b.batch = batch.Options{
		Bucket: memblob.OpenBucket(nil), State: memblob.OpenBucket(nil), Rules: source, DB: h.DB, Work: work,
		Log: r.log, Now: time.Now, Readers: 2, Writers: 2, VanishPercent: 100, Reward: b.reward,
	}
	if err := b.night(ctx, 2, 0); err != nil {
		return err
	}
	if err := b.day(ctx); err != nil {
		return err
	}
	if err := b.choose(ctx); err != nil {
		return err
	}
	return b.night(ctx, 1, 10)
}

// reward gets the rewards of a run.
func (b *bank) reward(_ context.Context, some []goals.Reward) error {
	for _, w := range some {
		b.rewards[w.RewardID] = w
	}
	return nil
}

// night loads the day of some days ago, whose files have the customers from a number on, and compares the
// batch view and the rewards.
func (b *bank) night(ctx context.Context, ago, first int) error {
	day, at := b.now.AddDate(0, 0, -ago).Format(time.DateOnly), b.now.Add(-time.Duration(ago)*time.Hour)
	plan := gold.Plan{Day: day, AsOf: at, First: first, Customers: goalsCustomers, Seed: 5, Format: "jsonl", PartRows: 100}
	if _, err := gold.Generate(ctx, b.batch.Bucket, plan); err != nil {
		return err
	}
	o := b.batch
	o.Day = day
	for {
		// A run ends with an error if the SDK gives up; it is started again, as by a scheduler.
		_, err := batch.Run(ctx, o)
		if err == nil {
			break
		}
		b.log.Warn("a load failed; starting it again", "error", err)
		if ctx.Err() != nil {
			return err
		}
	}
	return b.compare(ctx, plan)
}

// compare compares the batch view with the files.
func (b *bank) compare(ctx context.Context, plan gold.Plan) error {
	set, err := b.rules.Load(ctx)
	if err != nil {
		return err
	}
	found, err := items(ctx, b.tables.DB, goals.BatchTable)
	if err != nil {
		return err
	}
	have := make(map[string]goals.Customer)
	for _, it := range found {
		var c goals.Customer
		if err := attributevalue.UnmarshalMap(it, &c); err != nil {
			return err
		}
		have[c.PersonID] = c
	}
	for i := plan.First; i < plan.First+plan.Customers; i++ {
		made, contributions := plan.Made(i)
		saved := make(map[string]goals.Money)
		for _, c := range contributions {
			if sameMonth(c.ContributedAt, plan.AsOf) {
				saved[set.Goals[set.Products[c.Product]].ID] += c.Amount
			}
		}
		c, ok := have[made.PersonID]
		if !ok {
			return fmt.Errorf("customer %d of day %s is not in the batch view", i, plan.Day)
		}
		delete(have, made.PersonID)
		if c.LastUpdated != goals.Instant(plan.AsOf) || c.Name != made.Name {
			return fmt.Errorf("customer %d is %+v after day %s", i, c, plan.Day)
		}
		for _, g := range c.Goals {
			if g.SavedAmount != saved[g.GoalID] {
				return fmt.Errorf("customer %d has saved %s for %s, want %s", i, g.SavedAmount, g.GoalID, saved[g.GoalID])
			}
			if g.Status != goals.Completed {
				continue
			}
			if !slices.ContainsFunc(slices.Collect(maps.Values(b.rewards)), func(w goals.Reward) bool {
				return w.PersonID == c.PersonID && w.GoalID == g.GoalID && w.Amount == g.SavedAmount
			}) {
				return fmt.Errorf("customer %d has reached %s with %s, and got no reward", i, g.GoalID, g.SavedAmount)
			}
		}
	}
	if len(have) > 0 {
		return fmt.Errorf("%d customers are in the batch view, but not in the files of day %s", len(have), plan.Day)
	}
	return nil
}

func sameMonth(a, b time.Time) bool {
	return a.UTC().Year() == b.UTC().Year() && a.UTC().Month() == b.UTC().Month()
}

// day sends deposits and failed reconciliations, some twice and not in their order, and waits until the
// near-real-time view and the open pages have the last ones.
func (b *bank) day(ctx context.Context) (err error) {
	broker, err := stream.StartBroker("", "", stream.DefaultTopics)
	if err != nil {
		return err
	}
	defer broker.Close()
	producer, err := stream.NewProducer(ctx, broker.Kafka(), stream.DefaultTopics)
	if err != nil {
		return err
	}
	defer producer.Close()
	metrics := stream.NewMetrics(prometheus.NewRegistry())
	cached := &rules.Cached{Source: b.rules, Log: b.log, Now: time.Now}
	consumer := &stream.Consumer{
		Kafka: broker.Kafka(), Group: "goals", Topics: stream.DefaultTopics, Goal: cached.Goal, Save: b.tables.Save,
		Changed: b.change, Metrics: metrics, Health: stream.NewHealth(metrics, b.log, time.Now), Log: b.log, Now: time.Now,
	}
	stop := background(ctx, consumer.Run)
	defer func() { err = errors.Join(err, stop()) }()
	want := make(map[string]goals.Money) // by person and goal
	events := b.events(ctx, want)
	if err := producer.Send(ctx, events...); err != nil {
		return err
	}
	pages := make(map[string]goals.Money)
	return until(ctx, func() (string, error) {
		for person := range b.takeChanged() {
			if err := b.page(ctx, person, pages); err != nil {
				return "", err
			}
		}
		for key, balance := range want {
			if pages[key] != balance {
				return fmt.Sprintf("the open page of %s shows %s, and the last event has %s; it was notified of no change since", key, pages[key], balance), nil
			}
		}
		return "", nil
	})
}

// change is called by the consumer when a balance was written.
func (b *bank) change(person string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.changed[person] = true
}

func (b *bank) takeChanged() map[string]bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	all := b.changed
	b.changed = make(map[string]bool)
	return all
}

// page reads the balances of a person, as an open page does that was notified.
func (b *bank) page(ctx context.Context, person string, into map[string]goals.Money) error {
	pages := dynamodb.NewQueryPaginator(patient(b.tables.DB), &dynamodb.QueryInput{
		TableName: aws.String(goals.NRTTable), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("personId = :person"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":person": &types.AttributeValueMemberS{Value: person}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			var p goals.Pending
			if err := attributevalue.UnmarshalMap(it, &p); err != nil {
				return err
			}
			into[p.PersonID+" "+p.GoalID] = p.CurrentBalance
		}
	}
	return nil
}

// events returns events of some people, and the balances after them.
func (b *bank) events(ctx context.Context, want map[string]goals.Money) (all []goals.Event) {
	random := rand.New(rand.NewPCG(b.seed, 7))
	goalOf := map[string]string{"SAV": "SAVINGS_ACCOUNT", "GOV": "GOVERNMENT_BONDS"}
	for i := range 12 {
		person := gold.Person(5, i).String()
		for _, product := range []string{"GOV", "SAV"} {
			var last goals.Event
			for n := range 3 {
				balance := goals.Money(1000*(n+1) + i)
				e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: person, Product: product, OccurredAt: b.now.Add(time.Duration(n-60) * time.Second), Balance: &balance}
				if n == 2 && i%3 == 0 {
					e.Type, e.Outcome, e.Deposit = goals.Reconciliation, goals.Failed, &goals.DepositRef{EventID: last.EventID, OccurredAt: last.OccurredAt}
				}
				all, last = append(all, e), e
				want[person+" "+goalOf[product]] = balance
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return append(all, all[:10]...)
}

// choose chooses goals, and reads the view of the app until it has them.
func (b *bank) choose(ctx context.Context) error {
	for i := range 3 {
		person := gold.Person(5, 20+i).String()
		err := until(ctx, func() (string, error) {
			err := b.tables.Choose(ctx, person, "SAVINGS_ACCOUNT")
			if errors.Is(err, goals.ErrNoPerson) { // a read that is not consistent; the customer was loaded a moment ago
				return err.Error(), nil
			}
			return "", err
		})
		if err != nil {
			return err
		}
		err = until(ctx, func() (string, error) {
			view, _, err := b.tables.Person(ctx, person)
			if err != nil && !errors.Is(err, goals.ErrNoPerson) {
				return "", err
			}
			chosen := slices.IndexFunc(view.Goals, func(g goals.Shown) bool { return g.Chosen })
			if chosen < 0 || view.Goals[chosen].GoalID != "SAVINGS_ACCOUNT" {
				return fmt.Sprintf("the view of %s does not have its choice: %+v", person, view), nil
			}
			return "", nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
