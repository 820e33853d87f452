package model

import (
	"fmt"
	"math"
	"strconv"
)

// Traffic is a change of how often the access patterns of a model run.
type Traffic struct {
	Times float64           // a multiple of all rates that Rates does not have; 0 is 1
	Rates map[string]string // by pattern, such as 500/s
}

// maxTraffic is the largest multiple of rates.
const maxTraffic = 1e6

// SetTraffic changes the rates of a model. The peak of a pattern changes as its rate does.
func (m *Model) SetTraffic(t Traffic) error {
	if math.IsNaN(t.Times) || t.Times < 0 || t.Times > maxTraffic {
		return fmt.Errorf("the rates cannot be multiplied by %v: it must be from 0 to %v", t.Times, maxTraffic)
	}
	known := make(map[string]*Pattern)
	for _, p := range m.Patterns {
		known[p.Name] = p
	}
	for name, text := range t.Rates {
		p := known[name]
		if p == nil {
			return fmt.Errorf("the model has no access pattern %q", name)
		}
		rate, err := parseRate(text)
		if err != nil {
			return fmt.Errorf("the rate of %q: %w", name, err)
		}
		if p.Rate.PerSecond > 0 {
			p.Peak = p.Peak.times(rate.PerSecond / p.Rate.PerSecond)
		} else {
			p.Peak = Rate{}
		}
		p.Rate = rate
	}
	if t.Times == 0 || t.Times == 1 {
		return nil
	}
	for _, p := range m.Patterns {
		if _, set := t.Rates[p.Name]; !set {
			p.Rate, p.Peak = p.Rate.times(t.Times), p.Peak.times(t.Times)
		}
	}
	return nil
}

// times returns a multiple of a rate, bounded as a rate that is written.
func (r Rate) times(n float64) Rate {
	if !r.Given() || n == 1 {
		return r
	}
	perSecond := min(maxRate, r.PerSecond*n)
	text := perSecondText(perSecond)
	return Rate{PerSecond: perSecond, Text: text}
}

// perSecondText writes a rate in the unit in which it is 1 or more, if there is one.
func perSecondText(perSecond float64) string {
	for _, unit := range []string{"s", "min", "h"} {
		if n := perSecond * perUnit[unit]; n >= 1 || n == 0 {
			return significant(n) + "/" + unit
		}
	}
	return significant(perSecond*perUnit["day"]) + "/day"
}

// significant writes a number with up to four significant digits.
func significant(n float64) string {
	if n >= 1000 {
		return strconv.FormatFloat(math.Round(n), 'f', -1, 64)
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 4, 64), 64)
	if err != nil {
		return fmt.Sprint(n)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
