package exchange

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// Model is the design as the text of a model. What the source does not know
// stands in it as comments to begin with. The error is about a source whose
// tables no server would make.
func (d *Design) Model() ([]byte, error) {
	w := &writer{}
	w.line(0, "# Made by stator model import from %s.", comment(d.Source))
	w.line(0, "model: %d", model.Version)
	w.line(0, "name: %s", quote(d.Name))
	if d.Description != "" {
		w.line(0, "description: %s", quote(d.Description))
	}
	w.line(0, "\ntables:")
	for _, t := range d.Tables {
		w.table(t)
	}
	if len(d.Entities) > 0 {
		w.entities(d.Entities)
	} else {
		w.entitySkeleton(d.Tables)
	}
	w.patternSkeleton(d)
	m, err := model.Parse(d.Name, w.Bytes())
	if err != nil {
		return nil, fmt.Errorf("what %s describes is no model:\n%w", d.Source, err)
	}
	if len(m.Tables) != len(d.Tables) {
		return nil, fmt.Errorf("of %d tables only %d can be written down", len(d.Tables), len(m.Tables))
	}
	return w.Bytes(), nil
}

type writer struct{ bytes.Buffer }

func (w *writer) line(indent int, format string, args ...any) {
	w.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

func (w *writer) table(t *Table) {
	w.line(1, "%s:", quote(t.Name))
	for _, note := range t.Notes {
		w.line(2, "# %s", comment(note))
	}
	if t.Description != "" {
		w.line(2, "description: %s", quote(t.Description))
	}
	w.line(2, "key: {%s}", pairs("partition", quote(t.Key.Partition), "sort", orNothing(t.Key.Sort)))
	if len(t.Types) > 0 {
		var types []string
		for _, k := range t.Types {
			types = append(types, quote(k.Name)+": "+k.Type)
		}
		w.line(2, "types: {%s}", strings.Join(types, ", "))
	}
	if len(t.Indexes) > 0 {
		w.line(2, "indexes:")
	}
	for _, x := range t.Indexes {
		w.index(x)
	}
	if t.TTL != "" {
		w.line(2, "ttl: %s", quote(t.TTL))
	}
	if t.Stream != "" {
		w.line(2, "stream: %s", quote(t.Stream))
	}
	if t.Recovery {
		w.line(2, "recovery: true")
	}
	w.line(2, "billing: %s", t.Billing)
	if !t.OnDemand() {
		w.line(2, "read: %s", capacity(t.Read))
		w.line(2, "write: %s", capacity(t.Write))
	}
}

func (w *writer) index(x *model.Index) {
	projection := x.Projection.Kind
	if projection == "INCLUDE" {
		projection = list(x.Projection.Names)
	}
	parts := []string{"partition", "", "sort", "", "projection", projection, "local", "", "read", "", "write", ""}
	if len(x.Partition) > 0 {
		parts[1] = flow(x.Partition)
	}
	if len(x.Sort) > 0 {
		parts[3] = flow(x.Sort)
	}
	if x.Local {
		parts[7] = "true"
	}
	if x.Read != nil {
		parts[9] = capacity(x.Read)
	}
	if x.Write != nil {
		parts[11] = capacity(x.Write)
	}
	w.line(3, "%s: {%s}", quote(x.Name), pairs(parts...))
}

func orNothing(text string) string {
	if text == "" {
		return ""
	}
	return quote(text)
}

// pairs are names and values by turns; those without a value are left out.
func pairs(all ...string) string {
	var parts []string
	for i := 0; i < len(all); i += 2 {
		if all[i+1] != "" {
			parts = append(parts, all[i]+": "+all[i+1])
		}
	}
	return strings.Join(parts, ", ")
}

func capacity(c *model.Capacity) string {
	var parts []string
	for _, p := range []struct {
		name string
		n    int
	}{{"units", c.Units}, {"min", c.Min}, {"max", c.Max}, {"target", c.Target}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", p.name, p.n))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// entities writes what the samples showed.
func (w *writer) entities(all []*Entity) {
	w.line(0, "\n# As the samples of the source show them; how many there are, it does not say.\nentities:")
	for _, e := range all {
		w.line(1, "%s:", quote(e.Name))
		w.line(2, "table: %s", quote(e.Table))
		if len(e.Keys) > 0 {
			w.line(2, "keys:")
		}
		for _, k := range e.Keys {
			w.line(3, "%s: %s", quote(k.Name), inQuotes(k.Text))
		}
		if len(e.Attributes) > 0 {
			w.line(2, "attributes:")
		}
		for _, a := range e.Attributes {
			if a.Part {
				w.line(3, "%s: {stored: false, example: %s}", quote(a.Name), inQuotes(a.Example))
			} else {
				w.line(3, "%s: {%s}", quote(a.Name), pairs("type", a.Type))
			}
		}
		if len(e.Example) > 0 {
			w.line(2, "example:")
		}
		for _, v := range e.Example {
			kind, value, _ := typed(v.value)
			text, _ := literalOf(kind, value, 0)
			w.line(3, "%s: %s", quote(v.Name), text)
		}
		w.line(2, "# count: 1000")
		w.line(2, "# growth: 10/day")
	}
}

// mostSkeletons is for how many tables there is something to begin with.
const mostSkeletons = 25

// skeletonName is what an entity of a table is called to begin with.
func skeletonName(t *Table) string { return cmp.Or(slug(t.Name), "item") + "-item" }

// entitySkeleton writes one entity for each table, as comments: its keys are
// attributes as they are.
func (w *writer) entitySkeleton(tables []*Table) {
	w.line(0, "\n# What is stored in the tables, by name. The source does not know it. To begin,\n# take away the {} and the # of the lines below, and say what keys are made of:")
	w.line(0, `#     keys: {PK: "ORDER#{orderId}"}`)
	w.line(0, "entities: {}")
	for _, t := range tables[:min(len(tables), mostSkeletons)] {
		w.line(0, "#  %s:", skeletonName(t))
		w.line(0, "#    table: %s", quote(t.Name))
		w.line(0, "#    attributes:")
		for _, name := range keyAttributes(t) {
			w.line(0, "#      %s: {type: %s}", quote(name), t.kindOf(name))
		}
		if t.TTL != "" && !slices.Contains(keyAttributes(t), t.TTL) {
			w.line(0, "#      %s: {type: N, format: epoch-seconds}", quote(t.TTL))
		}
		w.line(0, "#    size: {typical: 1KB, largest: 4KB}")
		w.line(0, "#    count: 1000")
		w.line(0, "#    growth: 10/day")
	}
	w.more(tables)
}

func (w *writer) more(tables []*Table) {
	if n := len(tables) - mostSkeletons; n > 0 {
		w.line(0, "# And so on for the other %d tables.", n)
	}
}

// keyAttributes are all attributes that keys of a table are made of.
func keyAttributes(t *Table) (all []string) {
	add := func(names ...string) {
		for _, name := range names {
			if name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	add(t.Key.Partition, t.Key.Sort)
	for _, x := range t.Indexes {
		add(x.Partition...)
		add(x.Sort...)
	}
	return all
}

// patternSkeleton writes a get for each table and a query for each index, as
// comments.
func (w *writer) patternSkeleton(d *Design) {
	w.line(0, "\n# The access patterns: what is asked of the tables, and how often. The source does\n# not know them. stator model check asks for the pattern that each index is for.\n# To begin, take away the [] and the # of the lines below.")
	w.line(0, "patterns: []")
	for _, t := range d.Tables[:min(len(d.Tables), mostSkeletons)] {
		entity := skeletonName(t)
		known := func(names ...string) string { return list(names) }
		if at := slices.IndexFunc(d.Entities, func(e *Entity) bool { return e.Table == t.Name }); at >= 0 {
			e := d.Entities[at]
			entity = e.Name
			known = func(names ...string) string { return list(e.leaves(names...)) }
		} else if len(d.Entities) > 0 {
			continue
		}
		key := []string{t.Key.Partition}
		if t.Key.Sort != "" {
			key = append(key, t.Key.Sort)
		}
		w.line(0, "#  - name: %s", quote("get one of "+t.Name))
		w.line(0, "#    get: %s", quote(entity))
		w.line(0, "#    given: %s", known(key...))
		w.line(0, "#    rate: 1/s")
		for _, x := range t.Indexes {
			partition := []string(x.Partition)
			if x.Local {
				partition = []string{t.Key.Partition}
			}
			w.line(0, "#  - name: %s", quote("find in "+x.Name+" of "+t.Name))
			w.line(0, "#    query: %s", quote(entity))
			w.line(0, "#    given: %s", known(partition...))
			w.line(0, "#    index: %s", quote(x.Name))
			if x.Projection.Kind != "ALL" {
				w.line(0, "#    returns: %s", known(key...))
			}
			w.line(0, "#    matches: 10")
			w.line(0, "#    rate: 1/s")
		}
	}
	w.more(d.Tables)
}

// leaves are the attributes that keys are made of.
func (e *Entity) leaves(names ...string) (all []string) {
	for _, name := range names {
		at := slices.IndexFunc(e.Keys, func(k KeyTemplate) bool { return k.Name == name })
		if at < 0 {
			all = append(all, name)
			continue
		}
		for _, part := range templatePart().FindAllStringSubmatch(e.Keys[at].Text, -1) {
			if !slices.Contains(all, part[1]) {
				all = append(all, part[1])
			}
		}
	}
	return all
}
