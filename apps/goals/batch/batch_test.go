package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"golang.org/x/time/rate"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/internal/virtualtime"
)

var noon = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)

// bank is a table, a bucket and rules.
type bank struct {
	*testing.T
	home    *home.Home
	tables  *goals.Tables
	options Options
}

func newBank(t *testing.T) *bank {
	t.Helper()
	h := hometest.Start(t, goals.Model)
	source, err := rules.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{T: t, home: h, tables: &goals.Tables{DB: h.DB, Now: func() time.Time { return noon }}}
	b.options = Options{
		Bucket: memblob.OpenBucket(nil), State: memblob.OpenBucket(nil), Rules: source, DB: h.DB, Work: t.TempDir(),
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }, Readers: 2, Writers: 2, VanishPercent: 100,
	}
	t.Cleanup(func() {
		if err := errors.Join(b.options.Bucket.Close(), b.options.State.Close(), source.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bank) plan(day string, first, n int) gold.Plan {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		b.Fatal(err)
	}
	return gold.Plan{Day: day, AsOf: at.Add(3 * time.Hour), First: first, Customers: n, Seed: 5, Format: "parquet", PartRows: 150}
}

func (b *bank) generate(p gold.Plan) {
	b.Helper()
	if _, err := gold.Generate(b.Context(), b.options.Bucket, p); err != nil {
		b.Fatal(err)
	}
}

func (b *bank) run(day string, change ...func(*Options)) (*Report, error) {
	o := b.options
	o.Day = day
	for _, c := range change {
		c(&o)
	}
	return Run(b.Context(), o)
}

func (b *bank) mustRun(day string, change ...func(*Options)) *Report {
	b.Helper()
	r, err := b.run(day, change...)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// stopped runs until a number of customers was written.
func (b *bank) stopped(day string, after int64, change ...func(*Options)) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	o := b.options
	o.Day = day
	o.Writers = 1
	for _, c := range change {
		c(&o)
	}
	o.DB = dynamodb.New(b.options.DB.Options(), func(d *dynamodb.Options) {
		d.HTTPClient = &counting{next: d.HTTPClient, left: after / batchSize, stop: stop}
	})
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		b.Fatalf("the run ended with %v", err)
	}
}

// table returns the customers of the generator in the batch view, which must not have
// others.
func (b *bank) table(first, n int) map[string]goals.Customer {
	b.Helper()
	all := make(map[string]goals.Customer)
	for i := first; i < first+n; i++ {
		id := gold.Person(5, i).String()
		got, err := hometest.Examine(b.home.DB).GetItem(b.Context(), &dynamodb.GetItemInput{TableName: aws.String(goals.BatchTable), Key: map[string]types.AttributeValue{"personId": &types.AttributeValueMemberS{Value: id}}})
		if err != nil {
			b.Fatal(err)
		}
		if got.Item == nil {
			continue
		}
		var c goals.Customer
		if err := attributevalue.UnmarshalMap(got.Item, &c); err != nil {
			b.Fatal(err)
		}
		all[id] = c
	}
	return all
}

func (b *bank) items() int64 {
	b.Helper()
	found, err := b.home.Stator.Verify(b.Context(), func(string, int64) {})
	if err != nil {
		b.Fatal(err)
	}
	for _, t := range found {
		if t.Table == goals.BatchTable {
			return t.Items
		}
	}
	b.Fatal("the table does not exist")
	return 0
}

// expected computes a day from its files in a simple way.
func (b *bank) expected(day string) map[string]goals.Customer {
	b.Helper()
	ctx := b.Context()
	m, err := gold.ReadManifest(ctx, b.options.Bucket, day, noon)
	if err != nil {
		b.Fatal(err)
	}
	set, err := b.options.Rules.Load(ctx)
	if err != nil {
		b.Fatal(err)
	}
	saved := make(map[string]goals.Money)
	for _, f := range m.Contributions {
		err := gold.Read(ctx, b.options.Bucket, day, f, b.TempDir(), func(_ int64, c *gold.Contribution, _ *gold.BadRow) error {
			if c.ContributedAt.Month() == m.AsOf.Month() {
				saved[c.PersonID+set.Goals[set.Products[c.Product]].ID] += c.Amount
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	past := make(map[string][]goals.Accomplished)
	for _, f := range m.Accomplished {
		err := gold.Read(ctx, b.options.Bucket, day, f, b.TempDir(), func(_ int64, a *gold.Accomplished, _ *gold.BadRow) error {
			past[a.PersonID] = append(past[a.PersonID], goals.Accomplished{Month: a.Month, GoalID: a.GoalID, SavedAmount: a.Amount, SpecialRate: a.Rate})
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	all := make(map[string]goals.Customer)
	for _, f := range m.Customers {
		err := gold.Read(ctx, b.options.Bucket, day, f, b.TempDir(), func(_ int64, c *gold.Customer, _ *gold.BadRow) error {
			one := goals.Customer{PersonID: c.PersonID, Name: c.Name, Preferences: goals.Preferences{Notifications: c.Notifications, Language: c.Language}, LastUpdated: goals.Instant(m.AsOf)}
			for _, g := range set.Goals {
				s, target := saved[c.PersonID+g.ID], g.Targets[c.Segment]
				one.Goals = append(one.Goals, goals.Goal{GoalID: g.ID, Title: g.TitleIn(c.Language), TargetAmount: target, SavedAmount: s, Status: goals.Progress(s, target), SpecialRate: g.Rate})
			}
			one.Accomplished, one.AccomplishedCount = past[c.PersonID], len(past[c.PersonID])
			slices.SortFunc(one.Accomplished, func(a, b goals.Accomplished) int {
				return cmp.Or(strings.Compare(b.Month, a.Month), strings.Compare(a.GoalID, b.GoalID))
			})
			all[c.PersonID] = one
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// holds fails the test unless the table matches a day's files exactly.
func (b *bank) holds(day string, first, n int) {
	b.Helper()
	want, have := b.expected(day), b.table(first, n)
	if !reflect.DeepEqual(want, have) {
		b.Errorf("the table has %d customers of day %s, want %d, or they differ", len(have), day, len(want))
		for id := range want {
			if !reflect.DeepEqual(want[id], have[id]) {
				b.Fatalf("such as\n%+v, want\n%+v", have[id], want[id])
			}
		}
	}
	if got := b.items(); got != int64(len(want)) {
		b.Errorf("the table has %d items, want %d", got, len(want))
	}
}

func TestDayByDay(t *testing.T) {
	b := newBank(t)
	b.generate(b.plan("2026-05-15", 0, 400))
	r := b.mustRun("2026-05-15")
	b.holds("2026-05-15", 0, 500)
	if r.Customers != 400 || r.Written != 400 || r.Removed != 0 || r.Resumed {
		t.Errorf("the first day: %+v", r)
	}

	b.mustRun("2026-05-15")
	b.holds("2026-05-15", 0, 500)

	// Twenty customers vanish, one of them with a choice, which stays until it expires:
	// the batch does not write to the other table. Thirty are new; in the other format.
	gone := gold.Person(5, 3).String()
	if err := b.tables.Choose(t.Context(), gone, "SAVINGS_ACCOUNT"); err != nil {
		t.Fatal(err)
	}
	next := b.plan("2026-05-16", 20, 410)
	next.Format = "jsonl"
	b.generate(next)
	if r := b.mustRun("2026-05-16"); r.Removed != 20 || r.Customers != 410 {
		t.Errorf("the second day: %+v", r)
	}
	b.holds("2026-05-16", 0, 500)
	left, err := hometest.Examine(b.home.DB).Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(goals.NRTTable), KeyConditionExpression: aws.String("personId = :p"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: gone}},
	})
	if err != nil || len(left.Items) != 1 {
		t.Fatalf("a vanished customer has %v, %v", left.Items, err)
	}
	if expires, ok := left.Items[0]["ttl"].(*types.AttributeValueMemberN); !ok || expires.Value != fmt.Sprint(noon.Unix()+400*86400) {
		t.Errorf("the choice of a vanished customer expires at %v", left.Items[0]["ttl"])
	}

	if _, err := b.run("2026-05-15"); err == nil || !strings.Contains(err.Error(), "--rollback") {
		t.Errorf("an older day: %v", err)
	}
	b.mustRun("2026-05-15", func(o *Options) { o.Rollback = true })
	b.holds("2026-05-15", 0, 500)
}

func TestChoiceSurvivesTheNight(t *testing.T) {
	b := newBank(t)
	b.generate(b.plan("2026-05-15", 0, 20))
	b.mustRun("2026-05-15")
	person := gold.Person(5, 7).String()
	if err := b.tables.Choose(t.Context(), person, "GOVERNMENT_BONDS"); err != nil {
		t.Fatal(err)
	}
	b.generate(b.plan("2026-05-16", 0, 20))
	b.mustRun("2026-05-16")
	view, units, err := b.tables.Person(t.Context(), person)
	if err != nil || units != 1 || !view.Goals[1].Chosen || view.Goals[0].Chosen {
		t.Errorf("%+v costs %v, %v", view, units, err)
	}
}

func TestContinuedRun(t *testing.T) {
	b := newBank(t)
	b.generate(b.plan("2026-05-15", 0, 1500))
	b.stopped("2026-05-15", 600)
	if n := b.items(); n == 0 || n == 1500 {
		t.Fatalf("the run was stopped with %d customers written", n)
	}
	r := b.mustRun("2026-05-15")
	if !r.Resumed || r.Written == 0 || r.Written >= 1500 || r.Customers != 1500 {
		t.Errorf("the continued run: %+v", r)
	}
	b.holds("2026-05-15", 0, 1600)
}

// The customers of an abandoned run are known from its roster. Without its entry in
// the ledger they stay forever, which shows that the check can fail.
func TestGivenUpRun(t *testing.T) {
	for _, faulty := range []bool{false, true} {
		t.Run(fmt.Sprint("ledger lost ", faulty), func(t *testing.T) {
			b := newBank(t)
			b.generate(b.plan("2026-05-15", 0, 300))
			b.mustRun("2026-05-15")
			b.generate(b.plan("2026-05-16", 250, 1250)) // hundreds who are never in a finished run
			b.stopped("2026-05-16", 600)
			b.generate(b.plan("2026-05-17", 0, 300))
			table, err := tableID(t.Context(), b.home.DB)
			if err != nil {
				t.Fatal(err)
			}
			l, err := openLedger(t.Context(), b.options.State, table)
			if err != nil {
				t.Fatal(err)
			}
			if ended, err := l.ended(t.Context(), &l.Unfinished[0], noon); err != nil || !ended {
				t.Errorf("a run of this process counts as one that is in progress, %v", err)
			}
			l.Unfinished[0].Host, l.Unfinished[0].Instance = "another machine", ""
			if err := l.save(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := b.run("2026-05-17"); err == nil || !strings.Contains(err.Error(), "--take-over") {
				t.Fatalf("while another run is unfinished: %v", err)
			}
			if faulty {
				l.Unfinished = nil
				if err := l.save(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			b.mustRun("2026-05-17", func(o *Options) { o.TakeOver = true })
			if left := b.items() - 300; (left > 0) != faulty {
				t.Errorf("%d customers were not removed", left)
			}
			if !faulty {
				b.holds("2026-05-17", 0, 1600)
			}
		})
	}
}

func TestManyVanish(t *testing.T) {
	b := newBank(t)
	b.generate(b.plan("2026-05-15", 0, 400))
	b.mustRun("2026-05-15")
	b.generate(b.plan("2026-05-16", 200, 200))
	careful := func(o *Options) { o.VanishPercent = 20 }
	if _, err := b.run("2026-05-16", careful); err == nil || !strings.Contains(err.Error(), "200 of 400 customers") {
		t.Errorf("half of the customers vanish: %v", err)
	}
	b.holds("2026-05-15", 0, 500)
	b.mustRun("2026-05-16")
	b.holds("2026-05-16", 0, 500)
}

// day writes lines of JSON as a day.
func (b *bank) day(day string, customers, contributions []string) {
	b.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		b.Fatal(err)
	}
	m := gold.Manifest{Day: day, AsOf: at.Add(3 * time.Hour), Customers: []gold.File{{Name: "c.jsonl", Rows: int64(len(customers))}}, Contributions: []gold.File{{Name: "k.jsonl", Rows: int64(len(contributions))}}}
	text, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	for name, content := range map[string]string{"c.jsonl": strings.Join(customers, "\n"), "k.jsonl": strings.Join(contributions, "\n"), "manifest.json": string(text)} {
		if err := b.options.Bucket.WriteAll(b.Context(), path.Join(gold.Folder(day), name), []byte(content), nil); err != nil {
			b.Fatal(err)
		}
	}
}

const ana = "0356f2f8-8c84-4614-a99c-b302a84b53f7"

func TestBadRows(t *testing.T) {
	good := `{"personId":"` + ana + `","name":"Ana","segment":"CLASSIC","language":"en"}`
	swap := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	paid := func(change ...string) string {
		return strings.NewReplacer(change...).Replace(`{"personId":"` + ana + `","product":"SAV","amount":"12.50","contributedAt":"2026-05-10T00:00:00Z"}`)
	}
	for _, c := range []struct {
		name                    string
		customers, contribution []string
		want                    string // of the error; empty if the rows are valid
		saved                   goals.Money
	}{
		{"good", []string{good}, []string{paid(), paid()}, "", 2500},
		{"of last month", []string{good}, []string{paid("05-10", "04-30"), paid()}, "", 1250},
		{"without a customer", []string{good}, []string{paid("0356", "0357")}, "", 0},
		{"not JSON", []string{good, "{"}, nil, "row 2 of c.jsonl", 0},
		{"an invalid person", []string{swap(ana, "me")}, nil, "not a person's id", 0},
		{"no name", []string{swap("Ana", "")}, nil, "the name has 0 bytes", 0},
		{"a long name", []string{swap("Ana", strings.Repeat("a", 201))}, nil, "the name has 201 bytes", 0},
		{"an unknown segment", []string{swap("CLASSIC", "ROYAL")}, nil, "no targets for segment", 0},
		{"the same person twice", []string{good, good}, nil, "in the files twice", 0},
		{"half a choice", []string{swap(`"Ana"`, `"Ana","chosenGoal":"SAVINGS_ACCOUNT"`)}, nil, "must be set together", 0},
		{"an unknown product", []string{good}, []string{paid("SAV", "GOLD")}, "no product", 0},
		{"nothing paid", []string{good}, []string{paid("12.50", "0")}, "above zero", 0},
		{"paid in the future", []string{good}, []string{paid("05-10", "06-10")}, "after the asOf of the files", 0},
		{"more than all money", []string{good}, []string{paid("12.50", "9999999999"), paid("12.50", "9999999999")}, "cannot be right", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBank(t)
			b.day("2026-05-15", c.customers, c.contribution)
			_, err := b.run("2026-05-15")
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if n := b.items(); n != 0 {
					t.Errorf("invalid rows left %d items", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			view, _, err := b.tables.Person(t.Context(), ana)
			if err != nil || view.Goals[0].SavedAmount != c.saved {
				t.Errorf("%+v, %v; want %v saved", view, err, c.saved)
			}
		})
	}
}

func TestSomeBadRowsAreLeftOut(t *testing.T) {
	b := newBank(t)
	row := `{"personId":"` + ana + `","name":"Ana","segment":"CLASSIC","language":"en"}`
	b.day("2026-05-15", []string{row, "{", strings.Replace(row, "Ana", "Bea", 1)}, []string{"[]"})
	r := b.mustRun("2026-05-15", func(o *Options) { o.Rejected = 3 })
	if r.Rejected != 3 || r.Customers != 1 {
		t.Fatalf("%+v", r)
	}
	list, err := b.options.State.ReadAll(t.Context(), r.RejectedList)
	if err != nil || strings.Count(string(list), "\n") != 3 || !strings.Contains(string(list), `"row":2`) {
		t.Errorf("the list of rejected rows is %s, %v", list, err)
	}
	if view, _, err := b.tables.Person(t.Context(), ana); err != nil || view.Name != "Ana" {
		t.Errorf("the first of two rows counts, but there is %+v, %v", view, err)
	}
}

// A broken file ends the run before it writes to the table.
func TestBrokenFile(t *testing.T) {
	b := newBank(t)
	b.generate(b.plan("2026-05-15", 0, 300))
	b.mustRun("2026-05-15")
	b.generate(b.plan("2026-05-16", 50, 300))
	ctx, name := t.Context(), "day=2026-05-16/customers-00001.parquet"
	whole, err := b.options.Bucket.ReadAll(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.options.Bucket.WriteAll(ctx, name, whole[:len(whole)-100], nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run("2026-05-16"); err == nil || !strings.Contains(err.Error(), "customers-00001.parquet") {
		t.Errorf("a broken file: %v", err)
	}
	b.holds("2026-05-15", 0, 400)
	if err := b.options.Bucket.WriteAll(ctx, name, whole, nil); err != nil {
		t.Fatal(err)
	}
	b.mustRun("2026-05-16")
	b.holds("2026-05-16", 0, 400)
}

// A damaged roster is detected before anything is removed by it.
func TestDamagedRoster(t *testing.T) {
	b := newBank(t)
	b.generate(b.plan("2026-05-15", 0, 300))
	b.mustRun("2026-05-15")
	ctx := t.Context()
	rosters := b.options.State.List(&blob.ListOptions{})
	for {
		o, err := rosters.Next(ctx)
		if err != nil {
			break
		}
		if strings.Contains(o.Key, "roster-") {
			content, err := b.options.State.ReadAll(ctx, o.Key)
			if err != nil {
				t.Fatal(err)
			}
			content[len(content)/2] ^= 1
			if err := b.options.State.WriteAll(ctx, o.Key, content, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.generate(b.plan("2026-05-16", 50, 300))
	if _, err := b.run("2026-05-16"); err == nil || !strings.Contains(err.Error(), "roster") {
		t.Errorf("a damaged roster: %v", err)
	}
	b.holds("2026-05-15", 0, 400)
}

// stingy is a table that processes some of the items of a request.
type stingy struct {
	takes []int // number of items processed by each request; -1 is an error
	calls []time.Time
	have  map[string]int
}

func (s *stingy) BatchWriteItem(_ context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	take := 100
	if len(s.calls) < len(s.takes) {
		take = s.takes[len(s.calls)]
	}
	s.calls = append(s.calls, time.Now())
	if take < 0 {
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	all := in.RequestItems["t"]
	take = min(take, len(all))
	for _, r := range all[:take] {
		s.have[r.PutRequest.Item["id"].(*types.AttributeValueMemberS).Value]++
	}
	out := new(dynamodb.BatchWriteItemOutput)
	if take < len(all) {
		out.UnprocessedItems = map[string][]types.WriteRequest{"t": all[take:]}
	}
	return out, nil
}

func TestUnprocessedIsSentAgain(t *testing.T) {
	batch := make([]write, batchSize)
	for i := range batch {
		batch[i] = write{"t", types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}}}}}
	}
	virtualtime.Test(t, func(t *testing.T) {
		s := &stingy{takes: []int{10, 0, 0, -1, 5}, have: make(map[string]int)}
		out := &bulk{db: s, pace: rate.NewLimiter(rate.Inf, 0)}
		if err := out.send(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if len(s.have) != batchSize || len(s.calls) != 6 || out.retried.Load() != 15+15+15+15+10 {
			t.Errorf("%d items in %d calls, %d again", len(s.have), len(s.calls), out.retried.Load())
		}
		for i := 2; i < 5; i++ {
			if wait := s.calls[i].Sub(s.calls[i-1]); wait < firstWait/2<<(i-1) {
				t.Errorf("call %d was %s after the previous one", i, wait)
			}
		}
	})
	virtualtime.Test(t, func(t *testing.T) {
		never := make([]int, 1000)
		s := &stingy{takes: never, have: make(map[string]int)}
		err := (&bulk{db: s, pace: rate.NewLimiter(rate.Inf, 0)}).send(t.Context(), batch)
		if err == nil || !strings.Contains(err.Error(), "no progress") {
			t.Errorf("a table that processes nothing: %v", err)
		}
	})
}
