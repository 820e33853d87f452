package oracletest

import (
	"slices"
	"strings"
)

// keyAttribute is an attribute of a key; kind is S, N or B.
type keyAttribute struct{ name, kind string }

// key is the key of a table or an index. Only global indexes have more than
// one attribute for either part.
type key struct{ hash, sort []keyAttribute }

func (k key) all() []keyAttribute { return slices.Concat(k.hash, k.sort) }

func (k key) names() []string {
	var names []string
	for _, a := range k.all() {
		names = append(names, a.name)
	}
	return names
}

func (k key) has(name string) bool { return slices.Contains(k.names(), name) }

// index is a secondary index.
type index struct {
	name       string
	global     bool
	key        key
	projection string
	include    []string
}

// tableModel is a table and its content.
type tableModel struct {
	name    string
	key     key
	indexes []index
	items   map[string]object // by id
}

// id identifies an item in its table.
func (t *tableModel) id(it object) string { return show(it.only(t.key.names()...)) }

// index returns an index by name, or nil.
func (t *tableModel) index(name string) *index {
	for i := range t.indexes {
		if t.indexes[i].name == name {
			return &t.indexes[i]
		}
	}
	return nil
}

func (t *tableModel) hasLocal() bool {
	return slices.ContainsFunc(t.indexes, func(x index) bool { return !x.global })
}

// projects reports whether an index has an attribute.
func (t *tableModel) projects(x *index, name string) bool {
	return x.projection == "ALL" || t.key.has(name) || x.key.has(name) || slices.Contains(x.include, name)
}

// entry returns the part of an item that an index holds; nil if the index
// does not have the item.
func (t *tableModel) entry(x *index, it object) object {
	if it == nil || len(it.only(x.key.names()...)) < len(x.key.names()) {
		return nil
	}
	entry := make(object)
	for name, v := range it {
		if t.projects(x, name) {
			entry[name] = v
		}
	}
	return entry
}

// content returns the items of the table (x is nil) or the entries of an
// index.
func (t *tableModel) content(x *index) []object {
	var all []object
	for _, it := range t.items {
		if x != nil {
			it = t.entry(x, it)
		}
		if it != nil {
			all = append(all, it)
		}
	}
	return all
}

// fits returns the faults of a key parameter, as in GetItem.
func (t *tableModel) fits(k object) []string {
	if len(k) != len(t.key.all()) {
		return []string{keyMismatch}
	}
	return t.keyFaults(k, func(a keyAttribute, _ value) string { return keyMismatch })
}

const keyMismatch = "The provided key element does not match the schema"

func (t *tableModel) keyFaults(it object, mismatch func(keyAttribute, value) string) (faults []string) {
	for _, a := range t.key.all() {
		v, ok := it[a.name]
		if !ok || kindOf(v) != a.kind {
			faults = append(faults, mismatch(a, v))
			continue
		}
		if content, ok := text(v); ok && content == "" {
			faults = append(faults, "One or more parameter values are not valid. The AttributeValue for a key attribute "+
				"cannot contain an empty "+longKind(v)+" value. Key: "+a.name)
		}
	}
	return faults
}

func longKind(v value) string {
	if kindOf(v) == "B" {
		return "binary"
	}
	return "string"
}

// admits returns the faults of an item to put.
func (t *tableModel) admits(it object, batch bool) []string {
	faults := t.keyFaults(it, func(a keyAttribute, v value) string {
		switch {
		case v == nil:
			return invalidValues + "Missing the key " + a.name + " in the item"
		case batch:
			return keyMismatch
		}
		return invalidValues + "Type mismatch for key " + a.name + " expected: " + a.kind + " actual: " + kindOf(v)
	})
	if faults != nil {
		return faults
	}
	return t.indexFaults(it, false)
}

const invalidValues = "One or more parameter values were invalid: "

// indexFaults returns the faults of values that cannot be keys of the
// indexes.
func (t *tableModel) indexFaults(it object, isUpdate bool) (faults []string) {
	for _, x := range t.indexes {
		if sizeOfAll(it, x.key.hash) > 2048 {
			faults = append(faults, invalidValues+"Size of hashkey has exceeded the maximum size limit of2048 bytes")
		}
		if sizeOfAll(it, x.key.sort) > 1024 {
			faults = append(faults, invalidValues+"Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
		}
		for _, a := range x.key.all() {
			v, ok := it[a.name]
			if !ok {
				continue
			}
			content, isText := text(v)
			switch {
			case kindOf(v) != a.kind:
				faults = append(faults, invalidValues+"Type mismatch for Index Key "+a.name+" Expected: "+a.kind+
					" Actual: "+kindOf(v)+" IndexName: "+x.name)
			case isText && content == "" && isUpdate:
				faults = append(faults, "One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. "+
					"The AttributeValue for a key attribute cannot contain an empty "+longKind(v)+" value.")
			case isText && content == "":
				faults = append(faults, "One or more parameter values are not valid. A value specified for a secondary index key is not supported. "+
					"The AttributeValue for a key attribute cannot contain an empty "+longKind(v)+" value. IndexName: "+x.name+", IndexKey: "+a.name)
			}
		}
	}
	return faults
}

// scalarFaults returns the faults of paths that lead into key attributes.
func (t *tableModel) scalarFaults(paths []path) (faults []string) {
	const message = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
	for _, p := range paths {
		switch name := p.name(); {
		case len(p) == 1:
		case t.key.has(name):
			faults = append(faults, message+"Key: "+name)
		case slices.ContainsFunc(t.indexes, func(x index) bool { return x.key.has(name) }):
			faults = append(faults, message+"IndexKey: "+name)
		}
	}
	return faults
}

// missing lists the attributes that an index does not project, as in
// messages; empty if it projects all.
func (t *tableModel) missing(x *index, paths []path) string {
	var names []string
	for _, p := range paths {
		if !t.projects(x, p.name()) && !slices.Contains(names, p.name()) {
			names = append(names, p.name())
		}
	}
	return strings.Join(names, ", ")
}

// sizeWithLocal is the size of an item and of its entries in local indexes.
func (t *tableModel) sizeWithLocal(it object) int {
	size := it.size()
	for i := range t.indexes {
		if x := &t.indexes[i]; !x.global {
			size += t.entry(x, it).size()
		}
	}
	return size
}

// sizeOfAll is the size of the values that an item has for some attributes.
func sizeOfAll(it object, attrs []keyAttribute) int {
	size := 0
	for _, a := range attrs {
		if v, ok := it[a.name]; ok {
			size += sizeOf(v)
		}
	}
	return size
}

// write replaces an item, or removes it (after is nil), and returns the cost.
func (t *tableModel) write(id string, after object) charge {
	before := t.items[id]
	if after == nil {
		delete(t.items, id)
	} else {
		t.items[id] = after
	}
	cost := charge{table: writeUnits(max(before.size(), after.size()))}
	for i := range t.indexes {
		x := &t.indexes[i]
		cost.add(x, indexUnits(x, t.entry(x, before), t.entry(x, after)))
	}
	return cost
}

// indexUnits is the cost of changing an index entry.
func indexUnits(x *index, before, after object) float64 {
	names := x.key.names()
	switch {
	case equal(before, after):
		return 0
	case before == nil:
		return writeUnits(after.size())
	case after == nil:
		return writeUnits(before.size())
	case equal(before.only(names...), after.only(names...)):
		return writeUnits(max(before.size(), after.size()))
	}
	return writeUnits(before.size()) + writeUnits(after.size())
}

func writeUnits(size int) float64 { return float64(max(1, (size+1023)/1024)) }

func readUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+4095)/4096))
	if !consistent {
		units /= 2
	}
	return units
}

// charge is what a request costs on one table.
type charge struct {
	table         float64
	local, global map[string]capacityUnits
}

func (c *charge) add(x *index, n float64) {
	arms := &c.local
	if x.global {
		arms = &c.global
	}
	if n == 0 {
		return
	}
	if *arms == nil {
		*arms = make(map[string]capacityUnits)
	}
	(*arms)[x.name] = capacityUnits{(*arms)[x.name].CapacityUnits + n}
}

func (c *charge) addAll(t *tableModel, more charge) {
	c.table += more.table
	for i := range t.indexes {
		x := &t.indexes[i]
		c.add(x, more.local[x.name].CapacityUnits+more.global[x.name].CapacityUnits)
	}
}

// shown is the charge as a reply shows it; mode is ReturnConsumedCapacity.
func (c charge) shown(mode, table string) consumed {
	if mode != "TOTAL" && mode != "INDEXES" {
		return nil
	}
	total := c.table
	for _, arms := range []map[string]capacityUnits{c.local, c.global} {
		for _, u := range arms {
			total += u.CapacityUnits
		}
	}
	shown := tableConsumed{TableName: table, CapacityUnits: total}
	if mode == "INDEXES" {
		shown.Table = &capacityUnits{c.table}
		shown.LocalSecondaryIndexes, shown.GlobalSecondaryIndexes = c.local, c.global
	}
	return consumed{shown}
}
