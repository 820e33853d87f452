package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// requests has a constructor for every request, by name.
var requests = map[string]func() any{
	"GetItem":            func() any { return new(api.GetItem) },
	"PutItem":            func() any { return new(api.PutItem) },
	"UpdateItem":         func() any { return new(api.UpdateItem) },
	"DeleteItem":         func() any { return new(api.DeleteItem) },
	"Query":              func() any { return new(api.Query) },
	"Scan":               func() any { return new(api.Scan) },
	"BatchGetItem":       func() any { return new(api.BatchGetItem) },
	"BatchWriteItem":     func() any { return new(api.BatchWriteItem) },
	"TransactGetItems":   func() any { return new(api.TransactGetItems) },
	"TransactWriteItems": func() any { return new(api.TransactWriteItems) },
	"CreateTable":        func() any { return new(api.CreateTable) },
	"UpdateTable":        func() any { return new(api.UpdateTable) },
	"DescribeTable":      func() any { return new(api.DescribeTable) },
	"DeleteTable":        func() any { return new(api.DeleteTable) },
	"ListTables":         func() any { return new(api.ListTables) },
	"TagResource":        func() any { return new(api.TagResource) },
	"UntagResource":      func() any { return new(api.UntagResource) },
	"ListTagsOfResource": func() any { return new(api.ListTagsOfResource) },
	"DescribeLimits":     func() any { return new(api.DescribeLimits) },
	"DescribeEndpoints":  func() any { return new(api.DescribeEndpoints) },
}

// decode decodes a request and returns the message of its fault, or the empty
// string.
func decode(t testing.TB, operation, body string) (request any, fault string) {
	t.Helper()
	request = requests[operation]()
	err := Decode([]byte(body), request)
	if err == nil {
		return request, ""
	}
	var e *apierror.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s %.200q: not a fault: %v", operation, body, err)
	}
	return request, e.Error()
}

// A JSON request cannot set the compiled expressions, at any depth, and a message about
// a request does not name them.
func TestCompiledIsNoMember(t *testing.T) {
	const compiled = `"Compiled": {"Condition": {}, "Update": {"Legacy": true}, "Projection": [[]]}`
	in, fault := decode(t, "GetItem", `{"TableName": "T", "Key": {"k": {"S": "1"}}, `+compiled+`}`)
	if got := in.(*api.GetItem); fault != "" || got.Compiled != nil {
		t.Errorf("GetItem: Compiled = %v, fault %q", got.Compiled, fault)
	}
	in, fault = decode(t, "UpdateItem", `{"TableName": "T", "Key": {"k": {"S": "1"}}, `+compiled+`}`)
	if got := in.(*api.UpdateItem); fault != "" || got.Compiled != nil {
		t.Errorf("UpdateItem: Compiled = %v, fault %q", got.Compiled, fault)
	}
	in, fault = decode(t, "Query", `{"TableName": "T", `+compiled+`}`)
	if got := in.(*api.Query); fault != "" || got.Compiled != nil {
		t.Errorf("Query: Compiled = %v, fault %q", got.Compiled, fault)
	}
	in, fault = decode(t, "TransactWriteItems", `{"TransactItems": [{"Delete": {"TableName": "T", "Key": {"k": {"S": "1"}}, `+compiled+`}}]}`)
	if got := in.(*api.TransactWriteItems); fault != "" || got.TransactItems[0].Delete.Compiled != nil {
		t.Errorf("TransactWriteItems: Compiled = %v, fault %q", got.TransactItems[0].Delete.Compiled, fault)
	}
	if _, fault = decode(t, "TransactWriteItems", `{"TransactItems": []}`); strings.Contains(strings.ToLower(fault), "compiled") {
		t.Errorf("the message names the member: %s", fault)
	}
}

func TestTypeFaults(t *testing.T) {
	const (
		structure = "Start of structure or map found where not expected"
		field     = "Unexpected field type"
		payload   = "Unexpected value type in payload"
		value     = "com.amazonaws.dynamodb.v20120810.AttributeValue"
	)
	unrecognized := func(collection string) string { return "Unrecognized collection type " + collection }
	for _, c := range []struct{ name, operation, body, want string }{
		{"a list is not a request", "GetItem", `[]`, ""},
		{"a string is not a request", "GetItem", `"a"`, ""},
		{"a number is not a request", "GetItem", `1`, ""},
		{"a null is not a request", "GetItem", `null`, ""},
		{"an empty body is not a request", "GetItem", ``, ""},

		{"a number is not a string", "GetItem", `{"TableName": 1}`, "NUMBER_VALUE cannot be converted to String"},
		{"a huge number is not a string", "GetItem", `{"TableName": 1e999999999}`, "DECIMAL_VALUE cannot be converted to String"},
		{"a number beyond a long is not a string", "GetItem", `{"TableName": 99999999999999999999}`, "NUMBER_VALUE cannot be converted to String"},
		{"a fraction is not a string", "GetItem", `{"TableName": 1.5}`, "DECIMAL_VALUE cannot be converted to String"},
		{"a true is not a string", "GetItem", `{"TableName": true}`, "TRUE_VALUE cannot be converted to String"},
		{"a false is not a string", "GetItem", `{"TableName": false}`, "FALSE_VALUE cannot be converted to String"},
		{"an object is not a string", "GetItem", `{"TableName": {}}`, structure},
		{"a list is not a string", "GetItem", `{"TableName": []}`, unrecognized("class java.lang.String")},

		{"a string is not a boolean", "GetItem", `{"ConsistentRead": "true"}`, "Unexpected token received from parser"},
		{"a number is not a boolean", "GetItem", `{"ConsistentRead": 0}`, "NUMBER_VALUE cannot be converted to Boolean"},
		{"a fraction is not a boolean", "GetItem", `{"ConsistentRead": 0.1}`, "DECIMAL_VALUE cannot be converted to Boolean"},
		{"an object is not a boolean", "GetItem", `{"ConsistentRead": {}}`, structure},
		{"a list is not a boolean", "GetItem", `{"ConsistentRead": []}`, unrecognized("class java.lang.Boolean")},

		{"a string is not an integer", "Scan", `{"Limit": "1"}`, "STRING_VALUE cannot be converted to Integer"},
		{"a true is not an integer", "Scan", `{"Limit": true}`, "TRUE_VALUE cannot be converted to Integer"},
		{"a false is not a long", "CreateTable", `{"ProvisionedThroughput": {"ReadCapacityUnits": false}}`, "FALSE_VALUE cannot be converted to Long"},
		{"a string is not a long", "CreateTable", `{"ProvisionedThroughput": {"ReadCapacityUnits": "5"}}`, "STRING_VALUE cannot be converted to Long"},
		{"an object is not an integer", "Scan", `{"Limit": {}}`, structure},
		{"a list is not an integer", "Scan", `{"Limit": []}`, unrecognized("class java.lang.Integer")},

		{"a string is not a structure", "CreateTable", `{"ProvisionedThroughput": "a"}`, field},
		{"a list is not a structure", "CreateTable", `{"ProvisionedThroughput": []}`, unrecognized("class com.amazonaws.dynamodb.v20120810.ProvisionedThroughput")},
		{"a string is not a list", "CreateTable", `{"KeySchema": "a"}`, field},
		{"a number is not a list", "CreateTable", `{"KeySchema": 1}`, field},
		{"an object is not a list", "CreateTable", `{"KeySchema": {}}`, structure},
		{"a string is not an element", "CreateTable", `{"KeySchema": ["a"]}`, payload},
		{"a list is not an element", "CreateTable", `{"KeySchema": [[]]}`, unrecognized("class com.amazonaws.dynamodb.v20120810.KeySchemaElement")},
		{"a number is not a string in a list", "GetItem", `{"AttributesToGet": [1]}`, "NUMBER_VALUE cannot be converted to String"},

		{"a string is not a map of strings", "GetItem", `{"ExpressionAttributeNames": "a"}`, field},
		{"a list is not a map of strings", "GetItem", `{"ExpressionAttributeNames": []}`, unrecognized("java.util.Map<java.lang.String, java.lang.String>")},
		{"a list is not a map of values", "PutItem", `{"ExpressionAttributeValues": []}`, unrecognized("java.util.Map<java.lang.String, " + value + ">")},
		{"a list is not a map of structures", "PutItem", `{"Expected": []}`, unrecognized("java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.ExpectedAttributeValue>")},
		{"a list is not a map of lists", "BatchWriteItem", `{"RequestItems": []}`, unrecognized("java.util.Map<java.lang.String, java.util.List<com.amazonaws.dynamodb.v20120810.WriteRequest>>")},
		{"a string is not an entry", "PutItem", `{"Expected": {"a": "b"}}`, payload},
		{"a string is not a list in a map", "BatchWriteItem", `{"RequestItems": {"a": "b"}}`, batchFault},
		{"an object is not a list in a map", "BatchWriteItem", `{"RequestItems": {"a": {}}}`, batchFault},
		{"a string is not a key in a list", "BatchGetItem", `{"RequestItems": {"a": {"Keys": ["b"]}}}`, batchFault},
		{"a list is not a key in a list", "BatchGetItem", `{"RequestItems": {"a": {"Keys": [[]]}}}`, batchFault},

		{"a string is not an item", "PutItem", `{"Item": "a"}`, field},
		{"a list is not an item", "PutItem", `{"Item": []}`, unrecognized("java.util.Map<java.lang.String, " + value + ">")},
		{"a string is not a value", "PutItem", `{"Item": {"a": "b"}}`, payload},
		{"a number is not a value", "PutItem", `{"Item": {"a": 1}}`, payload},
		{"a list is not a value", "PutItem", `{"Item": {"a": []}}`, unrecognized("class " + value)},
		{"a number is not an S", "PutItem", `{"Item": {"a": {"S": 1}}}`, "NUMBER_VALUE cannot be converted to String"},
		{"a number is not an N", "PutItem", `{"Item": {"a": {"N": 1}}}`, "NUMBER_VALUE cannot be converted to String"},
		{"an object is not an S", "PutItem", `{"Item": {"a": {"S": {}}}}`, structure},
		{"a list is not a B", "PutItem", `{"Item": {"a": {"B": []}}}`, unrecognized("class java.lang.String")},
		{"a string is not a BOOL", "PutItem", `{"Item": {"a": {"BOOL": "true"}}}`, "Unexpected token received from parser"},
		{"a string is not a NULL", "PutItem", `{"Item": {"a": {"NULL": "true"}}}`, "Unexpected token received from parser"},
		{"a string is not a set", "PutItem", `{"Item": {"a": {"SS": "b"}}}`, field},
		{"an object is not a set", "PutItem", `{"Item": {"a": {"NS": {}}}}`, structure},
		{"a number is not a member of a set", "PutItem", `{"Item": {"a": {"NS": [1]}}}`, "NUMBER_VALUE cannot be converted to String"},
		{"a string is not an L", "PutItem", `{"Item": {"a": {"L": "b"}}}`, field},
		{"an object is not an L", "PutItem", `{"Item": {"a": {"L": {}}}}`, structure},
		{"a string is not an element of an L", "PutItem", `{"Item": {"a": {"L": ["b"]}}}`, payload},
		{"a list is not an M", "PutItem", `{"Item": {"a": {"M": []}}}`, unrecognized("java.util.Map<java.lang.String, " + value + ">")},
		{"a string is not an M", "PutItem", `{"Item": {"a": {"M": "b"}}}`, field},

		{"base64 has a length", "PutItem", `{"Item": {"a": {"B": "abcde"}}}`, "Base64 encoded length is expected a multiple of 4 bytes but found: 5"},
		{"base64 has an alphabet", "PutItem", `{"Item": {"a": {"B": "ab_d"}}}`, "Invalid Base64 character: '_'"},
		{"base64 has no line breaks", "PutItem", `{"Item": {"a": {"B": "YWJj\nYWJ"}}}`, "Invalid Base64 character: '\n'"},
		{"base64 with bits left over is rejected", "PutItem", `{"Item": {"a": {"B": "YR=="}}}`, "Invalid last non-pad Base64 character dectected"},
		{"padding in the middle is rejected", "PutItem", `{"Item": {"a": {"B": "YQ==YQ=="}}}`, "Invalid last non-pad Base64 character dectected"},
		{"base64 in a set has the same rules", "PutItem", `{"Item": {"a": {"BS": ["YQ==", "Y"]}}}`, "Base64 encoded length is expected a multiple of 4 bytes but found: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := decode(t, c.operation, c.body); got != "SerializationException: "+c.want {
				t.Errorf("the fault is\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// A body that is not JSON gets an error without a message, wherever the
// syntax error is.
func TestSyntax(t *testing.T) {
	for _, c := range []struct {
		name, body string
		ok         bool
	}{
		{"an empty object is JSON", ` { } `, true},
		{"all white space of JSON is skipped", "{\t\r\n }\n", true},
		{"an unknown member is skipped", `{"x": {"y": [1, -2.5e+3, "z", true, false, null, {}, [], {"a": [[]]}]}}`, true},
		{"a null counts as absent", `{"TagKeys": null, "ResourceArn": null}`, true},
		{"an open object is rejected", `{`, false},
		{"a comma too many is rejected", `{"x": 1,}`, false},
		{"a comma too many in a list is rejected", `{"x": [1,]}`, false},
		{"a comma alone is rejected", `{,}`, false},
		{"a missing comma is rejected", `{"x": 1 "y": 2}`, false},
		{"a missing colon is rejected", `{"x" 1}`, false},
		{"a missing value is rejected", `{"x": }`, false},
		{"a name without quotes is rejected", `{x: 1}`, false},
		{"single quotes are rejected", `{'x': 1}`, false},
		{"brackets that do not match are rejected", `{"x": [1}]`, false},
		{"text after the object is rejected", `{} x`, false},
		{"a second object is rejected", `{}{}`, false},
		{"a zero byte after the object is rejected", "{}\x00", false},
		{"a zero byte and more after the object is rejected", "{}\x00{}", false},
		{"a zero byte inside is rejected", "{\x00}", false},
		{"a zero byte instead of a value is rejected", "{\"x\": \x00}", false},
		{"a vertical tab is not white space", "{\v}", false},
		{"a byte order mark is rejected", "\ufeff{}", false},
		{"a comment is rejected", `{/* */}`, false},
		{"a truncated word is rejected", `{"x": tru}`, false},
		{"a long word is rejected", `{"x": truee}`, false},
		{"a capitalised word is rejected", `{"x": True}`, false},
		{"a truncated null is rejected", `{"TagKeys": nul}`, false},
		{"NaN is rejected", `{"x": NaN}`, false},
		{"a leading zero is rejected", `{"x": 01}`, false},
		{"a leading plus is rejected", `{"x": +1}`, false},
		{"a leading point is rejected", `{"x": .5}`, false},
		{"a trailing point is rejected", `{"x": 5.}`, false},
		{"an empty exponent is rejected", `{"x": 1e}`, false},
		{"a minus alone is rejected", `{"x": -}`, false},
		{"a zero is a number", `{"x": -0, "y": 0.0e0}`, true},
		{"a huge exponent is a number", `{"x": 1E999999999}`, true},
		{"an open string is rejected", `{"x": "a`, false},
		{"an open escape is rejected", `{"x": "\`, false},
		{"a line break in a string is rejected", "{\"x\": \"\n\"}", false},
		{"a control character in a string is rejected", "{\"x\": \"\x1f\"}", false},
		{"a control character after an escape is rejected", "{\"x\": \"\\n\x01\"}", false},
		{"a delete character is a character", "{\"x\": \"\x7f\"}", true},
		{"an unknown escape is rejected", `{"x": "\a"}`, false},
		{"an escape of three digits is rejected", `{"x": "\u12"}`, false},
		{"an escape of other letters is rejected", `{"x": "\u12g4"}`, false},
		{"a pair with a bad half is rejected", `{"x": "\ud83d\u12g4"}`, false},
		{"a byte that is not UTF-8 is rejected", "{\"x\": \"\xff\"}", false},
		{"a byte that is not UTF-8 after an escape is rejected", "{\"x\": \"\\n\xff\"}", false},
		{"a surrogate in UTF-8 is rejected", "{\"x\": \"\xed\xa0\x80\"}", false},
		{"a long form in UTF-8 is rejected", "{\"x\": \"\xc0\x80\"}", false},
		{"a name that is not UTF-8 is rejected", "{\"\xff\": 1}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := "SerializationException: "
			if c.ok {
				want = ""
			}
			if _, got := decode(t, "UntagResource", c.body); got != want {
				t.Errorf("the fault is %q, want %q", got, want)
			}
			// The same in the middle of a request, after a type error.
			if strings.HasPrefix(c.body, "{") && !strings.HasSuffix(c.body, "{}") {
				if c.ok {
					want = "SerializationException: NUMBER_VALUE cannot be converted to String"
				}
				body := `{"ResourceArn": 1, "other": ` + c.body + `}`
				if _, got := decode(t, "UntagResource", body); got != want {
					t.Errorf("after a type error the fault is %q, want %q", got, want)
				}
			}
		})
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"characters are themselves", `aé€😀`, "aé€😀"},
		{"short escapes are read", `\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t"},
		{"long escapes are read", `\u0041\u00e9\u20AC\u0000`, "Aé€\x00"},
		{"pairs are read", `\ud83d\uDE00`, "😀"},
		{"a first half alone is replaced", `\ud83d`, "�"},
		{"a second half alone is replaced", `\ude00`, "�"},
		{"a first half before a character is replaced", `\ud83dx`, "�x"},
		{"a first half before an escape is replaced", `\ud83d\u0041`, "�A"},
		{"a first half before a pair is replaced", `\ud83d\ud83d\ude00`, "�😀"},
		{"a first half before a short escape is replaced", `\ud83d\n`, "�\n"},
		{"text before and after an escape is kept", `ab\tcd`, "ab\tcd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, fault := decode(t, "TagResource", `{"ResourceArn": "`+c.in+`"}`)
			if got := *request.(*api.TagResource).ResourceArn; fault != "" || got != c.want {
				t.Errorf("the string is %q, want %q; the fault %q", got, c.want, fault)
			}
			// As a value and as an attribute name it is the same.
			request, fault = decode(t, "PutItem", `{"TableName": "abc", "Item": {"`+c.in+`": {"S": "`+c.in+`"}}}`)
			it := request.(*api.PutItem).Item.Item
			if v, ok := it.Get(c.want); fault != "" || !ok || string(v.Bytes()) != c.want {
				t.Errorf("the item is %v; the fault %q", item.Map(it), fault)
			}
		})
	}
}

func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		in   string
		i    int32
		long int64
	}{
		{"0", 0, 0},
		{"-0", 0, 0},
		{"5", 5, 5},
		{"-7", -7, -7},
		{"1.9", 1, 1},
		{"-1.9", -1, -1},
		{"1e2", 100, 100},
		{"2147483647", math.MaxInt32, 2147483647},
		{"2147483648", math.MaxInt32, 2147483648},
		{"-2147483649", math.MinInt32, -2147483649},
		{"9223372036854775807", math.MaxInt32, math.MaxInt64},
		{"9223372036854775808", math.MaxInt32, math.MaxInt64},
		{"-9223372036854775808", math.MinInt32, math.MinInt64},
		{"-9223372036854775809", math.MinInt32, math.MinInt64},
		{"1e30", math.MaxInt32, math.MaxInt64},
		{"-1e30", math.MinInt32, math.MinInt64},
		{"1E999999999", math.MaxInt32, math.MaxInt64},
		{"-1E999999999", math.MinInt32, math.MinInt64},
		{"1E-999999999", 0, 0},
	} {
		t.Run(c.in, func(t *testing.T) {
			var scan api.Scan
			_ = Decode([]byte(`{"Limit": `+c.in+`}`), &scan)
			if scan.Limit == nil || *scan.Limit != c.i {
				t.Errorf("the integer is %v, want %d", *scan.Limit, c.i)
			}
			var create api.CreateTable
			_ = Decode([]byte(`{"OnDemandThroughput": {"MaxReadRequestUnits": `+c.in+`}}`), &create)
			if got := *create.OnDemandThroughput.MaxReadRequestUnits; got != c.long {
				t.Errorf("the long is %d, want %d", got, c.long)
			}
		})
	}
}

// Of two members with one name the last wins.
func TestDuplicateMembers(t *testing.T) {
	request, fault := decode(t, "Query", `{"TableName": "abc", "TableName": "def", "Limit": 1, "Limit": 2,
		"ExpressionAttributeNames": {"#a": "a", "#b": "b"}, "ExpressionAttributeNames": {"#a": "x", "#a": "c"},
		"AttributesToGet": ["a"], "AttributesToGet": ["b"],
		"KeyConditions": {"a": {"ComparisonOperator": "EQ"}, "a": {"ComparisonOperator": "LE"}},
		"ExclusiveStartKey": {"a": {"S": "a"}, "c": {"S": "c"}}, "ExclusiveStartKey": {"a": {"S": "a"}, "b": {"N": "1"}, "a": {"S": "b"}}}`)
	if fault != "" {
		t.Fatal(fault)
	}
	q := request.(*api.Query)
	if q.TableName != "def" || *q.Limit != 2 || len(q.ExpressionAttributeNames) != 1 || q.ExpressionAttributeNames["#a"] != "c" ||
		len(q.AttributesToGet) != 1 || q.AttributesToGet[0] != "b" || *q.KeyConditions["a"].ComparisonOperator != "LE" {
		t.Errorf("the request is %+v", q)
	}
	if got := item.Map(q.ExclusiveStartKey.Item).String(); got != "{M:{a={S:b}, b={N:1}}}" {
		t.Errorf("the key is %s", got)
	}
}

// nested returns a value within this many lists or maps.
func nested(open, closing string, levels int) string {
	return strings.Repeat(open, levels) + `{"S": "a"}` + strings.Repeat(closing, levels)
}

func TestDepth(t *testing.T) {
	for _, wrap := range []struct{ name, open, closing string }{
		{"lists", `{"L": [`, `]}`},
		{"maps", `{"M": {"a": `, `}}`},
		{"both", `{"L": [{"M": {"a": `, `}}]}`},
	} {
		each := strings.Count(wrap.open, "{\"L") + strings.Count(wrap.open, "{\"M")
		for _, levels := range []int{0, 1, 30, 31, 32, 33, 34, 1000} {
			if levels%each != 0 {
				continue
			}
			t.Run(fmt.Sprint(levels, " ", wrap.name), func(t *testing.T) {
				value := nested(wrap.open, wrap.closing, levels/each)
				request, fault := decode(t, "PutItem", `{"TableName": "abc", "Item": {"a": `+value+`}, "ExpressionAttributeValues": {":a": `+value+`}}`)
				put := request.(*api.PutItem)
				var want *apierror.Error
				if levels >= 32 {
					want = ErrTooDeep
				}
				if fault != "" || put.Item.Fault != want || put.ExpressionAttributeValues[":a"].Fault != want {
					t.Errorf("the faults are %q, %v and %v", fault, put.Item.Fault, put.ExpressionAttributeValues[":a"].Fault)
				}
				if err := item.Check(put.Item.Item); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Faults are reported gate by gate: syntax errors before type errors, those
// before violated constraints, and these all at once.
func TestGates(t *testing.T) {
	const nulls = "2 validation errors detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null; " +
		"Value null at 'key' failed to satisfy constraint: Member must not be null"
	for _, c := range []struct{ name, body, want string }{
		{"constraints are counted and joined", `{}`, "ValidationException: " + nulls},
		{"one constraint has its own form", `{"TableName": "abc"}`,
			"ValidationException: 1 validation error detected: Value null at 'key' failed to satisfy constraint: Member must not be null"},
		{"a type error is reported before constraints", `{"ConsistentRead": 1}`, "SerializationException: NUMBER_VALUE cannot be converted to Boolean"},
		{"the first type error is reported", `{"ConsistentRead": 1, "TableName": true}`, "SerializationException: NUMBER_VALUE cannot be converted to Boolean"},
		{"bad JSON is reported before a type error", `{"ConsistentRead": 1, "TableName": }`, "SerializationException: "},
		{"bad JSON at the end is reported before a type error", `{"ConsistentRead": 1}}`, "SerializationException: "},
		{"a zero byte at the end is reported before a type error", "{\"ConsistentRead\": 1}\x00", "SerializationException: "},
		{"an invalid value does not hide a constraint", `{"TableName": "abc", "ReturnConsumedCapacity": "x", "Key": {"a": {"N": "x"}}}`,
			"ValidationException: 1 validation error detected: Value 'x' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := decode(t, "GetItem", c.body); got != c.want {
				t.Errorf("the fault is\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// Every body decodes or yields a fault, and the decoded items are in stored
// form.
func FuzzDecode(f *testing.F) {
	for operation := range requests {
		for _, body := range []string{
			`{}`, `{"TableName": "abc", "Key": {"a": {"S": "b"}}, "Item": {"a": {"L": [{"NS": ["1", "2.0"]}]}}}`,
			`{"RequestItems": {"abc": {"Keys": [{"a": {"S": "b"}}]}}}`, `{"RequestItems": {"abc": [{"PutRequest": {"Item": {"a": {"B": "YQ=="}}}}]}}`,
			`{"KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}], "AttributeDefinitions": [null], "Limit": 1e99, "Tags": [{"Key": "\ud83d"}]}`,
			`{"Expected": {"a": {"Value": {"M": {}}, "Exists": null}}, "KeyConditions": {"a": {"AttributeValueList": [{"BS": []}]}}}`,
		} {
			f.Add(operation, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, operation string, body []byte) {
		if requests[operation] == nil {
			operation = "UpdateItem"
		}
		request, fault := decode(t, operation, string(body))
		if fault != "" {
			return
		}
		for _, a := range attributesOf(request) {
			if a.Item != nil && item.Check(a.Item) != nil && a.Fault == nil {
				t.Errorf("%s %q has an invalid item: %x", operation, body, []byte(a.Item))
			}
		}
	})
}

// attributesOf returns the items and keys of a request.
func attributesOf(request any) []api.Attributes {
	switch in := request.(type) {
	case *api.PutItem:
		return []api.Attributes{in.Item}
	case *api.GetItem:
		return []api.Attributes{in.Key}
	case *api.UpdateItem:
		return []api.Attributes{in.Key}
	case *api.DeleteItem:
		return []api.Attributes{in.Key}
	case *api.Query:
		return []api.Attributes{in.ExclusiveStartKey}
	case *api.Scan:
		return []api.Attributes{in.ExclusiveStartKey}
	case *api.BatchGetItem:
		var all []api.Attributes
		for _, part := range in.RequestItems {
			all = append(all, part.Keys...)
		}
		return all
	}
	return nil
}

// Of a set that is larger than an item, or than all values of a request may be, as many
// members are kept as make it too large. The rest is read, but neither sorted nor kept.
func TestSetsAreCutAtTheirLimit(t *testing.T) {
	set := func(kind string, members int) string {
		var b strings.Builder
		b.WriteString(`{"` + kind + `": [`)
		for i := range members {
			if i > 0 {
				b.WriteString(",")
			}
			if kind == "BS" {
				fmt.Fprintf(&b, `"%s"`, base64.StdEncoding.EncodeToString(fmt.Append(nil, i*7919%members)))
			} else {
				fmt.Fprintf(&b, `"%d"`, i*7919%members)
			}
		}
		b.WriteString("]}")
		return b.String()
	}
	const values, items = item.MaxRequestValues, item.MaxSize
	for _, c := range []struct {
		kind    string
		members int
		limit   int
		cut     bool
	}{
		{"SS", 300_000, values, false}, {"SS", 1_000_000, values, true}, {"SS", 50_000, items, false}, {"SS", 300_000, items, true},
		{"NS", 400_000, values, false}, {"NS", 1_000_000, values, true}, {"NS", 80_000, items, false}, {"NS", 300_000, items, true},
		{"BS", 300_000, values, false}, {"BS", 700_000, values, true}, {"BS", 50_000, items, false}, {"BS", 300_000, items, true},
	} {
		t.Run(fmt.Sprint(c.members, " ", c.kind, " of ", c.limit), func(t *testing.T) {
			read := func(text string) (item.Value, string) {
				request, fault := decode(t, "PutItem", `{"TableName": "abc", "Item": {"a": `+text+`}, "ExpressionAttributeValues": {":a": `+text+`}}`)
				if fault != "" {
					return nil, fault
				}
				put := request.(*api.PutItem)
				if err := item.Check(put.Item.Item); err != nil || put.Item.Fault != nil || put.ExpressionAttributeValues[":a"].Fault != nil {
					t.Errorf("the item is invalid: %v, %v", err, put.Item.Fault)
				}
				v, _ := put.Item.Item.Get("a")
				if c.limit == values {
					v = put.ExpressionAttributeValues[":a"].Value
				}
				return v, ""
			}
			text := set(c.kind, c.members)
			v, fault := read(text)
			if fault != "" {
				t.Fatal(fault)
			}
			if cut := v.Len() < c.members; cut != c.cut || cut && (v.Size() <= c.limit || v.Size() > c.limit+2<<10) {
				t.Errorf("%d members of %d bytes are kept", v.Len(), v.Size())
			}
			broken := strings.TrimSuffix(text, "]}") + `, 1]}`
			if _, fault := read(broken); !strings.Contains(fault, "SerializationException") {
				t.Errorf("a number at the end of the set is answered with %q", fault)
			}
		})
	}
}
