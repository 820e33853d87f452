package goals_test

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// inUnits formats units to a tenth: an item of more than 1 KB takes two writes, so the
// average of customers is not whole.
func inUnits(u hometest.Units) string {
	read, write := math.Round(u.Read*10)/10, math.Round((u.Table+u.Index)*10)/10
	var parts []string
	if read > 0 {
		parts = append(parts, fmt.Sprintf("%v read", read))
	}
	if write > 0 {
		parts = append(parts, fmt.Sprintf("%v write", write))
	}
	return strings.Join(parts, ", ")
}

// The table of units in the README has what the model computes and what the server
// reports.
func TestUnits(t *testing.T) {
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
	m := new(hometest.Meter)
	db := m.Client(h.DB)
	during := func(n float64, act func() error) string {
		t.Helper()
		return inUnits(m.During(t, act).Over(n))
	}
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
	patterns := hometest.ModelUnits(t, "goals.model.yaml")
	model := func(n float64, names ...string) string { return inUnits(patterns(names...).Over(n)) }
	balance := goals.Money(37000)
	e := goals.Event{Type: goals.Deposit, EventID: person, PersonID: person, OccurredAt: now, Balance: &balance}
	p, _ := e.Pending("SAVINGS_ACCOUNT", now)
	if got := during(100, load("2026-05-15", 0, 100)); got != "1 write" {
		t.Errorf("loading a customer costs %s", got)
	}
	removal := during(100, load("2026-05-16", 50, 50)) // fifty are written, fifty removed
	for _, c := range []struct{ row, model, measured string }{
		{"load a customer", model(25, "load the night's views"), "1 write"},
		{"remove a customer", model(25, "remove who vanished"), removal},
		{"handle an event", model(1, "take a deposit event"), during(1, func() error {
			_, err := tables.Save(t.Context(), p)
			return err
		})},
		{"choose a goal", model(1, "goals to choose from", "choose a goal"), during(1, func() error {
			return tables.Choose(t.Context(), person, "SAVINGS_ACCOUNT")
		})},
		{"a person's goals", model(1, "customer's batch view", "customer's pending balances"), during(1, func() error {
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
