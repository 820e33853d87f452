package infer

import (
	"fmt"
	"slices"

	"github.com/stator-db/stator/internal/model"
)

// Pattern is an access pattern.
type Pattern struct {
	Name     string    `json:"name"`
	Combined string    `json:"combined,omitempty"` // transact or batch
	Actions  []*Action `json:"actions"`            // one if they are not combined
	Rate     string    `json:"rate"`
	Requests int64     `json:"requests,omitempty"`
	Guess    string    `json:"evidence"`

	perSecond float64
}

// Action is one operation of a pattern on one entity.
type Action struct {
	Verb       string       `json:"verb"`
	Entity     string       `json:"entity"`
	Given      []string     `json:"given,omitempty"`
	Each       []string     `json:"each,omitempty"` // given, and different for each of Times
	Times      int          `json:"times,omitempty"`
	Where      []Assignment `json:"where,omitempty"`
	Range      *Range       `json:"range,omitempty"`
	Index      string       `json:"index,omitempty"`
	Consistent bool         `json:"consistent,omitempty"`
	Matches    int          `json:"matches,omitempty"`
	Reads      int          `json:"reads,omitempty"`
	Returns    []string     `json:"returns,omitempty"`
	With       []Assignment `json:"with,omitempty"` // other entities, and how many items of each
	From       []Assignment `json:"from,omitempty"`
	Set        []Assignment `json:"set,omitempty"`
	Remove     []string     `json:"remove,omitempty"`
	Condition  string       `json:"condition,omitempty"`
	Values     []Assignment `json:"values,omitempty"` // of the condition
	Replaces   bool         `json:"replaces,omitempty"`
	Notes      []string     `json:"notes,omitempty"` // what could not be derived
}

// Range is a condition on a key attribute other than equality.
type Range struct {
	Attribute string `json:"attribute"`
	Is        string `json:"is"`
}

// Assignment is a name with a value, as YAML writes it.
type Assignment struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// AssumePatterns adds a get for each entity and a query for each index, for a
// source without traffic. Their rate is zero.
func (r *Result) AssumePatterns() {
	for _, e := range r.Entities {
		a := &Action{Verb: "get", Entity: e.Name, Given: e.keyLeaves()}
		r.Patterns = append(r.Patterns, &Pattern{Name: "get " + e.Name, Actions: []*Action{a}, Rate: "0/day",
			Guess: "the source has no traffic; the key allows it"})
	}
	for _, s := range r.tables {
		for _, x := range s.Table.Indexes {
			r.assumeQuery(s, x)
		}
	}
}

// keyLeaves returns the attributes that identify an item.
func (e *Entity) keyLeaves() (all []string) {
	for _, name := range primaryKey(e.group.sample.Table) {
		all = appendNew(all, e.known(e.leaves(name))...)
	}
	return all
}

// assumeQuery adds a query of an index for the entity that has the most items
// in it.
func (r *Result) assumeQuery(s *TableSample, x *model.Index) {
	partition := []string(x.Partition)
	if x.Local {
		partition = []string{s.Table.Key.Partition}
	}
	var best *Entity
	most := 0
	for _, e := range r.Entities {
		if n := e.itemsWith(slices.Concat(partition, x.Sort)); e.group.sample == s && n > most {
			best, most = e, n
		}
	}
	if best == nil {
		return
	}
	a := &Action{Verb: "query", Entity: best.Name, Index: x.Name}
	for _, name := range partition {
		a.Given = appendNew(a.Given, best.known(best.leaves(name))...)
	}
	if x.Projection.Kind != "ALL" {
		a.Returns = best.keyLeaves()
	}
	r.Patterns = append(r.Patterns, &Pattern{Name: fmt.Sprintf("find %s by %s", best.Name, x.Name), Actions: []*Action{a}, Rate: "0/day",
		Guess: fmt.Sprintf("the source has no traffic; the index has %s of its sampled items", figure(most))})
}

// itemsWith counts the sampled items that have all of some attributes.
func (e *Entity) itemsWith(names []string) (n int) {
	for _, row := range e.group.rows {
		if !slices.ContainsFunc(names, func(name string) bool { return row.values[name] == nil }) {
			n++
		}
	}
	return n
}

// known returns the attributes whose values a caller knows: shard numbers are
// computed.
func (e *Entity) known(names []string) (all []string) {
	for _, name := range names {
		if a := e.attribute(name); a == nil || a.Shards == 0 {
			all = append(all, name)
		}
	}
	return all
}

func appendNew(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
