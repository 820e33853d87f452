package partiql

import (
	"slices"
	"strings"
)

// selects parses a SELECT.
func (p *parser) selects() *node {
	n := &node{kind: nodeSelect, at: p.next(), query: new(query)}
	q := n.query
	if p.takeWord("distinct") {
		q.distinct = true
	} else {
		p.takeWord("all")
	}
	if p.takeWord("value") {
		q.value = true
		p.expression(-1)
	} else {
		p.columns(q)
	}
	if !p.takeWord("from") {
		p.fail("Expected FROM after SELECT list")
	}
	p.source(q)
	if p.takeWord("let") {
		q.unsupported("LET", nil)
		p.list(func() *node { e := p.expression(precedenceSelect); p.alias(); return e })
	}
	if p.takeWord("where") {
		q.where = p.expression(precedenceSelect)
	}
	if p.takeWord("order") {
		p.by()
		p.list(func() *node {
			k := orderKey{key: p.expression(-1)}
			if !p.takeWord("asc") {
				k.descending = p.takeWord("desc")
			}
			q.order = append(q.order, k)
			return nil
		})
	}
	if p.takeWord("group") {
		p.takeWord("partial")
		p.by()
		q.unsupported("GROUP BY", nil)
		p.list(func() *node { e := p.expression(precedenceSelect); p.alias(); return e })
	}
	for _, clause := range []string{"having", "limit"} {
		if p.takeWord(clause) {
			q.unsupported(strings.ToUpper(clause), p.expression(precedenceSelect))
		}
	}
	return n
}

func (q *query) unsupported(clause string, at *node) {
	if q.clause == "" {
		q.clause, q.clauseAt = clause, at
	}
}

func (p *parser) by() {
	if !p.takeWord("by") {
		p.fail("Expected BY")
	}
}

// columns parses the select list.
func (p *parser) columns(q *query) {
	q.columns = p.list(func() *node {
		if p.take('*') {
			q.all = true
			return nil
		}
		e := p.expression(-1)
		p.checkWildcards(e)
		q.aliased = p.alias() || q.aliased
		return e
	})
	if q.all && len(q.columns) > 1 {
		p.fail("Other expressions may not be present in the select list when '*' is used without dot notation.")
	}
}

// checkWildcards reports a [*], and a .* that is not a path's last step.
func (p *parser) checkWildcards(e *node) {
	if e.kind != nodePath {
		return
	}
	steps := e.args[1:]
	for i, s := range steps {
		if s.kind == nodeElements || s.kind == nodeAll && i < len(steps)-1 {
			p.fail("Invalid use of * in select list")
		}
	}
	isIndex := func(s *node) bool { return s.kind == nodeIndex }
	if steps[len(steps)-1].kind == nodeAll && slices.ContainsFunc(steps, isIndex) {
		p.fail("Cannot use [] and * together in SELECT list expression")
	}
}

// alias parses a second name, if there is one.
func (p *parser) alias() bool {
	if p.takeWord("as") || p.takeWord("at") || p.takeWord("by") {
		if !p.peek().isName() {
			p.fail("Expected identifier for AS-alias")
		}
		p.next()
		return true
	}
	if p.peek().isName() {
		p.next()
		return true
	}
	return false
}

var joins = []string{"join", "cross", "inner", "left", "right", "full", "outer"}

// source parses the FROM clause of a SELECT.
func (p *parser) source(q *query) {
	q.from = p.expression(precedenceSelect)
	q.aliased = p.alias() || q.aliased
	for p.take(',') {
		q.joined = true
		p.expression(precedenceSelect)
		p.alias()
	}
	if slices.Contains(joins, p.peek().word()) {
		panic(bailout{errJoined})
	}
}

// manipulates parses an INSERT, an UPDATE or a DELETE.
func (p *parser) manipulates(t token) *node {
	m := new(manipulation)
	n := &node{at: t, change: m}
	switch t.text {
	case "insert_into":
		n.kind = nodeInsert
		p.next()
		p.insert(m)
	case "update":
		n.kind = nodeUpdate
		p.next()
		p.target(m)
		p.assignments(m)
		p.filter(m)
	case "delete":
		n.kind = nodeDelete
		p.next()
		if !p.takeWord("from") {
			p.fail("Expected FROM after DELETE")
		}
		p.target(m)
		p.filter(m)
	case "from":
		n.kind = nodeUpdate
		p.next()
		p.target(m)
		if p.takeWord("where") {
			m.where = p.expression(-1)
		}
		p.assignments(m)
		p.returning(m)
	default: // SET or REMOVE without a table
		p.assignments(m)
		p.refuse("Only select from a single table or index is supported.")
	}
	return n
}

func (p *parser) insert(m *manipulation) {
	m.table = p.simplePath()
	if !p.takeWord("value") {
		if p.peek().word() == "values" {
			p.next()
			if p.peek().kind != '(' {
				p.fail("Expected LEFT_PAREN for row value constructor")
			}
		}
		p.expression(-1)
		p.end()
		p.refuse("Unsupported operation: InsertOp")
	}
	m.item = p.expression(-1)
	if p.takeWord("at") {
		m.position = true
		p.expression(-1)
	}
	if p.takeWord("on_conflict") {
		m.conflict = true
		if !p.takeWord("where") {
			p.fail("invalid ON CONFLICT syntax")
		}
		p.expression(-1)
		if !p.takeWord("do_nothing") {
			p.fail("invalid ON CONFLICT syntax")
		}
	}
	p.returning(m)
}

func (p *parser) target(m *manipulation) {
	m.table = p.simplePath()
	m.aliased = p.alias()
}

// assignments parses the SETs and REMOVEs of an UPDATE, of which there may be
// several.
func (p *parser) assignments(m *manipulation) {
	for {
		switch {
		case p.takeWord("set"):
			p.list(func() *node {
				path := p.simplePath()
				if !p.takeWord("=") {
					p.fail("Expected '='")
				}
				m.sets = append(m.sets, assignment{path, p.expression(-1)})
				return nil
			})
		case p.takeWord("remove"):
			m.sets = append(m.sets, assignment{path: p.simplePath()})
		case m.sets == nil:
			p.fail("Expected data manipulation")
		default:
			return
		}
	}
}

func (p *parser) filter(m *manipulation) {
	if p.takeWord("where") {
		m.where = p.expression(-1)
	}
	p.returning(m)
}

var returningModes = []string{"modified_old", "modified_new", "all_old", "all_new"}

func (p *parser) returning(m *manipulation) {
	if !p.takeWord("returning") {
		return
	}
	m.returning = &returning{star: true}
	count := 0
	p.list(func() *node {
		mode := p.peek().word()
		if !slices.Contains(returningModes, mode) {
			p.fail("Expected ( MODIFIED | ALL ) ( NEW | OLD ) in each returning element.")
		}
		p.next()
		m.returning.mode = mode
		if !p.take('*') {
			m.returning.star = false
			p.returnedColumn(p.expression(-1))
		}
		count++
		return nil
	})
	m.returning.several = count > 1
}

// returnedColumn checks a column of RETURNING that is not *: the grammar has
// literals, names and paths of two parts (observed on DynamoDB Local).
func (p *parser) returnedColumn(n *node) {
	switch {
	case n.kind == nodePath && len(n.args) > 2:
		p.fail("More than two paths in RETURNING columns.")
	case !slices.Contains([]nodeKind{nodePath, nodeName, nodeValue, nodeMissing, nodeIon}, n.kind):
		p.fail("Unsupported syntax in RETURNING columns.")
	}
}
