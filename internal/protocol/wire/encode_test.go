package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// An encoded item decodes to the same item.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := randomItem(t, 3)
		if got, want := ItemTextBytes(it), len(AppendItem(nil, it)); got != want {
			t.Fatalf("the text of %v has %d bytes, not %d", it, want, got)
		}
		written := AppendItem(nil, it)
		var put api.PutItem
		if err := Decode([]byte(`{"TableName": "abc", "Item": `+string(written)+`}`), &put); err != nil || put.Item.Fault != nil {
			t.Fatalf("%s: %v, %v", written, err, put.Item.Fault)
		}
		if !put.Item.Item.Equal(it) {
			t.Errorf("%v is written as %s and read back as %v", item.Map(it), written, item.Map(put.Item.Item))
		}
	})
}

// An item is encoded like the standard library would.
func TestItemIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := randomItem(t, 3)
		var got any
		if err := json.Unmarshal(AppendItem(nil, it), &got); err != nil {
			t.Fatalf("%s: %v", AppendItem(nil, it), err)
		}
		if want := plain(item.Map(it)).(map[string]any)["M"]; !reflect.DeepEqual(got, want) {
			t.Errorf("the item is %v, want %v", got, want)
		}
	})
}

// A list of items is encoded like each item alone, also if it is empty.
func TestItemsAreWrittenOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []item.Item
		want := "["
		for i := range rapid.IntRange(0, 5).Draw(t, "items") {
			it := item.Item(nil)
			if rapid.Bool().Draw(t, "there") {
				it = randomItem(t, 2)
			}
			items = append(items, it)
			if i > 0 {
				want += ","
			}
			want += string(AppendItem(nil, it))
		}
		if got := string(appendItems(nil, items)); got != want+"]" {
			t.Errorf("got %s, want %s]", got, want)
		}
	})
}

// plain is a value as encoding/json decodes it.
func plain(v item.Value) any {
	scalar := func(v item.Value) any {
		switch v.Type() {
		case item.N:
			return v.Number().String()
		case item.B:
			return base64.StdEncoding.EncodeToString(v.Bytes())
		}
		return string(v.Bytes())
	}
	var content any
	switch v.Type() {
	case item.S, item.N, item.B:
		content = scalar(v)
	case item.BOOL:
		content = v.Bool()
	case item.NULL:
		content = true
	case item.M:
		m := make(map[string]any)
		for name, e := range v.Item().All() {
			m[name] = plain(e)
		}
		content = m
	default:
		list := []any{}
		for e := range v.Elements() {
			if v.Type() == item.L {
				list = append(list, plain(e))
			} else {
				list = append(list, scalar(e))
			}
		}
		content = list
	}
	return map[string]any{v.Type().String(): content}
}

func TestReplies(t *testing.T) {
	it := item.Make(map[string]item.Value{"a": item.String("b\"\\\n\r\t\x00\x1f\u2028é")})
	half := 0.5
	yes := true
	name := "n"
	for _, c := range []struct {
		name  string
		reply any
		want  string
	}{
		{"nothing has no body", new(api.Nothing), ``},
		{"empty members are left out", new(api.GetItemReply), `{}`},
		{"an item without attributes is kept", &api.GetItemReply{Item: item.Make(nil)}, `{"Item":{}}`},
		{"characters are escaped where they must be", &api.GetItemReply{Item: it}, "{\"Item\":{\"a\":{\"S\":\"b\\\"\\\\\\n\\r\\t\\u0000\\u001f\u2028é\"}}}"},
		{"some members are kept even if they are empty", new(api.PageReply), `{"Count":0,"ScannedCount":0}`},
		{"an empty list is kept", &api.PageReply{Items: []item.Item{}}, `{"Count":0,"Items":[],"ScannedCount":0}`},
		{"items are separated by commas", &api.PageReply{Count: 2, ScannedCount: 3, Items: []item.Item{item.Make(nil), item.Make(nil)}}, `{"Count":2,"Items":[{},{}],"ScannedCount":3}`},
		{"a list that is always there may be empty", new(api.ListTablesReply), `{"TableNames":[]}`},
		{"a map that is always there may be empty", new(api.BatchGetItemReply), `{"Responses":{},"UnprocessedKeys":{}}`},
		{"units have a fraction", &api.GetItemReply{ConsumedCapacity: &api.ConsumedCapacity{TableName: "t", CapacityUnits: 1}}, `{"ConsumedCapacity":{"TableName":"t","CapacityUnits":1.0}}`},
		{"half units are halves", &api.GetItemReply{ConsumedCapacity: &api.ConsumedCapacity{TableName: "t", CapacityUnits: 0.5, ReadCapacityUnits: &half}},
			`{"ConsumedCapacity":{"TableName":"t","CapacityUnits":0.5,"ReadCapacityUnits":0.5}}`},
		{"zero units are kept", &api.GetItemReply{ConsumedCapacity: &api.ConsumedCapacity{}}, `{"ConsumedCapacity":{"CapacityUnits":0.0}}`},
		{"many units have no exponent", &api.GetItemReply{ConsumedCapacity: &api.ConsumedCapacity{CapacityUnits: 1e21}}, `{"ConsumedCapacity":{"CapacityUnits":1000000000000000000000.0}}`},
		{"maps are in order", &api.GetItemReply{ConsumedCapacity: &api.ConsumedCapacity{LocalSecondaryIndexes: map[string]api.Capacity{"b": {}, "a": {CapacityUnits: 2}}}},
			`{"ConsumedCapacity":{"CapacityUnits":0.0,"LocalSecondaryIndexes":{"a":{"CapacityUnits":2.0},"b":{"CapacityUnits":0.0}}}}`},
		{"times are seconds", &api.DescribeTableReply{Table: &api.TableDescription{CreationDateTime: api.TimeOf(time.UnixMilli(1700000000123)), DeletionProtectionEnabled: &yes}},
			`{"Table":{"CreationDateTime":1700000000.123,"DeletionProtectionEnabled":true,"ItemCount":0,"TableSizeBytes":0}}`},
		{"no time is left out", &api.DescribeTableReply{Table: &api.TableDescription{CreationDateTime: api.TimeOf(time.Time{})}}, `{"Table":{"ItemCount":0,"TableSizeBytes":0}}`},
		{"unprocessed writes are returned as requested", &api.BatchWriteItemReply{UnprocessedItems: map[string][]api.WriteRequest{"t": {
			{PutRequest: &api.PutRequest{Item: api.Attributes{Item: item.Make(nil)}}}, {DeleteRequest: &api.DeleteRequest{Key: api.Attributes{Item: item.Make(nil)}}}}}},
			`{"UnprocessedItems":{"t":[{"PutRequest":{"Item":{}}},{"DeleteRequest":{"Key":{}}}]}}`},
		{"unprocessed keys are returned as requested", &api.BatchGetItemReply{UnprocessedKeys: map[string]api.UnprocessedKeysPart{"t": {Keys: []item.Item{item.Make(nil)}, ProjectionExpression: &name, ExpressionAttributeNames: map[string]string{"#b": "b", "#a": "a"}}}},
			`{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{}],"ProjectionExpression":"n","ExpressionAttributeNames":{"#a":"a","#b":"b"}}}}`},
		{"collections have their sizes", &api.PutItemReply{ItemCollectionMetrics: &api.ItemCollectionMetrics{ItemCollectionKey: item.Make(nil), SizeEstimateRangeGB: []float64{0, 1}}},
			`{"ItemCollectionMetrics":{"ItemCollectionKey":{},"SizeEstimateRangeGB":[0.0,1.0]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(AppendReply([]byte("before"), c.reply))
			if got != "before"+c.want {
				t.Errorf("the reply is\n%s, want\n%s", got[len("before"):], c.want)
			}
			if c.want != "" && !json.Valid([]byte(got[len("before"):])) {
				t.Error("the reply is not JSON")
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault *apierror.Error
		want  string
	}{
		{"a fault has a type and a message", apierror.Validation("a \"b\"\n"), `{"__type":"com.amazon.coral.validate#ValidationException","message":"a \"b\"\n"}`},
		{"a fault without a message has a type", apierror.Serialization(""), `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{"some faults capitalise Message", apierror.Serialization("x"), `{"__type":"com.amazon.coral.service#SerializationException","Message":"x"}`},
		{"a detail is added to the message", apierror.ConditionFailed(&api.ConditionFailure{Item: item.Make(map[string]item.Value{"a": item.Null()})}),
			`{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"a":{"NULL":true}}}`},
		{"a detail without content is left out", apierror.ConditionFailed(new(api.ConditionFailure)),
			`{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(AppendError(nil, c.fault)); got != c.want {
				t.Errorf("the fault is\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// Every fault of a body is encoded as valid JSON.
func TestFaultsAreJSON(t *testing.T) {
	for _, body := range []string{`{"TableName": "\u0000\ud83d"}`, `{"TableName": "abc", "Select": "\"\\\u0001é"}`, `{"Item": {"a": {"B": "é12"}}}`, `{"Item": {"a": {"B": "a\u0000bc"}}}`} {
		for _, operation := range slices.Sorted(maps.Keys(requests)) {
			var fault *apierror.Error
			if !errors.As(Decode([]byte(body), requests[operation]()), &fault) {
				continue
			}
			if reply := AppendError(nil, fault); !json.Valid(reply) {
				t.Errorf("the fault of %s %s is %s", operation, body, reply)
			}
		}
	}
}
