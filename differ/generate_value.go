package main

import (
	"encoding/base64"
	"strconv"
	"strings"
)

func str(s string) object { return object{"S": s} }
func num(s string) object { return object{"N": s} }
func bin(s string) object { return object{"B": base64.StdEncoding.EncodeToString([]byte(s))} }

func list(l ...any) object { return object{"L": append([]any{}, l...)} }

// Attributes of items that are not keys, and the names inside them.
var (
	plain  = []string{"a", "b", "doc", "list", "tags", "name", "with.dot", "n"}
	nested = []string{"x", "y", "status", "über"}
)

// keyValue returns one of few values for an attribute of a key.
func (g *generator) keyValue(a keyAttribute) object {
	switch a.kind {
	case "S":
		return str(one(g, "a", "ab", "b", "é", "😀", "c"))
	case "N":
		return num(one(g, "1", "-1", "0", "0.5", "10", "-1500", "2", "100"))
	}
	return bin(one(g, "\x00", "\x00\x01", "a", "\xff\x00", "ab"))
}

// key returns a key of a table, mostly of an existing item.
func (g *generator) key(t *table) object {
	if len(t.keys) > 0 && !g.chance(3) {
		return cloneJSON(one(g, t.keys...)).(object)
	}
	k := make(object)
	for _, a := range t.key {
		k[a.name] = g.keyValue(a)
	}
	return k
}

// item returns an item to put.
func (g *generator) item(t *table) object {
	it := g.key(t)
	g.remember(t, it)
	for _, x := range t.indexes {
		for _, a := range x.key {
			if _, ok := it[a.name]; !ok && !g.chance(4) {
				it[a.name] = g.keyValue(a)
			}
		}
	}
	for range g.IntN(5) {
		it[one(g, plain...)] = g.value(3)
	}
	switch {
	case g.chance(10):
		it["pad"] = str(strings.Repeat("p", g.IntN(6000)))
	case g.chance(300):
		it["pad"] = str(strings.Repeat("p", 400<<10-g.IntN(300)))
	}
	return it
}

// remember keeps a key for later requests.
func (g *generator) remember(t *table, k object) {
	k = cloneJSON(k).(object)
	if len(t.keys) < 12 {
		t.keys = append(t.keys, k)
		return
	}
	t.keys[g.IntN(len(t.keys))] = k
}

// value returns a random value with at most this many levels of lists and maps.
func (g *generator) value(levels int) object {
	n := g.IntN(12)
	if levels == 0 {
		n = g.IntN(8)
	}
	switch n {
	case 0, 1:
		return str(one(g, "", "a", "ab", "abc", "é", "😀 ü", "z\nz", "S"))
	case 2, 3:
		return num(g.number())
	case 4:
		return bin(one(g, "", "\x00", "a\x00b", "\xff\xfe"))
	case 5:
		return object{"BOOL": g.chance(2)}
	case 6:
		return object{"NULL": true}
	case 7:
		return g.set()
	case 8, 9:
		l := []any{}
		for range g.IntN(4) {
			l = append(l, g.value(levels-1))
		}
		return object{"L": l}
	}
	m := object{}
	for range g.IntN(4) {
		m[one(g, nested...)] = g.value(levels - 1)
	}
	return object{"M": m}
}

// number returns a number. Numbers whose size the servers compute differently
// are rare.
func (g *generator) number() string {
	if g.chance(30) {
		return one(g, "99999999999999999999999999999999999999", "1e100", "1E-100", "-12.5e-3", "1200.05", "007", "1.0", "-0", "1e2")
	}
	return one(g, "0", "1", "2", "3", "-1", "0.5", "-0.25", "123456789.987654321", strconv.Itoa(g.IntN(200)-100))
}

func (g *generator) set() object {
	kind := one(g, "SS", "NS", "BS")
	pool := map[string][]any{
		"SS": {"a", "b", "é", "S"}, "NS": {"1", "-1", "2.5", "3"}, "BS": {"AA==", "Yg==", "YWI="},
	}[kind]
	n := 1 + g.IntN(len(pool))
	var members []any
	for _, i := range g.Perm(len(pool))[:n] {
		members = append(members, pool[i])
	}
	return object{kind: members}
}
