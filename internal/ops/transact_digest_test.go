package ops

import (
	"testing"

	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// Two transactions have the same digest exactly when they ask for the same.
func TestTransactionDigest(t *testing.T) {
	of := func(items string) [32]byte {
		t.Helper()
		var in api.TransactWriteItems
		if err := wire.Decode([]byte(`{"TransactItems":[`+items+`]}`), &in); err != nil {
			t.Fatal(err)
		}
		return transactionDigest(in.TransactItems)
	}
	const key = `"TableName":"abc","Key":{"a":{"S":"x"}}`
	update := func(members string) string {
		return `{"Update":{` + key + `,"UpdateExpression":"SET b = :b",` + members + `}}`
	}
	different := []string{
		`{"Put":{"TableName":"abc","Item":{"a":{"S":"x"}}}}`,
		`{"Put":{"TableName":"abd","Item":{"a":{"S":"x"}}}}`,
		`{"Put":{"TableName":"abc","Item":{"a":{"S":"y"}}}}`,
		`{"Put":{"TableName":"abc","Item":{"a":{"B":"eA=="}}}}`,
		`{"Delete":{` + key + `}}`,
		`{"Delete":{` + key + `,"ReturnValuesOnConditionCheckFailure":"NONE"}}`,
		`{"Delete":{` + key + `,"ConditionExpression":"attribute_exists(a)"}}`,
		`{"ConditionCheck":{` + key + `,"ConditionExpression":"attribute_exists(a)"}}`,
		update(`"ExpressionAttributeValues":{":b":{"S":"1"}}`),
		update(`"ExpressionAttributeValues":{":b":{"N":"1"}}`),
		update(`"ExpressionAttributeValues":{":b":{"N":"1"},":c":{"N":"1"}}`),
		update(`"ExpressionAttributeNames":{"#b":"c"},"ExpressionAttributeValues":{":b":{"N":"1"}}`),
		update(`"ExpressionAttributeNames":{"#b":"d"},"ExpressionAttributeValues":{":b":{"N":"1"}}`),
		`{"Delete":{` + key + `}},{"Put":{"TableName":"abc","Item":{"a":{"S":"x"}}}}`,
		`{"Put":{"TableName":"abc","Item":{"a":{"S":"x"}}}},{"Delete":{` + key + `}}`,
	}
	seen := make(map[[32]byte]string)
	for _, items := range different {
		d := of(items)
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", items, other)
		}
		seen[d] = items
	}
	same := of(update(`"ExpressionAttributeValues":{":c":{"N":"1"},":b":{"N":"1.0"}}`))
	if same != of(update(`"ExpressionAttributeValues":{":b":{"N":"1"},":c":{"N":"1"}}`)) {
		t.Error("the order of members or the spelling of a number changes the digest")
	}
}
