package infer

import (
	"fmt"
	"slices"

	"github.com/stator-db/stator/internal/model"
)

// Pattern is an access pattern.
type Pattern struct {
	Name       string   `json:"name"`
	Verb       string   `json:"verb"`
	Entity     string   `json:"entity"`
	Given      []string `json:"given,omitempty"`
	Index      string   `json:"index,omitempty"`
	Returns    []string `json:"returns,omitempty"`
	Matches    int      `json:"matches,omitempty"`
	Consistent bool     `json:"consistent,omitempty"`
	Rate       string   `json:"rate"`
	Guess      string   `json:"evidence"`
}

// AssumePatterns adds a get for each entity and a query for each index, for a
// source without traffic. Their rate is zero.
func (r *Result) AssumePatterns() {
	for _, e := range r.Entities {
		t := e.group.sample.Table
		var given []string
		for _, name := range primaryKey(t) {
			given = appendNew(given, e.leaves(name)...)
		}
		r.Patterns = append(r.Patterns, &Pattern{Name: "get " + e.Name, Verb: "get", Entity: e.Name, Given: e.known(given), Rate: "0/day",
			Guess: "the source has no traffic; the key allows it"})
	}
	for _, s := range r.tables {
		for _, x := range s.Table.Indexes {
			r.assumeQuery(s, x)
		}
	}
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
		in := func(row *sampleRow) bool {
			return !slices.ContainsFunc(slices.Concat(partition, x.Sort), func(name string) bool { return row.values[name] == nil })
		}
		if n := int(share(e.group.rows, in)*float64(e.Sampled) + 0.5); e.group.sample == s && n > most {
			best, most = e, n
		}
	}
	if best == nil {
		return
	}
	p := &Pattern{Name: fmt.Sprintf("find %s by %s", best.Name, x.Name), Verb: "query", Entity: best.Name, Index: x.Name, Rate: "0/day",
		Guess: fmt.Sprintf("the source has no traffic; the index has %s of its sampled items", figure(most))}
	for _, name := range partition {
		p.Given = appendNew(p.Given, best.known(best.leaves(name))...)
	}
	if x.Projection.Kind != "ALL" {
		for _, name := range primaryKey(s.Table) {
			p.Returns = appendNew(p.Returns, best.known(best.leaves(name))...)
		}
	}
	r.Patterns = append(r.Patterns, p)
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
