package ops

import (
	"strings"
	"testing"
)

// A null instead of a value, a structure or a name gets a reply and does no harm.
func TestNulls(t *testing.T) {
	tt := newStatementTest(t)
	for _, c := range [][2]string{
		{"ExecuteStatement", `{"Statement":"SELECT * FROM \"abc\" WHERE a=?","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM \"abc\" WHERE n=?","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM \"abc\" WHERE n<?","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"INSERT INTO \"one\" VALUE {'a':'n1','b':?}","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM \"one\" WHERE a='n1'"}`},
		{"ExecuteStatement", `{"Statement":"UPDATE \"abc\" SET n=? WHERE a='x' AND b=1","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"UPDATE \"abc\" SET n=set_add(n,?) WHERE a='x' AND b=1","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"UPDATE \"abc\" SET n=n+? WHERE a='x' AND b=1","Parameters":[null]}`},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM \"abc\" WHERE size(?)=1","Parameters":[null]}`},
		{"BatchExecuteStatement", `{"Statements":[null]}`},
		{"ExecuteTransaction", `{"TransactStatements":[null]}`},
		{"Query", `{"TableName":"abc","KeyConditions":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[null]}}}`},
		{"Scan", `{"TableName":"abc","ScanFilter":{"n":{"ComparisonOperator":"EQ","AttributeValueList":[null]}}}`},
		{"Scan", `{"TableName":"abc","ScanFilter":{"n":{"ComparisonOperator":"LT","AttributeValueList":[null]}}}`},
		{"PutItem", `{"TableName":"one","Item":{"a":{"S":"q"}},"Expected":{"n":{"ComparisonOperator":"EQ","AttributeValueList":[null]}}}`},
		{"PutItem", `{"TableName":"one","Item":{"a":{"S":"q"}},"Expected":{"n":null}}`},
		{"UpdateItem", `{"TableName":"one","Key":{"a":{"S":"q"}},"AttributeUpdates":{"n":null}}`},
		{"UpdateItem", `{"TableName":"one","Key":{"a":{"S":"q"}},"AttributeUpdates":{"n":{}}}`},
		{"UpdateItem", `{"TableName":"one","Key":{"a":{"S":"q"}},"AttributeUpdates":{"n":{"Value":null,"Action":"PUT"}}}`},
		{"UpdateItem", `{"TableName":"one","Key":{"a":{"S":"q"}},"AttributeUpdates":{"":{"Value":{"S":"x"},"Action":"PUT"}}}`},
		{"BatchGetItem", `{"RequestItems":{"one":null}}`},
		{"BatchGetItem", `{"RequestItems":{"one":{"Keys":[null]}}}`},
		{"BatchGetItem", `{"RequestItems":{"one":{"Keys":[{}]}}}`},
		{"BatchWriteItem", `{"RequestItems":{"one":[null]}}`},
		{"BatchWriteItem", `{"RequestItems":{"one":null}}`},
		{"BatchWriteItem", `{"RequestItems":{"one":[{"PutRequest":null}]}}`},
		{"TransactWriteItems", `{"TransactItems":[null]}`},
		{"TransactWriteItems", `{"TransactItems":[{"Put":null}]}`},
		{"TransactGetItems", `{"TransactItems":[null]}`},
		{"TransactGetItems", `{"TransactItems":[{"Get":null}]}`},
		{"Query", `{"TableName":"abc","KeyConditions":{"a":null}}`},
		{"Query", `{"TableName":"abc","KeyConditionExpression":"a=:v","ExpressionAttributeValues":{":v":null}}`},
		{"Query", `{"TableName":"abc","KeyConditionExpression":"a=:v","ExpressionAttributeValues":{":v":{"S":null}}}`},
		{"Query", `{"TableName":"abc","KeyConditionExpression":"#a=:v","ExpressionAttributeNames":{"#a":null},"ExpressionAttributeValues":{":v":{"S":"x"}}}`},
		{"GetItem", `{"TableName":"one","Key":{"a":{"S":"q"}},"AttributesToGet":[null]}`},
		{"Scan", `{"TableName":"one","ExclusiveStartKey":{}}`},
		{"Scan", `{"TableName":"one","ExclusiveStartKey":{"a":null}}`},
	} {
		if got := tt.ask(c[0], c[1]); strings.Contains(got, "InternalServerError") {
			t.Errorf("%s %s: %s", c[0], c[1], got)
		}
	}
}

// A null among the parameters of a statement once stored an unreadable item.
func TestNullParameterStoresNothing(t *testing.T) {
	tt := newStatementTest(t)
	tt.ask("PutItem", `{"TableName":"one","Item":{"a":{"S":"innocent"}}}`)
	const insert = `{"Statement":"INSERT INTO \"one\" VALUE {'\u0000':?,'\u0001\u0001\u0001A\u0005\u0001a\u0001\u0001q':1,'a':'q'}","Parameters":[null]}`
	if got := tt.ask("ExecuteStatement", insert); !strings.Contains(got, "ValidationException") {
		t.Errorf("the reply is %s", got)
	}
	if got, want := tt.ask("Scan", `{"TableName":"one"}`), `"Count":1`; !strings.Contains(got, want) {
		t.Errorf("the table has %s", got)
	}
}
