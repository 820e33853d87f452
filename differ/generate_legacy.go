package main

// legacy makes a request with the parameters that expressions have replaced.
func (g *generator) legacy() step {
	t := g.table()
	body := object{"TableName": t.name}
	switch g.IntN(6) {
	case 0:
		body["Item"] = g.item(t)
		g.expected(body)
		return step{Op: "PutItem", Body: body}
	case 1:
		body["Key"] = g.key(t)
		g.expected(body)
		return step{Op: "DeleteItem", Body: body}
	case 2:
		body["Key"] = g.key(t)
		g.attributeUpdates(t, body)
		if g.chance(2) {
			g.expected(body)
		}
		return step{Op: "UpdateItem", Body: body}
	case 3:
		body["Key"] = g.key(t)
		body["AttributesToGet"] = g.attributesToGet(t)
		return step{Op: "GetItem", Body: body}
	case 4:
		return g.legacyQuery(t, body)
	}
	body["ScanFilter"] = g.filter()
	if g.chance(2) {
		body["ConditionalOperator"] = one(g, "AND", "OR")
	}
	return step{Op: "Scan", Body: body, Pages: true, Order: "any"}
}

func (g *generator) attributesToGet(t *table) []any {
	names := []any{t.key[0].name}
	for _, i := range g.Perm(len(plain))[:1+g.IntN(3)] {
		names = append(names, plain[i])
	}
	return names
}

func (g *generator) expected(body object) {
	if g.chance(3) {
		body["Expected"] = g.filter()
	} else {
		body["Expected"] = object{one(g, plain...): one(g, object{"Exists": false}, object{"Value": g.value(1)}, object{"Exists": true, "Value": g.value(1)})}
	}
	if len(body["Expected"].(object)) > 1 && g.chance(2) {
		body["ConditionalOperator"] = one(g, "AND", "OR")
	}
	if g.chance(3) {
		body["ReturnValues"] = "ALL_OLD"
	}
	g.options(body, true)
}

// filter returns conditions on attributes.
func (g *generator) filter() object {
	f := make(object)
	for range 1 + g.IntN(2) {
		op := one(g, "EQ", "NE", "LE", "LT", "GE", "GT", "NOT_NULL", "NULL", "CONTAINS", "NOT_CONTAINS", "BEGINS_WITH", "IN", "BETWEEN")
		c := object{"ComparisonOperator": op}
		scalar := func() object { return one(g, str("a"), str("ab"), num("1"), num("-1"), bin("a")) }
		switch op {
		case "NOT_NULL", "NULL":
		case "EQ", "NE":
			c["AttributeValueList"] = []any{g.value(1)}
		case "BETWEEN":
			c["AttributeValueList"] = one(g, []any{num("0"), num("5")}, []any{str("a"), str("c")})
		case "BEGINS_WITH":
			c["AttributeValueList"] = []any{one(g, str("a"), bin("a"))}
		case "IN":
			c["AttributeValueList"] = one(g, []any{num("0"), num("5")}, []any{str("a"), str("c")}, []any{str("ab")})
		default:
			c["AttributeValueList"] = []any{scalar()}
		}
		f[one(g, plain...)] = c
	}
	return f
}

func (g *generator) attributeUpdates(t *table, body object) {
	updates := make(object)
	for range 1 + g.IntN(2) {
		name := one(g, plain...)
		switch g.IntN(5) {
		case 0:
			updates[name] = object{"Action": "DELETE"}
		case 1:
			updates[name] = object{"Action": "ADD", "Value": one(g, num(g.number()), g.set(), list(g.value(0)))}
		case 2:
			updates[name] = object{"Action": "DELETE", "Value": g.set()}
		case 3:
			updates[name] = object{"Value": g.value(2)}
		default:
			updates[name] = object{"Action": "PUT", "Value": g.value(2)}
		}
	}
	body["AttributeUpdates"] = updates
	if g.chance(2) {
		body["ReturnValues"] = one(g, "ALL_NEW", "UPDATED_NEW", "ALL_OLD", "UPDATED_OLD")
	}
}

func (g *generator) legacyQuery(t *table, body object) step {
	key, x := g.source(t, body)
	conditions := object{key[0].name: object{"ComparisonOperator": "EQ", "AttributeValueList": []any{g.keyValue(key[0])}}}
	if len(key) > 1 && g.chance(2) {
		c := object{"ComparisonOperator": one(g, "EQ", "LT", "LE", "GT", "GE"), "AttributeValueList": []any{g.keyValue(key[1])}}
		if g.chance(4) {
			c = object{"ComparisonOperator": "BETWEEN", "AttributeValueList": []any{g.keyValue(key[1]), g.keyValue(key[1])}}
		}
		conditions[key[1].name] = c
	}
	body["KeyConditions"] = conditions
	if g.chance(3) && x == nil {
		body["QueryFilter"] = g.filter()
	}
	order := ""
	if x != nil {
		if order = "any"; len(key) > 1 {
			order = key[1].name
		}
	}
	return step{Op: "Query", Body: body, Pages: true, Order: order}
}
