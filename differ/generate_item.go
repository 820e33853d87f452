package main

// options adds members that many requests have.
func (g *generator) options(body object, metrics bool) {
	if c := one(g, "", "", "TOTAL", "INDEXES", "INDEXES", "NONE"); c != "" {
		body["ReturnConsumedCapacity"] = c
	}
	if metrics && g.chance(10) {
		body["ReturnItemCollectionMetrics"] = "SIZE"
	}
}

// condition adds a condition to a write, one in three times.
func (g *generator) condition(t *table, e *expression, body object) {
	if g.chance(3) {
		body["ConditionExpression"] = e.condition(func() string { return e.anyPath(t) }, 2)
	}
	if g.chance(4) {
		body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
}

// anyPath writes a path, sometimes of an attribute of the key.
func (e *expression) anyPath(t *table) string {
	if e.chance(5) {
		return e.name(one(e.generator, t.key...).name)
	}
	return e.path(t)
}

func (g *generator) putItem() step {
	t, e := g.table(), g.expression()
	body := object{"TableName": t.name, "Item": g.item(t)}
	g.condition(t, e, body)
	e.prune(body)
	g.options(body, true)
	if g.chance(3) {
		body["ReturnValues"] = one(g, "ALL_OLD", "ALL_OLD", "NONE")
	}
	return step{Op: "PutItem", Body: body}
}

func (g *generator) getItem() step {
	t, e := g.table(), g.expression()
	body := object{"TableName": t.name, "Key": g.key(t)}
	if g.chance(2) {
		body["ProjectionExpression"] = e.projection(t)
	}
	if g.chance(3) {
		body["ConsistentRead"] = g.chance(2)
	}
	e.prune(body)
	g.options(body, false)
	return step{Op: "GetItem", Body: body}
}

func (g *generator) updateItem() step {
	t, e := g.table(), g.expression()
	body := object{"TableName": t.name, "Key": g.key(t)}
	g.remember(t, body["Key"].(object))
	if !g.chance(30) {
		body["UpdateExpression"] = e.update(t)
	}
	g.condition(t, e, body)
	e.prune(body)
	g.options(body, true)
	if !g.chance(3) {
		body["ReturnValues"] = one(g, "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW", "NONE")
	}
	return step{Op: "UpdateItem", Body: body}
}

func (g *generator) deleteItem() step {
	t, e := g.table(), g.expression()
	body := object{"TableName": t.name, "Key": g.key(t)}
	g.condition(t, e, body)
	e.prune(body)
	g.options(body, true)
	if g.chance(3) {
		body["ReturnValues"] = one(g, "ALL_OLD", "ALL_OLD", "NONE")
	}
	return step{Op: "DeleteItem", Body: body}
}

func (g *generator) batchGet() step {
	items := make(object)
	for range 1 + g.IntN(2) {
		t, e := g.table(), g.expression()
		var keys []any
		seen := make(map[string]bool)
		for range 1 + g.IntN(4) {
			k := g.key(t)
			if !seen[canonical(k)] || g.chance(30) {
				keys = append(keys, k)
			}
			seen[canonical(k)] = true
		}
		part := object{"Keys": keys}
		if g.chance(3) {
			part["ProjectionExpression"] = e.projection(t)
		}
		if g.chance(3) {
			part["ConsistentRead"] = true
		}
		e.prune(part)
		items[t.name] = part
	}
	body := object{"RequestItems": items}
	g.options(body, false)
	return step{Op: "BatchGetItem", Body: body}
}

func (g *generator) batchWrite() step {
	items := make(object)
	for range 1 + g.IntN(2) {
		t := g.table()
		if items[t.name] != nil {
			continue
		}
		var list []any
		seen := make(map[string]bool)
		for range 1 + g.IntN(4) {
			put := object{"PutRequest": object{"Item": g.item(t)}}
			k := t.keyOf(put["PutRequest"].(object)["Item"].(object))
			if g.chance(3) {
				put = object{"DeleteRequest": object{"Key": k}}
			}
			if !seen[canonical(k)] || g.chance(30) {
				list = append(list, put)
			}
			seen[canonical(k)] = true
		}
		items[t.name] = list
	}
	body := object{"RequestItems": items}
	g.options(body, true)
	return step{Op: "BatchWriteItem", Body: body}
}

// keyOf returns the key of an item.
func (t *table) keyOf(it object) object {
	k := make(object)
	for _, a := range t.key {
		k[a.name] = cloneJSON(it[a.name])
	}
	return k
}

func (g *generator) transactGet() step {
	var items []any
	for range 1 + g.IntN(3) {
		t, e := g.table(), g.expression()
		get := object{"TableName": t.name, "Key": g.key(t)}
		if g.chance(3) {
			get["ProjectionExpression"] = e.projection(t)
		}
		e.prune(get)
		items = append(items, object{"Get": get})
	}
	body := object{"TransactItems": items}
	g.options(body, false)
	return step{Op: "TransactGetItems", Body: body}
}

func (g *generator) transactWrite() step {
	var items []any
	seen := make(map[string]bool)
	for range 1 + g.IntN(3) {
		t, e := g.table(), g.expression()
		verb := one(g, "Put", "Put", "Update", "Update", "Delete", "ConditionCheck")
		action := object{"TableName": t.name}
		if verb == "Put" {
			action["Item"] = g.item(t)
		} else {
			action["Key"] = g.key(t)
		}
		if verb == "Update" {
			action["UpdateExpression"] = e.update(t)
		}
		if verb == "ConditionCheck" || g.chance(3) {
			action["ConditionExpression"] = e.condition(func() string { return e.anyPath(t) }, 1)
		}
		if g.chance(3) {
			action["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
		}
		e.prune(action)
		source, _ := action["Key"].(object)
		if verb == "Put" {
			source = action["Item"].(object)
		}
		id := t.name + canonical(t.keyOf(source))
		if !seen[id] || g.chance(30) {
			items = append(items, object{verb: action})
		}
		seen[id] = true
	}
	body := object{"TransactItems": items}
	if g.chance(10) {
		body["ClientRequestToken"] = tableWord + one(g, "-token-1", "-token-2")
	}
	g.options(body, true)
	return step{Op: "TransactWriteItems", Body: body}
}
