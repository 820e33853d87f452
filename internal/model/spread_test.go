package model

import (
	"math"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/keyspace"
)

const spreadModel = `model: 1
tables:
  tab: {key: {partition: PK, sort: SK}, indexes: {byState: {partition: GSI}, byDay: {partition: day}}}
entities:
  order:
    keys: {PK: "T#{tenant}#{customer}#{shard}", SK: "O#{id}", GSI: "STATE#{state}"}
    attributes:
      tenant: {size: 6, distinct: 50, hottest: 0.4}
      customer: {size: 8, distinct: 1000, hottest: 0.6, hot: 20}
      shard: {shards: 5}
      id: {format: uuid}
      state: {values: [ON, OFF, GONE], mix: {ON: 0.7, OFF: 0.2}}
      day: {format: date, distinct: 30}
    count: 100_000
patterns:
  - {name: create, put: order, condition: attribute_not_exists(PK), rate: 1/s}
  - {name: replace, put: order, replaces: true, rate: 1/s}
  - {name: read, query: order, given: [tenant, customer], matches: 2, rate: 1/s}
  - {name: skewed, get: order, given: [tenant, customer, shard, id], skew: {customer: 0.95}, rate: 1/s}
`

// The runs of a pattern have the values of partition keys as often as declared.
func TestSpread(t *testing.T) {
	m, err := Parse("test.model.yaml", []byte(spreadModel))
	if err != nil {
		t.Fatal(err)
	}
	const runs = 4000
	accesses := func(pattern int) (all []Access) {
		t.Helper()
		plan := m.Plan(m.Patterns[pattern])
		g := Generator{Spread: true}
		first, err := m.Scenario(plan, g, 0)
		if err != nil {
			t.Fatal(err)
		}
		ordinals, err := m.RunOrdinals(plan, g)
		if err != nil {
			t.Fatal(err)
		}
		for run := range runs {
			calls, err := m.Accesses(plan, g, run, first, ordinals)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, calls[0]...)
		}
		return all
	}
	counts := func(keys func(yield func(string))) map[string]float64 {
		found := make(map[string]float64)
		keys(func(key string) { found[key] += 1.0 / runs })
		return found
	}
	expect := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02 {
			t.Errorf("%s has a share of %.3f, want %.3f", what, got, want)
		}
	}
	created, replaced, read, skewed := accesses(0), accesses(1), accesses(2), accesses(3)
	part := func(all []Access, i int) map[string]float64 {
		return counts(func(yield func(string)) {
			for _, a := range all {
				yield(strings.Split(a.Key, "#")[i])
			}
		})
	}
	entries := func(all []Access, index string) map[string]float64 {
		return counts(func(yield func(string)) {
			for _, a := range all {
				for _, e := range a.Entries {
					if e.Index == index {
						yield(e.Key)
					}
				}
			}
		})
	}
	for name, all := range map[string][]Access{"created": created, "read": read} {
		tenants, customers := part(all, 1), part(all, 2)
		expect(name+": the busiest tenant", largest(tenants, 1), 0.4)
		expect(name+": the hot customers", largest(customers, 20), 0.6)
		expect(name+": one of them", largest(customers, 1), 0.03)
		if len(tenants) != 50 {
			t.Errorf("%s: %d tenants, want 50", name, len(tenants))
		}
	}
	expect("the hot customers of a pattern with skew", largest(part(skewed, 2), 20), 0.95)
	expect("a shard", largest(part(created, 3), 1), 0.2)
	states := entries(created, "byState")
	expect("ON", states["STATE#ON"], 0.7)
	expect("OFF", states["STATE#OFF"], 0.2)
	expect("the current day of new items", largest(entries(created, "byDay"), 1), 1)
	if days := entries(replaced, "byDay"); len(days) != 30 {
		t.Errorf("items that exist are of %d days, want 30", len(days))
	}
}

// largest is the sum of the n largest values.
func largest(of map[string]float64, n int) (sum float64) {
	left := make(map[string]float64)
	for k, v := range of {
		left[k] = v
	}
	for range n {
		top := ""
		for k := range left {
			if top == "" || left[k] > left[top] {
				top = k
			}
		}
		sum += left[top]
		delete(left, top)
	}
	return sum
}

// The accesses of a run add up to its units, and their hashes are those of the stored keys.
func TestAccesses(t *testing.T) {
	for name, text := range correctModels(t) {
		m, err := Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Patterns {
			plan := m.Plan(p)
			scenario, err := m.Scenario(plan, Generator{}, 3)
			if err != nil {
				continue
			}
			read, write := scenario.Units()
			want, got := 0.0, 0.0
			for _, u := range append(read, write...) {
				want += u.Total()
			}
			for _, c := range scenario.Calls {
				for _, a := range c.Accesses {
					got += a.Units
					for _, e := range a.Entries {
						got += e.Units
					}
				}
				for i, target := range c.Targets {
					if c.Operation == "Query" {
						continue
					}
					table, _ := m.Table(target.Table)
					if hash := keyspace.Hash(keyspace.Item(nil, table.schema, target.Item)); hash != c.Accesses[i].Hash {
						t.Errorf("%s, %q: the hash of %s is %x, want %x", name, p.Name, c.Accesses[i].Key, c.Accesses[i].Hash, hash)
					}
				}
			}
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%s, %q: the accesses have %v units, the run %v", name, p.Name, got, want)
			}
		}
	}
}
