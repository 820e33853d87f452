package main

import (
	"math/rand/v2"
	"slices"
)

// A generator makes the steps of one round. It depends on its seed only, and
// not on the answers of servers: it remembers what it has asked for.
type generator struct {
	*rand.Rand
	tables []*table
	start  []step // creates the tables
	makes  []production
	faults int // one request in this many gets a fault
}

// newGenerator returns the generator of a round. It makes the requests of one
// area after those that create tables and items; "" is all areas.
func newGenerator(seed, round uint64, area string) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, round)), makes: productionsOf(area), faults: defaultFaults}
	for i := range 2 + g.IntN(2) {
		t := g.newTable(string(rune('A' + i)))
		g.tables = append(g.tables, t)
		g.start = append(g.start, step{Op: "CreateTable", Body: t.create(g)})
	}
	// A few items to begin with.
	for range 6 {
		g.start = append(g.start, g.putItem())
	}
	// Streams are compared until a write is answered differently, so that they
	// are read early.
	for range 6 {
		g.start = append(g.start, one(g, (*generator).putItem, (*generator).deleteItem, (*generator).updateItem)(g))
	}
	g.start = append(g.start, g.stream())
	return g
}

// defaultFaults is how rare requests with a fault are, unless a run asks for
// others: one in this many.
const defaultFaults = 5

// one returns one of the things.
func one[T any](g *generator, things ...T) T { return things[g.IntN(len(things))] }

// chance returns true once in n times on average.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

// A production makes a step; weight is how often, relative to the others.
type production struct {
	weight int
	area   string
	make   func(*generator) step
}

var productions = []production{
	{16, "items", (*generator).putItem},
	{8, "items", (*generator).getItem},
	{22, "items", (*generator).updateItem},
	{7, "items", (*generator).deleteItem},
	{18, "reads", (*generator).query},
	{9, "reads", (*generator).scan},
	{4, "batches", (*generator).batchGet},
	{5, "batches", (*generator).batchWrite},
	{4, "transactions", (*generator).transactGet},
	{8, "transactions", (*generator).transactWrite},
	{12, "statements", (*generator).executeStatement},
	{4, "statements", (*generator).batchStatement},
	{4, "statements", (*generator).transactStatement},
	{8, "legacy", (*generator).legacy},
	{4, "tables", (*generator).tableStep},
	{1, "tables", (*generator).stream},
}

// areas lists the areas of requests.
func areas() (names []string) {
	for _, p := range productions {
		if !slices.Contains(names, p.area) {
			names = append(names, p.area)
		}
	}
	return names
}

// productionsOf returns the productions of an area; "" is all areas.
func productionsOf(area string) (found []production) {
	for _, p := range productions {
		if area == "" || p.area == area {
			found = append(found, p)
		}
	}
	return found
}

// next returns the next step: mostly a request that is valid, sometimes one
// with a fault.
func (g *generator) next() step {
	if len(g.start) > 0 {
		st := g.start[0]
		g.start = g.start[1:]
		return st
	}
	total := 0
	for _, p := range g.makes {
		total += p.weight
	}
	n := g.IntN(total)
	for _, p := range g.makes {
		if n -= p.weight; n < 0 {
			st := p.make(g)
			if g.chance(g.faults) {
				st.base = st.clone().Body
				g.mutate(&st)
			}
			return st
		}
	}
	panic("weights")
}

func (g *generator) table() *table { return one(g, g.tables...) }

// A keyAttribute is an attribute of a key with its type.
type keyAttribute struct{ name, kind string }

// An index is a secondary index.
type index struct {
	name       string
	global     bool
	key        []keyAttribute // partition key, then sort key if there is one
	projection string
	include    []any
}

// A table is what the generator knows about one.
type table struct {
	name        string
	key         []keyAttribute
	indexes     []*index
	provisioned bool
	stream      bool
	keys        []object // of some items that were put
}

func (t *table) hasSort() bool { return len(t.key) == 2 }

func (t *table) isKey(name string) bool {
	return slices.ContainsFunc(t.key, func(a keyAttribute) bool { return a.name == name })
}

// isIndexKey reports whether an attribute has a fixed type, as a key of the
// table or of an index.
func (t *table) isIndexKey(name string) bool {
	return t.isKey(name) || slices.ContainsFunc(t.indexes, func(x *index) bool {
		return slices.ContainsFunc(x.key, func(a keyAttribute) bool { return a.name == name })
	})
}

func (g *generator) newTable(name string) *table {
	t := &table{name: tableWord + name, provisioned: g.chance(2), stream: g.chance(3)}
	t.key = []keyAttribute{{"pk", one(g, "S", "S", "N", "B")}}
	if !g.chance(3) {
		t.key = append(t.key, keyAttribute{"sk", one(g, "S", "N", "N", "B")})
	}
	extra := []keyAttribute{{"g1", one(g, "S", "N", "B")}, {"g2", one(g, "S", "N")}, {"g3", "N"}}
	if t.hasSort() {
		for i := range g.IntN(3) {
			t.indexes = append(t.indexes, &index{name: one(g, "lsi", "local")[:3] + string(rune('1'+i)), key: []keyAttribute{t.key[0], extra[g.IntN(3)]}})
		}
	}
	for i := range g.IntN(3) {
		attrs := slices.Concat(extra, t.key)
		g.Shuffle(len(attrs), func(i, j int) { attrs[i], attrs[j] = attrs[j], attrs[i] })
		t.indexes = append(t.indexes, &index{name: "gsi" + string(rune('1'+i)), global: true, key: attrs[:1+g.IntN(2)]})
	}
	for _, x := range t.indexes {
		if x.projection = one(g, "ALL", "KEYS_ONLY", "INCLUDE"); x.projection == "INCLUDE" {
			x.include = one(g, []any{"a"}, []any{"b", "doc"}, []any{"list"})
		}
	}
	return t
}

func keySchema(key []keyAttribute) []any {
	schema := []any{object{"AttributeName": key[0].name, "KeyType": "HASH"}}
	if len(key) > 1 {
		schema = append(schema, object{"AttributeName": key[1].name, "KeyType": "RANGE"})
	}
	return schema
}

func (x *index) describe(provisioned bool) object {
	projection := object{"ProjectionType": x.projection}
	if x.include != nil {
		projection["NonKeyAttributes"] = slices.Clone(x.include)
	}
	o := object{"IndexName": x.name, "KeySchema": keySchema(x.key), "Projection": projection}
	if x.global && provisioned {
		o["ProvisionedThroughput"] = object{"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
	}
	return o
}

// create returns the body of the table's CreateTable.
func (t *table) create(g *generator) object {
	body := object{"TableName": t.name, "KeySchema": keySchema(t.key)}
	types := make(map[string]string)
	for _, a := range t.key {
		types[a.name] = a.kind
	}
	for _, x := range t.indexes {
		member := "LocalSecondaryIndexes"
		if x.global {
			member = "GlobalSecondaryIndexes"
		}
		list, _ := body[member].([]any)
		body[member] = append(list, x.describe(t.provisioned))
		for _, a := range x.key {
			types[a.name] = a.kind
		}
	}
	var definitions []any
	for _, name := range sortedKeys(types) {
		definitions = append(definitions, object{"AttributeName": name, "AttributeType": types[name]})
	}
	body["AttributeDefinitions"] = definitions
	body["BillingMode"] = "PAY_PER_REQUEST"
	if t.provisioned {
		body["BillingMode"] = "PROVISIONED"
		body["ProvisionedThroughput"] = object{"ReadCapacityUnits": 1 + g.IntN(10), "WriteCapacityUnits": 1 + g.IntN(10)}
	}
	if t.stream {
		body["StreamSpecification"] = object{"StreamEnabled": true,
			"StreamViewType": one(g, "NEW_AND_OLD_IMAGES", "NEW_AND_OLD_IMAGES", "KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE")}
	}
	return body
}
