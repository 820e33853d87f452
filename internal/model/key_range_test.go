package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/language/expr"
)

// A range of text contains the keys of exactly the values in the range, also of values
// that begin with others or are not ASCII.
func TestRangeValues(t *testing.T) {
	names := []string{"A", "Ann", "Anna", "Annä", "Bob", "zed", "~tilde", "Émile", "Ольга", "日本", "\U0001F600"}
	slices.Sort(names)
	ranges := map[string]func(v, from, to string) bool{
		"before":  func(v, _, to string) bool { return v < to },
		"until":   func(v, _, to string) bool { return v <= to },
		"after":   func(v, from, _ string) bool { return v > from },
		"from":    func(v, from, _ string) bool { return v >= from },
		"between": func(v, from, to string) bool { return from <= v && v <= to },
	}
	for _, begin := range []string{"", "NAME#"} {
		for _, next := range []string{"", "#"} {
			for is, within := range ranges {
				k := &KeyPart{Op: rangeOp(is, begin != ""), rangeIs: is, suffix: next != "", next: next}
				for _, from := range names {
					for _, to := range names {
						values := k.rangeValues(begin, from, to)
						for _, v := range names {
							key := begin + v + next
							if next != "" {
								key += "1"
							}
							want := within(v, from, to)
							if is == "before" && k.Op == expr.Between && next == "" && v == to {
								want = true // a filter excludes it
							}
							if got := holds(k.Op, key, values); got != want {
								t.Errorf("%s from %q to %q by %v %q: contains %q is %v", is, from, to, k.Op, values, key, got)
							}
						}
						if k.Op == expr.Between && (holds(k.Op, "NAME", values) || holds(k.Op, "NAMF", values)) && begin != "" {
							t.Errorf("%s from %q to %q: %q contains other prefixes", is, from, to, values)
						}
					}
				}
			}
		}
	}
}

func holds(op expr.Op, key string, values []string) bool {
	switch op {
	case expr.Between:
		return values[0] <= key && key <= values[1]
	case expr.Less:
		return key < values[0]
	case expr.LessOrEqual:
		return key <= values[0]
	case expr.Greater:
		return key > values[0]
	}
	return key >= values[0]
}

// BETWEEN includes the end of a range, so that a filter must exclude it.
func TestRangeBeforeExcludesItsEnd(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: PK, sort: SK}}
entities:
  user:
    keys: {PK: "ORG#{org}", SK: "NAME#{name}"}
    attributes: {org: {distinct: 10}, name: {size: 8, stored: STORED}}
    count: 100
patterns:
  - {name: x, query: user, given: [org], range: {attribute: name, is: before}, matches: 3, rate: 1/s}
`
	for stored, want := range map[string]string{"true": "#name < :name", "false": ""} {
		m := parsed(t, []byte(strings.ReplaceAll(text, "STORED", stored)))
		plan := m.Plan(m.Patterns[0])
		if want == "" {
			if plan.Served() {
				t.Error("it is served although nothing can exclude the end")
			}
			continue
		}
		if got := plan.Requests[0].Body["FilterExpression"]; got != want {
			t.Errorf("the filter is %v, expected %s", got, want)
		}
		if faults := m.Check(DefaultPrices()).Faults; len(faults) > 0 {
			t.Error(faults)
		}
	}
}
