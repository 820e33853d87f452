package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Report is the result of Check.
type Report struct {
	Patterns []*PatternReport `json:"patterns"`
	Faults   []*Fault         `json:"faults"` // all faults, including those of patterns
	Notes    []*Note          `json:"notes"`  // remarks that are not faults
	Heat     []*Partition     `json:"heat"`   // the busiest partitions, hottest first
	Cost     *Cost            `json:"-"`
}

// PatternReport is how one pattern is served.
type PatternReport struct {
	Name     string    `json:"name"`
	Status   string    `json:"status"` // ok, missing or fault
	Table    string    `json:"table,omitempty"`
	Index    string    `json:"index,omitempty"`
	Requests int       `json:"requests"` // requests of a run
	Request  []Request `json:"request,omitempty"`
	Read     float64   `json:"read"`  // units of a run
	Write    float64   `json:"write"` // units of a run
	Faults   []*Fault  `json:"faults,omitempty"`
	Position Position  `json:"position"`
	Plan     *Plan     `json:"-"`
}

// The status of a pattern.
const (
	StatusOK      = "ok"
	StatusMissing = "missing" // no key or index serves it
	StatusFault   = "fault"
)

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// Check determines how each pattern is served, and finds everything that is
// wrong with a model.
func (m *Model) Check(prices *Prices) *Report {
	c := &modelChecker{m: m, report: &Report{Notes: []*Note{}}, heat: &heat{m: m, found: make(map[[3]string]*Partition)}, peaks: make(map[*Table]*tableLoad)}
	for _, t := range m.Tables {
		c.peaks[t] = newTableLoad(t)
	}
	if len(m.Patterns) == 0 {
		c.fault("patterns", Position{Line: 1, Column: 1}, "declare what is read and written, and how often, under `patterns:`", "no access pattern is declared, so nothing can be checked")
	}
	for _, p := range m.Patterns {
		c.pattern(p)
	}
	for _, t := range m.Tables {
		c.table(t)
	}
	for _, e := range m.Entities {
		c.entity(e)
		c.keep(e)
		c.growth(e)
	}
	c.conflicts()
	c.rules()
	c.partitions()
	c.report.Cost = m.cost(prices, c.runs)
	c.budgets()
	for _, p := range c.report.Patterns {
		for _, f := range c.report.Faults {
			if f.Pattern == p.Name {
				p.Faults = append(p.Faults, f)
				p.Status = StatusFault
			}
		}
		if slices.ContainsFunc(p.Faults, func(f *Fault) bool { return f.Code == "missing" }) {
			p.Status = StatusMissing
		}
	}
	slices.SortStableFunc(c.report.Faults, func(a, b *Fault) int { return a.Position.compare(b.Position) })
	slices.SortStableFunc(c.report.Notes, func(a, b *Note) int { return a.Position.compare(b.Position) })
	return c.report
}

// modelChecker collects the faults of a model.
type modelChecker struct {
	m      *Model
	report *Report
	heat   *heat
	runs   []patternRun
	peaks  map[*Table]*tableLoad
}

// patternRun is a pattern with the scenario of one run.
type patternRun struct {
	plan     *Plan
	scenario *Scenario // nil if it cannot be executed
}

func (c *modelChecker) add(f *Fault) { c.report.Faults = append(c.report.Faults, f) }

func (c *modelChecker) fault(code string, at Position, try, format string, args ...any) {
	c.add(&Fault{Code: code, Message: fmt.Sprintf(format, args...), Try: try, Position: at})
}

// patternFault adds a fault of one pattern.
func (c *modelChecker) patternFault(p *Pattern, code string, at Position, try, format string, args ...any) {
	c.add(&Fault{Code: code, Pattern: p.Name, Message: fmt.Sprintf(format, args...), Try: try, Position: at})
}

// pattern plans one pattern and simulates one run.
func (c *modelChecker) pattern(p *Pattern) {
	plan := c.m.Plan(p)
	found := &PatternReport{Name: p.Name, Status: StatusOK, Position: p.Position, Plan: plan, Request: plan.Requests}
	c.report.Patterns = append(c.report.Patterns, found)
	for _, f := range plan.Faults {
		c.add(f)
	}
	for _, n := range plan.Notes {
		c.note(n)
	}
	first := plan.Steps[0]
	found.Table = first.Table.Name
	if first.Index != nil {
		found.Index = first.Index.Name
	}
	c.runs = append(c.runs, c.simulate(plan, found))
	c.limits(p)
	for _, a := range p.Actions() {
		c.machine(p, a)
		c.overwrite(p, a)
		c.conditionNames(p, a)
	}
	if b := p.Budget; b != nil {
		if b.Read > 0 && found.Read > b.Read {
			c.patternFault(p, "budget", b.At("read"), "", "a run uses %s read units, more than its budget of %s", Figure(found.Read), Figure(b.Read))
		}
		if b.Write > 0 && found.Write > b.Write {
			c.patternFault(p, "budget", b.At("write"), "", "a run uses %s write units, more than its budget of %s", Figure(found.Write), Figure(b.Write))
		}
	}
}

// simulate builds the scenario of one run, and adds its requests, units and load
// to the report.
func (c *modelChecker) simulate(plan *Plan, found *PatternReport) patternRun {
	p := plan.Pattern
	if !plan.Served() {
		return patternRun{plan: plan}
	}
	d, err := c.m.buildScenario(plan, Generator{}, 0, 0)
	if err != nil {
		var f *Fault
		if !errors.As(err, &f) {
			f = &Fault{Code: "expectation", Pattern: p.Name, Message: err.Error(), Try: "fix matches, given, or the key", Position: p.Position}
		}
		c.add(f)
		return patternRun{plan: plan}
	}
	c.heat.add(p, d.loads)
	found.Requests = len(d.scenario.Calls)
	read, write := d.scenario.Units()
	found.Read, found.Write = total(read), total(write)
	for _, u := range read {
		c.peakOf(u).add(u, false, p.PeakRate().PerSecond)
	}
	for _, u := range write {
		c.peakOf(u).add(u, true, p.PeakRate().PerSecond)
	}
	return patternRun{plan: plan, scenario: d.scenario}
}

func (c *modelChecker) peakOf(u TableUnits) *tableLoad {
	t, _ := c.m.Table(u.Table)
	return c.peaks[t]
}

func total(list []TableUnits) (sum float64) {
	for _, u := range list {
		sum += u.Total()
	}
	return sum
}

// limits reports a transaction or a batch that is too large.
func (c *modelChecker) limits(p *Pattern) {
	items := 0
	for _, a := range p.Actions() {
		items += max(1, a.Times, a.Most)
	}
	most, what := 0, ""
	switch operationOf(p) {
	case "TransactWriteItems", "TransactGetItems":
		most, what = maxTransactItems, "a transaction"
	case "BatchGetItem":
		most, what = maxBatchGets, "a batch of gets"
	case "BatchWriteItem":
		most, what = maxBatchWrites, "a batch of writes"
	default:
		return
	}
	if items > most {
		c.patternFault(p, "limit", p.Position, fmt.Sprintf("split it into several of at most %d", most), "%s has up to %d items; the limit of %s is %d", p.Name, items, what, most)
	}
}

// partitions reports partitions that reach their limit or exceed the budget.
func (c *modelChecker) partitions() {
	allowed := 1.0
	if b := c.m.Budgets; b != nil && b.Partition > 0 {
		allowed = b.Partition
	}
	c.report.Heat = c.heat.partitions(allowed)
	for _, x := range c.report.Heat {
		if x.Shards == 1 {
			continue
		}
		where := x.Table
		if x.Index != "" {
			where = x.Index + " of " + x.Table
		}
		code, at := "hot", x.at
		what := fmt.Sprintf("%s write units a second; the limit of a partition is %s", Figure(x.Write), Figure(MaxPartitionWrites))
		if x.Read/MaxPartitionReads > x.Write/MaxPartitionWrites {
			what = fmt.Sprintf("%s read units a second; the limit of a partition is %s", Figure(x.Read), Figure(MaxPartitionReads))
		}
		if x.Share < 1 {
			code, at = "budget", c.m.Budgets.At("partition")
			what += fmt.Sprintf(", and the budget is %s of it", percent(allowed))
		}
		c.fault(code, at, x.cooling(allowed), "the partition %s of %s would take %s (%s)",
			x.Key, where, what, strings.Join(x.Patterns[:min(3, len(x.Patterns))], ", "))
	}
}

// cooling is what to do about a hot partition: shards divide writes, but each
// read of a sharded partition reads all shards.
func (x *Partition) cooling(allowed float64) string {
	if w := x.Write / MaxPartitionWrites; w < 1 && w <= allowed {
		if x.exact > x.Read/2 {
			return "make the reads eventually consistent, which halves their units and lets a cache (DAX, or in the application) answer them; neither a cache nor copies serve consistent reads"
		}
		return fmt.Sprintf("cache the reads (DAX, or in the application), or keep %d copies under different keys and read one of them at random", x.Shards)
	}
	return fmt.Sprintf("spread it over %d shards", x.Shards*x.shardsNow)
}

// budgets reports budgets that are exceeded.
func (c *modelChecker) budgets() {
	b := c.m.Budgets
	if b == nil {
		return
	}
	cost := c.report.Cost
	over := func(what string, rate Rate, units float64) {
		if rate.Given() && units > rate.PerSecond*(1+1e-9) {
			per := perUnit[unitOf(rate.Text)]
			c.fault("budget", b.At(what), "", "all patterns together use %s %s units/%s, more than the budget of %s",
				Figure(units*per), what, unitOf(rate.Text), rate.Text)
		}
	}
	over("read", b.Read, cost.Read)
	over("write", b.Write, cost.Write)
	if b.Dollars > 0 && cost.Dollars > b.Dollars {
		c.fault("budget", b.At("dollars"), "", "the whole model costs %s dollars a month, more than the budget of %s", Money(cost.Dollars), Money(b.Dollars))
	}
}
