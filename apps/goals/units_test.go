package goals_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"gocloud.dev/blob/memblob"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// meter asks for the units of each request and adds them up.
type meter struct {
	mutex       sync.Mutex
	read, write float64
}

func (m *meter) client(db *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(db.Options(), dynamodb.WithAPIOptions(func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("Meter", m.measure), middleware.Before)
	}))
}

func (m *meter) measure(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	switch p := in.Parameters.(type) {
	case *dynamodb.GetItemInput:
		p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	case *dynamodb.PutItemInput:
		p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	case *dynamodb.BatchWriteItemInput:
		p.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	}
	out, meta, err := next.HandleInitialize(ctx, in)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	units := func(c *types.ConsumedCapacity) float64 { return aws.ToFloat64(c.CapacityUnits) }
	switch r := out.Result.(type) {
	case *dynamodb.GetItemOutput:
		m.read += units(r.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		m.read += units(r.ConsumedCapacity)
	case *dynamodb.PutItemOutput:
		m.write += units(r.ConsumedCapacity)
	case *dynamodb.BatchWriteItemOutput:
		for i := range r.ConsumedCapacity {
			m.write += units(&r.ConsumedCapacity[i])
		}
	}
	return out, meta, err
}

// during returns what an action costs, for each of n.
func (m *meter) during(t *testing.T, n float64, act func() error) string {
	t.Helper()
	m.read, m.write = 0, 0
	if err := act(); err != nil {
		t.Fatal(err)
	}
	return inUnits(m.read/n, m.write/n)
}

// inUnits formats units to a tenth: an item of more than 1 KB takes two writes, so the
// average of customers is not whole.
func inUnits(read, write float64) string {
	read, write = math.Round(read*10)/10, math.Round(write*10)/10
	var parts []string
	if read > 0 {
		parts = append(parts, fmt.Sprintf("%v read", read))
	}
	if write > 0 {
		parts = append(parts, fmt.Sprintf("%v write", write))
	}
	return strings.Join(parts, ", ")
}

// modelled returns what each pattern of the model costs.
func modelled(t *testing.T) func(n float64, patterns ...string) string {
	t.Helper()
	command := exec.Command("go", "run", "./cmd/stator", "model", "cost", "--json", "apps/goals/goals.model.yaml")
	command.Dir = "../.."
	text, err := command.Output()
	if err != nil {
		t.Fatalf("compute the model's cost: %v", err)
	}
	var cost struct {
		Patterns []struct {
			Name string
			Run  struct{ TableRead, TableWrite float64 }
		}
	}
	if err := json.Unmarshal(text, &cost); err != nil {
		t.Fatal(err)
	}
	return func(n float64, patterns ...string) string {
		var read, write float64
		for _, p := range cost.Patterns {
			for _, name := range patterns {
				if p.Name == name {
					read, write = read+p.Run.TableRead/n, write+p.Run.TableWrite/n
				}
			}
		}
		return inUnits(read, write)
	}
}

// The table of units in the README has what the model computes and what the server
// reports.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: the go command is not installed")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := make(map[string][]string)
	for _, line := range strings.Split(string(readme), "\n") {
		if cells := strings.Split(strings.Trim(line, "| "), " | "); len(cells) == 5 {
			table[cells[0]] = cells[2:]
		}
	}
	h := hometest.Start(t, goals.Model)
	m := new(meter)
	db := m.client(h.DB)
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	tables := &goals.Tables{DB: db, Now: func() time.Time { return now }}
	source, err := rules.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	o := batch.Options{Bucket: memblob.OpenBucket(nil), State: memblob.OpenBucket(nil), Rules: source, DB: db, Work: t.TempDir(), Log: slog.New(slog.DiscardHandler), Now: tables.Now, Readers: 1, Writers: 1, VanishPercent: 100}
	load := func(day string, first, customers int) func() error {
		o.Day = day
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gold.Generate(t.Context(), o.Bucket, gold.Plan{Day: day, AsOf: at, First: first, Customers: customers, Seed: 5, Format: "jsonl"}); err != nil {
			t.Fatal(err)
		}
		return func() error {
			_, err := batch.Run(t.Context(), o)
			return err
		}
	}
	person := gold.Person(5, 60).String()
	model := modelled(t)
	balance := goals.Money(37000)
	e := goals.Event{Type: goals.Deposit, EventID: person, PersonID: person, OccurredAt: now, Balance: &balance}
	p, _ := e.Pending("SAVINGS_ACCOUNT", now)
	if got := m.during(t, 100, load("2026-05-15", 0, 100)); got != "1 write" {
		t.Errorf("loading a customer costs %s", got)
	}
	removal := m.during(t, 100, load("2026-05-16", 50, 50)) // fifty are written, fifty removed
	for _, c := range []struct{ row, model, measured string }{
		{"load a customer", model(25, "load the night's views"), "1 write"},
		{"remove a customer", model(25, "remove who vanished"), removal},
		{"handle an event", model(1, "take a deposit event"), m.during(t, 1, func() error {
			_, err := tables.Save(t.Context(), p)
			return err
		})},
		{"choose a goal", model(1, "goals to choose from", "choose a goal"), m.during(t, 1, func() error {
			return tables.Choose(t.Context(), person, "SAVINGS_ACCOUNT")
		})},
		{"a person's goals", model(1, "customer's batch view", "customer's pending balances"), m.during(t, 1, func() error {
			_, _, err := tables.Person(t.Context(), person)
			return err
		})},
	} {
		row := table[c.row]
		if len(row) != 3 || row[1] != c.model || row[2] != c.measured {
			t.Errorf("%s: the model says %q, the server %q, the README %q", c.row, c.model, c.measured, row)
		}
	}
}
