package main

// source chooses a table or one of its indexes, and returns its key.
func (g *generator) source(t *table, body object) ([]keyAttribute, *index) {
	if len(t.indexes) == 0 || g.chance(2) {
		return t.key, nil
	}
	x := one(g, t.indexes...)
	body["IndexName"] = x.name
	return x.key, x
}

// readOptions adds the members that Query and Scan have in common. free writes
// paths for the filter.
func (g *generator) readOptions(t *table, x *index, e *expression, body object, key []keyAttribute, query bool) {
	if g.chance(3) {
		body["FilterExpression"] = e.condition(func() string { return e.filterPath(t, x, key, query) }, 1)
	}
	switch {
	case g.chance(4):
		body["ProjectionExpression"] = e.readProjection(t, x)
	case g.chance(8):
		body["Select"] = "COUNT"
	case g.chance(15):
		body["Select"] = one(g, "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES")
	}
	if g.chance(3) {
		body["Limit"] = 1 + g.IntN(4)
	}
	if g.chance(4) && (x == nil || !x.global || g.chance(10)) {
		body["ConsistentRead"] = true
	}
	g.options(body, false)
}

// filterPath writes a path that a filter may use: not of the key of a query,
// and projected by the index.
func (e *expression) filterPath(t *table, x *index, key []keyAttribute, query bool) string {
	for range 20 {
		p := e.path(t)
		root := e.root(p)
		isKey := false
		for _, a := range key {
			isKey = isKey || a.name == root
		}
		if isKey && query || x != nil && !x.has(t, root) && !e.chance(30) {
			continue
		}
		return p
	}
	return e.name("n")
}

// has reports whether an index projects an attribute.
func (x *index) has(t *table, name string) bool {
	if x.projection == "ALL" || t.isKey(name) {
		return true
	}
	for _, a := range x.key {
		if a.name == name {
			return true
		}
	}
	for _, n := range x.include {
		if n == name {
			return true
		}
	}
	return false
}

func (e *expression) readProjection(t *table, x *index) string {
	if x == nil || e.chance(20) {
		return e.projection(t)
	}
	names := []string{t.key[0].name, x.key[len(x.key)-1].name}
	for _, n := range plain {
		if x.has(t, n) {
			names = append(names, n)
		}
	}
	p := e.name(one(e.generator, names...))
	if q := e.name(one(e.generator, names...)); e.root(p) != e.root(q) {
		p += ", " + q
	}
	return p
}

func (g *generator) query() step {
	t, e := g.table(), g.expression()
	body := object{"TableName": t.name}
	key, x := g.source(t, body)
	condition := e.name(key[0].name) + " = " + e.constant(g.keyValue(key[0]))
	if len(key) > 1 && !g.chance(3) {
		condition += " AND " + e.sortCondition(key[1])
	}
	body["KeyConditionExpression"] = condition
	g.readOptions(t, x, e, body, key, true)
	if g.chance(3) {
		body["ScanIndexForward"] = g.chance(3)
	}
	if x == nil && g.chance(8) {
		body["ExclusiveStartKey"] = g.key(t)
	}
	e.prune(body)
	st := step{Op: "Query", Body: body, Pages: true}
	if x != nil {
		st.Order = "any"
		if _, projected := body["ProjectionExpression"]; len(key) > 1 && !projected {
			st.Order = key[1].name
		}
	}
	return st
}

func (e *expression) sortCondition(a keyAttribute) string {
	p := e.name(a.name)
	v := func() string { return e.constant(e.keyValue(a)) }
	switch e.IntN(8) {
	case 0:
		return p + " BETWEEN " + v() + " AND " + v()
	case 1:
		if a.kind != "N" {
			return "begins_with(" + p + ", " + v() + ")"
		}
	case 2, 3:
		return p + " = " + v()
	}
	return p + one(e.generator, " < ", " <= ", " > ", " >= ") + v()
}

func (g *generator) scan() step {
	t, e := g.table(), g.expression()
	body := object{"TableName": t.name}
	key, x := g.source(t, body)
	g.readOptions(t, x, e, body, key, false)
	e.prune(body)
	st := step{Op: "Scan", Body: body, Pages: true, Order: "any"}
	if g.chance(6) {
		st.Segments = 1 + g.IntN(4)
	}
	return st
}
