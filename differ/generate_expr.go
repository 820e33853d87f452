package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An expression collects the placeholders of a request's expressions.
type expression struct {
	*generator
	names  object
	values object
}

func (g *generator) expression() *expression {
	return &expression{g, make(object), make(object)}
}

// add puts the placeholders into a request.
func (e *expression) add(body object) {
	if len(e.names) > 0 {
		body["ExpressionAttributeNames"] = e.names
	}
	if len(e.values) > 0 {
		body["ExpressionAttributeValues"] = e.values
	}
}

// name writes the name of an attribute, as it is or as a placeholder.
func (e *expression) name(s string) string {
	bare := !strings.ContainsAny(s, ".ü") && s != "name" && s != "list" && s != "status" && s != "doc"
	if bare && !e.chance(4) {
		return s
	}
	for k, v := range e.names {
		if v == s {
			return k
		}
	}
	k := "#n" + strconv.Itoa(len(e.names))
	e.names[k] = s
	return k
}

// constant writes a value as a placeholder.
func (e *expression) constant(v object) string {
	k := ":v" + strconv.Itoa(len(e.values))
	e.values[k] = v
	return k
}

// path writes a path into an item.
func (e *expression) path(t *table) string {
	if e.chance(8) && len(t.indexes) > 0 {
		return e.name(one(e.generator, one(e.generator, t.indexes...).key...).name)
	}
	p := e.name(one(e.generator, plain...))
	for e.chance(3) {
		if e.chance(2) {
			p += fmt.Sprintf("[%d]", e.IntN(4))
		} else {
			p += "." + e.name(one(e.generator, nested...))
		}
	}
	return p
}

// projection writes some paths, which rarely overlap.
func (e *expression) projection(t *table) string {
	var paths, roots []string
	for range 1 + e.IntN(3) {
		p := e.path(t)
		if e.chance(5) {
			p = e.name(one(e.generator, t.key...).name)
		}
		root := e.root(p)
		if slices.Contains(roots, root) && !e.chance(20) {
			continue
		}
		paths, roots = append(paths, p), append(roots, root)
	}
	return strings.Join(paths, one(e.generator, ", ", ",", " , "))
}

// root returns the attribute that a path begins with.
func (e *expression) root(p string) string {
	root := p
	if i := strings.IndexAny(p, ".["); i >= 0 {
		root = p[:i]
	}
	if name, ok := e.names[root].(string); ok {
		return name
	}
	return root
}

// ordered returns a value of a type that has an order.
func (e *expression) ordered() object {
	return one(e.generator, str("a"), str("ab"), num("1"), num("0.5"), num("-1"), bin("a"), str("é"))
}

// condition writes a condition. free writes the paths that it may use.
func (e *expression) condition(path func() string, levels int) string {
	if levels > 0 && e.chance(3) {
		switch e.IntN(3) {
		case 0:
			return "NOT " + e.condition(path, levels-1)
		case 1:
			return "(" + e.condition(path, levels-1) + ")"
		}
		return e.condition(path, levels-1) + one(e.generator, " AND ", " OR ", " and ") + e.condition(path, levels-1)
	}
	p := path()
	switch e.IntN(12) {
	case 0, 1:
		return p + one(e.generator, " = ", " <> ", "=") + e.operand(path)
	case 2, 3:
		return p + one(e.generator, " < ", " <= ", " > ", " >= ") + e.constant(e.ordered())
	case 4:
		return e.between(p)
	case 5:
		values := []string{e.operand(path)}
		for e.chance(2) {
			values = append(values, e.operand(path))
		}
		return p + " IN (" + strings.Join(values, ", ") + ")"
	case 6:
		return "begins_with(" + p + ", " + e.constant(one(e.generator, str("a"), str(""), bin("a"), str("é"))) + ")"
	case 7:
		return "contains(" + p + ", " + e.constant(e.value(1)) + ")"
	case 8:
		return "attribute_type(" + p + ", " + e.constant(str(one(e.generator, "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"))) + ")"
	case 9:
		return "size(" + p + ")" + one(e.generator, " = ", " < ", " >= ") + e.constant(num(strconv.Itoa(e.IntN(5))))
	}
	return one(e.generator, "attribute_exists(", "attribute_not_exists(") + p + ")"
}

func (e *expression) between(p string) string {
	low, high := "a", "c"
	switch e.IntN(4) {
	case 0:
		return p + " BETWEEN " + e.constant(num("-1")) + " AND " + e.constant(num(one(e.generator, "1", "5")))
	case 1:
		return p + " BETWEEN " + e.constant(bin("\x00")) + " AND " + e.constant(bin("b"))
	}
	return p + " BETWEEN " + e.constant(str(low)) + " AND " + e.constant(str(high))
}

func (e *expression) operand(path func() string) string {
	if e.chance(6) {
		return path()
	}
	return e.constant(e.value(2))
}

// update writes an update expression on attributes that are not keys of the
// table.
func (e *expression) update(t *table) string {
	sections := make(map[string][]string)
	var roots []string
	for range 1 + e.IntN(3) {
		p := e.path(t)
		root := e.root(p)
		if t.isKey(root) || slices.Contains(roots, root) && !e.chance(15) {
			continue
		}
		roots = append(roots, root)
		if a, ok := t.indexKind(root); ok {
			p = e.name(root)
			if e.chance(2) {
				sections["REMOVE"] = append(sections["REMOVE"], p)
			} else {
				sections["SET"] = append(sections["SET"], p+" = "+e.constant(e.keyValue(a)))
			}
			continue
		}
		verb := one(e.generator, "SET", "SET", "SET", "REMOVE", "ADD", "DELETE")
		sections[verb] = append(sections[verb], e.action(t, verb, p))
	}
	if len(sections) == 0 {
		sections["SET"] = []string{"n = " + e.constant(num("1"))}
	}
	var parts []string
	for _, verb := range sortedKeys(sections) {
		parts = append(parts, verb+" "+strings.Join(sections[verb], ", "))
	}
	return strings.Join(parts, " ")
}

func (t *table) indexKind(name string) (keyAttribute, bool) {
	for _, x := range t.indexes {
		for _, a := range x.key {
			if a.name == name {
				return a, true
			}
		}
	}
	return keyAttribute{}, false
}

func (e *expression) action(t *table, verb, p string) string {
	switch verb {
	case "REMOVE":
		return p
	case "ADD":
		if e.chance(2) {
			return p + " " + e.constant(num(e.number()))
		}
		return p + " " + e.constant(e.set())
	case "DELETE":
		return p + " " + e.constant(e.set())
	}
	other := p
	if e.chance(3) {
		other = e.path(t)
	}
	switch e.IntN(8) {
	case 0:
		return p + " = " + e.path(t)
	case 1:
		return p + " = if_not_exists(" + other + ", " + e.constant(e.value(2)) + ")"
	case 2:
		return p + " = list_append(if_not_exists(" + other + ", " + e.constant(list()) + "), " + e.constant(list(e.value(1))) + ")"
	case 3:
		return p + " = list_append(" + other + ", " + e.constant(list(e.value(1), e.value(0))) + ")"
	case 4:
		return p + " = " + other + one(e.generator, " + ", " - ", "+") + e.constant(num(e.number()))
	case 5:
		return p + " = if_not_exists(" + other + ", " + e.constant(num("0")) + ") + " + e.constant(num(e.number()))
	}
	return p + " = " + e.constant(e.value(3))
}

// prune removes placeholders that no expression of a request uses, and adds the
// rest.
func (e *expression) prune(body object) {
	var texts []string
	for _, v := range body {
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
	}
	used := func(k string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return mentions(s, k) })
	}
	for k := range e.names {
		if !used(k) {
			delete(e.names, k)
		}
	}
	for k := range e.values {
		if !used(k) {
			delete(e.values, k)
		}
	}
	e.add(body)
}

// mentions reports whether an expression uses a placeholder.
func mentions(text, placeholder string) bool {
	for {
		i := strings.Index(text, placeholder)
		if i < 0 {
			return false
		}
		text = text[i+len(placeholder):]
		if text == "" || text[0] < '0' || text[0] > '9' {
			return true
		}
	}
}
