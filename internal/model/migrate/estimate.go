package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// Estimate is what a migration costs.
type Estimate struct {
	Items      float64 `json:"items"`
	Bytes      float64 `json:"bytes"`
	Sampled    int     `json:"sampled"`    // items that the estimate is based on
	ReadUnits  float64 `json:"readUnits"`  // of backfill and verification
	WriteUnits float64 `json:"writeUnits"` // of the backfill
	Dollars    float64 `json:"dollars"`    // of these units on demand
	Seconds    float64 `json:"seconds"`    // at the limits, 0 without limits

	// FollowUnits are the read and write units a second that the changes of the
	// application cause, at the rates of the old model.
	FollowReads  float64 `json:"followReads"`
	FollowWrites float64 `json:"followWrites"`
	DollarsDay   float64 `json:"dollarsDay"` // of following, for a day
}

// Plan returns the plan, with an estimate from a sample of the items. Items of
// the sample that cannot be mapped are faults.
func (m *Migrator) Plan(ctx context.Context, prices *model.Prices, sample int) (*Plan, error) {
	p := m.plan
	if len(p.Faults) > 0 {
		return p, nil
	}
	if err := m.checkStreams(ctx, m.c.streams.Ask); err != nil {
		p.fault("%v", err)
		return p, nil
	}
	e := &estimator{m: m, Estimate: new(Estimate), entities: make(map[string]float64)}
	for _, t := range p.old.Tables {
		if !slices.Contains(p.sourceNames(), t.Name) && len(p.newIndexes(t.Name)) == 0 {
			continue
		}
		if err := e.table(ctx, t.Name, sample); err != nil {
			return nil, err
		}
	}
	for _, entity := range p.Entities {
		entity.Items = e.entities[entity.Entity]
	}
	if err := m.tableChanges(ctx); err != nil {
		return nil, err
	}
	e.finish(prices)
	p.Estimate = e.Estimate
	return p, nil
}

// checkStreams checks that the API of streams can be used, which has another host
// at some endpoints.
func (m *Migrator) checkStreams(ctx context.Context, ask func(ctx context.Context, operation string, body, into any) error) error {
	var ignored any
	if err := ask(ctx, "ListStreams", map[string]any{"Limit": 1}, &ignored); err != nil {
		return fmt.Errorf("the streams of the endpoint cannot be read; --streams-endpoint names another URL: %w", err)
	}
	return nil
}

// tableChanges adds the changes of tables that keep their keys.
func (m *Migrator) tableChanges(ctx context.Context) error {
	changes, err := apply.Make(ctx, m.c.send, m.plan.new)
	if err != nil {
		return err
	}
	for _, c := range changes.Changes {
		if m.plan.inPlace(c.Table) {
			m.plan.Changes = append(m.plan.Changes, c.Table+": "+c.Text)
		}
	}
	for _, f := range changes.Faults {
		m.plan.fault("table %s: %s", f.Table, f.Message)
	}
	return nil
}

// estimator estimates the cost of a migration.
type estimator struct {
	*Estimate
	m        *Migrator
	entities map[string]float64 // items
	getUnits float64            // of one consistent GetItem of each item
}

// maxFaults is how many items that cannot be mapped a plan names.
const maxFaults = 10

// table reads a sample of a table and scales it to the whole.
func (e *estimator) table(ctx context.Context, table string, sample int) error {
	var reply struct {
		Table struct {
			ItemCount, TableSizeBytes float64
			TableStatus               string
			StreamSpecification       struct{ StreamViewType string }
		}
	}
	if err := e.m.c.ask(ctx, "DescribeTable", map[string]any{"TableName": table}, &reply); err != nil {
		return fmt.Errorf("describe table %s: %w", table, err)
	}
	if view := reply.Table.StreamSpecification.StreamViewType; view != "" {
		e.m.plan.forward.setView(table, view)
	}
	s := tableSample{entities: make(map[string]int)}
	page := new(scanPage)
	for page.LastEvaluatedKey != nil || s.items == 0 {
		var err error
		after := page.LastEvaluatedKey
		if after == nil {
			after = new(itemJSON)
		}
		if page, err = e.m.c.scan(ctx, scanRequest{table: table, segments: 1, limit: pageItems}, after.Item); err != nil {
			return err
		}
		for _, it := range page.Items {
			e.add(&s, table, it)
		}
		if page.LastEvaluatedKey == nil || sample > 0 && s.items >= sample || len(e.m.plan.Faults) >= maxFaults {
			break
		}
	}
	scale := 1.0
	if page.LastEvaluatedKey != nil && s.items > 0 {
		// The count of the description may be hours old.
		scale = max(reply.Table.ItemCount, float64(s.items)) / float64(s.items)
	}
	e.Sampled += s.items
	e.Items += scale * float64(s.items)
	e.Bytes += scale * float64(s.bytes)
	e.WriteUnits += scale * s.write
	e.getUnits += scale * s.read
	reads := 3.0 // a scan for the backfill, one of each side for the verification
	switch {
	case e.m.plan.rewritten[table]:
		reads = 2
	case e.m.plan.inPlace(table):
		reads = 0 // the server reads the items itself
	}
	e.ReadUnits += scale * reads * float64(s.bytes) / 4096
	for name, n := range s.entities {
		e.entities[name] += scale * float64(n)
	}
	return nil
}

// tableSample is what a sample of a table's items says.
type tableSample struct {
	items, bytes int
	read, write  float64 // of one consistent GetItem, and of a write, of each item
	entities     map[string]int
}

func (e *estimator) add(s *tableSample, table string, it itemJSON) {
	s.items++
	s.bytes += it.Size()
	s.read += capacity.Read(it.Size(), true)
	plan := e.m.plan
	if plan.inPlace(table) {
		if err := e.addInPlace(s, table, it.Item); err != nil {
			plan.fault("%v", err)
		}
		return
	}
	p, err := plan.forward.place(table, it.Item)
	if err != nil {
		plan.fault("%v", err)
		return
	}
	if err := plan.accepts(p); err != nil {
		plan.fault("%v", &UnmatchedError{table, plan.forward.sources[table].Schema().Key.Of(it.Item), err.Error()})
		return
	}
	s.entities[p.entity]++
	s.write += capacity.Write(p.item.Size())
	for _, edit := range index.Diff(plan.forward.back.sources[p.table].Schema(), nil, p.item) {
		s.write += edit.Units
	}
}

// addInPlace adds the cost of an item that stays in its table: the entries of new
// indexes, and the update that sets their keys.
func (e *estimator) addInPlace(s *tableSample, table string, it item.Item) error {
	plan := e.m.plan
	after, _ := plan.new.Table(table)
	for _, edit := range index.Diff(after.Schema(), nil, it) {
		if slices.Contains(plan.newIndexes(table), edit.Index.Name) {
			s.write += edit.Units
		}
	}
	if !plan.rewritten[table] {
		return nil
	}
	p, err := plan.forward.placeKey(table, it)
	if err != nil {
		return err
	}
	s.entities[p.entity]++
	update, err := plan.indexKeys(table, it)
	if err != nil || update == nil {
		return err
	}
	updated, err := plan.forward.named(table, p.entity).convert(it)
	if err != nil {
		return err
	}
	s.write += capacity.Write(max(it.Size(), updated.Size()))
	for _, edit := range index.Diff(after.Schema(), it, updated) {
		s.write += edit.Units
	}
	return nil
}

// newIndexes returns the indexes that a table that stays gets.
func (p *Plan) newIndexes(table string) (names []string) {
	before, old := p.old.Table(table)
	after, new := p.new.Table(table)
	if !old || !new {
		return nil
	}
	for _, x := range after.Indexes {
		if _, ok := before.Index(x.Name); !ok {
			names = append(names, x.Name)
		}
	}
	return names
}

// accepts returns why the new table does not accept an item.
func (p *Plan) accepts(new *placement) error {
	if n := new.item.Size(); n > item.MaxSize {
		return fmt.Errorf("the new item has %d bytes, more than 400 KB", n)
	}
	t := p.forward.back.sources[new.table].Schema()
	err := t.CheckItem(new.item)
	if err == nil {
		err = t.CheckIndexKeys(nil, new.item)
	}
	if err != nil {
		return fmt.Errorf("the new table does not accept it: %w", err)
	}
	return nil
}

// finish computes dollars and durations.
func (e *estimator) finish(prices *model.Prices) {
	dollars := func(read, write float64) float64 {
		return read/1e6*prices.ReadRequests + write/1e6*prices.WriteRequests
	}
	e.Dollars = dollars(e.ReadUnits, e.WriteUnits)
	o := e.m.options
	if o.ReadUnits > 0 {
		e.Seconds = e.ReadUnits / o.ReadUnits
	}
	if o.WriteUnits > 0 {
		e.Seconds = max(e.Seconds, e.WriteUnits/o.WriteUnits)
	}
	if e.Items > 0 {
		changes := e.m.plan.writesPerSecond()
		// The old item is read to follow a change, and both sides when the record of the
		// migration's own write is compared.
		e.FollowReads = 3 * changes * e.getUnits / e.Items
		e.FollowWrites = changes * max(1, e.WriteUnits/e.Items)
	}
	e.DollarsDay = dollars(e.FollowReads, e.FollowWrites) * 24 * time.Hour.Seconds()
}

// writesPerSecond is how often items change that the migration follows.
func (p *Plan) writesPerSecond() (rate float64) {
	for _, q := range p.old.Patterns {
		for _, a := range q.Actions() {
			if !a.Verb().Writes() || a.Verb() == model.Check || p.inPlace(a.Entity().TableOf().Name) && !p.rewritten[a.Entity().TableOf().Name] {
				continue
			}
			rate += q.Rate.PerSecond * float64(max(1, a.Times))
		}
	}
	return rate
}
