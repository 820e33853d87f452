package ops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/workload"
)

// newShopTest returns a service with a table of several entities, without counts.
func newShopTest(t *testing.T) *hotTest {
	h := newHotTest(t)
	h.do("CreateTable", []byte(`{"TableName":"shop","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[`+
		`{"AttributeName":"PK","AttributeType":"S"},{"AttributeName":"SK","AttributeType":"S"},{"AttributeName":"GSI1PK","AttributeType":"S"}],`+
		`"KeySchema":[{"AttributeName":"PK","KeyType":"HASH"},{"AttributeName":"SK","KeyType":"RANGE"}],`+
		`"GlobalSecondaryIndexes":[{"IndexName":"GSI1","KeySchema":[{"AttributeName":"GSI1PK","KeyType":"HASH"},{"AttributeName":"SK","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]}`))
	for _, key := range []string{shopKey("C#1", "PROFILE"), shopKey("C#1", "ORDER#1"), shopKey("alice@example.org", "x")} {
		h.do("PutItem", []byte(`{"TableName":"shop","Item":`+key+`}`))
	}
	h.service.workload = workload.NewRecorder(h.service.DB.Now())
	return h
}

func shopKey(partition, sort string) string {
	return fmt.Sprintf(`{"PK":{"S":"%s"},"SK":{"S":"%s"}}`, partition, sort)
}

// Requests for different entities of a table have different shapes, by the prefixes of
// their keys; so do requests with another condition, filter or projection.
func TestShapesOfEntities(t *testing.T) {
	query := func(rest, p, s string) string {
		return fmt.Sprintf(`{"TableName":"shop",%s,"ExpressionAttributeValues":{":p":{"S":"%s"},":s":{"S":"%s"}}}`, rest, p, s)
	}
	for _, c := range []struct {
		name, operation string
		bodies          []string
		want            workload.Shape
	}{
		{"a get", "GetItem", []string{`{"TableName":"shop","Key":` + shopKey("C#1", "PROFILE") + `}`, `{"TableName":"shop","Key":` + shopKey("C#2", "PROFILE") + `}`},
			workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "PROFILE"}},
		{"a get of a customer's data", "GetItem", []string{`{"TableName":"shop","Key":` + shopKey("alice@example.org", "x") + `}`},
			workload.Shape{Operation: "GetItem", Table: "shop"}},
		{"a projection", "GetItem", []string{
			`{"TableName":"shop","Key":` + shopKey("C#1", "PROFILE") + `,"ProjectionExpression":"email, #n.given","ExpressionAttributeNames":{"#n":"name"}}`,
			`{"TableName":"shop","Key":` + shopKey("C#1", "PROFILE") + `,"AttributesToGet":["name","email"]}`},
			workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "PROFILE", Projection: "email, name"}},
		{"a put", "PutItem", []string{`{"TableName":"shop","Item":` + shopKey("C#3", "ORDER#1") + `}`, `{"TableName":"shop","Item":` + shopKey("C#4", "ORDER#7") + `}`},
			workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "ORDER#"}},
		{"a condition", "PutItem", []string{`{"TableName":"shop","Item":` + shopKey("C#3", "ORDER#1") + `,"ConditionExpression":"attribute_not_exists(PK)"}`},
			workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "ORDER#", Condition: true, ConditionText: "attribute_not_exists(PK)"}},
		{"a delete", "DeleteItem", []string{`{"TableName":"shop","Key":` + shopKey("C#1", "ORDER#1") + `}`},
			workload.Shape{Operation: "DeleteItem", Table: "shop", Partition: "C#", Sort: "ORDER#"}},
		{"an update", "UpdateItem", []string{`{"TableName":"shop","Key":` + shopKey("C#1", "ORDER#1") + `,"UpdateExpression":"SET GSI1PK = :v, amount = :v","ExpressionAttributeValues":{":v":{"S":"v"}}}`},
			workload.Shape{Operation: "UpdateItem", Table: "shop", Partition: "C#", Sort: "ORDER#", Form: "changes GSI1PK", Changes: "GSI1PK, amount"}},
		{"a query", "Query", []string{query(`"KeyConditionExpression":"PK = :p AND begins_with(SK, :s)"`, "C#1", "ORDER#"), query(`"KeyConditionExpression":"begins_with(SK, :s) AND PK = :p"`, "C#2", "ORDER#2026")},
			workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "ORDER#"}},
		{"a query of an index", "Query", []string{query(`"IndexName":"GSI1","KeyConditionExpression":"GSI1PK = :p","FilterExpression":"amount = :s"`, "STATUS#1", "1")},
			workload.Shape{Operation: "Query", Table: "shop", Index: "GSI1", Form: "GSI1PK = ?", Partition: "STATUS#", Filter: true, FilterText: "amount = ?"}},
		{"a batch", "BatchWriteItem", []string{
			`{"RequestItems":{"shop":[{"PutRequest":{"Item":` + shopKey("C#1", "ORDER#2") + `}},{"DeleteRequest":{"Key":` + shopKey("C#1", "PROFILE") + `}}]}}`,
			`{"RequestItems":{"shop":[{"DeleteRequest":{"Key":` + shopKey("C#1", "PROFILE") + `}},{"PutRequest":{"Item":` + shopKey("C#1", "ORDER#2") + `}},{"PutRequest":{"Item":` + shopKey("C#1", "ORDER#3") + `}}]}}`},
			workload.Shape{Operation: "BatchWriteItem", Table: "shop", Form: "Put, Delete", Actions: "Delete C# PROFILE; Put C# ORDER#"}},
		{"a batch of gets", "BatchGetItem", []string{`{"RequestItems":{"shop":{"Keys":[` + shopKey("C#1", "ORDER#2") + `,` + shopKey("C#1", "PROFILE") + `],"ProjectionExpression":"email"}}}`},
			workload.Shape{Operation: "BatchGetItem", Table: "shop", Actions: "Get C# ORDER#; Get C# PROFILE", Projection: "email"}},
		{"a transaction", "TransactWriteItems", []string{`{"TransactItems":[{"Put":{"TableName":"shop","Item":` + shopKey("C#1", "ORDER#2") + `,"ConditionExpression":"attribute_not_exists(PK)"}},` +
			`{"Update":{"TableName":"shop","Key":` + shopKey("C#1", "PROFILE") + `,"UpdateExpression":"REMOVE x"}}]}`},
			workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put, Update", Actions: "Put C# ORDER# if; Update C# PROFILE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newShopTest(t)
			for _, body := range c.bodies {
				h.do(c.operation, []byte(body))
			}
			requireShape(t, h.service, c.want, len(c.bodies))
		})
	}
}

func requireShape(t *testing.T, s *Service, want workload.Shape, requests int) {
	t.Helper()
	all := s.Shapes().Shapes
	if len(all) != 1 || all[0].Shape != want || all[0].Requests != int64(requests) {
		t.Errorf("the shapes are\n%+v, want\n%+v %d times", all, want, requests)
	}
}

// A statement has the shape of the request with the same effect, and no value of its
// text or its parameters.
func TestShapesOfStatements(t *testing.T) {
	shape := func(operation string) workload.Shape {
		return workload.Shape{Operation: operation, Table: "shop", Statement: true}
	}
	with := func(s workload.Shape, set func(*workload.Shape)) workload.Shape { set(&s); return s }
	for _, c := range []struct {
		statements []string
		want       workload.Shape
	}{
		{[]string{`SELECT * FROM shop WHERE PK = 'C#1' AND SK = 'PROFILE'`, `SELECT * FROM "shop" WHERE SK = 'PROFILE' AND PK = 'C#2'`},
			with(shape("GetItem"), func(s *workload.Shape) { s.Partition, s.Sort = "C#", "PROFILE" })},
		{[]string{`SELECT email FROM shop WHERE PK = 'C#1' AND begins_with(SK, 'ORDER#') AND amount > 3`},
			with(shape("Query"), func(s *workload.Shape) {
				s.Form, s.Partition, s.Sort = "PK = ? AND begins_with(SK, ?)", "C#", "ORDER#"
				s.Filter, s.FilterText, s.Projection = true, "amount > ?", "email"
			})},
		{[]string{`SELECT * FROM shop WHERE PK = 'C#1' AND SK >= 'ORDER#1' AND SK <= 'ORDER#2'`},
			with(shape("Query"), func(s *workload.Shape) {
				s.Form, s.Partition, s.Sort = "PK = ? AND SK BETWEEN ? AND ?", "C#", "ORDER#"
			})},
		{[]string{`SELECT * FROM shop.GSI1 WHERE GSI1PK = 'STATUS#NEW'`},
			with(shape("Query"), func(s *workload.Shape) { s.Index, s.Form, s.Partition = "GSI1", "GSI1PK = ?", "STATUS#" })},
		{[]string{`SELECT * FROM shop WHERE PK IN ['C#1', 'C#2'] AND SK = 'PROFILE'`},
			with(shape("BatchGetItem"), func(s *workload.Shape) { s.Actions = "Get C# PROFILE" })},
		{[]string{`SELECT * FROM shop`}, shape("Scan")},
		{[]string{`SELECT * FROM shop WHERE amount = 3`}, with(shape("Scan"), func(s *workload.Shape) { s.Filter, s.FilterText = true, "amount = ?" })},
		{[]string{`INSERT INTO shop VALUE {'PK': 'C#9', 'SK': 'PROFILE'}`, `INSERT INTO shop VALUE {'PK': 'C#8', 'SK': 'PROFILE'}`},
			with(shape("PutItem"), func(s *workload.Shape) { s.Partition, s.Sort = "C#", "PROFILE" })},
		{[]string{`UPDATE shop SET GSI1PK = 'a' SET amount = 1 WHERE PK = 'C#1' AND SK = 'PROFILE' AND attribute_not_exists(amount)`},
			with(shape("UpdateItem"), func(s *workload.Shape) {
				s.Partition, s.Sort, s.Form, s.Changes = "C#", "PROFILE", "changes GSI1PK", "GSI1PK, amount"
				s.Condition, s.ConditionText = true, "attribute_not_exists(amount)"
			})},
		{[]string{`DELETE FROM shop WHERE PK = 'C#1' AND SK = 'PROFILE'`},
			with(shape("DeleteItem"), func(s *workload.Shape) { s.Partition, s.Sort = "C#", "PROFILE" })},
	} {
		t.Run(c.statements[0], func(t *testing.T) {
			h := newShopTest(t)
			for _, text := range c.statements {
				h.do("ExecuteStatement", []byte(fmt.Sprintf(`{"Statement":"%s"}`, strings.ReplaceAll(text, `"`, `\"`))))
			}
			requireShape(t, h.service, c.want, len(c.statements))
		})
	}
}

// One text of a statement has a shape for each entity that its parameters name.
func TestShapesOfParameters(t *testing.T) {
	h := newShopTest(t)
	for range 2 {
		for _, key := range []string{"C#1", "O#1"} {
			h.do("ExecuteStatement", []byte(`{"Statement":"SELECT * FROM shop WHERE PK = ?","Parameters":[{"S":"`+key+`"}]}`))
		}
	}
	text := shapesAsText(t, h.service)
	for _, want := range []string{`"partition":"C#","statement":true,"requests":2`, `"partition":"O#","statement":true,"requests":2`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not contain %s", text, want)
		}
	}
}

// A statement that reads more items than it returns is counted with both.
func TestShapeOfFilteringStatement(t *testing.T) {
	h := newShopTest(t)
	h.do("ExecuteStatement", []byte(`{"Statement":"SELECT * FROM shop WHERE PK = 'C#1' AND amount = 3"}`))
	if c := h.service.Shapes().Shapes[0]; c.Returned != 0 || c.Scanned != 2 {
		t.Errorf("the counts are %+v, want 2 items scanned and none returned", c)
	}
}
