package migrate

import (
	"context"
	"fmt"
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
	for _, table := range p.sourceNames() {
		if err := e.table(ctx, table, sample); err != nil {
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
	reads := 3.0 // a scan for the backfill, one of each side for the verification
	if e.m.plan.inPlace(table) {
		reads = 2
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
	write        float64
	entities     map[string]int
}

func (e *estimator) add(s *tableSample, table string, it itemJSON) {
	s.items++
	s.bytes += it.Size()
	plan := e.m.plan
	if plan.inPlace(table) {
		p, err := plan.forward.placeKey(table, it.Item)
		if err == nil {
			s.entities[p.entity]++
			var update *indexKeyUpdate
			if update, err = plan.indexKeys(table, it.Item); update != nil {
				s.write += capacity.Write(it.Size()) + 1
			}
		}
		if err != nil {
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
		e.FollowReads = 2 * changes * max(1, e.Bytes/e.Items/4096)
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
