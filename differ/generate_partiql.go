package main

import (
	"strings"
)

// A statement collects the parameters of a PartiQL statement.
type statement struct {
	*generator
	parameters []any
	literal    bool // write values as literals
}

// value writes a value as a literal or a parameter.
func (s *statement) value(v object) string {
	if s.literal {
		if text, ok := literal(v); ok {
			return text
		}
	}
	s.parameters = append(s.parameters, v)
	return "?"
}

// literal writes a value in PartiQL; it does not know binaries.
func literal(v object) (string, bool) {
	for kind, x := range v {
		switch kind {
		case "S":
			return "'" + strings.ReplaceAll(x.(string), "'", "''") + "'", true
		case "N":
			return x.(string), true
		case "BOOL":
			if x.(bool) {
				return "true", true
			}
			return "false", true
		case "NULL":
			return "null", true
		case "L":
			return literals("[", x.([]any), "]")
		}
	}
	return "", false
}

func literals(open string, values []any, end string) (string, bool) {
	var parts []string
	for _, v := range values {
		text, ok := literal(v.(object))
		if !ok {
			return "", false
		}
		parts = append(parts, text)
	}
	return open + strings.Join(parts, ", ") + end, true
}

// quote writes an identifier.
func (s *statement) quote(name string) string {
	if strings.ContainsAny(name, ".ü") || name == "name" || name == "list" || name == "status" || s.chance(4) {
		return `"` + name + `"`
	}
	return name
}

func (s *statement) path() string {
	p := s.quote(one(s.generator, plain...))
	if s.chance(4) {
		p += one(s.generator, "[0]", "[1]", ".x", ".y")
	}
	return p
}

// keyCondition writes the equality of all attributes of a key.
func (s *statement) keyCondition(t *table) string {
	k := s.key(t)
	var parts []string
	for _, a := range t.key {
		parts = append(parts, s.quote(a.name)+" = "+s.value(k[a.name].(object)))
	}
	return strings.Join(parts, one(s.generator, " AND ", " and "))
}

func (s *statement) test() string {
	p := s.path()
	switch s.IntN(9) {
	case 0:
		return p + " IN [" + s.value(s.generator.value(0)) + ", " + s.value(s.generator.value(0)) + "]"
	case 1:
		return "begins_with(" + p + ", " + s.value(str("a")) + ")"
	case 2:
		return "contains(" + p + ", " + s.value(s.generator.value(0)) + ")"
	case 3:
		return p + " BETWEEN " + s.value(num("-1")) + " AND " + s.value(num("5"))
	case 4:
		return p + one(s.generator, " IS MISSING", " IS NOT MISSING", " IS NULL", " IS NOT NULL")
	case 5:
		return "attribute_type(" + p + ", " + s.value(str(one(s.generator, "S", "N", "L"))) + ")"
	case 6:
		return "size(" + p + ") > " + s.value(num("1"))
	}
	return p + one(s.generator, " = ", " <> ", " < ", " >= ") + s.value(s.generator.value(0))
}

func (g *generator) statement() *statement {
	return &statement{generator: g, literal: g.chance(2)}
}

// write writes an INSERT, UPDATE or DELETE.
func (s *statement) write(t *table) string {
	switch s.IntN(5) {
	case 0, 1:
		return s.insert(t)
	case 2:
		text := "DELETE FROM " + s.quote(t.name) + " WHERE " + s.keyCondition(t)
		if s.chance(3) {
			text += " AND " + s.test()
		}
		if s.chance(4) {
			text += " RETURNING ALL OLD *"
		}
		return text
	}
	return s.update(t)
}

func (s *statement) insert(t *table) string {
	it := s.item(t)
	delete(it, "pad")
	var parts []string
	for _, name := range sortedKeys(it) {
		parts = append(parts, "'"+name+"': "+s.value(it[name].(object)))
	}
	return "INSERT INTO " + s.quote(t.name) + " VALUE {" + strings.Join(parts, ", ") + "}"
}

func (s *statement) update(t *table) string {
	text := "UPDATE " + s.quote(t.name)
	for range 1 + s.IntN(2) {
		p := s.path()
		switch s.IntN(6) {
		case 0:
			text += " REMOVE " + p
		case 1:
			text += " SET " + p + " = " + p + " + " + s.value(num(s.number()))
		case 2:
			text += " SET " + p + " = list_append(" + p + ", " + s.value(list(s.generator.value(0))) + ")"
		case 3:
			text += " SET " + p + " = set_add(" + p + ", " + s.value(s.set()) + ")"
		default:
			text += " SET " + p + " = " + s.value(s.generator.value(1))
		}
	}
	text += " WHERE " + s.keyCondition(t)
	if s.chance(3) {
		text += " AND " + s.test()
	}
	if s.chance(3) {
		text += " RETURNING " + one(s.generator, "ALL", "MODIFIED") + " " + one(s.generator, "OLD", "NEW") + " *"
	}
	return text
}

// read writes a SELECT; whole is true if it must name all of a key.
func (s *statement) read(t *table, whole bool) string {
	what := "*"
	if s.chance(3) {
		what = s.path() + ", " + s.quote(t.key[0].name)
	}
	from := s.quote(t.name)
	if !whole && len(t.indexes) > 0 && s.chance(4) {
		x := one(s.generator, t.indexes...)
		from = `"` + t.name + `"."` + x.name + `"`
		return "SELECT * FROM " + from + " WHERE " + s.quote(x.key[0].name) + " = " + s.value(s.keyValue(x.key[0]))
	}
	text := "SELECT " + what + " FROM " + from
	switch {
	case whole || s.chance(2):
		text += " WHERE " + s.keyCondition(t)
	case s.chance(2):
		a := t.key[0]
		text += " WHERE " + s.quote(a.name) + " = " + s.value(s.keyValue(a))
		if t.hasSort() {
			text += " AND " + s.quote(t.key[1].name) + one(s.generator, " < ", " <= ", " > ", " >= ") + s.value(s.keyValue(t.key[1]))
		}
	case s.chance(2):
		return text
	default:
		return text + " WHERE " + s.test()
	}
	if s.chance(3) {
		text += " AND " + s.test()
	}
	return text
}

func (s *statement) body(text string) object {
	body := object{"Statement": text}
	if s.parameters != nil {
		body["Parameters"] = s.parameters
	}
	return body
}

func (g *generator) executeStatement() step {
	t, s := g.table(), g.statement()
	var body object
	if g.chance(2) {
		body = s.body(s.write(t))
		if g.chance(4) {
			body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
		}
	} else {
		body = s.body(s.read(t, false))
		if g.chance(3) {
			body["Limit"] = 1 + g.IntN(3)
		}
		if g.chance(4) {
			body["ConsistentRead"] = g.chance(2)
		}
	}
	g.options(body, false)
	return step{Op: "ExecuteStatement", Body: body, Pages: true, Order: "any"}
}

func (g *generator) batchStatement() step {
	reads := g.chance(2)
	var list []any
	for range 1 + g.IntN(3) {
		t, s := g.table(), g.statement()
		text := ""
		if reads != g.chance(30) {
			text = s.read(t, true)
		} else {
			text = s.write(t)
		}
		list = append(list, s.body(text))
	}
	body := object{"Statements": list}
	g.options(body, false)
	return step{Op: "BatchExecuteStatement", Body: body}
}

func (g *generator) transactStatement() step {
	reads := g.chance(2)
	var list []any
	for range 1 + g.IntN(3) {
		t, s := g.table(), g.statement()
		text := ""
		switch {
		case reads != g.chance(30):
			text = s.read(t, true)
		case g.chance(5):
			text = "EXISTS(SELECT * FROM " + s.quote(t.name) + " WHERE " + s.keyCondition(t) + ")"
		default:
			text = s.write(t)
		}
		list = append(list, s.body(text))
	}
	body := object{"TransactStatements": list}
	g.options(body, false)
	return step{Op: "ExecuteTransaction", Body: body}
}
