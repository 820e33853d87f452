package model

import (
	"math"
	"os"
	"testing"
)

// Twice the traffic costs twice as much, and has twice the heat; the rate of one pattern changes that pattern alone.
func TestSetTraffic(t *testing.T) {
	text, err := os.ReadFile("testdata/shapes.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := func(traffic Traffic) *Report {
		t.Helper()
		m, err := Parse("shapes.model.yaml", text)
		if err == nil {
			err = m.SetTraffic(traffic)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.Check(DefaultPrices())
	}
	once, twice := read(Traffic{}), read(Traffic{Times: 2})
	if a, b := once.Cost.Read, twice.Cost.Read; a == 0 || math.Abs(2*a-b) > 1e-9*b {
		t.Errorf("the traffic reads %v units, and twice the traffic %v", a, b)
	}
	if len(once.Heat) > 0 && math.Abs(2*once.Heat[0].Share-twice.Heat[0].Share) > 1e-9 {
		t.Errorf("the hottest partition has %v, and with twice the traffic %v", once.Heat[0].Share, twice.Heat[0].Share)
	}
	first := once.Cost.Patterns[0].Name
	changed := read(Traffic{Rates: map[string]string{first: "1000/s"}})
	for i, c := range changed.Cost.Patterns {
		if same := c.PerSecond == once.Cost.Patterns[i].PerSecond; same != (i > 0) {
			t.Errorf("with another rate of %s, %s has %+v, and had %+v", first, c.Name, c.PerSecond, once.Cost.Patterns[i].PerSecond)
		}
	}
	if c := changed.Cost.Patterns[0]; c.Rate != "1000/s" || math.Abs(c.PerSecond.Read()+c.PerSecond.Write()-1000*(c.Run.Read()+c.Run.Write())) > 1e-6 {
		t.Errorf("%s has the rate %s and %+v", first, c.Rate, c.PerSecond)
	}
	for _, wrong := range []Traffic{{Times: -1}, {Times: math.NaN()}, {Times: 1e9}, {Rates: map[string]string{"none": "1/s"}}, {Rates: map[string]string{first: "many"}}} {
		m, err := Parse("shapes.model.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		if m.SetTraffic(wrong) == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

func TestRateText(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		want      string
	}{{0, "0/s"}, {1234.5, "1235/s"}, {2.5, "2.5/s"}, {0.5, "30/min"}, {1.0 / 3600, "1/h"}, {1.0 / 86400, "1/day"}, {1.0 / 864000, "0.1/day"}} {
		got := perSecondText(c.perSecond)
		if r, err := parseRate(got); got != c.want || err != nil || math.Abs(r.PerSecond-c.perSecond) > 1e-3*c.perSecond {
			t.Errorf("%v is %s, want %s", c.perSecond, got, c.want)
		}
	}
}
