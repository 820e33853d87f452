package infer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// cardinality estimates how many distinct values an attribute of a key has, and
// the share of the busiest one.
//
// A scan reads whole partitions, so the values of a partition key that it finds
// are the same share of all as the items that it reads. Other values are
// estimated with the bias-corrected estimator Chao1 from those that occur once
// and twice.
func (g *itemGroup) cardinality(e *Entity, a *Attribute) {
	if !e.inKey(a.Name) || len(a.Values) > 0 || a.Shards > 0 {
		return
	}
	counts := make(map[string]int)
	all := 0
	for _, r := range g.rows {
		if text, ok := r.text[a.Name]; ok {
			counts[text]++
			all++
		}
	}
	seen, busiest, once, twice := len(counts), 0, 0, 0
	for _, n := range counts {
		busiest = max(busiest, n)
		switch n {
		case 1:
			once++
		case 2:
			twice++
		}
	}
	if seen == all || all == 0 {
		return // each item has its own
	}
	estimate := float64(seen)
	if f := g.sample.fraction(); f < 1 {
		if slices.Contains(e.leaves(g.sample.Table.Key.Partition), a.Name) {
			estimate /= f
		} else {
			estimate += float64(once) * float64(once-1) / float64(2*(twice+1))
		}
		a.Guess += fmt.Sprintf("; %s distinct values in the sample", figure(seen))
	}
	a.Distinct = min(e.Count, int64(math.Round(estimate)))
	if hottest := float64(busiest) / float64(all); seen > 1 && all >= 20 && hottest >= 2/float64(a.Distinct) && hottest >= 0.01 {
		a.Hottest = round(hottest)
		a.Guess += fmt.Sprintf("; the most common value is in %s of %s items", figure(busiest), figure(all))
	}
}

// growth estimates how many items are added, from the times at which they were
// created, and how long they are kept.
func (g *itemGroup) growth(e *Entity) {
	created := g.createdBy(e)
	if created == nil {
		return
	}
	var times []time.Time
	for _, r := range g.rows {
		if t, ok := timeOf(created.Format, r.text[created.Name]); ok {
			times = append(times, t)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	if len(times) < 10 {
		return
	}
	first, last := times[0], times[len(times)-1]
	if span := last.Sub(first); span > 0 {
		e.Growth = rateText(float64(e.Count-1) / span.Seconds())
		e.GrowthFrom = fmt.Sprintf("%s from %s to %s", created.Name, first.Format(time.DateOnly), last.Format(time.DateOnly))
	}
	g.keep(e, created)
}

// createdBy returns the attribute that holds when an item was created.
func (g *itemGroup) createdBy(e *Entity) (found *Attribute) {
	for _, a := range e.Attributes {
		if a.Name == g.sample.Table.TTL || a.When != nil || !strings.HasPrefix(a.Guess, "in all") && !a.Unstored {
			continue
		}
		if _, isTime := timeOf(a.Format, g.rows[0].text[a.Name]); !isTime {
			continue
		}
		if found == nil || createdRank(a) < createdRank(found) {
			found = a
		}
	}
	return found
}

// createdRank orders attributes by how likely they hold the time of creation.
func createdRank(a *Attribute) int {
	name := strings.ToLower(a.Name)
	switch {
	case strings.Contains(name, "creat"):
		return 0
	case a.Format == "ulid" || a.Format == "ksuid":
		return 1
	case strings.Contains(name, "updat") || strings.Contains(name, "modif") || strings.Contains(name, "last"):
		return 3
	}
	return 2
}

// keep sets how long items are kept: from their creation to their expiry.
func (g *itemGroup) keep(e *Entity, created *Attribute) {
	ttl := e.attribute(g.sample.Table.TTL)
	if ttl == nil || ttl.Format != "epoch-seconds" || ttl.When != nil {
		return
	}
	var spans []time.Duration
	for _, r := range g.rows {
		from, ok := timeOf(created.Format, r.text[created.Name])
		until, also := timeOf(ttl.Format, r.text[ttl.Name])
		if ok && also {
			spans = append(spans, until.Sub(from))
		}
	}
	if len(spans) < len(g.rows) {
		return
	}
	switch d := median(spans); {
	case d >= 23*time.Hour:
		e.Keep = fmt.Sprintf("%dd", int(math.Round(d.Hours()/24)))
	case d >= time.Minute:
		e.Keep = fmt.Sprintf("%dmin", int(math.Round(d.Minutes())))
	default:
		return
	}
	e.KeepFrom = fmt.Sprintf("median of %s minus %s", ttl.Name, created.Name)
}

// rateText writes a rate in the unit in which it is a readable number.
func rateText(perSecond float64) string {
	for _, u := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"min", 60}, {"h", 3600}, {"day", 86400}, {"month", 730 * 3600}} {
		if n := perSecond * u.seconds; n >= 1 || u.name == "month" {
			return number(n) + "/" + u.name
		}
	}
	return ""
}

// number writes a number with three significant digits.
func number(n float64) string {
	if n >= 100 {
		return fmt.Sprintf("%.0f", n)
	}
	text := fmt.Sprintf("%.3g", n)
	if strings.Contains(text, "e") {
		text = strings.TrimRight(fmt.Sprintf("%.8f", n), "0")
		text = strings.TrimSuffix(text, ".")
	}
	return text
}
