package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// maxCollection is the largest size of an item collection in a table with local
// indexes.
const maxCollection = 10 << 30

// table reports what is wrong with a table as a whole.
func (c *modelChecker) table(t *Table) {
	c.unused(t)
	c.ttl(t)
	if t.schema.HasLocal() {
		c.collections(t)
	}
	c.collisions(t)
	if !t.OnDemand() {
		c.provisioned(t)
	}
}

// provisioned reports provisioned units that do not cover the peak.
func (c *modelChecker) provisioned(t *Table) {
	l := c.peaks[t]
	for i, x := range l.average {
		read, write, where := t.Read, t.Write, t.Name
		needRead, needWrite := x.Read, x.Write
		if i == 0 {
			needRead, needWrite = needRead+l.local(false), needWrite+l.local(true)
		} else {
			index := t.Indexes[i-1]
			if index.Local {
				continue
			}
			read, write, where = cmp.Or(index.Read, read), cmp.Or(index.Write, write), index.Name+" of "+t.Name
		}
		for _, u := range []struct {
			capacity *Capacity
			need     float64
			what     string
		}{{read, needRead, "read"}, {write, needWrite, "write"}} {
			if have := max(u.capacity.Units, u.capacity.Max); u.need > float64(have) {
				c.fault("provisioned", u.capacity.Position, fmt.Sprintf("provision at least %s", Figure(math.Ceil(u.need))),
					"at their peak the patterns need %s %s units a second of %s; at most %s are provisioned", Figure(u.need), u.what, where, Figure(float64(have)))
			}
		}
	}
}

// unused reports indexes that no pattern reads.
func (c *modelChecker) unused(t *Table) {
	for _, x := range t.Indexes {
		used := slices.ContainsFunc(c.runs, func(r patternRun) bool { return slices.Contains(r.plan.Indexes(), x) })
		if !used {
			c.fault("unused", x.Position, "remove it, or declare the pattern that it serves", "no pattern uses the index %s of %s, but each write pays for it", x.Name, t.Name)
		}
	}
}

// ttl reports a TTL attribute that does not hold epoch seconds.
func (c *modelChecker) ttl(t *Table) {
	if t.TTL == "" {
		return
	}
	found := false
	for _, e := range c.m.EntitiesOf(t) {
		f, ok := e.byName[t.TTL]
		if !ok {
			continue
		}
		found = true
		switch {
		case f.Type != item.N:
			c.fault("ttl", f.location.Position, "store a number of seconds since 1970", "%s of %s is of type %s; items expire by a number only", t.TTL, e.Name, f.Type)
		case f.Attribute != nil && f.Attribute.Format == "epoch-millis":
			c.fault("ttl", f.location.Position, "divide by 1000", "%s of %s is in milliseconds; read as seconds, it is thousands of years ahead, so nothing ever expires", t.TTL, e.Name)
		case f.Attribute == nil || f.Attribute.Format != "epoch-seconds":
			c.fault("ttl", f.location.Position, "set format: epoch-seconds", "%s of %s is not declared to be in epoch seconds", t.TTL, e.Name)
		}
	}
	if !found {
		c.fault("ttl", t.At("ttl"), suggestTry(t.TTL, c.attributesOf(t)), "no entity of %s has the attribute %s, so nothing ever expires", t.Name, t.TTL)
	}
}

func suggestTry(name string, known []string) string {
	return strings.TrimPrefix(suggest(name, known), "; ")
}

func (c *modelChecker) attributesOf(t *Table) (all []string) {
	for _, e := range c.m.EntitiesOf(t) {
		all = append(all, e.names()...)
	}
	return all
}

// collections reports item collections that exceed the limit of a table with
// local indexes.
func (c *modelChecker) collections(t *Table) {
	partition := []string{t.Key.Partition}
	sum := 0.0
	var at *Entity
	for _, e := range c.m.EntitiesOf(t) {
		it := Generator{}.everything(e)
		size := it.Size()
		for _, x := range t.Indexes {
			if x.Local && x.schema.Key.In(it) {
				size += t.schema.Entry(x.schema, it).Size()
			}
		}
		bytes := c.m.Items(e) * c.m.largestShare(e, partition) * float64(size)
		if sum += bytes; at == nil || bytes > maxCollection {
			at = e
		}
	}
	if sum > maxCollection {
		c.fault("collection", at.Position, "drop the local indexes, keep items for a shorter time, or add attributes to the partition key",
			"items that share %s grow to %s with their local index entries; a table with local indexes allows %s", t.Key.Partition, Bytes(sum), Bytes(maxCollection))
	}
}

// collisions reports entities that can overwrite each other.
func (c *modelChecker) collisions(t *Table) {
	entities := c.m.EntitiesOf(t)
	for i, e := range entities {
		for _, other := range entities[:i] {
			same := true
			for _, a := range t.schema.Key.All() {
				same = same && sameForm(e, templateOf(e.byName[a.Name]), other, templateOf(other.byName[a.Name]))
			}
			if same {
				c.fault("collision", e.Position, "begin one of their keys with different text", "items of %s and %s can have the same key, and overwrite each other", other.Name, e.Name)
			}
		}
	}
}

// joined reports keys that join two attributes without a separator: 1 and 23 make
// the same key as 12 and 3. An attribute whose values have the same length needs none.
func (c *modelChecker) joined(e *Entity) {
	for _, k := range e.Keys {
		for i := 1; i < len(k.template.parts); i++ {
			first, second := k.template.parts[i-1].name, k.template.parts[i].name
			if first != "" && second != "" && !e.byName[first].hasEqualLength() {
				c.fault("collision", k.At("template"), "put a separator such as # between them", "%s of %s joins %s and %s, so that different values can make the same key", k.Name, e.Name, first, second)
			}
		}
	}
}

// entity reports items and keys that can be too large.
func (c *modelChecker) entity(e *Entity) {
	c.joined(e)
	it := Generator{}.largest(e)
	size := it.Size()
	for _, x := range e.table.Indexes {
		if x.Local && x.schema.Key.In(it) {
			size += e.table.schema.Entry(x.schema, it).Size()
		}
	}
	if e.Size != nil {
		size = max(size, int(e.Size.Largest), int(e.Size.Typical))
	}
	if size > item.MaxSize {
		c.tooLarge(e, size)
	}
	key := e.table.schema
	for _, k := range append([]schema.Key{key.Key}, keysOfIndexes(e.table)...) {
		c.keySize(e, it, k.Partition, schema.MaxPartitionBytes, "partition")
		c.keySize(e, it, k.Sort, schema.MaxSortBytes, "sort")
	}
}

func keysOfIndexes(t *Table) (keys []schema.Key) {
	for _, x := range t.Indexes {
		keys = append(keys, x.schema.Key)
	}
	return keys
}

// tooLarge reports an item that can be too large, and the attribute that makes
// it so if it is a single one.
func (c *modelChecker) tooLarge(e *Entity, size int) {
	largest := &sample{entity: e, full: true}
	found := 0
	for _, f := range e.fields {
		if !f.Stored || f.template != nil || found == maxTooLarge || largest.value(f).Size() <= item.MaxSize {
			continue
		}
		what := "attribute"
		if f.Type.IsSet() {
			what = "set"
		} else if f.Type == item.L {
			what = "list"
		}
		c.fault("size", f.location.Position, "store it elsewhere and keep a reference, or make its members separate items",
			"the %s %s of %s can exceed %s, the limit of an item", what, f.Name, e.Name, Bytes(item.MaxSize))
		found++
	}
	if found == 0 {
		c.fault("size", e.Position, "store the largest part elsewhere and keep a reference", "an item of %s can reach %s; the limit is %s", e.Name, Bytes(size), Bytes(item.MaxSize))
	}
}

// maxTooLarge is how many attributes of an entity are reported as too large.
const maxTooLarge = 8

// keySize reports keys that can be too long.
func (c *modelChecker) keySize(e *Entity, it item.Item, attrs []schema.Attribute, most int, what string) {
	size := 0
	for _, a := range attrs {
		if v, ok := it.Get(a.Name); ok {
			size += v.Size()
		}
	}
	if size <= most {
		return
	}
	f := e.byName[attrs[0].Name]
	message := fmt.Sprintf("the %s key %s of %s can reach %d bytes; the limit is %d", what, attrs[0].Name, e.Name, size, most)
	if !slices.ContainsFunc(c.report.Faults, func(f *Fault) bool { return f.Message == message }) {
		c.fault("size", f.location.Position, "use a hash of it", "%s", message)
	}
}

// rules reports rules that are broken.
func (c *modelChecker) rules() {
	for _, r := range c.m.Rules {
		for _, e := range c.m.Entities {
			if len(r.Tables) > 0 && !slices.Contains(r.Tables, e.table.Name) || slices.Contains(r.Except, e.Name) {
				continue
			}
			if r.Every == "item" {
				if f, ok := e.byName[r.Contains]; !ok || !f.Stored {
					c.ruleFault(r, e.Name, e.Position, fmt.Sprintf("items of %s do not contain %s", e.Name, r.Contains))
				}
				continue
			}
			c.keyRule(r, e)
		}
	}
}

func (c *modelChecker) ruleFault(r *Rule, excepted string, at Position, what string) {
	name := ""
	if r.Name != "" {
		name = fmt.Sprintf("the rule %q is broken: ", r.Name)
	}
	c.fault("rule", at, fmt.Sprintf("add {%s} to it, or set except: [%s] and because", r.Contains, excepted), "%s%s", name, what)
}

// keyRule checks the keys of one entity against a rule.
func (c *modelChecker) keyRule(r *Rule, e *Entity) {
	var reported [][]schema.Attribute
	for _, k := range append([]schema.Key{e.table.schema.Key}, keysOfIndexes(e.table)...) {
		attrs := k.Partition
		if r.Every == "sort-key" {
			attrs = k.Sort
		}
		contains, at, text, excepted := len(attrs) == 0, e.Position, "", ""
		for _, a := range attrs {
			f, ok := e.byName[a.Name]
			if !ok || slices.Contains(r.Except, e.Name+"."+a.Name) {
				contains = true // not in this index, or excepted
				continue
			}
			excepted = e.Name + "." + a.Name
			at, text = f.location.Position, fmt.Sprintf("%s of %s is %q, without {%s}", a.Name, e.Name, f.Template(), r.Contains)
			contains = contains || a.Name == r.Contains || slices.Contains(e.leaves(a.Name), r.Contains)
		}
		if !contains && !slices.ContainsFunc(reported, func(other []schema.Attribute) bool { return slices.Equal(attrs, other) }) {
			reported = append(reported, attrs)
			c.ruleFault(r, excepted, at, text)
		}
	}
}
