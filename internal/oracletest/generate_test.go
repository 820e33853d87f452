package oracletest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// stepGenerator generates random steps. It reads the model, so that most keys
// and paths exist.
type stepGenerator struct {
	*rand.Rand
	w *harness
}

func newGenerator(seed uint64, w *harness) *stepGenerator {
	return &stepGenerator{rand.New(rand.NewPCG(seed, 0)), w}
}

// one returns one of the things.
func one[T any](g *stepGenerator, things ...T) T { return things[g.IntN(len(things))] }

// chance returns true once in n times on average.
func (g *stepGenerator) chance(in int) bool { return g.IntN(in) == 0 }

var tableNames = []string{"Orders", "Carts"}

// next generates the next step.
func (g *stepGenerator) next() step {
	if len(g.w.tables) == 0 || g.chance(40) {
		return g.createTable()
	}
	switch n := g.IntN(1000); {
	case n < 240:
		return g.putItem()
	case n < 500:
		return g.updateItem()
	case n < 570:
		return g.deleteItem()
	case n < 670:
		return g.getItem()
	case n < 830:
		return g.query()
	case n < 890:
		return g.scan()
	case n < 930:
		return g.batchGet()
	case n < 970:
		return g.batchWrite()
	case n < 985:
		return &describeTable{g.tableName()}
	case n < 990:
		return &deleteTable{g.tableName()}
	case n < 995:
		return audit{}
	}
	return restart{}
}

// tableName returns a name, mostly of a table that exists.
func (g *stepGenerator) tableName() string {
	if g.chance(50) {
		return one(g, tableNames...)
	}
	return one(g, sortedKeys(g.w.tables)...)
}

// table returns a table's name and the table or, if it does not exist,
// another one to take keys from.
func (g *stepGenerator) table() (string, *tableModel) {
	name := g.tableName()
	if t := g.w.tables[name]; t != nil {
		return name, t
	}
	return name, g.w.tables[sortedKeys(g.w.tables)[0]]
}

func (g *stepGenerator) createTable() step {
	kind := func() string { return one(g, "S", "N", "B") }
	s := &createTable{name: one(g, tableNames...)}
	s.key.hash = []keyAttribute{{"pk", kind()}}
	if !g.chance(3) {
		s.key.sort = []keyAttribute{{"sk", kind()}}
	}
	extra := []keyAttribute{{"g1", kind()}, {"g2", kind()}, {"g3", kind()}}
	if s.key.sort != nil {
		for i := range g.IntN(3) {
			x := index{name: fmt.Sprintf("local%d", i), key: key{s.key.hash, []keyAttribute{extra[g.IntN(3)]}}}
			s.indexes = append(s.indexes, x)
		}
	}
	for i := range g.IntN(4) {
		attrs := slices.Concat(extra, s.key.all())
		g.Shuffle(len(attrs), func(i, j int) { attrs[i], attrs[j] = attrs[j], attrs[i] })
		hash, sort := 1, g.IntN(2)
		if g.chance(4) {
			hash, sort = 1+g.IntN(2), g.IntN(3)
		}
		hash, sort = min(hash, len(attrs)), min(sort, len(attrs)-hash)
		x := index{name: fmt.Sprintf("global%d", i), global: true, key: key{hash: attrs[:hash], sort: attrs[hash : hash+sort]}}
		s.indexes = append(s.indexes, x)
	}
	for i := range s.indexes {
		x := &s.indexes[i]
		if x.projection = one(g, "ALL", "KEYS_ONLY", "INCLUDE"); x.projection == "INCLUDE" {
			x.include = one(g, []string{"a"}, []string{"b", "doc"}, []string{"list"})
		}
	}
	return s
}

// keyValue returns one of few values for an attribute of a key.
func (g *stepGenerator) keyValue(a keyAttribute) value {
	switch a.kind {
	case "S":
		return one[value](g, str("a"), str("ab"), str("b"), str("é"), str("😀"), str("a\x00b"))
	case "N":
		return number(one(g, "1", "-1", "0", "0.5", "10", "-1.5e3"))
	}
	return one[value](g, bin("\x00"), bin("\x00\x01"), bin("a"), bin("\xff\x00"), bin("ab"))
}

// key returns a key of a table, mostly of an existing item.
func (g *stepGenerator) key(t *tableModel) object {
	if len(t.items) > 0 && !g.chance(3) {
		return g.item(t).only(t.key.names()...)
	}
	k := make(object)
	for _, a := range t.key.all() {
		k[a.name] = g.keyValue(a)
	}
	return k
}

// oddKey returns a key that may not fit the table.
func (g *stepGenerator) oddKey(t *tableModel) object {
	k := g.key(t)
	if g.chance(40) {
		g.spoil(t, k)
	}
	return k
}

// spoil changes a key so that it does not fit.
func (g *stepGenerator) spoil(t *tableModel, k object) {
	a := one(g, t.key.all()...)
	switch g.IntN(3) {
	case 0:
		delete(k, a.name)
	case 1:
		k[a.name] = g.value(1)
	case 2:
		if k[a.name] = str(""); a.kind == "B" {
			k[a.name] = bin("")
		}
	}
}

// item returns an item of the table, which must not be empty.
func (g *stepGenerator) item(t *tableModel) object { return t.items[one(g, sortedKeys(t.items)...)] }

// names are the attributes of items that are not keys; nested are the names
// inside them.
var (
	names  = []string{"a", "b", "doc", "list", "tags", "name", "with.dot"}
	nested = []string{"x", "y", "status", "über"}
)

// newItem returns an item to put.
func (g *stepGenerator) newItem(t *tableModel) object {
	it := g.oddKey(t).clone()
	for _, x := range t.indexes {
		for _, a := range x.key.all() {
			if _, ok := it[a.name]; ok || t.key.has(a.name) || g.chance(4) {
				continue
			}
			if it[a.name] = g.keyValue(a); g.chance(60) {
				it[a.name] = g.value(1)
			}
		}
	}
	for range g.IntN(5) {
		it[one(g, names...)] = g.value(3)
	}
	switch {
	case g.chance(8):
		it["pad"] = str(strings.Repeat("p", g.IntN(6000)))
	case g.chance(400):
		it["pad"] = str(strings.Repeat("p", maxItemBytes-g.IntN(300)))
	case g.chance(100):
		it["pad"] = str(strings.Repeat("p", 100_000+g.IntN(200_000)))
	}
	return it
}

// value returns a random value with at most this many levels of lists and
// maps.
func (g *stepGenerator) value(levels int) value {
	n := g.IntN(12)
	if levels == 0 {
		n = g.IntN(8)
	}
	switch n {
	case 0, 1:
		return one[value](g, str(""), str("a"), str("ab"), str("abc"), str("é"), str("😀 ü"), str("\x00"), str("z\nz"))
	case 2, 3:
		return g.number()
	case 4:
		return one[value](g, bin(""), bin("\x00"), bin("a\x00b"), bin("\xff\xfe"))
	case 5:
		return boolean(g.chance(2))
	case 6:
		return null{}
	case 7:
		return g.set()
	case 8, 9:
		l := list{}
		for range g.IntN(4) {
			l = append(l, g.value(levels-1))
		}
		return l
	}
	o := object{}
	for range g.IntN(4) {
		o[one(g, nested...)] = g.value(levels - 1)
	}
	return o
}

func (g *stepGenerator) number() num {
	return number(one(g, "0", "-0", "1", "2", "3", "1.0", "-1", "007", "0.5", "-0.25", "1e2", "1200.05", "-12.5e-3", "0.0000001",
		"99999999999999999999999999999999999999", "1e100", "1E-100", "123456789.987654321", strconv.Itoa(g.IntN(2000)-1000)))
}

func (g *stepGenerator) set() valueSet {
	s := valueSet{one(g, "SS", "NS", "BS"), make(map[string]bool)}
	for range 1 + g.IntN(3) {
		switch s.kind {
		case "SS":
			s.members[one(g, "a", "b", "", "é")] = true
		case "NS":
			s.members[string(one(g, number("1"), number("-1"), number("2.50"), number("1e3")))] = true
		case "BS":
			s.members[one(g, "\x00", "b", "")] = true
		}
	}
	return s
}

// path returns a path into the items of a table, mostly an existing one.
func (g *stepGenerator) path(t *tableModel) path {
	if len(t.items) == 0 || g.chance(4) {
		p := path{one(g, names...)}
		for !g.chance(2) {
			p = append(p, g.step())
		}
		return p
	}
	var p path
	var v value = g.item(t)
	for {
		switch here := v.(type) {
		case object:
			if len(here) > 0 {
				name := one(g, sortedKeys(here)...)
				p, v = append(p, name), here[name]
				break
			}
			v = nil
		case list:
			if len(here) > 0 {
				i := g.IntN(len(here))
				p, v = append(p, i), here[i]
				break
			}
			v = nil
		default:
			v = nil
		}
		if v == nil || g.chance(3) {
			break
		}
	}
	switch {
	case g.isKey(t, p.name()) && !g.chance(60): // no path leads into a key
	case g.chance(6):
		p = append(p, g.step())
	case len(p) > 1 && g.chance(6):
		p[len(p)-1] = g.step()
	}
	return p
}

func (g *stepGenerator) isKey(t *tableModel, name string) bool {
	return t.key.has(name) || slices.ContainsFunc(t.indexes, func(x index) bool { return x.key.has(name) })
}

func (g *stepGenerator) step() any {
	if g.chance(2) {
		return g.IntN(4)
	}
	return one(g, nested...)
}

// free returns a path that rarely begins with an attribute of a key.
func (g *stepGenerator) free(t *tableModel, k key) path {
	for {
		if p := g.path(t); !k.has(p.name()) || g.chance(60) {
			return p
		}
	}
}

// carried returns a free path that an index mostly projects.
func (g *stepGenerator) carried(t *tableModel, name string, k key) path {
	x := t.index(name)
	for range 20 {
		if p := g.free(t, k); x == nil || t.projects(x, p.name()) || g.chance(60) {
			return p
		}
	}
	return path{"a"}
}

// some returns a value to compare with, often one that an item has at this
// path.
func (g *stepGenerator) some(t *tableModel, p path) value {
	if len(t.items) > 0 && !g.chance(3) {
		if v, ok := at(g.item(t), p); ok {
			return v
		}
	}
	return g.value(1)
}

// ordered returns a value, mostly of a kind that has an order.
func (g *stepGenerator) ordered(t *tableModel, p path) value {
	for {
		if v := g.some(t, p); hasOrder(kindOf(v)) || g.chance(100) {
			return v
		}
	}
}

// condition returns a random condition on paths that p generates.
func (g *stepGenerator) condition(t *tableModel, p func() path, levels int) *condition {
	if levels > 0 && g.chance(2) {
		n := &condition{op: one(g, "AND", "OR", "NOT")}
		n.tests = append(n.tests, *g.condition(t, p, levels-1))
		for n.op != "NOT" && (len(n.tests) < 2 || g.chance(4)) {
			n.tests = append(n.tests, *g.condition(t, p, levels-1))
		}
		return n
	}
	first := operand{path: p()}
	constant := func(v value) operand { return operand{value: v} }
	op := one(g, "=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "begins_with", "contains",
		"attribute_exists", "attribute_not_exists", "attribute_type", "size")
	n := &condition{op: op, operands: []operand{first}}
	switch op {
	case "=", "<>":
		n.operands = append(n.operands, g.operand(t, p, first.path))
	case "<", "<=", ">", ">=":
		n.operands = append(n.operands, constant(g.ordered(t, first.path)))
	case "BETWEEN":
		low := g.ordered(t, first.path)
		high := g.ordered(t, first.path)
		for kindOf(high) != kindOf(low) && !g.chance(50) {
			high = g.ordered(t, first.path)
		}
		if kindOf(low) == kindOf(high) && hasOrder(kindOf(low)) && order(low, high) > 0 && !g.chance(50) {
			low, high = high, low
		}
		n.operands = append(n.operands, constant(low), constant(high))
	case "IN":
		for range 1 + g.IntN(3) {
			n.operands = append(n.operands, g.operand(t, p, first.path))
		}
	case "begins_with":
		n.operands = append(n.operands, constant(one[value](g, str("a"), str("ab"), str(""), bin("a"), bin("\x00"), str("é"))))
	case "contains":
		n.operands = append(n.operands, constant(g.part(t, first.path)))
	case "attribute_type":
		n.operands = append(n.operands, constant(str(one(g, "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"))))
	case "size":
		n.op = one(g, "=", "<>", "<", "<=", ">", ">=")
		n.operands[0].size = true
		n.operands = append(n.operands, constant(num(strconv.Itoa(g.IntN(5)))))
		if g.chance(2) {
			slices.Reverse(n.operands)
		}
	}
	return n
}

// operand returns a constant, or sometimes another path.
func (g *stepGenerator) operand(t *tableModel, p func() path, first path) operand {
	if g.chance(5) {
		return operand{path: p()}
	}
	return operand{value: g.some(t, first)}
}

// part returns a value that the value at a path may contain.
func (g *stepGenerator) part(t *tableModel, p path) value {
	switch v := g.some(t, p).(type) {
	case valueSet:
		return v.member(one(g, sortedKeys(v.members)...))
	case list:
		if len(v) > 0 {
			return one(g, v...)
		}
	case str:
		if i := len(v) / 2; strings.ToValidUTF8(string(v[i:]), "") == string(v[i:]) {
			return v[i:]
		}
	case bin:
		return v[len(v)/2:]
	}
	return g.value(1)
}

func (g *stepGenerator) conditional(returns ...string) (conditional, *tableModel) {
	name, t := g.table()
	c := conditional{
		table: name, returns: one(g, returns...), capacity: g.capacity(), onFailure: g.chance(3), metrics: g.chance(10),
	}
	if g.chance(3) {
		c.condition = g.condition(t, func() path { return g.path(t) }, 2)
	}
	return c, t
}

func (g *stepGenerator) capacity() string { return one(g, "", "NONE", "TOTAL", "INDEXES", "INDEXES") }

func (g *stepGenerator) putItem() step {
	c, t := g.conditional("", "NONE", "ALL_OLD", "ALL_OLD")
	return &putItem{c, g.newItem(t)}
}

func (g *stepGenerator) deleteItem() step {
	c, t := g.conditional("", "NONE", "ALL_OLD", "ALL_OLD")
	return &deleteItem{c, g.oddKey(t)}
}

func (g *stepGenerator) updateItem() step {
	c, t := g.conditional("", "NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")
	s := &updateItem{conditional: c, key: g.oddKey(t)}
	actions := g.IntN(4)
	if g.chance(3) {
		actions = 1
	}
	for range actions {
		a := g.action(t)
		if !slices.ContainsFunc(s.update.paths(), a.path.clashes) || g.chance(50) {
			s.update = append(s.update, a)
		}
	}
	return s
}

// action returns an action on an attribute that is not part of the table's
// key, sometimes of an index's key.
func (g *stepGenerator) action(t *tableModel) updateAction {
	p := g.free(t, t.key)
	if len(t.indexes) > 0 && g.chance(4) {
		a := one(g, one(g, t.indexes...).key.all()...)
		if !t.key.has(a.name) {
			if g.chance(2) {
				return updateAction{verb: "REMOVE", path: path{a.name}}
			}
			return updateAction{verb: "SET", path: path{a.name}, term: setTerm{value: g.keyValue(a)}}
		}
	}
	switch g.IntN(8) {
	case 0, 1:
		return updateAction{verb: "REMOVE", path: p}
	case 2:
		if g.chance(2) {
			return updateAction{verb: "ADD", path: p, term: setTerm{value: g.number()}}
		}
		return updateAction{verb: "ADD", path: p, term: setTerm{value: g.set()}}
	case 3:
		if v, ok := g.some(t, p).(valueSet); ok {
			return updateAction{verb: "DELETE", path: p, term: setTerm{value: v}}
		}
		return updateAction{verb: "DELETE", path: p, term: setTerm{value: g.set()}}
	}
	return updateAction{verb: "SET", path: p, term: g.term(t, p)}
}

// term returns the right side of a SET.
func (g *stepGenerator) term(t *tableModel, p path) setTerm {
	other := p
	if g.chance(3) {
		other = g.path(t)
	}
	constant := func(v value) setTerm { return setTerm{value: v} }
	number := func() value {
		if g.chance(50) {
			return g.value(1)
		}
		return g.number()
	}
	switch g.IntN(8) {
	case 0:
		return setTerm{path: g.path(t)}
	case 1:
		return setTerm{op: "if_not_exists", path: other, args: []setTerm{constant(g.value(2))}}
	case 2:
		start := setTerm{op: "if_not_exists", path: other, args: []setTerm{constant(list{})}}
		return setTerm{op: "list_append", args: []setTerm{start, constant(list{g.value(1)})}}
	case 3:
		args := []setTerm{{path: other}, constant(list{g.value(1), g.value(0)})}
		if g.chance(2) {
			slices.Reverse(args)
		}
		return setTerm{op: "list_append", args: args}
	case 4:
		args := []setTerm{{path: other}, constant(number())}
		if g.chance(4) {
			slices.Reverse(args)
		}
		return setTerm{op: one(g, "+", "-"), args: args}
	case 5:
		start := setTerm{op: "if_not_exists", path: other, args: []setTerm{constant(g.number())}}
		return setTerm{op: one(g, "+", "-"), args: []setTerm{start, constant(number())}}
	}
	return constant(g.value(3))
}

// projection returns a projection, mostly none.
func (g *stepGenerator) projection(t *tableModel) []path {
	if !g.chance(3) {
		return nil
	}
	var paths []path
	for range 1 + g.IntN(3) {
		if p := g.path(t); !slices.ContainsFunc(paths, p.clashes) || g.chance(50) {
			paths = append(paths, p)
		}
	}
	return paths
}

func (g *stepGenerator) getItem() step {
	name, t := g.table()
	return &getItem{name, g.oddKey(t), g.projection(t), g.chance(2), g.capacity()}
}

func (g *stepGenerator) batchGet() step {
	s := &batchGet{tables: make(map[string]batchKeys), capacity: g.capacity()}
	for range 1 + g.IntN(2) {
		name, t := g.table()
		part := batchKeys{projection: g.projection(t), consistent: g.chance(2)}
		if clashing(part.projection) {
			part.projection = nil
		}
		for range 1 + g.IntN(6) {
			k := g.key(t)
			if !slices.ContainsFunc(part.keys, func(other object) bool { return equal(k, other) }) || g.chance(60) {
				part.keys = append(part.keys, k)
			}
		}
		if g.chance(30) {
			g.spoil(t, part.keys[0])
		}
		s.tables[name] = part
	}
	return s
}

func (g *stepGenerator) batchWrite() step {
	s := &batchWrite{tables: make(map[string][]batchRequest), capacity: g.capacity()}
	for range 1 + g.IntN(2) {
		name, t := g.table()
		var requests []batchRequest
		seen := make(map[string]bool)
		for range 1 + g.IntN(8) {
			r := batchRequest{item: g.newItem(t)}
			if g.chance(3) {
				r = batchRequest{key: g.oddKey(t)}
			}
			id := t.id(r.item)
			if r.item == nil {
				id = t.id(r.key)
			}
			if !seen[id] || g.chance(60) {
				requests = append(requests, r)
			}
			seen[id] = true
		}
		s.tables[name] = requests
	}
	return s
}

// pagedRead returns the common part of queries and scans.
func (g *stepGenerator) pagedRead(name string, t *tableModel) *pagedRead {
	s := &pagedRead{table: name, projection: g.projection(t), consistent: g.chance(3), capacity: g.capacity()}
	if len(t.indexes) > 0 && !g.chance(3) {
		x := one(g, t.indexes...)
		s.index = x.name
		s.consistent = s.consistent && (!x.global || g.chance(20))
	}
	if g.chance(2) {
		s.limit = 1 + g.IntN(6)
	}
	switch {
	case s.projection != nil:
		s.sel = one(g, "", "SPECIFIC_ATTRIBUTES")
	case s.index != "":
		s.sel = one(g, "", "", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")
	default:
		s.sel = one(g, "", "", "COUNT", "ALL_ATTRIBUTES")
	}
	return s
}

func (g *stepGenerator) query() step {
	name, t := g.table()
	s := g.pagedRead(name, t)
	k := t.key
	if x := t.index(s.index); x != nil {
		k = x.key
	}
	if g.chance(2) {
		s.filter = g.condition(t, func() path { return g.carried(t, s.index, k) }, 2)
	}
	s.reverse = g.chance(2)
	known := object{}
	if len(t.items) > 0 {
		known = g.item(t)
	}
	equals := func(a keyAttribute) keyTest {
		v, ok := known[a.name]
		if !ok || g.chance(6) {
			v = g.keyValue(a)
		}
		if g.chance(150) {
			v = g.value(0)
		}
		return keyTest{a.name, "=", []value{v}}
	}
	for _, a := range k.hash {
		s.keys = append(s.keys, equals(a))
	}
	if len(k.sort) > 0 && !g.chance(3) {
		depth := g.IntN(len(k.sort))
		for _, a := range k.sort[:depth] {
			s.keys = append(s.keys, equals(a))
		}
		s.keys = append(s.keys, g.sortTest(k.sort[depth]))
	}
	return s
}

// sortTest returns a condition on a sort attribute.
func (g *stepGenerator) sortTest(a keyAttribute) keyTest {
	v := g.keyValue(a)
	switch op := one(g, "=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"); op {
	case "BETWEEN":
		w := g.keyValue(a)
		if order(v, w) > 0 && !g.chance(20) {
			v, w = w, v
		}
		return keyTest{a.name, op, []value{v, w}}
	case "begins_with":
		switch a.kind {
		case "S":
			v = one[value](g, str("a"), str("é"), str("a\x00"), v)
		case "B":
			v = one[value](g, bin("\x00"), bin("\xff"), v)
		default:
			op = ">="
		}
		return keyTest{a.name, op, []value{v}}
	default:
		return keyTest{a.name, op, []value{v}}
	}
}

func (g *stepGenerator) scan() step {
	name, t := g.table()
	s := g.pagedRead(name, t)
	s.scan = true
	if g.chance(2) {
		s.filter = g.condition(t, func() path { return g.path(t) }, 2)
	}
	if g.chance(2) {
		s.segments = 1 + g.IntN(4)
		s.segment = g.IntN(s.segments)
	}
	return s
}
