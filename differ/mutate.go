package main

import (
	"regexp"
	"strings"
)

// mutate gives a request one fault: it removes or replaces a member, or changes
// a word of an expression.
func (g *generator) mutate(st *step) {
	if st.Op == readStream {
		return
	}
	if g.chance(2) && g.mutateText(st.Body) {
		return
	}
	places := nodes(st.Body)
	if len(places) == 0 {
		return
	}
	n := one(g, places...)
	switch g.IntN(6) {
	case 0, 1:
		n.remove()
	case 2:
		n.set(g.odd(n.get()))
	case 3:
		if o, ok := n.get().(object); ok {
			o[one(g, "Extra", "S", "N", "#unused", ":unused", "pk")] = one[any](g, "x", str("x"), num("1"))
			return
		}
		n.set(g.odd(n.get()))
	default:
		n.set(g.near(n.get()))
	}
}

// near returns a value of the same JSON type that is probably wrong.
func (g *generator) near(v any) any {
	switch v := v.(type) {
	case string:
		return one(g, "", "x", "NONE", v+"x", "ALL_OLD", "1", "abc-def", strings.Repeat("k", 300), "OrdersA")
	case object:
		return one(g, object{}, str("x"), num("1"), num("x"), str(""), object{"S": "a", "N": "1"}, object{"SS": []any{}},
			object{"SS": []any{"a", "a"}}, object{"NULL": false}, num("1e200"), object{"NS": []any{"1", "1.0"}}, bin(""))
	case []any:
		if len(v) == 0 || g.chance(3) {
			return []any{}
		}
		return append(v, cloneJSON(v[0]))
	case bool:
		return !v
	}
	return one(g, 0, -1, 1, 1000001)
}

// odd returns a value of another JSON type.
func (g *generator) odd(any) any {
	return one[any](g, nil, "x", 1, 1.5, true, []any{}, object{}, []any{"x"})
}

var words = regexp.MustCompile(`\s+|[A-Za-z_][A-Za-z0-9_]*|[#:][A-Za-z0-9_]+|\d+|.`)

// mutateText changes a word of one of the request's expressions.
func (g *generator) mutateText(body object) bool {
	var texts []node
	for _, n := range nodes(body) {
		if strings.HasSuffix(n.name, "Expression") || n.name == "Statement" {
			texts = append(texts, n)
		}
	}
	if len(texts) == 0 {
		return false
	}
	n := one(g, texts...)
	s, ok := n.get().(string)
	if !ok || s == "" {
		return false
	}
	list := words.FindAllString(s, -1)
	i := g.IntN(len(list))
	switch g.IntN(4) {
	case 0:
		list[i] = ""
	case 1:
		j := g.IntN(len(list))
		list[i], list[j] = list[j], list[i]
	default:
		list[i] = one(g, " ", ",", "(", ")", "=", "+", "AND", "a", "size", "[0]", ".", "%", "SET", "<>", "#x", ":x", "pk", "name", "'", "?", "1") +
			one(g, "", list[i])
	}
	n.set(strings.Join(list, ""))
	return true
}

// A node is a member of a request, at any depth.
type node struct {
	name   string // of the member that it is in
	get    func() any
	set    func(any)
	remove func()
}

// nodes lists all members of a request, in a fixed order.
func nodes(v any) (all []node) {
	switch v := v.(type) {
	case object:
		for _, k := range sortedKeys(v) {
			all = append(all, node{k, func() any { return v[k] }, func(x any) { v[k] = x }, func() { delete(v, k) }})
			all = append(all, nodes(v[k])...)
		}
	case []any:
		for i := range v {
			all = append(all, node{"", func() any { return v[i] }, func(x any) { v[i] = x }, func() { v[i] = nil }})
			all = append(all, nodes(v[i])...)
		}
	}
	return all
}
