package main

import "slices"

// tableStep makes a request about a table as a whole.
func (g *generator) tableStep() step {
	t := g.table()
	switch g.IntN(12) {
	case 9, 10:
		return g.tags(t)
	case 0, 1:
		return step{Op: "DescribeTable", Body: object{"TableName": t.name}}
	case 2:
		return step{Op: "DescribeTimeToLive", Body: object{"TableName": t.name}}
	case 3:
		return step{Op: "UpdateTimeToLive", Body: object{"TableName": t.name,
			"TimeToLiveSpecification": object{"Enabled": g.chance(2), "AttributeName": one(g, "expires", "ttl")}}}
	case 4:
		return step{Op: "ListTables", Body: one(g, object{}, object{"Limit": 1 + g.IntN(3)}, object{"ExclusiveStartTableName": "OrdersA"})}
	case 5:
		body := g.newTable("X").create(g)
		body["TableName"] = one(g, t.name, "OrdersX", "OrdersX")
		return step{Op: "CreateTable", Body: body}
	case 6:
		return step{Op: "DeleteTable", Body: object{"TableName": "OrdersX"}}
	case 7:
		return g.updateTable(t)
	}
	return step{Op: "DescribeTable", Body: object{"TableName": arnPrefix + regionWord + ":000000000000:table/" + t.name}}
}

func (g *generator) updateTable(t *table) step {
	body := object{"TableName": t.name}
	switch g.IntN(4) {
	case 0:
		body["DeletionProtectionEnabled"] = g.chance(2)
	case 1:
		i := slices.IndexFunc(t.indexes, func(x *index) bool { return x.global })
		if i < 0 {
			body["BillingMode"] = "PAY_PER_REQUEST"
			t.provisioned = false
			break
		}
		body["GlobalSecondaryIndexUpdates"] = []any{object{"Delete": object{"IndexName": t.indexes[i].name}}}
		t.indexes = slices.Delete(t.indexes, i, i+1)
	case 2:
		a := keyAttribute{"g1", "S"}
		if known, ok := t.indexKind("g1"); ok {
			a = known
		}
		x := &index{name: "new" + one(g, "1", "2"), global: true, key: []keyAttribute{a}, projection: one(g, "ALL", "KEYS_ONLY")}
		body["AttributeDefinitions"] = []any{object{"AttributeName": a.name, "AttributeType": a.kind}}
		body["GlobalSecondaryIndexUpdates"] = []any{object{"Create": x.describe(t.provisioned)}}
		if !slices.ContainsFunc(t.indexes, func(y *index) bool { return y.name == x.name }) {
			t.indexes = append(t.indexes, x)
		}
	case 3:
		body["ProvisionedThroughput"] = object{"ReadCapacityUnits": 1 + g.IntN(10), "WriteCapacityUnits": 1 + g.IntN(10)}
	}
	return step{Op: "UpdateTable", Body: body}
}

// tags makes a request about the tags of a table.
func (g *generator) tags(t *table) step {
	arn := arnPrefix + regionWord + ":000000000000:table/" + t.name
	switch g.IntN(3) {
	case 0:
		tag := func() any { return object{"Key": one(g, "team", "cost", "env"), "Value": one(g, "a", "b", "")} }
		return step{Op: "TagResource", Body: object{"ResourceArn": arn, "Tags": one(g, []any{tag()}, []any{tag(), tag()})}}
	case 1:
		return step{Op: "UntagResource", Body: object{"ResourceArn": arn, "TagKeys": []any{one(g, "team", "cost", "none")}}}
	}
	return step{Op: "ListTagsOfResource", Body: object{"ResourceArn": arn}}
}

func (g *generator) stream() step {
	t := g.table()
	for range 5 {
		if t.stream {
			break
		}
		t = g.table()
	}
	return step{Op: readStream, Body: object{"TableName": t.name}}
}
