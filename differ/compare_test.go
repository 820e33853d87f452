package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func reply(t *testing.T, text string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestComparison(t *testing.T) {
	for _, c := range []struct {
		name, order, a, b, want string
	}{
		{"members have no order", "", `{"Item":{"a":{"N":"1"},"b":{"S":""}}}`, `{"Item":{"b":{"S":""},"a":{"N":"1"}}}`, ""},
		{"sets have no order", "", `{"Item":{"a":{"SS":["x","y"]}}}`, `{"Item":{"a":{"SS":["y","x"]}}}`, ""},
		{"lists have an order", "", `{"Item":{"a":{"L":[{"N":"1"},{"N":"2"}]}}}`, `{"Item":{"a":{"L":[{"N":"2"},{"N":"1"}]}}}`, "Item"},
		{"types differ", "", `{"Item":{"a":{"N":"1"}}}`, `{"Item":{"a":{"S":"1"}}}`, "Item"},
		{"a notation of a number", "", `{"Item":{"a":{"N":"100"}}}`, `{"Item":{"a":{"N":"1E+2"}}}`, ""},
		{"numbers differ", "", `{"Item":{"a":{"N":"100"}}}`, `{"Item":{"a":{"N":"1E+3"}}}`, "Item"},
		{"a query's order counts", "", `{"Items":[{"a":{"N":"1"}},{"a":{"N":"2"}}]}`, `{"Items":[{"a":{"N":"2"}},{"a":{"N":"1"}}]}`, "Items"},
		{"a scan's order does not", "any", `{"Items":[{"a":{"N":"1"}},{"a":{"N":"2"}}]}`, `{"Items":[{"a":{"N":"2"}},{"a":{"N":"1"}}]}`, ""},
		{"an index orders by its sort key", "a", `{"Items":[{"a":{"N":"1"}},{"a":{"N":"2"}}]}`, `{"Items":[{"a":{"N":"2"}},{"a":{"N":"1"}}]}`, "Items"},
		{"equal sort keys have no order", "a", `{"Items":[{"a":{"N":"1"},"k":{"N":"1"}},{"a":{"N":"1"},"k":{"N":"2"}}]}`, `{"Items":[{"a":{"N":"1"},"k":{"N":"2"}},{"a":{"N":"1"},"k":{"N":"1"}}]}`, ""},
		{"units count", "", `{"ConsumedCapacity":{"CapacityUnits":1}}`, `{"ConsumedCapacity":{"CapacityUnits":0.5}}`, "ConsumedCapacity.CapacityUnits"},
		{"a member is missing", "", `{"Count":1}`, `{}`, "Count only in the first"},
		{"times of a table do not count", "", `{"Table":{"TableStatus":"ACTIVE","CreationDateTime":1}}`, `{"Table":{"TableStatus":"CREATING","CreationDateTime":2}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := step{Op: "Query", Order: c.order}
			places := diff(normalise(st, makeAnswer(200, reply(t, c.a))), normalise(st, makeAnswer(200, reply(t, c.b))))
			got := ""
			if len(places) > 0 {
				got = places[0]
			}
			if len(places) > 1 || got != c.want {
				t.Errorf("the differences are %q, want %q", places, c.want)
			}
		})
	}
}

func TestErrorsAreCompared(t *testing.T) {
	read := func(status int, text string) answer { return normalise(step{}, makeAnswer(status, reply(t, text))) }
	first := read(400, `{"__type":"com.amazon.coral.validate#ValidationException","message":"x"}`)
	for _, c := range []struct {
		name string
		b    answer
		want bool
	}{
		{"prefixes of types do not count", read(400, `{"__type":"com.amazonaws#ValidationException","Message":"x"}`), true},
		{"status counts", read(500, `{"__type":"#ValidationException","message":"x"}`), false},
		{"type counts", read(400, `{"__type":"#SerializationException","message":"x"}`), false},
		{"text counts", read(400, `{"__type":"#ValidationException","message":"y"}`), false},
		{"other members count", read(400, `{"__type":"#ValidationException","message":"x","Item":{}}`), false},
	} {
		if got := diff(first, c.b) == nil; got != c.want {
			t.Errorf("%s: equal is %t", c.name, got)
		}
	}
}

// Each known fault has evidence, a server and something that it is limited to.
func TestKnownFaultsAreNarrow(t *testing.T) {
	names := make(map[string]bool)
	for _, k := range faults {
		if k.evidence == "" || names[k.name] {
			t.Errorf("%q has no evidence, or the name of another", k.name)
		}
		names[k.name] = true
		if k.ops == "" && k.stator == "" && k.other == "" && k.places == "" && k.when == nil {
			t.Errorf("%q explains everything", k.name)
		}
	}
}

func TestListOfKnownFaults(t *testing.T) {
	var want strings.Builder
	printKnown(&want)
	if got, err := os.ReadFile("KNOWN.md"); err != nil || string(got) != want.String() {
		t.Errorf("KNOWN.md is not up to date (%v): go run . --known > KNOWN.md", err)
	}
}
