package dax

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// notation is CBOR in its diagnostic notation; bytes that are CBOR themselves are shown as
// <<…>>, as that notation has it.
func notation(t testing.TB, b []byte) string {
	t.Helper()
	d := cbor.NewDecoder(b)
	var parts []string
	for d.Kind() != cbor.End {
		part, err := notationOf(&d)
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func notationOf(d *cbor.Decoder) (string, error) {
	switch d.Kind() {
	case cbor.Array, cbor.Map:
		return notationOfMembers(d)
	case cbor.Tag:
		tag, err := d.Tag()
		if err != nil {
			return "", err
		}
		inner, err := notationOf(d)
		return show(tag) + "(" + inner + ")", err
	case cbor.Text:
		text, err := d.Text()
		return show(string(text)), err
	case cbor.Bytes:
		b, err := d.Bytes()
		return "h'" + hex.EncodeToString(b) + "'", err
	case cbor.Float:
		v, _, err := d.Float()
		return show(v) + "_f", err
	case cbor.Null:
		d.Null()
		return "null", nil
	case cbor.False, cbor.True:
		b, err := d.Bool()
		return show(b), err
	}
	n, err := d.Int()
	return show(n), err
}

func notationOfMembers(d *cbor.Decoder) (string, error) {
	read, from, to, each := d.Array, "[", "]", 1
	if d.Kind() == cbor.Map {
		read, from, to, each = d.Map, "{", "}", 2
	}
	m, err := read()
	if err != nil {
		return "", err
	}
	if _, ok := m.Count(); !ok {
		from += "_ "
	}
	var parts []string
	for {
		more, err := d.Next(&m)
		if err != nil {
			return "", err
		}
		if !more {
			return from + strings.Join(parts, ", ") + to, nil
		}
		var member []string
		for range each {
			part, err := notationOf(d)
			if err != nil {
				return "", err
			}
			member = append(member, part)
		}
		parts = append(parts, strings.Join(member, ": "))
	}
}

// The replies were read by the JavaScript client, which found in them what was meant.
func TestReplies(t *testing.T) {
	units := &api.ConsumedCapacity{
		TableName: "Orders", CapacityUnits: 1.5, Table: &api.Capacity{CapacityUnits: 1},
		GlobalSecondaryIndexes: map[string]api.Capacity{"g": {CapacityUnits: 0.5}},
	}
	details := []api.ConsumedCapacity{{
		TableName: "Orders", CapacityUnits: 4, WriteCapacityUnits: new(4.0), Table: &api.Capacity{CapacityUnits: 2, WriteCapacityUnits: new(2.0)},
		GlobalSecondaryIndexes: map[string]api.Capacity{"g": {CapacityUnits: 2, WriteCapacityUnits: new(2.0)}},
		LocalSecondaryIndexes:  map[string]api.Capacity{"l": {CapacityUnits: 0}},
	}}
	metrics := api.ItemCollectionMetrics{ItemCollectionKey: itemOf(t, `{"id":{"S":"a"}}`), SizeEstimateRangeGB: []float64{0, 1}}
	metricsByTable := map[string][]api.ItemCollectionMetrics{"Orders": {metrics}}
	order := itemOf(t, `{"id":{"S":"a"},"at":{"N":"1.5"},"v":{"S":"x"}}`)
	other := itemOf(t, `{"id":{"S":"b"},"at":{"N":"100"},"v":{"S":"y"}}`)
	key := itemOf(t, `{"id":{"S":"b"},"at":{"N":"-2"}}`)
	const (
		orderKey     = "h'6161c1288010'"
		otherKey     = "h'6162c31c0020'"
		keyOnly      = "h'61623ecafff0'"
		v            = "h'056178'" // list 5, x
		w            = "h'056179'"
		none         = "h'01'"
		unitsBytes   = "h'664f7264657273fb3ff8000000000000fb3ff0000000000000a16167fb3fe0000000000000f6'"
		metricsBytes = "h'6161fb0000000000000000fb3ff0000000000000'"
		detailsMap   = `[{1: 4_f, 3: 4_f, 4: "Orders", 5: {1: 2_f, 3: 2_f}, 6: {"g": {1: 2_f, 3: 2_f}}, 7: {"l": {1: 0_f}}}]`
	)
	paths := []item.Path{{{Name: "no"}}, {{Name: "v"}}}
	projected := itemOf(t, `{"v":{"S":"x"}}`)
	orders := new("Orders")
	for _, c := range []struct {
		name    string
		request Request
		reply   any
		want    string
	}{
		{"a key schema", Request{In: &DefineKeySchema{"Orders"}}, nil, `{"id": "S", "at": "N"}`},
		{"names", Request{In: &DefineAttributeList{2}}, nil, `["b", "c"]`},
		{"no names", Request{In: &DefineAttributeList{1}}, nil, `[]`},
		{"a list", Request{In: &DefineAttributeListID{[]string{"d"}}}, nil, `3`},
		{"an empty list", Request{In: new(DefineAttributeListID)}, nil, `1`},
		{"nodes", Request{In: new(Endpoints)}, &EndpointsReply{[]Endpoint{
			{ID: 7, Hostname: "h", Address: []byte{127, 0, 0, 1}, Port: 8111, Leader: true, Zone: "z", LeaderSession: 5},
			{ID: 8, Address: make([]byte, 16), Port: 8112},
		}}, `[{0: 7, 1: "h", 2: h'7f000001', 3: 8111, 4: 1, 5: "z", 6: 5}, {0: 8, 1: "", 2: h'00000000000000000000000000000000', 3: 8112, 4: 2, 5: "", 6: 0}]`},

		{"an item", Request{In: &api.GetItem{TableName: "Orders"}}, &api.GetItemReply{Item: order}, `{0: ` + v + `}`},
		{"an item that is its key", Request{In: &api.GetItem{TableName: "Orders"}}, &api.GetItemReply{Item: key}, `{0: ` + none + `}`},
		{"no item", Request{In: &api.GetItem{TableName: "Orders"}}, &api.GetItemReply{}, `null`},
		{"no item, and units", Request{In: &api.GetItem{TableName: "Orders"}}, &api.GetItemReply{ConsumedCapacity: units}, `{1: ` + unitsBytes + `}`},
		{"a projection", Request{In: &api.GetItem{}, shown: newProjection(paths)}, &api.GetItemReply{Item: projected, ConsumedCapacity: units}, `{1: ` + unitsBytes + `, 0: {_ 1: "x"}}`},
		{"a projection of nothing", Request{In: &api.GetItem{}, shown: newProjection(paths)}, &api.GetItemReply{Item: itemOf(t, `{}`)}, `{0: {_ }}`},

		{"a write", Request{In: &api.PutItem{TableName: "Orders"}}, &api.PutItemReply{}, `null`},
		{"a put with everything", Request{In: &api.PutItem{TableName: "Orders"}}, &api.PutItemReply{Attributes: order, ConsumedCapacity: units, ItemCollectionMetrics: &metrics},
			`{1: ` + unitsBytes + `, 3: ` + metricsBytes + `, 2: ` + v + `}`},
		{"a delete", Request{In: &api.DeleteItem{TableName: "Orders"}}, &api.DeleteItemReply{Attributes: order}, `{2: ` + v + `}`},
		{"an update, ALL_NEW", Request{In: &api.UpdateItem{TableName: "Orders", ReturnValues: new("ALL_NEW")}}, &api.UpdateItemReply{Attributes: order}, `{2: ` + v + `}`},
		{"an update, UPDATED_NEW", Request{In: &api.UpdateItem{TableName: "Orders", ReturnValues: new("UPDATED_NEW")}}, &api.UpdateItemReply{Attributes: itemOf(t, `{"b":{"N":"1"},"c":{"S":"x"}}`)}, `{2: h'02a20001016178'}`},
		{"an update, UPDATED_OLD", Request{In: &api.UpdateItem{TableName: "Orders", ReturnValues: new("UPDATED_OLD")}}, &api.UpdateItemReply{}, `null`},

		{"a page", Request{In: &api.Query{TableName: "Orders"}}, &api.PageReply{Count: 3, ScannedCount: 4, Items: []item.Item{order, other, key}, LastEvaluatedKey: key, ConsumedCapacity: units},
			`{7: [[` + orderKey + `, ` + v + `], [` + otherKey + `, ` + w + `], [` + keyOnly + `, ` + none + `]], 8: 3, 10: 4, 9: ` + keyOnly + `, 1: ` + unitsBytes + `}`},
		{"a page of an index", Request{In: &api.Scan{TableName: "Orders", Paged: api.Paged{IndexName: new("g")}}}, &api.PageReply{Items: []item.Item{}, LastEvaluatedKey: key},
			`{7: [], 8: 0, 10: 0, 9: h'bf626174216269646162ff'}`},
		{"a count", Request{In: &api.Query{TableName: "Orders"}}, &api.PageReply{Count: 3, ScannedCount: 4}, `{8: 3, 10: 4}`},
		{"a page of a projection", Request{In: &api.Query{TableName: "Orders"}, shown: newProjection(paths)}, &api.PageReply{Count: 1, ScannedCount: 1, Items: []item.Item{projected}}, `{7: [{_ 1: "x"}], 8: 1, 10: 1}`},

		{"a batch of reads", Request{In: &api.BatchGetItem{}, byTable: map[string]*projectionTree{"Users": newProjection(paths)}}, &api.BatchGetItemReply{
			Responses:        map[string][]item.Item{"Users": {projected}, "Orders": {order, other}},
			UnprocessedKeys:  map[string]api.UnprocessedKeysPart{"Orders": {Keys: []item.Item{key}}},
			ConsumedCapacity: []api.ConsumedCapacity{*units},
		}, `[{"Orders": [` + orderKey + `, ` + v + `, ` + otherKey + `, ` + w + `], "Users": [{_ 1: "x"}]}, {"Orders": [` + keyOnly + `]}] [` + unitsBytes + `]`},
		{"a batch of nothing", Request{In: &api.BatchGetItem{}}, &api.BatchGetItemReply{}, `[{}, {}] []`},
		{"a batch of writes", Request{In: &api.BatchWriteItem{}}, &api.BatchWriteItemReply{
			UnprocessedItems: map[string][]api.WriteRequest{"Orders": {
				{PutRequest: &api.PutRequest{Item: api.Attributes{Item: order}}},
				{DeleteRequest: &api.DeleteRequest{Key: api.Attributes{Item: key}}},
			}},
			ConsumedCapacity: []api.ConsumedCapacity{*units}, ItemCollectionMetrics: metricsByTable,
		}, `{"Orders": [` + orderKey + `, ` + v + `, ` + keyOnly + `, null]} [` + unitsBytes + `] {"Orders": [` + metricsBytes + `]}`},

		{"a transaction of reads", Request{
			In:     &api.TransactGetItems{TransactItems: []api.TransactGetItem{{Get: &api.Get{TableName: orders}}, {Get: &api.Get{TableName: orders}}, {Get: &api.Get{TableName: orders}}}},
			byItem: []*projectionTree{nil, nil, newProjection(paths)},
		}, &api.TransactGetItemsReply{Responses: []api.ItemResponse{{Item: order}, {}, {Item: projected}}, ConsumedCapacity: details}, `[[` + v + `, null, {_ 1: "x"}], ` + detailsMap + `]`},
		{"a transaction of writes", Request{In: &api.TransactWriteItems{}}, &api.TransactWriteItemsReply{ConsumedCapacity: details, ItemCollectionMetrics: metricsByTable},
			`[[], ` + detailsMap + `, {"Orders": [` + metricsBytes + `]}]`},
		{"a transaction, nothing to report", Request{In: &api.TransactWriteItems{}}, &api.TransactWriteItemsReply{}, `[[], [], {}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := []byte{0xf6}
			got, err := c.request.AppendReply(before, newTestCatalog(), c.reply)
			if err != nil {
				t.Fatal(err)
			}
			if text := notation(t, got); text != "null [] "+c.want {
				t.Errorf("got  %s\nwant null [] %s", text, c.want)
			}
		})
	}
}

// A reply that the catalog has no list for is an error, and nothing of it is sent.
func TestReplyWithoutList(t *testing.T) {
	c := newTestCatalog()
	c.full = true
	request := Request{In: &api.GetItem{TableName: "Users"}}
	got, err := request.AppendReply([]byte("before"), c, &api.GetItemReply{Item: itemOf(t, `{"id":{"S":"a"},"new":{"N":"1"}}`)})
	if err == nil || string(got) != "before" {
		t.Errorf("got %q, %v, want an error and no bytes", got, err)
	}
}

func TestErrors(t *testing.T) {
	cancelled := apierror.Cancelled("ConditionalCheckFailed, None, ConditionalCheckFailed", &api.TransactionCanceled{CancellationReasons: []api.CancellationReason{
		{Code: "ConditionalCheckFailed", Message: "failed", Item: itemOf(t, `{"id":{"S":"a"},"at":{"N":"1"},"v":{"S":"x"}}`)},
		{Code: "None"},
		{Code: "ConditionalCheckFailed", Message: "failed", Item: itemOf(t, `{"id":{"S":"a"},"new":{"S":"x"}}`)},
	}})
	orders, users := new("Orders"), new("Users")
	transaction := Request{In: &api.TransactWriteItems{TransactItems: []api.TransactWriteItem{
		{ConditionCheck: &api.ConditionCheck{TableName: orders}}, {Delete: &api.Delete{TableName: users}}, {Put: &api.Put{TableName: users}},
	}}}
	full := newTestCatalog()
	full.full = true
	for _, c := range []struct {
		name    string
		request Request
		err     *apierror.Error
		want    string
	}{
		{"a validation", Request{}, apierror.Validation("no"), `[4, 37, 38, 39, 46] "no" ["id", "ValidationException", 400]`},
		{"no table", Request{}, apierror.NoTable(), `[4, 37, 38, 39, 41] "Requested resource not found" ["id", "ResourceNotFoundException", 400]`},
		{"a condition", Request{}, apierror.ConditionFailed(&api.ConditionFailure{}), `[4, 37, 38, 39, 43] "The conditional request failed" ["id", "ConditionalCheckFailedException", 400]`},
		{"no permission", Request{}, apierror.AccessDenied("no"), `[4, 23, 31, 34] "no" ["id", "AccessDeniedException", 400]`},
		{"no signature", Request{}, &apierror.Error{Code: "MissingAuthenticationTokenException", Status: 400}, `[4, 23, 31, 33] "" ["id", "MissingAuthenticationTokenException", 400]`},
		{"a failure", Request{}, &apierror.Error{Code: "InternalServerError", Status: 500, Message: "oops"}, `[1, 37, 38, 39, 47] "oops" ["id", "InternalServerError", 500]`},
		{"another error", Request{}, apierror.DuplicateItem(), `[4, 37, 38, 39] "Duplicate primary key exists in table" ["id", "DuplicateItemException", 400]`},
		{"an unknown method", Request{}, apierror.UnknownOperation(), `[4, 37, 38, 44] "" ["id", "UnknownOperationException", 400]`},
		{"a transaction", transaction, cancelled, `[4, 37, 38, 39, 58] "Transaction cancelled, please refer cancellation reasons for specific reasons [ConditionalCheckFailed, None, ConditionalCheckFailed]" ` +
			`["id", "TransactionCanceledException", 400, ["ConditionalCheckFailed", "failed", h'056178', "None", null, null, "ConditionalCheckFailed", "failed", null]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := notation(t, c.request.AppendError(nil, full, "id", c.err)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if got, want := AppendError(nil, "id", apierror.NoTable()), (Request{}).AppendError(nil, nil, "id", apierror.NoTable()); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// Requests that end the connection, and whether the client is told.
func TestConnectionErrors(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		told        bool
	}{
		{"another service", "021a0fb0cc6a", false},
		{"no number", "6161", false},
		{"an unknown method", "011a3ade68b1", true},
		{"a method of tables", "013a12ae9535", true},
		{"too large", "011a0fb0cc6a5a7fffffff", true},
		{"malformed", "011a0fb0cc6a1c", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadRequest(NewReader(bytes.NewReader(unhex(t, c.bytes))))
			var fault *apierror.Error
			if err == nil || errors.As(err, &fault) != c.told {
				t.Errorf("error is %v, told %v, want %v", err, fault != nil, c.told)
			}
		})
	}
}

// An option that a method does not have, or a value that an option does not have, is a fault.
func TestInvalidOptions(t *testing.T) {
	const get, query = "011a0fb0cc6a4555736572734161", "013a3781c2ae455573657273f6"
	for _, c := range []struct{ name, bytes, want string }{
		{"an unknown option", get + "bf181901ff", "SerializationException: GetItem has no option 25"},
		{"a negative option", get + "bf2001ff", "SerializationException: GetItem has no option -1"},
		{"an option of another method", get + "bf0702ff", "SerializationException: GetItem has no option 7"},
		{"an unknown number", get + "bf0309ff", "SerializationException: The arguments of GetItem are malformed"},
		{"an unnamed number", query + "bf0f00ff", "SerializationException: The arguments of Query are malformed"},
		{"a limit of 64 bits", query + "bf0d1b7fffffffffffffffff", "SerializationException: The arguments of Query are malformed"},
		{"a flag of 2", query + "bf0e02ff", "SerializationException: The arguments of Query are malformed"},
		{"a text for options", get + "6161", "SerializationException: The arguments of GetItem are malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := decodeBytes(t, unhex(t, c.bytes)); err == nil || err.Error() != c.want {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

// The Go client sends ALL_ATTRIBUTES for a query without Select, also of an index that does not
// have all attributes. Others mean it.
func TestSelectOfGoClient(t *testing.T) {
	b := unhex(t, "013a3781c2ae455573657273f6"+"bf0f01ff")
	for _, lenient := range []bool{false, true} {
		r := NewReader(bytes.NewReader(b))
		r.lenient = lenient
		raw, err := ReadRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		request, err := raw.Decode(newTestCatalog())
		if err != nil {
			t.Fatal(err)
		}
		if got := request.In.(*api.Query).Select; (got == nil) != lenient {
			t.Errorf("lenient %v: Select is %v", lenient, got)
		}
	}
}

// Batches and transactions with more members than any may have are not decoded.
func TestLargeBatches(t *testing.T) {
	array := func(n int, element string) string {
		return hex.EncodeToString(cbor.AppendArray(nil, n)) + strings.Repeat(element, n)
	}
	text := func(s string) string { return hex.EncodeToString(cbor.AppendText(nil, s)) }
	method := func(id int64) string { return "01" + hex.EncodeToString(cbor.AppendInt(nil, id)) }
	for _, c := range []struct{ name, bytes, want string }{
		{"keys", method(-697851100) + "a1" + text("Users") + "83f4f6" + array(1001, "4161") + "f6", "ValidationException: Too many items requested for the BatchGetItem call"},
		{"writes", method(116217951) + "a1" + text("Users") + array(2002, "4161f6")[:6] + strings.Repeat("4161f6", 1001) + "f6", "ValidationException: Too many items requested for the BatchWriteItem call"},
		{"actions", method(1866287579) + array(101, "455573657273") + array(101, "4161") + "f6" + "f6",
			"ValidationException: 1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100"},
		{"a table twice", method(-697851100) + "a2" + strings.Repeat(text("Users")+"83f4f680", 2) + "f6", "SerializationException: The arguments of BatchGetItem are malformed"},
		{"arrays of different lengths", method(1866287579) + array(2, "455573657273") + array(1, "4161") + "f6" + "f6", "SerializationException: The arguments of TransactGetItems are malformed"},
		{"names that no item has room for", method(-1230579644) + array(150_000, "66616161616161"), "ValidationException: Item size has exceeded the maximum allowed size"},
		{"a name twice", method(-1230579644) + array(2, "6161"), "ValidationException: An attribute list has the name a twice"},
		{"an empty name", method(-1230579644) + array(1, "60"), "ValidationException: Empty attribute name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := decodeBytes(t, unhex(t, c.bytes)); err == nil || err.Error() != c.want {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

// Items that cannot be put are faults of the request.
func TestInvalidItems(t *testing.T) {
	const put = "013a7d8e7e56455573657273" + "4161" // of the key a
	for _, c := range []struct{ name, attributes, want string }{
		{"an unknown list", "4123", "ValidationException: there is no attribute list -4"},
		{"too few values", "4102", "SerializationException: The arguments of PutItem are malformed"},
		{"too many values", "4405000000", "SerializationException: The arguments of PutItem are malformed"},
		{"no list", "40", "SerializationException: The arguments of PutItem are malformed"},
		{"the key in the list", "420700", "ValidationException: The provided key element does not match the schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			catalog := newTestCatalog()
			catalog.lists = append(catalog.lists, []string{"id"})
			raw, err := ReadRequest(NewReader(bytes.NewReader(unhex(t, put+c.attributes+"f6"))))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := raw.Decode(catalog); err == nil || err.Error() != c.want {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

// The buffer grows as bytes arrive, after they were reserved.
func TestReserve(t *testing.T) {
	body := append(unhex(t, "011a0fb0cc6a"), cbor.AppendBytes(nil, make([]byte, 1<<20))...)
	body = append(body, cbor.AppendBytes(nil, "")...)
	body = append(body, 0xf6)
	reserved := 0
	r := NewReader(bytes.NewReader(body))
	r.Reserve = func(n int) error { reserved = n; return nil }
	if _, err := ReadRequest(r); err != nil {
		t.Fatal(err)
	}
	if reserved < 1<<20 || reserved > 4<<20 {
		t.Errorf("%d bytes are reserved for a request of %d", reserved, len(body))
	}
	full := errors.New("there is no memory")
	r = NewReader(bytes.NewReader(body))
	r.Reserve = func(n int) error {
		if n > 1<<16 {
			return full
		}
		reserved = n
		return nil
	}
	if _, err := ReadRequest(r); !errors.Is(err, full) {
		t.Errorf("error is %v, want %v", err, full)
	}
	// A length that no bytes follow reserves little.
	r = NewReader(bytes.NewReader(body[:20]))
	r.Reserve = func(n int) error { reserved = n; return nil }
	if _, err := ReadRequest(r); err == nil || reserved > 64<<10 {
		t.Errorf("%d bytes are reserved for a request that is cut, %v", reserved, err)
	}
}
