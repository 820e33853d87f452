package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/principals"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// tenantActions are all actions on items.
const tenantActions = `["dynamodb:GetItem","dynamodb:BatchGetItem","dynamodb:Query","dynamodb:Scan","dynamodb:PutItem","dynamodb:UpdateItem","dynamodb:DeleteItem",
	"dynamodb:BatchWriteItem","dynamodb:ConditionCheckItem","dynamodb:PartiQLSelect","dynamodb:PartiQLInsert","dynamodb:PartiQLUpdate","dynamodb:PartiQLDelete",
	"stator:GetItemAt","stator:QueryAt","stator:ScanAt","stator:ItemHistory","stator:UndoChanges"]`

// The conditions that keep tenants apart: each value of the partition key is the tenant, and
// there is one.
const (
	ownKeys = `"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["${aws:username}"]}`
	someKey = `"Null":{"dynamodb:LeadingKeys":"false"}`
)

// A tenant whose policy has conditions on the partition key reads and writes its own items
// only, by whatever request. Without one of the conditions the same requests find a hole.
func TestTenantsAreKeptApart(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		name, conditions    string
		requests            int
		holes, cached, past bool
	}{
		{"both conditions", ownKeys + "," + someKey, 12_000, false, false, false},
		{"through a cache", ownKeys + "," + someKey, 6_000, false, true, false},
		{"a key is not required", ownKeys, 12_000, true, false, false},
		{"any key", someKey, 12_000, true, false, false},
		{"the past", ownKeys + "," + someKey, 6_000, false, false, true},
		{"the past, a key is not required", ownKeys, 3_000, true, false, true},
		{"the past, any key", someKey, 3_000, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTenants(t, seed, `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":`+tenantActions+`,"Resource":"*","Condition":{`+c.conditions+`}}}`)
			if f.cached = c.cached; f.cached {
				f.s = New(Parts{DB: f.s.DB, Cache: cache.New(cache.Options{Mode: cache.DAX, ItemTTL: time.Hour, QueryTTL: time.Hour, Bytes: 1 << 20, Elapsed: f.s.DB.Clock().Elapsed})})
				defer f.s.Close()
			}
			f.past = c.past
			done := 0
			for ; done < c.requests && f.hole == ""; done++ {
				f.request()
			}
			if f.hole == "" {
				f.checkItems()
			}
			t.Logf("%d requests, %d of them allowed: %s", done, f.allowed, f.hole)
			if (f.hole != "") != c.holes {
				t.Errorf("hole: %q", f.hole)
			}
			if c.cached && f.s.cache.Stats().ItemHits == 0 {
				t.Error("nothing was answered from the cache")
			}
			if c.past && !c.holes && f.undone < c.requests/1000 {
				t.Errorf("only %d undos have changed something", f.undone)
			}
			if !c.holes && f.allowed < c.requests/20 {
				t.Errorf("only %d requests were allowed", f.allowed)
			}
		})
	}
}

const tenantCount = 100

type tenants struct {
	*tableTest
	*rand.Rand
	documents []*policy.Document
	identity  *principals.Identity
	began     int64 // the first second that is kept
	me        string
	cached    bool // requests of tenants go through the cache
	past      bool // requests of tenants are to the past, too
	undone    int  // undos that have changed something
	allowed   int
	hole      string // what a tenant has seen or done
}

func newTenants(t *testing.T, seed uint64, document string) *tenants {
	t.Helper()
	parsed, err := policy.Parse(policy.Identity, []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	f := &tenants{tableTest: newTableTestWith(t, db.Options{}, true), Rand: rand.New(rand.NewPCG(seed, 1)), documents: []*policy.Document{parsed}}
	f.make(`"TableName":"Items","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"},{"AttributeName":"owner","AttributeType":"S"},{"AttributeName":"kind","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
		"LocalSecondaryIndexes":[{"IndexName":"local","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"kind","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}],
		"GlobalSecondaryIndexes":[{"IndexName":"by-owner","KeySchema":[{"AttributeName":"owner","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}},
			{"IndexName":"by-kind","KeySchema":[{"AttributeName":"kind","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]`)
	if got := f.ask("UpdateContinuousBackups", `{"TableName":"Items","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`); !strings.HasPrefix(got, "{") {
		t.Fatal(got)
	}
	f.advance(time.Second)
	f.began = f.second()
	for i := range tenantCount {
		f.me = tenantName(i)
		for _, sk := range []string{"canary", "a", "b"} {
			if _, fault := f.send("PutItem", tenantJSON{"TableName": "Items", "Item": f.item(f.me, sk)}); fault != nil {
				t.Fatal(fault)
			}
		}
	}
	return f
}

type tenantJSON = map[string]any

func tenantName(i int) string { return fmt.Sprintf("tenant-%02d", i) }

func text(s string) tenantJSON { return tenantJSON{"S": s} }

// item returns an item that its writer marks.
func (f *tenants) item(pk, sk string) tenantJSON {
	return tenantJSON{"pk": text(pk), "sk": text(sk), "owner": text(pk), "kind": text(one(f, "k1", "k2")), "by": text(f.me), "secret": text("secret-of-" + f.me)}
}

func one[T any](f *tenants, choices ...T) T { return choices[f.IntN(len(choices))] }

// tenant returns the sender mostly, or another tenant.
func (f *tenants) tenant() string {
	if f.IntN(3) > 0 {
		return f.me
	}
	return tenantName(f.IntN(tenantCount))
}

func (f *tenants) key() tenantJSON {
	return tenantJSON{"pk": text(f.tenant()), "sk": text(one(f, "a", "b"))}
}

// send sends a request, as a tenant if it has an identity.
func (f *tenants) send(operation string, body tenantJSON) (string, error) {
	f.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		f.Fatal(err)
	}
	ctx := WithCaller(f.Context(), Caller{Region: "us-east-1", Identity: f.identity})
	if f.cached && f.identity != nil {
		ctx = ThroughCache(ctx)
	}
	reply, err := answer(ctx, f.s, operation, encoded, new(buffer.Scratch))
	var fault *apierror.Error
	if errors.As(err, &fault) {
		return string(wire.AppendError(nil, fault)), err
	}
	if err != nil {
		f.Fatalf("%s %s: %v", operation, encoded, err)
	}
	return string(reply), nil
}

// request sends a request of a tenant, and looks in its reply for what others have written.
func (f *tenants) request() {
	f.Helper()
	f.me = tenantName(f.IntN(tenantCount))
	principal, err := policy.NewPrincipal("arn:aws:iam::000000000000:user/"+f.me, "")
	if err != nil {
		f.Fatal(err)
	}
	f.identity = &principals.Identity{Principal: principal, Policies: policy.Policies{Identity: f.documents}}
	operation, body := f.generate()
	reply, err := f.send(operation, body)
	f.identity = nil
	if err == nil {
		f.allowed++
	}
	for rest := reply; ; {
		_, after, found := strings.Cut(rest, "secret-of-")
		if !found {
			return
		}
		if !strings.HasPrefix(after, f.me) {
			f.hole = fmt.Sprintf("%s sees the items of %s: %s %v", f.me, after[:9], operation, body)
			return
		}
		rest = after
	}
}

// checkItems looks for items that others have written, or removed.
func (f *tenants) checkItems() {
	f.Helper()
	reply, err := f.send("Scan", tenantJSON{"TableName": "Items"})
	if err != nil {
		f.Fatal(err)
	}
	var page struct {
		Items []map[string]struct{ S string }
	}
	if err := json.Unmarshal([]byte(reply), &page); err != nil {
		f.Fatal(err)
	}
	canaries := 0
	for _, it := range page.Items {
		if it["by"].S != it["pk"].S {
			f.hole = fmt.Sprintf("an item of %s was written by %s", it["pk"].S, it["by"].S)
		}
		if it["sk"].S == "canary" {
			canaries++
		}
	}
	if canaries != tenantCount {
		f.hole = fmt.Sprintf("%d of %d items are left that nobody removes", canaries, tenantCount)
	}
}

// generateOfPast returns a request to a second that is over. An undo is planned before.
func (f *tenants) generateOfPast(table string) (operation string, body tenantJSON) {
	f.advance(time.Duration(f.IntN(3)) * time.Second)
	last := f.now.Load()/int64(time.Second) - 1
	at := f.began + f.Int64N(last-f.began+1)
	switch f.IntN(5) {
	case 0:
		return "GetItemAt", tenantJSON{"TableName": table, "Key": f.key(), "AsOf": at}
	case 1:
		body = f.query(table)
		body["AsOf"] = at
		return "QueryAt", body
	case 2:
		body = tenantJSON{"TableName": table, "AsOf": at}
		if f.IntN(2) > 0 {
			body["IndexName"] = one(f, "local", "by-owner", "by-kind")
		}
		return "ScanAt", body
	case 3:
		return "ItemHistory", tenantJSON{"TableName": table, "Key": f.key()}
	}
	body = tenantJSON{"TableName": table, "From": at, "To": last}
	if f.IntN(4) > 0 {
		body["Key"] = f.key()
	}
	planned, err := f.send("UndoChanges", body)
	var plan struct {
		PlanId string
		Writes []any
	}
	if err == nil {
		if err := json.Unmarshal([]byte(planned), &plan); err != nil {
			f.Fatal(err)
		}
		body["Confirm"] = plan.PlanId
		if len(plan.Writes) > 0 {
			f.undone++
		}
	}
	return "UndoChanges", body
}

// generate returns a request of any kind.
func (f *tenants) generate() (operation string, body tenantJSON) {
	table := one(f, "Items", "Items", "arn:aws:dynamodb:us-east-1:000000000000:table/Items")
	if f.past && f.IntN(2) > 0 {
		return f.generateOfPast(table)
	}
	switch f.IntN(13) {
	case 0:
		return "GetItem", tenantJSON{"TableName": table, "Key": f.key()}
	case 1:
		return "BatchGetItem", tenantJSON{"RequestItems": tenantJSON{table: tenantJSON{"Keys": f.keys()}}}
	case 2:
		return "Query", f.query(table)
	case 3:
		body = tenantJSON{"TableName": table, "Limit": 5}
		if f.IntN(2) > 0 {
			body["IndexName"] = one(f, "local", "by-owner", "by-kind")
		}
		return "Scan", body
	case 4:
		body = tenantJSON{"TableName": table, "Item": f.item(f.tenant(), one(f, "a", "b", "c")), "ReturnValues": "ALL_OLD"}
		if f.IntN(2) > 0 {
			body["ConditionExpression"], body["ReturnValuesOnConditionCheckFailure"] = "attribute_not_exists(pk)", "ALL_OLD"
		}
		return "PutItem", body
	case 5:
		return "UpdateItem", f.update(table)
	case 6:
		return "DeleteItem", tenantJSON{"TableName": table, "Key": f.key(), "ReturnValues": "ALL_OLD"}
	case 7:
		var writes []tenantJSON
		for _, k := range f.keys() {
			if f.IntN(2) > 0 {
				writes = append(writes, tenantJSON{"DeleteRequest": tenantJSON{"Key": k}})
			} else {
				writes = append(writes, tenantJSON{"PutRequest": tenantJSON{"Item": f.item(k["pk"].(tenantJSON)["S"].(string), k["sk"].(tenantJSON)["S"].(string))}})
			}
		}
		return "BatchWriteItem", tenantJSON{"RequestItems": tenantJSON{table: writes}}
	case 8:
		var gets []tenantJSON
		for _, k := range f.keys() {
			gets = append(gets, tenantJSON{"Get": tenantJSON{"TableName": table, "Key": k}})
		}
		return "TransactGetItems", tenantJSON{"TransactItems": gets}
	case 9:
		return "TransactWriteItems", f.transaction(table)
	case 10:
		return "ExecuteStatement", f.statement(table, one(f, "SELECT", "INSERT", "UPDATE", "DELETE"))
	case 11:
		return "BatchExecuteStatement", tenantJSON{"Statements": []tenantJSON{f.statement(table, "SELECT"), f.statement(table, "SELECT")}}
	}
	if f.IntN(2) > 0 {
		return "ExecuteTransaction", tenantJSON{"TransactStatements": []tenantJSON{f.statement(table, "SELECT"), f.statement(table, "SELECT")}}
	}
	return "ExecuteTransaction", tenantJSON{"TransactStatements": []tenantJSON{f.statement(table, one(f, "INSERT", "UPDATE", "DELETE", "EXISTS")), f.statement(table, one(f, "UPDATE", "DELETE"))}}
}

// keys returns keys of different items.
func (f *tenants) keys() (keys []tenantJSON) {
	for range 1 + f.IntN(3) {
		k := f.key()
		if !slices.ContainsFunc(keys, func(other tenantJSON) bool { return fmt.Sprint(other) == fmt.Sprint(k) }) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (f *tenants) query(table string) tenantJSON {
	body := tenantJSON{"TableName": table}
	key, value := "pk", f.tenant()
	switch f.IntN(4) {
	case 0:
		body["IndexName"] = "local"
	case 1:
		body["IndexName"], key = "by-owner", "owner"
	case 2:
		body["IndexName"], key, value = "by-kind", "kind", one(f, "k1", "k2")
	}
	if f.IntN(3) == 0 {
		body["KeyConditions"] = tenantJSON{key: tenantJSON{"ComparisonOperator": "EQ", "AttributeValueList": []tenantJSON{text(value)}}}
		if f.IntN(2) == 0 {
			body["QueryFilter"] = tenantJSON{"secret": tenantJSON{"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": []tenantJSON{text("secret-of-")}}}
		}
		return body
	}
	body["KeyConditionExpression"] = one(f, "#k = :v", ":v = #k", "(#k = :v)")
	body["ExpressionAttributeNames"], body["ExpressionAttributeValues"] = tenantJSON{"#k": key}, tenantJSON{":v": text(value)}
	if f.IntN(3) == 0 {
		body["ExclusiveStartKey"] = tenantJSON{"pk": text(tenantName(f.IntN(tenantCount))), "sk": text("a")}
	}
	return body
}

func (f *tenants) update(table string) tenantJSON {
	body := tenantJSON{"TableName": table, "Key": f.key(), "ReturnValues": one(f, "ALL_OLD", "ALL_NEW", "UPDATED_NEW", "NONE")}
	if f.IntN(3) == 0 {
		body["AttributeUpdates"] = tenantJSON{"by": tenantJSON{"Action": "PUT", "Value": text(f.me)}, "secret": tenantJSON{"Action": "PUT", "Value": text("secret-of-" + f.me)}}
		if f.IntN(2) == 0 {
			body["Expected"] = tenantJSON{"secret": tenantJSON{"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": []tenantJSON{text("secret-of-")}}}
		}
		return body
	}
	body["UpdateExpression"] = "SET #b = :me, secret = :s, #o = :pk"
	body["ExpressionAttributeNames"] = tenantJSON{"#b": "by", "#o": "owner"}
	body["ExpressionAttributeValues"] = tenantJSON{":me": text(f.me), ":s": text("secret-of-" + f.me), ":pk": body["Key"].(tenantJSON)["pk"]}
	return body
}

func (f *tenants) transaction(table string) tenantJSON {
	var actions []tenantJSON
	for _, k := range f.keys() {
		failed := tenantJSON{"TableName": table, "Key": k, "ConditionExpression": one(f, "attribute_exists(pk)", "attribute_not_exists(pk)"), "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
		switch f.IntN(4) {
		case 0:
			actions = append(actions, tenantJSON{"ConditionCheck": failed})
		case 1:
			actions = append(actions, tenantJSON{"Delete": failed})
		case 2:
			actions = append(actions, tenantJSON{"Put": tenantJSON{"TableName": table, "Item": f.item(k["pk"].(tenantJSON)["S"].(string), k["sk"].(tenantJSON)["S"].(string))}})
		case 3:
			u := f.update(table)
			delete(u, "ReturnValues")
			if u["UpdateExpression"] == nil {
				continue
			}
			u["Key"], u["ExpressionAttributeValues"].(tenantJSON)[":pk"] = k, k["pk"]
			actions = append(actions, tenantJSON{"Update": u})
		}
	}
	if actions == nil {
		actions = []tenantJSON{{"Delete": tenantJSON{"TableName": table, "Key": f.key()}}}
	}
	return tenantJSON{"TransactItems": actions}
}

// statement returns a statement with literals or parameters.
func (f *tenants) statement(table, kind string) tenantJSON {
	from := `"` + table + `"`
	var parameters []tenantJSON
	value := func(s string) string {
		if f.IntN(2) > 0 {
			return "'" + s + "'"
		}
		parameters = append(parameters, text(s))
		return "?"
	}
	pk, sk := f.tenant(), one(f, "a", "b")
	var statement string
	switch kind {
	case "SELECT":
		if f.IntN(3) == 0 {
			from += "." + one(f, `"local"`, `"by-owner"`, `"by-kind"`)
		}
		statement = "SELECT * FROM " + from
		switch f.IntN(6) {
		case 0:
			statement += " WHERE pk = " + value(pk) + " AND sk = " + value(sk)
		case 1:
			statement += " WHERE pk IN [" + value(f.me) + ", " + value(pk) + "]"
		case 2:
			statement += " WHERE pk = " + value(f.me) + " OR pk = " + value(pk)
		case 3:
			statement += " WHERE " + one(f, "owner", "kind") + " = " + value(one(f, pk, "k1"))
		case 4:
			statement += " WHERE pk = " + value(f.me) + " AND pk = " + value(pk) + " AND sk = " + value(sk)
		}
	case "EXISTS":
		statement = "EXISTS(SELECT * FROM " + from + " WHERE pk = " + value(pk) + " AND sk = " + value(sk) + " AND #by = 'x')"
		statement = strings.Replace(statement, "#by", `"by"`, 1)
	case "INSERT":
		statement = "INSERT INTO " + from + " VALUE {'pk': " + value(pk) + ", 'sk': " + value(one(f, "a", "d")) + ", 'owner': '" + pk + "', 'by': '" + f.me + "', 'secret': 'secret-of-" + f.me + "'}"
	case "UPDATE":
		statement = "UPDATE " + from + ` SET "by" = '` + f.me + "' SET secret = 'secret-of-" + f.me + "' WHERE pk = " + value(pk) + " AND sk = " + value(sk)
	case "DELETE":
		statement = "DELETE FROM " + from + " WHERE pk = " + value(pk) + " AND sk = " + value(sk)
	}
	body := tenantJSON{"Statement": statement}
	if parameters != nil {
		body["Parameters"] = parameters
	}
	return body
}
