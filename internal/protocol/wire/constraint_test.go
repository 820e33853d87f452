package wire

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
)

func TestConstraints(t *testing.T) {
	const (
		name  = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
		least = "Member must have length greater than or equal to "
		most  = "Member must have length less than or equal to "
		null  = "Member must not be null"
	)
	long := strings.Repeat("a", 256)
	// at returns the message of one violation.
	at := func(value, member, must string) string {
		if value != "null" {
			value = "'" + value + "'"
		}
		return "Value " + value + " at '" + member + "' failed to satisfy constraint: " + must
	}
	const key = `"Key": {"a": {"S": "b"}}`
	for _, c := range []struct {
		name, operation, body string
		faults                []string
	}{
		{"a table and a key are enough", "GetItem", `{"TableName": "abc", ` + key + `}`, nil},
		{"a null member counts as absent", "GetItem", `{"TableName": null, ` + key + `}`, []string{at("null", "tableName", null)}},
		{"an empty name is too short", "GetItem", `{"TableName": "", ` + key + `}`, []string{at("", "tableName", least+"1")}},
		{"a name has a limited alphabet", "GetItem", `{"TableName": "a b", ` + key + `}`, []string{at("a b", "tableName", name)}},
		{"a name may be one character", "GetItem", `{"TableName": "a", ` + key + `}`, nil},
		{"a name may be 255 characters", "GetItem", `{"TableName": "` + long[:255] + `", ` + key + `}`, nil},
		{"a name may not be longer", "GetItem", `{"TableName": "` + long + `", ` + key + `}`, []string{at(long, "tableName", most+"255")}},
		{"a name with a line break is rejected", "GetItem", `{"TableName": "abc\n", ` + key + `}`, []string{at("abc\n", "tableName", name)}},
		{"an ARN is a name", "GetItem", `{"TableName": "arn:aws:dynamodb:eu-west-1:000000000000:table/abc", ` + key + `}`, nil},
		{"an ARN of another resource is rejected", "GetItem", `{"TableName": "arn:aws:s3:::abc", ` + key + `}`, []string{at("arn:aws:s3:::abc", "tableName", name)}},
		{"an empty key is a key", "GetItem", `{"TableName": "abc", "Key": {}}`, nil},
		{"an empty list is too short", "GetItem", `{"TableName": "abc", ` + key + `, "AttributesToGet": []}`, []string{at("[]", "attributesToGet", least+"1")}},
		{"a word must be one of an enumeration", "GetItem", `{"TableName": "abc", ` + key + `, "ReturnConsumedCapacity": "total"}`,
			[]string{at("total", "returnConsumedCapacity", "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]")}},
		{"faults are in the order of the members", "GetItem", `{"ReturnConsumedCapacity": "x", "AttributesToGet": []}`, []string{
			at("null", "tableName", null), at("null", "key", null), at("[]", "attributesToGet", least+"1"),
			at("x", "returnConsumedCapacity", "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]")}},

		{"some members are reported alone", "PutItem", `{"ReturnValues": "x"}`, []string{at("null", "tableName", null)}},
		{"the others are reported if those are valid", "PutItem", `{"TableName": "abc", "ReturnValues": "x"}`, []string{
			at("null", "item", null), at("x", "returnValues", "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]")}},
		{"members of a map have its key in their name", "PutItem", `{"TableName": "abc", "Item": {}, "Expected": {"b": {"ComparisonOperator": "x"}, "a": {"ComparisonOperator": "y"}}}`, []string{
			at("y", "expected.a.member.comparisonOperator", "Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]"),
			at("x", "expected.b.member.comparisonOperator", "Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS]")}},

		{"numbers have a smallest", "Scan", `{"TableName": "abc", "Limit": 0}`, []string{at("0", "limit", "Member must have value greater than or equal to 1")}},
		{"numbers have a largest", "Scan", `{"TableName": "abc", "TotalSegments": 1000001, "Segment": 1000000}`, []string{
			at("1000001", "totalSegments", "Member must have value less than or equal to 1000000"), at("1000000", "segment", "Member must have value less than or equal to 999999")}},
		{"numbers at the limits are valid", "Scan", `{"TableName": "abc", "Limit": 1, "TotalSegments": 1000000, "Segment": 999999}`, nil},
		{"a member may break two constraints", "Scan", `{"TableName": "abc", "IndexName": "!"}`, []string{at("!", "indexName", name), at("!", "indexName", least+"3")}},

		{"a batch has tables", "BatchGetItem", `{}`, []string{at("null", "requestItems", null)}},
		{"a batch has at least one table", "BatchGetItem", `{"RequestItems": {}}`, []string{at("{}", "requestItems", least+"1")}},
		{"a table of a batch has keys", "BatchGetItem", `{"RequestItems": {"abc": {}}}`, []string{at("null", "requestItems.abc.member.keys", null)}},
		{"a table of a batch has at least one key", "BatchGetItem", `{"RequestItems": {"abc": {"Keys": []}}}`, []string{at("[]", "requestItems.abc.member.keys", least+"1")}},
		{"a table of a batch has at least one write", "BatchWriteItem", `{"RequestItems": {"abc": []}}`,
			[]string{at("{abc=[]}", "requestItems", "Map value must satisfy constraint: ["+most+"25, "+least+"1]")}},
		{"a put of a batch has an item", "BatchWriteItem", `{"RequestItems": {"abc": [{"PutRequest": {}}]}}`, []string{at("null", "requestItems.abc.member.1.member.putRequest.item", null)}},
		{"a delete of a batch has a key", "BatchWriteItem", `{"RequestItems": {"abc": [{"PutRequest": {"Item": {}}}, {"DeleteRequest": {}}]}}`,
			[]string{at("null", "requestItems.abc.member.2.member.deleteRequest.key", null)}},
		{"elements are counted from one", "CreateTable", `{"TableName": "abc", "AttributeDefinitions": [], "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}, {"AttributeName": "", "KeyType": "x"}]}`, []string{
			at("", "keySchema.2.member.attributeName", least+"1"), at("x", "keySchema.2.member.keyType", "Member must satisfy enum value set: [HASH, RANGE]")}},
		{"characters are counted as in Java", "CreateTable", `{"TableName": "abc", "AttributeDefinitions": [], "KeySchema": [{"AttributeName": "` + strings.Repeat("😀", 128) + `", "KeyType": "HASH"}]}`, []string{
			at(strings.Repeat("😀", 128), "keySchema.1.member.attributeName", most+"255")}},
		{"a short name of a new table is reported", "CreateTable", `{"TableName": "ab"}`, []string{at("ab", "tableName", least+"3")}},
		{"a structure is shown with its members", "CreateTable", `{"TableName": "abc", "AttributeDefinitions": [], "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}, {"AttributeName": "b", "KeyType": "RANGE"}, {"AttributeName": "c", "KeyType": "RANGE"}]}`, []string{
			at("[KeySchemaElement(attributeName=a, keyType=HASH), KeySchemaElement(attributeName=b, keyType=RANGE), KeySchemaElement(attributeName=c, keyType=RANGE)]", "keySchema", most+"2")}},
		{"each missing member of a structure is reported", "CreateTable", `{"TableName": "abc", "AttributeDefinitions": [], "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}], "ProvisionedThroughput": {}}`, []string{
			at("null", "provisionedThroughput.writeCapacityUnits", null), at("null", "provisionedThroughput.readCapacityUnits", null)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := ""
			switch len(c.faults) {
			case 0:
			case 1:
				want = "ValidationException: 1 validation error detected: " + c.faults[0]
			default:
				want = "ValidationException: " + string('0'+byte(len(c.faults))) + " validation errors detected: " + strings.Join(c.faults, "; ")
			}
			if _, got := decode(t, c.operation, c.body); got != want {
				t.Errorf("the fault is\n%s, want\n%s", got, want)
			}
		})
	}
}

// An ARN is replaced by the name in it.
func TestTableARN(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"arn:aws:dynamodb:eu-west-1:000000000000:table/abc", "abc"},
		{"arn:aws-us-gov:dynamodb:us-gov-west-1:123456789012:table/A.b_c-9", "A.b_c-9"},
	} {
		request, fault := decode(t, "DescribeTable", `{"TableName": "`+c.in+`"}`)
		if got := request.(*api.DescribeTable).TableName; fault != "" || got != c.want {
			t.Errorf("%s names the table %s, want %s; the fault %q", c.in, got, c.want, fault)
		}
	}
	for _, arn := range []string{
		"arn:aws:dynamodb:eu-west-1:000000000000:table/ab", "arn:aws:dynamodb:eu-west-1:000000000000:table/abc/index/def",
		"arn:aws:dynamodb:eu-west-1:1:table/abc", "arn:aws:dynamodb::000000000000:table/abc", "arn:",
	} {
		if _, fault := decode(t, "DescribeTable", `{"TableName": "`+arn+`"}`); !strings.Contains(fault, "regular expression pattern") {
			t.Errorf("%s: the fault is %q", arn, fault)
		}
	}
}

// An unknown constraint panics when a struct is first used.
func TestUnknownConstraintPanics(t *testing.T) {
	for _, tag := range []string{"absent", "min=x", "like=("} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is accepted as a constraint", tag)
				}
			}()
			parseRules(tag)
		}()
	}
}

// A message reports at most ten faults.
func TestFewFaultsAreReported(t *testing.T) {
	err := Decode([]byte(`{"TableName":"abc","GlobalSecondaryIndexes":[{},{},{},{},{}]}`), new(api.CreateTable))
	const want = "10 validation errors detected: Value null at "
	if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "must not be null") != 10 {
		t.Errorf("got %v", err)
	}
}

// No invalid body takes many times its size in memory, and its fault is
// short.
func TestMemoryOfFaults(t *testing.T) {
	const size = 2 << 20
	body := func(first, entry, last string) string {
		return first + strings.Repeat(entry+",", size/(len(entry)+1)) + entry + last
	}
	var names strings.Builder
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(&names, `"#%d":"",`, i)
	}
	for name, c := range map[string]struct {
		into any
		body string
	}{
		"indexes":      {new(api.CreateTable), body(`{"TableName":"abc","GlobalSecondaryIndexes":[`, "{}", "]}")},
		"transactions": {new(api.TransactWriteItems), body(`{"TransactItems":[`, "{}", "]}")},
		"short list":   {new(api.TransactWriteItems), `{"TransactItems":[` + strings.Repeat(`{},`, maxEntries-1) + "{}]}"},
		"names":        {new(api.GetItem), `{"TableName":"abc","Key":{},"ExpressionAttributeNames":{` + names.String() + `"#":""}}`},
		"tags":         {new(api.UntagResource), body(`{"TagKeys":[`, `""`, "]}")},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Decode([]byte(c.body), c.into)
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		if err == nil || len(err.Error()) > 2*maxText || took > 8*max(size, maxText) {
			t.Errorf("%s: %d bytes take %d, and the fault is %.100v", name, len(c.body), took, err)
		}
	}
}

// A request that was not decoded has the same constraints; a compiled expression replaces a
// required text.
func TestCheckOfBuiltRequests(t *testing.T) {
	table, limit := "Table", int32(0)
	key := api.Attributes{Item: item.Make(map[string]item.Value{"k": item.String("1")})}
	transaction := func(c *api.Compiled) *api.TransactWriteItems {
		return &api.TransactWriteItems{TransactItems: []api.TransactWriteItem{
			{Update: &api.Update{Key: key, TableName: &table, ActionCondition: api.ActionCondition{Compiled: c}}},
		}}
	}
	for _, c := range []struct {
		name, want string
		in         any
	}{
		{"a valid request", "", &api.GetItem{TableName: table, Key: key}},
		{"no key", "Value null at 'key'", &api.GetItem{TableName: table}},
		{"a limit", "Value '0' at 'limit'", &api.Scan{TableName: table, Limit: &limit}},
		{"no update", "Value null at 'transactItems.1.member.update.updateExpression'", transaction(nil)},
		{"another expression", "updateExpression", transaction(&api.Compiled{Condition: new(expr.Condition)})},
		{"a compiled update", "", transaction(&api.Compiled{Update: new(expr.Update)})},
	} {
		err := Check(c.in)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
