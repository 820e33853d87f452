package ops

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// compile replaces the texts of a request by compiled expressions.
func compile(t *testing.T, request any) {
	t.Helper()
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	condition := func(kind expr.Kind, text **string, b *expr.Bindings) *expr.Condition {
		if *text == nil {
			return nil
		}
		parsed, err := expr.ParseCondition(kind, **text)
		ok(err)
		bound, err := parsed.Bind(b)
		ok(err)
		*text = nil
		return bound
	}
	update := func(text **string, b *expr.Bindings) *expr.Update {
		if *text == nil {
			return nil
		}
		parsed, err := expr.ParseUpdate(**text)
		ok(err)
		bound, err := parsed.Bind(b)
		ok(err)
		*text = nil
		return bound
	}
	projection := func(c *api.Compiled, text **string, names *map[string]string) *api.Compiled {
		if *text != nil {
			parsed, err := expr.ParseProjection(**text)
			ok(err)
			bound, err := parsed.Bind(bindings(*names, nil))
			ok(err)
			c.Projection, *text = bound.Paths(), nil
		}
		*names = nil
		return c
	}
	paged := func(p *api.Paged, key *expr.KeyCondition) {
		b := bindings(p.ExpressionAttributeNames, p.ExpressionAttributeValues)
		p.Compiled = &api.Compiled{KeyCondition: key, Filter: condition(expr.FilterExpression, &p.FilterExpression, b)}
		projection(p.Compiled, &p.ProjectionExpression, &p.ExpressionAttributeNames)
		p.Expressions = api.Expressions{}
	}
	conditional := func(c *api.Conditional, text **string) {
		b := bindings(c.ExpressionAttributeNames, c.ExpressionAttributeValues)
		c.Compiled = &api.Compiled{Condition: condition(expr.ConditionExpression, &c.ConditionExpression, b)}
		if text != nil {
			c.Compiled.Update = update(text, b)
		}
		c.Expressions = api.Expressions{}
	}
	action := func(c *api.ActionCondition, text **string) {
		b := bindings(c.ExpressionAttributeNames, c.ExpressionAttributeValues)
		c.Compiled = &api.Compiled{Condition: condition(expr.ConditionExpression, &c.ConditionExpression, b)}
		if text != nil {
			c.Compiled.Update = update(text, b)
		}
		c.Expressions = api.Expressions{}
	}
	switch in := request.(type) {
	case *api.GetItem:
		in.Compiled = projection(new(api.Compiled), &in.ProjectionExpression, &in.ExpressionAttributeNames)
	case *api.PutItem:
		conditional(&in.Conditional, nil)
	case *api.DeleteItem:
		conditional(&in.Conditional, nil)
	case *api.UpdateItem:
		conditional(&in.Conditional, &in.UpdateExpression)
	case *api.Query:
		var key *expr.KeyCondition
		if in.KeyConditionExpression != nil {
			parsed, err := expr.ParseKeyCondition(*in.KeyConditionExpression)
			ok(err)
			key, err = parsed.Bind(bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues))
			ok(err)
			in.KeyConditionExpression = nil
		}
		paged(&in.Paged, key)
	case *api.Scan:
		paged(&in.Paged, nil)
	case *api.BatchGetItem:
		for name, part := range in.RequestItems {
			part.Compiled = projection(new(api.Compiled), &part.ProjectionExpression, &part.ExpressionAttributeNames)
			in.RequestItems[name] = part
		}
	case *api.TransactGetItems:
		for i := range in.TransactItems {
			get := in.TransactItems[i].Get
			get.Compiled = projection(new(api.Compiled), &get.ProjectionExpression, &get.ExpressionAttributeNames)
		}
	case *api.TransactWriteItems:
		for i := range in.TransactItems {
			switch a := &in.TransactItems[i]; {
			case a.Put != nil:
				action(&a.Put.ActionCondition, nil)
			case a.Delete != nil:
				action(&a.Delete.ActionCondition, nil)
			case a.Update != nil:
				action(&a.Update.ActionCondition, &a.Update.UpdateExpression)
			case a.ConditionCheck != nil:
				b := bindings(a.ConditionCheck.ExpressionAttributeNames, a.ConditionCheck.ExpressionAttributeValues)
				a.ConditionCheck.Compiled = &api.Compiled{Condition: condition(expr.ConditionExpression, &a.ConditionCheck.ConditionExpression, b)}
				a.ConditionCheck.Expressions = api.Expressions{}
			}
		}
	}
}

// equivalent are requests with texts that are answered the same if they arrive compiled.
var equivalent = []struct{ operation, body string }{
	{"PutItem", `{"TableName":"Tab","Item":{"pk":{"S":"a"},"sk":{"N":"1"},"n":{"N":"5"},"l":{"L":[{"S":"x"},{"S":"y"}]},"m":{"M":{"k":{"S":"v"}}}},"ConditionExpression":"attribute_not_exists(pk)"}`},
	{"PutItem", `{"TableName":"Tab","Item":{"pk":{"S":"a"},"sk":{"N":"1"}},"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`},
	{"PutItem", `{"TableName":"Tab","Item":{"pk":{"S":"a"},"sk":{"N":"2"},"n":{"N":"7"}},"ReturnConsumedCapacity":"TOTAL"}`},
	{"GetItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"ProjectionExpression":"n, l[1], #m.k","ExpressionAttributeNames":{"#m":"m"},"ReturnConsumedCapacity":"TOTAL"}`},
	{"GetItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"ProjectionExpression":"pk.x"}`},
	{"UpdateItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"SET n = n + :one, z = if_not_exists(z, :one) REMOVE l[0]","ConditionExpression":"n > :one","ExpressionAttributeValues":{":one":{"N":"1"}},"ReturnValues":"UPDATED_NEW"}`},
	{"UpdateItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"SET sk = :one","ExpressionAttributeValues":{":one":{"N":"1"}}}`},
	{"UpdateItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"ReturnValues":"ALL_NEW"}`},
	{"UpdateItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"SET n = :s + n","ConditionExpression":"n < :s","ExpressionAttributeValues":{":s":{"N":"0"}}}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p AND sk >= :s","FilterExpression":"n > :s","ProjectionExpression":"sk, n","ExpressionAttributeValues":{":p":{"S":"a"},":s":{"N":"1"}},"ReturnConsumedCapacity":"TOTAL"}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"a"}},"Limit":1}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"a"}},"Limit":0}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p AND n = :p","ExpressionAttributeValues":{":p":{"S":"a"}}}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk > :p","ExpressionAttributeValues":{":p":{"S":"a"}}}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p","FilterExpression":"sk = :p","ExpressionAttributeValues":{":p":{"S":"a"}}}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p","ProjectionExpression":"n","Select":"COUNT","ExpressionAttributeValues":{":p":{"S":"a"}}}`},
	{"Query", `{"TableName":"Tab","KeyConditionExpression":"pk = :p","Select":"COUNT","ExpressionAttributeValues":{":p":{"S":"a"}}}`},
	{"Query", `{"TableName":"Tab"}`},
	{"Scan", `{"TableName":"Tab","FilterExpression":"n BETWEEN :a AND :b AND NOT attribute_exists(q)","ExpressionAttributeValues":{":a":{"N":"1"},":b":{"N":"9"}},"Limit":10}`},
	{"Scan", `{"TableName":"Tab","Select":"SPECIFIC_ATTRIBUTES"}`},
	{"Scan", `{"TableName":"Tab","Limit":0}`},
	{"Scan", `{"TableName":"missing"}`},
	{"BatchGetItem", `{"RequestItems":{"Tab":{"Keys":[{"pk":{"S":"a"},"sk":{"N":"1"}},{"pk":{"S":"a"},"sk":{"N":"9"}}],"ProjectionExpression":"n"}},"ReturnConsumedCapacity":"TOTAL"}`},
	{"BatchGetItem", `{"RequestItems":{"Tab":{"Keys":[{"pk":{"S":"a"},"sk":{"N":"1"}},{"pk":{"S":"a"},"sk":{"N":"1"}}],"ProjectionExpression":"n"}}}`},
	{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"ProjectionExpression":"n"}},{"Get":{"TableName":"Tab","Key":{"pk":{"S":"no"},"sk":{"N":"1"}}}}],"ReturnConsumedCapacity":"TOTAL"}`},
	{"TransactWriteItems", `{"TransactItems":[{"Update":{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"ADD n :one","ExpressionAttributeValues":{":one":{"N":"1"}}}},{"ConditionCheck":{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"2"}},"ConditionExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"7"}}}},{"Put":{"TableName":"Tab","Item":{"pk":{"S":"b"},"sk":{"N":"1"}},"ConditionExpression":"attribute_not_exists(pk)"}},{"Delete":{"TableName":"Tab","Key":{"pk":{"S":"c"},"sk":{"N":"1"}}}}],"ClientRequestToken":"one","ReturnConsumedCapacity":"TOTAL"}`},
	{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Tab","Item":{"pk":{"S":"b"},"sk":{"N":"1"}},"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}},{"Delete":{"TableName":"Tab","Key":{"pk":{"S":"c"},"sk":{"N":"1"}}}}]}`},
	{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Tab","Item":{"pk":{"S":"b"},"sk":{"N":"1"}},"ConditionExpression":"attribute_exists(pk)"}}],"ClientRequestToken":"two"}`},
	{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Tab","Item":{"pk":{"S":"b"},"sk":{"N":"1"}},"ConditionExpression":"attribute_exists(sk)"}}],"ClientRequestToken":"two"}`},
	{"TransactWriteItems", `{"TransactItems":[]}`},
	{"DeleteItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"2"}},"ConditionExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"8"}}}`},
	{"DeleteItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"2"}},"ConditionExpression":"n = :n","ExpressionAttributeValues":{":n":{"N":"7"}},"ReturnValues":"ALL_OLD"}`},
	{"DeleteItem", `{"TableName":"Tab","Key":{"pk":{"S":"a"}},"ConditionExpression":"attribute_exists(pk)"}`},
}

const equivalentTable = `"TableName":"Tab","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]`

// Requests with compiled expressions have the replies, errors and statistics of those with
// texts.
func TestCompiledRequests(t *testing.T) {
	texts, nodes := newTableTest(t, 0), newTableTest(t, 0)
	texts.make(equivalentTable)
	nodes.make(equivalentTable)
	for _, r := range equivalent {
		want := textOf(answer(t.Context(), texts.s, r.operation, []byte(r.body), new(buffer.Scratch)))

		in := reflect.New(requestType(t, r.operation)).Interface()
		_ = wire.Decode([]byte(r.body), in) // NewRequest checks the constraints
		compile(t, in)
		var reply any
		request, err := NewRequest(r.operation, in)
		if err == nil {
			reply, err = nodes.s.Answer(t.Context(), request)
		}
		var encoded []byte
		if err == nil {
			encoded = wire.AppendReply(nil, reply)
		}
		if got := textOf(encoded, err); got != want {
			t.Errorf("%s %s\n got %s\nwant %s", r.operation, r.body, got, want)
		}
	}
	for i, shape := range texts.s.Shapes().Shapes {
		if other := nodes.s.Shapes().Shapes[i]; other.Shape != shape.Shape || other.Requests != shape.Requests {
			t.Errorf("shape %d is %+v, want %+v", i, other, shape)
		}
	}
}

// A name that is too long is a fault of the request, without the placeholder that nodes do not have.
func TestCompiledNamesThatAreTooLong(t *testing.T) {
	nodes := newTableTest(t, 0)
	nodes.make(equivalentTable)
	in := &api.UpdateItem{}
	_ = wire.Decode([]byte(`{"TableName":"Orders","Key":{"id":{"S":"a"}},"UpdateExpression":"REMOVE #n","ExpressionAttributeNames":{"#n":"`+strings.Repeat("x", 65536)+`"}}`), in)
	compile(t, in)
	request, err := NewRequest("UpdateItem", in)
	if err == nil {
		_, err = nodes.s.Answer(t.Context(), request)
	}
	if want := "1 validation error detected: Attribute name is too large, must be less than 65536 bytes"; !strings.Contains(textOf(nil, err), want) {
		t.Errorf("the fault is %.300s, want %s", textOf(nil, err), want)
	}
}

func textOf(reply []byte, err error) string {
	if fault, ok := errors.AsType[*apierror.Error](err); ok {
		return string(wire.AppendError(nil, fault))
	}
	if err != nil {
		return err.Error()
	}
	return string(reply)
}

func requestType(t *testing.T, operation string) reflect.Type {
	t.Helper()
	r, _ := Read(operation, []byte("{}"))
	if r.in == nil {
		t.Fatalf("no operation %s", operation)
	}
	return reflect.TypeOf(r.in).Elem()
}

// Without memory for its items, a request has no effect and can be repeated.
func TestAnswerReservesItems(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(equivalentTable)
	large := strings.Repeat("x", 300_000)
	for _, sk := range []string{"1", "2", "3"} {
		if _, err := answer(t.Context(), tt.s, "PutItem", []byte(`{"TableName":"Tab","Item":{"pk":{"S":"a"},"sk":{"N":"`+sk+`"},"text":{"S":"`+large+`"}}}`), new(buffer.Scratch)); err != nil {
			t.Fatal(err)
		}
	}
	for operation, body := range map[string]string{
		"GetItem": `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}`,
		"Scan":    `{"TableName":"Tab"}`,
	} {
		request, err := Read(operation, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		room := new(noRoom)
		if _, err := tt.s.Answer(WithCaller(t.Context(), Caller{Room: room}), request); !errors.Is(err, buffer.ErrNoRoom) || room.asked < 300_000 {
			t.Errorf("%s: error %v after a reservation of %d bytes", operation, err, room.asked)
		}
	}
}

// Numbers of few bytes have many digits in a reply, whatever its encoding.
func TestAnswerReservesDigits(t *testing.T) {
	const numbers, digits = 20_000, 50 // at least, of each
	tt := newTableTest(t, 0)
	tt.make(equivalentTable)
	list := strings.Repeat(`,{"N":"1E125"}`, numbers)[1:]
	if _, err := answer(t.Context(), tt.s, "PutItem", []byte(`{"TableName":"Tab","Item":{"pk":{"S":"a"},"sk":{"N":"1"},"l":{"L":[`+list+`]}}}`), new(buffer.Scratch)); err != nil {
		t.Fatal(err)
	}
	for operation, body := range map[string]string{
		"GetItem":          `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}`,
		"Scan":             `{"TableName":"Tab"}`,
		"BatchGetItem":     `{"RequestItems":{"Tab":{"Keys":[{"pk":{"S":"a"},"sk":{"N":"1"}}]}}}`,
		"TransactGetItems": `{"TransactItems":[{"Get":{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}}]}`,
		"UpdateItem":       `{"TableName":"Tab","Key":{"pk":{"S":"a"},"sk":{"N":"1"}},"UpdateExpression":"SET x = pk","ReturnValues":"ALL_NEW"}`,
	} {
		request, err := Read(operation, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		room := new(countedRoom)
		if _, err := tt.s.Answer(WithCaller(t.Context(), Caller{Room: room}), request); err != nil || room.held < numbers*digits {
			t.Errorf("%s reserves %d bytes (%v)", operation, room.held, err)
		}
	}
}

// countedRoom has all the memory that is asked for.
type countedRoom struct{ held int }

func (r *countedRoom) Reserve(bytes int) bool { r.held += bytes; return true }
func (r *countedRoom) Force(bytes int)        { r.held += bytes }
func (r *countedRoom) Return(bytes int)       { r.held -= bytes }
func (r *countedRoom) Free(bytes int)         { r.held -= bytes }
func (r *countedRoom) Commit()                {}

// noRoom has no free memory.
type noRoom struct{ asked int }

func (r *noRoom) Reserve(bytes int) bool { r.asked += bytes; return false }
func (r *noRoom) Force(int)              {}
func (r *noRoom) Return(int)             {}
func (r *noRoom) Free(int)               {}
func (r *noRoom) Commit()                {}

// A caller of a DAX cluster needs permissions on the cluster, and none on tables.
func TestClusterPermissions(t *testing.T) {
	const (
		cluster = "arn:aws:dax:us-east-1:000000000000:cache/mine"
		key     = `"TableName":"Mine","Key":{"pk":{"S":"1"}}`
	)
	for _, c := range []struct {
		name, statements, operation, body string
		allowed                           bool
	}{
		{"the action on the cluster", `{"Effect":"Allow","Action":"dax:GetItem","Resource":"` + cluster + `"}`, "GetItem", `{` + key + `}`, true},
		{"another cluster", `{"Effect":"Allow","Action":"dax:*","Resource":"` + cluster + `2"}`, "GetItem", `{` + key + `}`, false},
		{"another action", `{"Effect":"Allow","Action":"dax:PutItem","Resource":"` + cluster + `"}`, "GetItem", `{` + key + `}`, false},
		{"the table alone", `{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}`, "GetItem", `{` + key + `}`, false},
		{"a denied table", `{"Effect":"Allow","Action":"dax:*","Resource":"*"},{"Effect":"Deny","Action":"dynamodb:*","Resource":"*"}`, "GetItem", `{` + key + `}`, true},
		{"all actions of a transaction", `{"Effect":"Allow","Action":["dax:DeleteItem","dax:ConditionCheckItem"],"Resource":"` + cluster + `"}`, "TransactWriteItems",
			`{"TransactItems":[{"Delete":{` + key + `}},{"ConditionCheck":{"TableName":"Secret","Key":{"pk":{"S":"1"}},"ConditionExpression":"attribute_not_exists(pk)"}}]}`, true},
		{"one action of a transaction", `{"Effect":"Allow","Action":"dax:DeleteItem","Resource":"` + cluster + `"}`, "TransactWriteItems",
			`{"TransactItems":[{"Delete":{` + key + `}},{"ConditionCheck":{"TableName":"Secret","Key":{"pk":{"S":"1"}},"ConditionExpression":"attribute_not_exists(pk)"}}]}`, false},
		{"reads outside of transactions", `{"Effect":"Allow","Action":"dax:GetItem","Resource":"*"},{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringEquals":{"dax:EnclosingOperation":"TransactGetItems"}}}`, "TransactGetItems",
			`{"TransactItems":[{"Get":{` + key + `}}]}`, false},
		{"no operation of DAX", `{"Effect":"Allow","Action":"*","Resource":"*"}`, "DescribeTable", `{"TableName":"Mine"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAccessTest(t, c.statements)
			request, err := Read(c.operation, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.s.Answer(WithCaller(t.Context(), Caller{Region: "us-east-1", Identity: a.identity, Cluster: cluster}), request)
			if (err == nil) != c.allowed {
				t.Errorf("error %v, want allowed %v", err, c.allowed)
			}
			if err != nil && !strings.Contains(err.Error(), "AccessDenied") {
				t.Error(err)
			}
		})
	}
}

// Policies that are about attributes apply to compiled expressions.
func TestAttributesOfCompiledRequests(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"dynamodb:Attributes":"pk"}}}`)
	const key, values = `"TableName":"Mine","Key":{"pk":{"S":"1"}}`, `,"ExpressionAttributeValues":{":v":{"S":"1"}}`
	for _, r := range []struct{ operation, body string }{
		{"GetItem", `{` + key + `,"ProjectionExpression":"%"}`},
		{"BatchGetItem", `{"RequestItems":{"Mine":{"Keys":[{"pk":{"S":"1"}}],"ProjectionExpression":"%"}}}`},
		{"TransactGetItems", `{"TransactItems":[{"Get":{` + key + `,"ProjectionExpression":"%"}}]}`},
		{"Query", `{"TableName":"Mine","KeyConditionExpression":"pk = :v","FilterExpression":"attribute_exists(%.x)","ProjectionExpression":"pk"` + values + `}`},
		{"Scan", `{"TableName":"Mine","ProjectionExpression":"%"}`},
		{"PutItem", `{"TableName":"Mine","Item":{"pk":{"S":"1"}},"ConditionExpression":"%.x <> :v"` + values + `}`},
		{"DeleteItem", `{` + key + `,"ConditionExpression":"attribute_not_exists(%.x)"}`},
		{"UpdateItem", `{` + key + `,"UpdateExpression":"REMOVE %.x"}`},
		{"TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Mine","Item":{"pk":{"S":"1"}},"ConditionExpression":"%.x <> :v"` + values + `}}]}`},
		{"TransactWriteItems", `{"TransactItems":[{"Delete":{` + key + `,"ConditionExpression":"%.x <> :v"` + values + `}}]}`},
		{"TransactWriteItems", `{"TransactItems":[{"Update":{` + key + `,"UpdateExpression":"REMOVE %.x"}}]}`},
		{"TransactWriteItems", `{"TransactItems":[{"ConditionCheck":{` + key + `,"ConditionExpression":"attribute_not_exists(%.x)"}}]}`},
	} {
		for _, name := range []string{"pk", "zz"} {
			body := strings.ReplaceAll(r.body, "%", name)
			in := reflect.New(requestType(t, r.operation)).Interface()
			if err := wire.Decode([]byte(body), in); err != nil {
				t.Fatal(err)
			}
			compile(t, in)
			request, err := NewRequest(r.operation, in)
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.s.Answer(WithCaller(t.Context(), Caller{Region: "us-east-1", Identity: a.identity}), request)
			if denied := err != nil && strings.Contains(err.Error(), "AccessDenied"); denied != (name == "zz") {
				t.Errorf("%s %s: %v", r.operation, body, err)
			}
		}
	}
}

// A caller who may do nothing with a cluster may not know of its tables.
func TestPermitCluster(t *testing.T) {
	const cluster = "arn:aws:dax:us-east-1:000000000000:cache/mine"
	for _, c := range []struct {
		name, statements string
		allowed          bool
	}{
		{"one action", `{"Effect":"Allow","Action":"dax:Scan","Resource":"` + cluster + `"}`, true},
		{"transactions only", `{"Effect":"Allow","Action":"dax:PutItem","Resource":"*","Condition":{"StringEquals":{"dax:EnclosingOperation":"TransactWriteItems"}}}`, true},
		{"another cluster", `{"Effect":"Allow","Action":"dax:*","Resource":"` + cluster + `2"}`, false},
		{"tables only", `{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}`, false},
		{"all denied", `{"Effect":"Allow","Action":"dax:*","Resource":"*"},{"Effect":"Deny","Action":"dax:*","Resource":"*"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAccessTest(t, c.statements)
			ctx := WithCaller(t.Context(), Caller{Region: "us-east-1", Identity: a.identity, Cluster: cluster})
			if err := a.s.PermitCluster(ctx, cluster, ""); (err == nil) != c.allowed || err != nil && !strings.Contains(err.Error(), "AccessDenied") {
				t.Errorf("error %v, want allowed %v", err, c.allowed)
			}
		})
	}
}

// What is written down of a request has nothing of its compiled expressions, which have values.
func TestAuditOfCompiledRequests(t *testing.T) {
	tt := newTableTest(t, 0)
	in := new(api.PutItem)
	if err := wire.Decode([]byte(`{"TableName":"Tab","Item":{"pk":{"S":"a"}},"ConditionExpression":"n = :secret","ExpressionAttributeValues":{":secret":{"S":"hidden"}}}`), in); err != nil {
		t.Fatal(err)
	}
	compile(t, in)
	r, err := NewRequest("PutItem", in)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(tt.s.Audit(t.Context(), r).Parameters); got != `{"tableName":"Tab"}` {
		t.Errorf("the parameters are %s", got)
	}
}
