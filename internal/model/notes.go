package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/schema"
)

// Note is a remark about a model that is not a fault.
type Note struct {
	Code     string   `json:"code"`              // kind of note; stable
	Pattern  string   `json:"pattern,omitempty"` // the access pattern it is about, if any
	Message  string   `json:"message"`
	Try      string   `json:"try,omitempty"` // what may help
	Position Position `json:"position"`
}

func (c *modelChecker) note(n *Note) { c.report.Notes = append(c.report.Notes, n) }

// notedCollection is the size of an item collection that is worth a note: a
// query reads it in ten pages.
const notedCollection = 10 * MaxPageBytes

// growth notes item collections that grow without bound: items are added and
// never removed, and the number of partition key values does not grow. Those of
// tables with local indexes have a limit, which collections checks.
func (c *modelChecker) growth(e *Entity) {
	if e.Growth.PerSecond == 0 || e.Keep.Given() {
		return
	}
	t := e.table
	if !t.schema.HasLocal() {
		c.growthIn(e, nil, t.schema.Key, Generator{}.everything(e).Size())
	}
	it := Generator{}.everything(e)
	for _, x := range t.Indexes {
		if !x.Local && x.schema.Key.In(it) {
			c.growthIn(e, x, x.schema.Key, t.schema.Entry(x.schema, it).Size())
		}
	}
}

// growthIn notes a collection of the table (nil) or of an index.
func (c *modelChecker) growthIn(e *Entity, x *Index, key schema.Key, size int) {
	var partition, templates []string
	for _, a := range key.Partition {
		partition = append(partition, a.Name)
		templates = append(templates, e.byName[a.Name].Template())
	}
	if c.m.present(e, key) < 1 || slices.ContainsFunc(partition, e.hasUnboundedValues) {
		return // items leave a sparse index
	}
	bytes := c.m.Items(e) * c.m.largestShare(e, partition) * float64(size)
	if bytes < notedCollection {
		return
	}
	where := e.table.Name
	if x != nil {
		where = x.Name + " of " + where
	}
	horizon := c.m.Horizon.Text
	if horizon == "" {
		horizon = "1y"
	}
	c.note(&Note{Code: "growth", Position: e.byName[partition[0]].location.Position, Try: "add a time such as the month to the partition key, or remove old items",
		Message: fmt.Sprintf("the largest partition %s of %s grows without bound: its items of %s take %s after %s", strings.Join(templates, " "), where, e.Name, Bytes(bytes), horizon)})
}

// hasUnboundedValues reports whether new values of a key attribute keep
// appearing: it contains a time, or an attribute whose number of values is not
// declared.
func (e *Entity) hasUnboundedValues(name string) bool {
	return slices.ContainsFunc(e.leaves(name), func(leaf string) bool {
		a := e.byName[leaf].Attribute
		return formats[a.Format].period != nil || a.Distinct == 0 && len(a.Values) == 0 && a.Shards == 0
	})
}

// largestShare is the share of an entity's items that the largest partition
// holds. As with heat, the smallest share of any attribute in the key bounds it.
func (m *Model) largestShare(e *Entity, partition []string) float64 {
	share, shards := 1.0, 1.0
	for _, name := range partition {
		for _, leaf := range e.leaves(name) {
			switch a := e.byName[leaf].Attribute; {
			case a.Shards > 0:
				shards *= float64(a.Shards)
			case a.Hottest > 0:
				share = min(share, a.Hottest/float64(a.HotValues()))
			case len(a.Values) > 0:
				share = min(share, slices.Max(a.shares(0)))
			default:
				share = min(share, 1/m.distinct(e.byName[leaf]))
			}
		}
	}
	return share / shards
}

// transactionSeconds is how long a transaction is assumed to hold its items.
const transactionSeconds = 0.02

// minConflicts is the smallest share of the runs that is noted if it conflicts.
const minConflicts = 0.01

// conflicts notes the patterns whose writes meet transactions on the same item
// at the peak. A write is rejected if a transaction on its item is in progress,
// and transactions arrive independently of each other.
func (c *modelChecker) conflicts() {
	held := make(map[*Entity]float64) // transactions a second on the busiest item
	for _, p := range c.m.Patterns {
		if p.Transact == nil {
			continue
		}
		for _, a := range p.Actions() {
			held[a.entity] += c.busiestItem(p, a)
		}
	}
	for _, p := range c.m.Patterns {
		var worst *Action
		for _, a := range p.Actions() {
			if c.busiestItem(p, a) > 0 && (worst == nil || held[a.entity] > held[worst.entity]) {
				worst = a
			}
		}
		if worst == nil {
			continue
		}
		rejected := 1 - math.Exp(-held[worst.entity]*transactionSeconds)
		if rejected < minConflicts {
			continue
		}
		own := c.busiestItem(p, worst)
		c.note(&Note{Code: "conflict", Pattern: p.Name, Position: worst.Position, Try: "spread the item over several, or write it outside of the transaction",
			Message: fmt.Sprintf("at the peak %s writes/s go to the busiest item of %s, and %s of them (%s/s) conflict with one of %s transactions/s on it, if each takes %.0f ms",
				Figure(own), worst.entity.Name, Figure(100*rejected)+" %", Figure(own*rejected), Figure(held[worst.entity]), 1000*transactionSeconds)})
	}
}

// busiestItem is how often a second, at the peak, an action writes or checks
// the busiest existing item of its entity. A put of a new item meets no other.
func (c *modelChecker) busiestItem(p *Pattern, a *Action) float64 {
	if !a.verb.Writes() || a.verb == Put && !a.Replaces && !c.acceptsExisting(a) || a.verb == Update && a.Creates || a.Absent {
		return 0
	}
	load := partitionLoad{table: a.entity.table, entity: a.entity, action: a, fixed: make(map[string]string)}
	share, shards := c.heat.shareOf(p, &load, a.entity.keyLeaves(), nil)
	return p.PeakRate().PerSecond * min(1, share/shards*float64(max(1, a.Times)))
}
