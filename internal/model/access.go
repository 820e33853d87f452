package model

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// Access is what a request consumes for one of its items, or for a page of a query or
// a scan.
type Access struct {
	Place
	Write   bool
	Entries []Place // the entries of global indexes that a write changes
}

// Place is a partition key of a table or a global index, and what is consumed there.
type Place struct {
	Table   string
	Index   string // "" for the table itself and its local indexes
	IndexID uint16
	Key     string // the partition key, as text
	Form    string // its template, such as CUSTOMER#{customerId}
	Hash    uint64 // of the partition key, as the server computes it
	Scan    bool   // it reads all partitions
	Units   float64
}

// placeOf returns the place of an item, or of its entry in an index.
func placeOf(e *Entity, x *schema.Index, it item.Item, units float64) Place {
	t := e.table.schema
	p := Place{Table: t.Name, Units: units}
	attrs := t.Key.Partition
	if x != nil {
		attrs = x.Key.Partition
	}
	if x != nil && x.Global {
		p.Index, p.IndexID = x.Name, x.ID
	}
	values := make([]item.Value, len(attrs))
	for i, a := range attrs {
		values[i], _ = it.Get(a.Name)
		if i > 0 {
			p.Key, p.Form = p.Key+" ", p.Form+" "
		}
		p.Key += keyText(values[i])
		p.Form += label(e, templateOf(e.byName[a.Name]), nil)
	}
	p.Hash = keyspace.Hash(keyspace.Partition(nil, t.ID, p.IndexID, values))
	return p
}

// keyText is the value of a key attribute as text.
func keyText(v item.Value) string {
	if v.Type() == item.B {
		return "0x" + hex.EncodeToString(v.Bytes())
	}
	return plain(v)
}

// accessOf returns what a write consumes. own is the cost on the table.
func accessOf(e *Entity, w *itemWrite, own float64, edits []index.Edit) Access {
	it := w.after
	if it == nil {
		it = w.before
	}
	if it == nil {
		it = w.old.item() // there is no such item
	}
	a := Access{Write: true}
	for i := range edits {
		edit := &edits[i]
		if !edit.Index.Global {
			own += edit.Units
			continue
		}
		entry := edit.After
		if entry == nil {
			entry = edit.Before
		}
		a.Entries = append(a.Entries, placeOf(e, edit.Index, entry, edit.Units))
	}
	a.Place = placeOf(e, nil, it, own)
	return a
}

// pagesOf returns what a query or a scan consumes, by the units of its pages.
func (s *Step) pagesOf(x *sample, units []float64) (pages []Access) {
	t := s.Table.schema
	var of *schema.Index
	if s.Index != nil {
		of = s.Index.schema
	}
	var at Place
	if s.Action.verb == Scan {
		at = Place{Table: t.Name, Scan: true}
		if of != nil && of.Global {
			at.Index, at.IndexID = of.Name, of.ID
		}
	} else {
		at = placeOf(s.Entity, of, s.queried(x)[0].Item, 0)
	}
	for _, n := range units {
		at.Units = n
		pages = append(pages, Access{Place: at})
	}
	return pages
}

// RunOrdinals returns how many ordinals a run of a plan may use: run n uses those from
// n times as many on.
func (m *Model) RunOrdinals(plan *Plan, g Generator) (int, error) {
	d := &scenarioBuilder{m: m, plan: plan, gen: g}
	err := d.measure()
	return d.stride, err
}

// Accesses returns what the requests of the run-th run of a plan consume. first is
// another run, and ordinals the result of RunOrdinals: all queries of a plan consume
// the same, so their items need not be generated again.
func (m *Model) Accesses(plan *Plan, g Generator, run int, first *Scenario, ordinals int) (all [][]Access, err error) {
	d := &scenarioBuilder{m: m, plan: plan, gen: g, stride: ordinals, base: run * ordinals, bare: true}
	if plan.Operation != "Query" {
		d.scenario, d.stored = new(Scenario), make(map[string]bool)
		if err := d.build(); err != nil {
			return nil, err
		}
		for i := range d.scenario.Calls {
			all = append(all, d.scenario.Calls[i].Accesses)
		}
		return all, nil
	}
	s := plan.Steps[0]
	if len(first.Calls) != s.Shards {
		panic(fmt.Sprintf("%q has %d requests and %d shards", plan.Pattern.Name, len(first.Calls), s.Shards))
	}
	for shard := range s.Shards {
		pages := slices.Clone(first.Calls[shard].Accesses)
		at := s.pagesOf(d.queryOf(s, shard), []float64{0})[0]
		for i := range pages {
			at.Units = pages[i].Units
			pages[i] = at
		}
		all = append(all, pages)
	}
	return all, nil
}
