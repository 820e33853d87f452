package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/workload"
)

// secret is part of all values; no report may contain it.
const secret = "s3cr3t-"

func shapesAsText(t *testing.T, s *Service) string {
	t.Helper()
	text, err := json.Marshal(s.Shapes())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newShapesTest returns a service without counts, with the tables of newHotTest.
func newShapesTest(t *testing.T) *hotTest {
	h := newHotTest(t)
	h.service.workload = workload.NewRecorder(h.service.DB.Now()) // drop the counts of the setup
	return h
}

// Requests that differ only in values, spelling or placeholders have one shape;
// all other differences make another.
func TestShapes(t *testing.T) {
	item := `{"pk":{"S":"` + secret + `1"},"sk":{"N":"1"},"gk":{"S":"` + secret + `g"}}`
	key := `{"pk":{"S":"` + secret + `1"},"sk":{"N":"1"}}`
	value := `"ExpressionAttributeValues":{":p":{"S":"` + secret + `1"},":s":{"N":"5"}}`
	for _, c := range []struct {
		operation string
		bodies    []string
		want      workload.Shape
		returned  int64
		scanned   int64
	}{
		{"PutItem", []string{`{"TableName":"indexed","Item":` + item + `}`, `{"TableName":"indexed","Item":` + item + `,"ReturnConsumedCapacity":"TOTAL"}`},
			workload.Shape{Operation: "PutItem", Table: "indexed"}, 0, 0},
		{"PutItem", []string{`{"TableName":"indexed","Item":` + item + `,"ConditionExpression":"attribute_exists(pk)"}`,
			`{"TableName":"indexed","Item":` + item + `,"ConditionExpression":"( attribute_exists(#p) )","ExpressionAttributeNames":{"#p":"pk"}}`},
			workload.Shape{Operation: "PutItem", Table: "indexed", Condition: true, ConditionText: "attribute_exists(pk)"}, 0, 0},
		{"PutItem", []string{`{"TableName":"indexed","Item":` + item + `,"Expected":{"pk":{"Value":{"S":"` + secret + `1"}}}}`,
			`{"TableName":"indexed","Item":` + item + `,"ConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"` + secret + `1"}}}`},
			workload.Shape{Operation: "PutItem", Table: "indexed", Condition: true, ConditionText: "pk = ?"}, 0, 0},
		{"GetItem", []string{`{"TableName":"indexed","Key":` + key + `}`, `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/indexed","Key":` + key + `}`},
			workload.Shape{Operation: "GetItem", Table: "indexed"}, 2, 2},
		{"GetItem", []string{`{"TableName":"indexed","Key":` + key + `,"ConsistentRead":true}`},
			workload.Shape{Operation: "GetItem", Table: "indexed", Consistent: true}, 1, 1},
		{"Query", []string{
			`{"TableName":"indexed","KeyConditionExpression":"pk = :p",` + strings.Replace(value, `,":s":{"N":"5"}`, "", 1) + `}`,
			`{"TableName":"indexed","KeyConditionExpression":"#a=:p",` + strings.Replace(value, `,":s":{"N":"5"}`, "", 1) + `,"ExpressionAttributeNames":{"#a":"pk"}}`,
			`{"TableName":"indexed","KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"` + secret + `1"}]}}}`},
			workload.Shape{Operation: "Query", Table: "indexed", Form: "pk = ?"}, 3, 3},
		{"Query", []string{
			`{"TableName":"indexed","KeyConditionExpression":"pk = :p AND sk < :s",` + value + `}`,
			`{"TableName":"indexed","KeyConditionExpression":"(:s > #b) and (#a = :p)",` + value + `,"ExpressionAttributeNames":{"#a":"pk","#b":"sk"}}`,
			`{"TableName":"indexed","KeyConditionExpression":"(:s > #a) and (#b = :p)",` + value + `,"ExpressionAttributeNames":{"#b":"pk","#a":"sk"}}`},
			workload.Shape{Operation: "Query", Table: "indexed", Form: "pk = ? AND sk < ?"}, 3, 3},
		{"Query", []string{`{"TableName":"indexed","KeyConditionExpression":"pk = :p AND sk BETWEEN :s AND :s",` + value + `,"ConsistentRead":true}`},
			workload.Shape{Operation: "Query", Table: "indexed", Form: "pk = ? AND sk BETWEEN ? AND ?", Consistent: true}, 0, 0},
		{"Query", []string{`{"TableName":"indexed","IndexName":"group","KeyConditionExpression":"gk = :g","FilterExpression":"colour = :p AND attribute_exists(#n)","ExpressionAttributeNames":{"#n":"` + secret + `name"},"ExpressionAttributeValues":{":g":{"S":"` + secret + `g"},":p":{"S":"` + secret + `1"}}}`},
			workload.Shape{Operation: "Query", Table: "indexed", Index: "group", Form: "gk = ?", Filter: true, FilterText: "attribute_exists(??) AND colour = ?"}, 0, 1},
		{"Scan", []string{`{"TableName":"indexed","Limit":7}`}, workload.Shape{Operation: "Scan", Table: "indexed"}, 7, 7},
		{"Scan", []string{`{"TableName":"indexed","IndexName":"group","Limit":7,"FilterExpression":"attribute_not_exists(pk)"}`},
			workload.Shape{Operation: "Scan", Table: "indexed", Index: "group", Filter: true, FilterText: "attribute_not_exists(pk)"}, 0, 7},
		{"UpdateItem", []string{`{"TableName":"indexed","Key":` + key + `,"UpdateExpression":"SET #n = :v","ExpressionAttributeNames":{"#n":"` + secret + `name"},"ExpressionAttributeValues":{":v":{"S":"` + secret + `v"}}}`,
			`{"TableName":"indexed","Key":` + key + `,"AttributeUpdates":{"` + secret + `x":{"Value":{"S":"` + secret + `1"}}}}`},
			workload.Shape{Operation: "UpdateItem", Table: "indexed", Changes: "??"}, 0, 0},
		{"UpdateItem", []string{`{"TableName":"indexed","Key":` + key + `,"UpdateExpression":"SET gk = :v, another = :v","ConditionExpression":"attribute_exists(pk)","ExpressionAttributeValues":{":v":{"S":"` + secret + `v"}}}`,
			`{"TableName":"indexed","Key":` + key + `,"UpdateExpression":"REMOVE #x, another","ConditionExpression":"attribute_exists(pk)","ExpressionAttributeNames":{"#x":"gk"}}`},
			workload.Shape{Operation: "UpdateItem", Table: "indexed", Form: "changes gk", Condition: true, ConditionText: "attribute_exists(pk)", Changes: "another, gk"}, 0, 0},
		{"BatchGetItem", []string{`{"RequestItems":{"indexed":{"Keys":[` + key + `,{"pk":{"S":"none"},"sk":{"N":"0"}}],"ConsistentRead":true}}}`},
			workload.Shape{Operation: "BatchGetItem", Table: "indexed", Consistent: true, Actions: "Get - -"}, 1, 1},
		{"BatchWriteItem", []string{`{"RequestItems":{"indexed":[{"PutRequest":{"Item":` + item + `}},{"DeleteRequest":{"Key":{"pk":{"S":"none"},"sk":{"N":"0"}}}}]}}`},
			workload.Shape{Operation: "BatchWriteItem", Table: "indexed", Form: "Put, Delete", Actions: "Delete - -; Put - -"}, 0, 0},
		{"TransactGetItems", []string{`{"TransactItems":[{"Get":{"TableName":"indexed","Key":` + key + `}},{"Get":{"TableName":"indexed","Key":{"pk":{"S":"none"},"sk":{"N":"0"}}}}]}`},
			workload.Shape{Operation: "TransactGetItems", Table: "indexed", Actions: "Get - -"}, 1, 1},
		{"TransactWriteItems", []string{`{"TransactItems":[{"Update":{"TableName":"indexed","Key":` + key + `,"UpdateExpression":"SET a = :v","ExpressionAttributeValues":{":v":{"S":"` + secret + `"}}}},` +
			`{"ConditionCheck":{"TableName":"indexed","Key":{"pk":{"S":"none"},"sk":{"N":"0"}},"ConditionExpression":"attribute_not_exists(pk)"}}]}`},
			workload.Shape{Operation: "TransactWriteItems", Table: "indexed", Form: "Update, ConditionCheck", Actions: "ConditionCheck - - if; Update - -"}, 0, 0},
		{"ExecuteStatement", []string{`{"Statement":"SELECT * FROM indexed WHERE pk = '` + secret + `1'"}`}, workload.Shape{Operation: "Query", Table: "indexed", Form: "pk = ?", Statement: true}, 1, 1},
	} {
		t.Run(c.operation+" "+c.want.Form, func(t *testing.T) {
			h := newShapesTest(t)
			h.do("PutItem", []byte(`{"TableName":"indexed","Item":`+item+`}`))
			h.service.workload = workload.NewRecorder(h.service.DB.Now())
			for _, body := range c.bodies {
				h.do(c.operation, []byte(body))
			}
			all := h.service.Shapes().Shapes
			if len(all) != 1 || all[0].Shape != c.want {
				t.Fatalf("the shapes are %+v, want one of %+v", all, c.want)
			}
			got := all[0]
			if got.Requests != int64(len(c.bodies)) || got.Returned != c.returned || got.Scanned != c.scanned || got.Units == 0 || got.Measured == 0 {
				t.Errorf("the counts are %+v, want %d requests, %d items returned of %d", got, len(c.bodies), c.returned, c.scanned)
			}
			if text := shapesAsText(t, h.service); strings.Contains(text, secret) {
				t.Errorf("the report contains a value: %s", text)
			}
		})
	}
}

// A transaction has one shape for each of its tables.
func TestShapesOfTables(t *testing.T) {
	h := newShapesTest(t)
	item := `{"pk":{"S":"x"},"sk":{"N":"1"}}`
	h.do("TransactWriteItems", []byte(`{"TransactItems":[{"Put":{"TableName":"plain","Item":`+item+`}},{"Delete":{"TableName":"indexed","Key":`+item+`}}]}`))
	text := shapesAsText(t, h.service)
	for _, want := range []string{`"table":"plain","form":"Put","actions":"Put - -","requests":1,"returned":0,"scanned":0,"units":2,`, `"table":"indexed","form":"Delete","actions":"Delete - -","requests":1,"returned":0,"scanned":0,"units":2,`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not contain %s", text, want)
		}
	}
}

// A request that fails is not counted and adds no shape.
func TestShapesOfFailures(t *testing.T) {
	h := newShapesTest(t)
	for _, body := range []string{`{"TableName":"nowhere","Key":{"pk":{"S":"x"},"sk":{"N":"1"}}}`, `{"TableName":"plain","Key":{"pk":{"S":"x"}}}`} {
		if _, err := answer(t.Context(), h.service, "GetItem", []byte(body), new(buffer.Scratch)); err == nil {
			t.Fatalf("%s succeeds", body)
		}
	}
	if all := h.service.Shapes().Shapes; len(all) > 0 {
		t.Errorf("the shapes are %+v, want none", all)
	}
}

// A request that does not ask for units does not get them, although they are
// counted. The units of GetItem are sampled; all others are known anyway.
func TestShapeUnits(t *testing.T) {
	h := newShapesTest(t)
	const n = 10 * workload.SampleEvery
	for i := range n {
		for _, mode := range []string{"", `,"ReturnConsumedCapacity":"NONE"`} {
			for operation, body := range map[string]string{
				"GetItem":      `{"TableName":"plain","Key":{"pk":{"S":"p00"},"sk":{"N":"1"}}` + mode + `}`,
				"BatchGetItem": `{"RequestItems":{"plain":{"Keys":[{"pk":{"S":"p00"},"sk":{"N":"1"}}]}}` + mode + `}`,
			} {
				if reply := string(h.do(operation, []byte(body))); strings.Contains(reply, "ConsumedCapacity") {
					t.Fatalf("%s number %d, which asks for no units, returns %s", operation, i, reply)
				}
			}
		}
	}
	for _, c := range h.service.Shapes().Shapes {
		measured := int64(2 * n)
		if c.Operation == "GetItem" {
			measured = 2 * n / workload.SampleEvery
		}
		if c.Requests != 2*n || c.Measured != measured || c.Units != 2*n*0.5 {
			t.Errorf("the counts are %+v, want %d measured", c, measured)
		}
	}
	reply := string(h.do("GetItem", []byte(`{"TableName":"plain","Key":{"pk":{"S":"p00"},"sk":{"N":"1"}},"ReturnConsumedCapacity":"TOTAL"}`)))
	if !strings.Contains(reply, `"CapacityUnits":0.5`) {
		t.Errorf("a request that asks for units returns %s", reply)
	}
}

// Counting does not change a request.
func TestCountingLeavesRequestsAlone(t *testing.T) {
	h := newShapesTest(t)
	for i := range 2 * workload.SampleEvery {
		for _, r := range hotRequests {
			request, err := Read(r.operation, []byte(r.body(i)))
			if err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprintf("%+v", reflect.ValueOf(request.in).Elem())
			if _, err := h.service.Do(t.Context(), request, &h.memory); err != nil && r.operation != "TransactWriteItems" { // the token is reused
				t.Fatal(err)
			}
			if after := fmt.Sprintf("%+v", reflect.ValueOf(request.in).Elem()); after != before {
				t.Fatalf("%s became\n%s\nfrom\n%s", r.name, after, before)
			}
		}
	}
}

// A batch or transaction of statements counts once for each of its tables, as one of
// requests does.
func TestShapeUnitsOfStatements(t *testing.T) {
	h := newShapesTest(t)
	h.do("ExecuteTransaction", []byte(`{"TransactStatements":[{"Statement":"INSERT INTO plain VALUE {'pk':'new','sk':1}"},{"Statement":"INSERT INTO indexed VALUE {'pk':'new','sk':1}"}]}`))
	h.do("BatchExecuteStatement", []byte(`{"Statements":[{"Statement":"DELETE FROM plain WHERE pk='new' AND sk=1"},{"Statement":"DELETE FROM indexed WHERE pk='new' AND sk=1"}]}`))
	want := map[string]float64{
		"TransactWriteItems plain Put - -": 2, "TransactWriteItems indexed Put - -": 2,
		"BatchWriteItem plain Delete - -": 1, "BatchWriteItem indexed Delete - -": 1,
	}
	shapes := h.service.Shapes().Shapes
	for _, c := range shapes {
		units, ok := want[c.Operation+" "+c.Table+" "+c.Actions]
		if !ok || !c.Statement || c.Requests != 1 || c.Measured != 1 || c.Units != units {
			t.Errorf("the counts are %+v, want one statement of %v units", c, units)
		}
	}
	if len(shapes) != len(want) {
		t.Errorf("%d shapes are counted, want %d", len(shapes), len(want))
	}
}

// Expression texts that are never the same do not grow the cache, and their
// form is still found.
func TestFingerprintsAreBounded(t *testing.T) {
	h := newShapesTest(t)
	const n = 10_000
	for i := range n {
		h.do("Query", []byte(fmt.Sprintf(`{"TableName":"plain","KeyConditionExpression":"pk = :v%d","ExpressionAttributeValues":{":v%d":{"S":"x"}},"Limit":1}`, i, i)))
	}
	if all := h.service.Shapes().Shapes; len(all) != 1 || all[0].Requests != n {
		t.Errorf("the shapes are %+v, want one with %d requests", all, n)
	}
}

// fullRoom has no memory.
type fullRoom struct{}

func (fullRoom) Reserve(int) bool { return false }
func (fullRoom) Force(int)        {}
func (fullRoom) Return(int)       {}
func (fullRoom) Free(int)         {}
func (fullRoom) Commit()          {}

// A request that has no effect because there is no memory for its reply is not counted:
// it is repeated.
func TestRepeatedRequestsAreCountedOnce(t *testing.T) {
	h := newShapesTest(t)
	key := `{"pk":{"S":"large"},"sk":{"N":"1"}}`
	for _, c := range [][2]string{
		{"GetItem", `{"TableName":"indexed","Key":` + key + `}`},
		{"BatchGetItem", `{"RequestItems":{"indexed":{"Keys":[` + key + `]}}}`},
		{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"indexed","Key":` + key + `}}]}`},
		{"Query", `{"TableName":"indexed","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"large"}}}`},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM indexed WHERE pk='large'"}`},
	} {
		t.Run(c[0], func(t *testing.T) {
			h.tb = t
			h.do("PutItem", []byte(`{"TableName":"indexed","Item":{"pk":{"S":"large"},"sk":{"N":"1"},"s":{"S":"`+strings.Repeat("x", 200<<10)+`"}}}`))
			h.service.workload = workload.NewRecorder(h.service.DB.Now())
			r, err := Read(c[0], []byte(c[1]))
			if err != nil {
				t.Fatal(err)
			}
			var memory buffer.Scratch
			memory.Within(fullRoom{})
			if _, err := h.service.Do(t.Context(), r, &memory); !errors.Is(err, buffer.ErrNoRoom) {
				t.Fatalf("without memory it returns %v", err)
			}
			if shapes := h.service.Shapes().Shapes; len(shapes) != 0 {
				t.Errorf("it is counted: %+v", shapes)
			}
			memory.End()
			if _, err := h.service.Do(t.Context(), r, &memory); err != nil {
				t.Fatal(err)
			}
			if shapes := h.service.Shapes().Shapes; len(shapes) != 1 || shapes[0].Requests != 1 {
				t.Errorf("the repeated request is counted as %+v", shapes)
			}
		})
	}
}

// A deleted table's shapes make room for those of other tables.
func TestShapesOfADeletedTable(t *testing.T) {
	h := newShapesTest(t)
	h.service.workload.Exists = h.service.exists
	put := func() {
		h.do("PutItem", []byte(`{"TableName":"indexed","Item":{"pk":{"S":"x"},"sk":{"N":"1"}}}`))
	}
	fill := func() {
		for i := range workload.MaxShapes + 10 {
			h.service.workload.Counter(workload.Shape{Operation: "Query", Table: "plain", Form: fmt.Sprint("a", i)}).Observe(1, 1)
		}
	}
	fill()
	put()
	if n := h.service.Shapes().Other.Requests; n == 0 {
		t.Errorf("%d requests are counted together", n)
	}
	h.do("DeleteTable", []byte(`{"TableName":"plain"}`))
	put()
	if text := shapesAsText(t, h.service); !strings.Contains(text, `"operation":"PutItem","table":"indexed"`) {
		t.Errorf("the request is not counted: %.300s", text)
	}
}
