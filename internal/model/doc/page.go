// Package doc documents a model: its tables with example rows, its access
// patterns and what serves them, its status machines and its heat.
//
// The content is computed once, as a Page; Markdown and HTML are two ways to
// write it.
package doc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// Page is the content of a document.
type Page struct {
	Title       string
	Description string
	Tiles       []Tile
	Faults      []Fault
	Notes       []Fault // remarks that are not faults
	Groups      []Group
	Tables      []Table
	Machines    []Machine
	Heat        []Bar
	Day         *Day // nil if there is no load
	Costs       []CostBar
	Rules       []string
	Prices      string
	Dollars     string
}

// Tile is one figure at the top of the page.
type Tile struct {
	Value string
	Label string
	Tone  string // good, warm or bad; "" for none
}

// Fault is a fault that Check found.
type Fault struct {
	About   string
	Message string
	Try     string
	Line    int
}

// Group is access patterns that belong together. A model without groups has
// one, without a name.
type Group struct {
	Name     string
	Patterns []Pattern
}

// Pattern is one access pattern.
type Pattern struct {
	ID          string
	Name        string
	Description string
	Status      string // ok, missing or fault
	By          string // "" if nothing serves it
	Summary     string
	Rate        string
	Peak        string
	Read        string // units of a run
	Write       string
	Dollars     string  // per month
	Share       float64 // of the cost of all patterns
	Requests    []Request
	Faults      []Fault
}

// Request is one request as it is sent.
type Request struct {
	Operation string
	Body      string // JSON, indented
}

// Bar is the load of a partition at the peak.
type Bar struct {
	Key      string
	Place    string // the table or index
	Read     float64
	Write    float64 // shares of the limit of a partition
	Share    float64
	Tone     string
	Reads    string // units per second
	Writes   string
	Patterns []string
	Shards   int // the factor by which to shard it; 1 if that is not needed
}

// mostBars is how many partitions are shown.
const mostBars = 12

// New returns the page of a model.
func New(m *model.Model, prices *model.Prices) *Page {
	r := m.Check(prices)
	p := &Page{
		Title:       cmp.Or(m.Name, "Unnamed model"),
		Description: m.Description,
		Prices:      strings.TrimSpace(fmt.Sprintf("%s %s", r.Cost.Prices.Date, r.Cost.Prices.Region)),
		Dollars:     model.Money(r.Cost.Dollars) + " " + r.Cost.Prices.Currency,
	}
	for _, f := range r.Faults {
		p.Faults = append(p.Faults, faultOf(f))
	}
	for _, n := range r.Notes {
		p.Notes = append(p.Notes, faultOf((*model.Fault)(n)))
	}
	p.patterns(m, r)
	for i, t := range m.Tables {
		p.Tables = append(p.Tables, tableOf(m, r, t, i))
	}
	for _, k := range m.Machines {
		p.Machines = append(p.Machines, machineOf(m, k))
	}
	p.heat(r)
	p.Day, p.Costs = dayOf(m, r), costBars(r)
	p.rules(m)
	p.tiles(m, r)
	return p
}

func faultOf(f *model.Fault) Fault {
	return Fault{About: f.Pattern, Message: f.Message, Try: f.Try, Line: f.Position.Line}
}

func (p *Page) tiles(m *model.Model, r *model.Report) {
	served := 0
	for _, x := range r.Patterns {
		if x.Status == model.StatusOK {
			served++
		}
	}
	tone := "good"
	if served < len(r.Patterns) {
		tone = "bad"
	}
	p.Tiles = append(p.Tiles,
		Tile{Value: fmt.Sprintf("%d of %d", served, len(r.Patterns)), Label: "access patterns served well", Tone: tone},
		Tile{Value: fmt.Sprint(len(m.Tables)), Label: count(len(m.Tables), "table", "tables")},
		Tile{Value: fmt.Sprint(len(m.Entities)), Label: count(len(m.Entities), "kind of item", "kinds of items")},
		unitTile(r.Cost.Read, "read units"),
		unitTile(r.Cost.Write, "write units"),
		Tile{Value: model.Money(r.Cost.Dollars), Label: r.Cost.Prices.Currency + " a month"})
	if len(r.Heat) > 0 {
		p.Tiles = append(p.Tiles, Tile{Value: percent(r.Heat[0].Share), Label: "of its limit: the hottest partition", Tone: toneOf(r.Heat[0].Share)})
	}
	if n := len(r.Faults); n > 0 {
		p.Tiles = append(p.Tiles, Tile{Value: fmt.Sprint(n), Label: count(n, "fault", "faults"), Tone: "bad"})
	}
}

func unitTile(units float64, what string) Tile {
	value, per, _ := strings.Cut(perTime(units), " ")
	return Tile{Value: value, Label: what + " " + per}
}

func count(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// perTime formats units per second, or per day if they are few.
func perTime(units float64) string {
	if units > 0 && units < 1 {
		return model.Figure(units*86400) + " a day"
	}
	return model.Figure(units) + " a second"
}

func percent(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "< 1 %"
	case share > 9.99:
		return model.Figure(100*share) + " %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// toneOf rates a share of a partition's limit.
func toneOf(share float64) string {
	switch {
	case share >= 0.8:
		return "bad"
	case share >= 0.4:
		return "warm"
	}
	return "good"
}

func (p *Page) patterns(m *model.Model, r *model.Report) {
	total := 0.0
	for _, c := range r.Cost.Patterns {
		total += c.Dollars
	}
	for i, x := range r.Patterns {
		source, cost := m.Patterns[i], r.Cost.Patterns[i]
		shown := Pattern{
			ID: patternID(i), Name: x.Name, Description: source.Description, Status: x.Status, Rate: source.Rate.String(),
			Dollars: "-", Read: "-", Write: "-",
		}
		if source.Peak.Given() {
			shown.Peak = source.Peak.String()
		}
		if x.Plan.Served() {
			shown.By, shown.Summary = x.Plan.By(), x.Plan.Summary()
		}
		if cost.Served {
			shown.Read, shown.Write, shown.Dollars = model.Figure(x.Read), model.Figure(x.Write), model.Money(cost.Dollars)
			if total > 0 {
				shown.Share = cost.Dollars / total
			}
		}
		for _, q := range x.Request {
			shown.Requests = append(shown.Requests, Request{q.Operation, indented(q.Body)})
		}
		for _, f := range x.Faults {
			shown.Faults = append(shown.Faults, faultOf(f))
		}
		at := slices.IndexFunc(p.Groups, func(g Group) bool { return g.Name == source.Group })
		if at < 0 {
			at = len(p.Groups)
			p.Groups = append(p.Groups, Group{Name: source.Group})
		}
		p.Groups[at].Patterns = append(p.Groups[at].Patterns, shown)
	}
}

// indented returns a body as JSON for people. It escapes nothing for HTML; the
// writer of the page does that.
func indented(body any) string {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(body); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

func (p *Page) heat(r *model.Report) {
	for _, x := range r.Heat[:min(mostBars, len(r.Heat))] {
		p.Heat = append(p.Heat, Bar{
			Key: x.Key, Place: tableOrIndexName(x.Table, x.Index),
			Read: x.Read / model.MaxPartitionReads, Write: x.Write / model.MaxPartitionWrites, Share: x.Share, Tone: toneOf(x.Share),
			Reads: perSecond(x.Read), Writes: perSecond(x.Write), Patterns: x.Patterns, Shards: x.Shards,
		})
	}
}

// perSecond formats units per second, rounded to what matters.
func perSecond(units float64) string {
	switch {
	case units > 0 && units < 0.01:
		return "< 0.01"
	case units < 1:
		return model.Figure(math.Round(units*100) / 100)
	}
	return model.Figure(math.Round(units*10) / 10)
}

func tableOrIndexName(table, index string) string {
	if index == "" {
		return table
	}
	return table + "." + index
}

func (p *Page) rules(m *model.Model) {
	for _, r := range m.Rules {
		text := fmt.Sprintf("Every %s contains %s", strings.ReplaceAll(r.Every, "-", " "), r.Contains)
		if r.Name != "" {
			text = r.Name + ": " + text
		}
		if len(r.Tables) > 0 {
			text += ", in " + strings.Join(r.Tables, ", ")
		}
		if len(r.Except) > 0 {
			text += ", except " + strings.Join(r.Except, ", ")
		}
		if r.Because != "" {
			text += ": " + r.Because
		}
		p.Rules = append(p.Rules, text)
	}
	b := m.Budgets
	if b == nil {
		return
	}
	if b.Read.Given() {
		p.Rules = append(p.Rules, "At most "+b.Read.String()+" read units")
	}
	if b.Write.Given() {
		p.Rules = append(p.Rules, "At most "+b.Write.String()+" write units")
	}
	if b.Dollars > 0 {
		p.Rules = append(p.Rules, "At most "+model.Money(b.Dollars)+" dollars a month")
	}
	if b.Partition > 0 {
		p.Rules = append(p.Rules, "No partition takes more than "+percent(b.Partition)+" of its limit")
	}
}
