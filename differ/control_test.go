package main

import (
	"os"
	"testing"
)

// recorded reads exchanges that a run with all servers has recorded: of each
// operation some that are answered alike, and one for most known faults.
func recorded(t *testing.T) (all []exchange) {
	t.Helper()
	f, err := os.Open("testdata/exchanges.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := readExchanges(f, func(e exchange) { all = append(all, e) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// The recorded exchanges have no difference that is not explained, so that a
// fault that is planted in them is the only one.
func TestRecordedExchangesAreExplained(t *testing.T) {
	for _, e := range recorded(t) {
		for _, f := range e.compare() {
			if explain(f) == nil {
				t.Errorf("%s %s: %s: stator %s, %s %s", e.Step.Op, e.Step.text(), f.Places, f.Stator.outcome(), f.Witness, f.Other.outcome())
			}
		}
	}
}

// A fault of stator is reported if the witnesses answer alike, whatever it is.
func TestFaultsAreReportedWhereWitnessesAgree(t *testing.T) {
	c := newControl()
	for _, e := range recorded(t) {
		if len(e.compare()) == 0 {
			c.count(e)
		}
	}
	kinds := 0
	for _, p := range plants {
		if c.Planted[p.name] > 0 {
			kinds++
		}
		if hidden := c.Planted[p.name] - c.Reported[p.name]; hidden > 0 && p.name != otherFault {
			t.Errorf("%s: %d of %d are hidden: %v", p.name, hidden, c.Planted[p.name], c.Hidden[p.name])
		}
	}
	if kinds < 19 {
		t.Errorf("the recorded exchanges have place for %d kinds of faults, want 19", kinds)
	}
}

// otherFault is the one kind of fault that can be hidden where the witnesses
// agree: which of several faults of an update's execution is the first is not
// known.
const otherFault = "another fault of the same operation is reported"

// Most faults of stator are reported although the witnesses disagree with it or
// with each other already. The recorded exchanges have each combination of known
// faults once, so that the share is lower than that of a run (README.md).
func TestFaultsAreReportedWhereWitnessesDisagree(t *testing.T) {
	c := newControl()
	for _, e := range recorded(t) {
		if len(e.compare()) > 0 {
			c.count(e)
		}
	}
	planted, reported := 0, 0
	for _, p := range plants {
		planted += c.Planted[p.name]
		reported += c.Reported[p.name]
		if got := share(c.Reported[p.name], c.Planted[p.name]); c.Planted[p.name] > 0 && got < 50 {
			t.Errorf("%s: %.1f %% are reported, want 50 %%; hidden: %v", p.name, got, c.Hidden[p.name])
		}
	}
	if got := share(reported, planted); got < 85 {
		t.Errorf("%.1f %% of %d faults are reported, want 85 %%", got, planted)
	}
}

// A status of 500 and a message that no witness and no transcript has are never
// explained.
func TestNeverExplained(t *testing.T) {
	st := step{Op: "UpdateItem", Body: object{"TableName": "OrdersA"}}
	known := "The document path provided in the update expression is invalid for update"
	other := answer{Status: 400, Code: "ValidationException", Text: "An operand in the update expression has an incorrect data type"}
	for _, c := range []struct {
		name   string
		stator answer
		want   bool
	}{
		{"a message of a transcript", answer{Status: 400, Code: "ValidationException", Text: known}, true},
		{"a message of no transcript", answer{Status: 400, Code: "ValidationException", Text: known + " at all"}, false},
		{"another type of error", answer{Status: 400, Code: "ResourceInUseException", Text: known}, false},
		{"status 500", answer{Status: 500, Code: "ValidationException", Text: known}, false},
	} {
		f := &finding{Step: st, Witness: nameLocal, Places: []string{"outcome"}, Stator: c.stator, Other: other}
		if got := explain(f) != nil; got != c.want {
			t.Errorf("%s: explained is %t", c.name, got)
		}
	}
}
