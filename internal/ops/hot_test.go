package ops

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store/pebble"
)

// hotTest is a service for benchmarks and allocation tests. Its two tables hold
// items of 1 KB with ten attributes, ten to a partition; one of them has a global
// index, whose partitions hold ten items too.
type hotTest struct {
	tb      testing.TB
	service *Service
	memory  buffer.Scratch
}

const hotPartitions = 100

func newHotTest(tb testing.TB) *hotTest {
	tb.Helper()
	return newHotTestWith(tb, db.Options{})
}

func newHotTestWith(tb testing.TB, o db.Options) *hotTest {
	tb.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		tb.Fatal(err)
	}
	d, err := db.Open(tb.Context(), engine, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
		if err := engine.Close(); err != nil {
			tb.Error(err)
		}
	})
	h := &hotTest{tb: tb, service: New(Parts{DB: d})}
	for _, table := range []string{"plain", "indexed"} {
		global := ""
		attributes := `{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"}`
		if table == "indexed" {
			global = `,"GlobalSecondaryIndexes":[{"IndexName":"group","KeySchema":[{"AttributeName":"gk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]`
			attributes += `,{"AttributeName":"gk","AttributeType":"S"}`
		}
		h.do("CreateTable", []byte(`{"TableName":"`+table+`","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[`+attributes+`],`+
			`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]`+global+`}`))
		for p := range hotPartitions {
			for n := range 10 {
				h.do("PutItem", []byte(`{"TableName":"`+table+`","Item":`+hotItem(p, n, 0)+`}`))
			}
		}
	}
	return h
}

// do executes a request and returns the reply, which is valid until the next
// call.
func (h *hotTest) do(name string, body []byte) []byte {
	reply, err := answer(h.tb.Context(), h.service, name, body, &h.memory)
	if err != nil {
		h.tb.Fatalf("%s: %v", name, err)
	}
	return reply
}

// answer decodes and executes a request.
func answer(ctx context.Context, s *Service, name string, body []byte, memory *buffer.Scratch) ([]byte, error) {
	r, err := Read(name, body)
	if err != nil {
		return nil, err
	}
	return s.Do(ctx, r, memory)
}

func hotKey(partition, n int) string {
	return fmt.Sprintf(`{"pk":{"S":"customer-%06d"},"sk":{"N":"%d"}}`, partition, n)
}

// hotItem returns an item of 1 KB with ten attributes.
func hotItem(partition, n, version int) string {
	return fmt.Sprintf(`{"pk":{"S":"customer-%06d"},"sk":{"N":"%d"},"gk":{"S":"group-%06d"},"version":{"N":"%d"},`+
		`"name":{"S":"a name of some length"},"open":{"BOOL":true},"price":{"N":"1234.56"},"tags":{"SS":["blue","green","red"]},`+
		`"address":{"M":{"street":{"S":"Long Street 12"},"city":{"S":"Oslo"},"zip":{"S":"0150"}}},"text":{"S":"%s"}}`,
		partition, n, partition, version, strings.Repeat("lorem ipsum ", 64))
}

// hotRequests are the most common requests. Each body(i) differs from the one
// before, so that every write changes the item.
var hotRequests = []struct {
	name, operation string
	body            func(i int) string
}{
	{"GetItem", "GetItem", func(i int) string {
		return `{"TableName":"plain","Key":` + hotKey(i%hotPartitions, i%10) + `}`
	}},
	{"PutItem", "PutItem", func(i int) string {
		return `{"TableName":"plain","Item":` + hotItem(i%hotPartitions, i%10, i) + `}`
	}},
	{"PutItem indexed", "PutItem", func(i int) string {
		return `{"TableName":"indexed","Item":` + hotItem(i%hotPartitions, i%10, i) + `}`
	}},
	{"UpdateItem", "UpdateItem", func(i int) string {
		return `{"TableName":"plain","Key":` + hotKey(i%hotPartitions, i%10) + `,"UpdateExpression":"SET #v = :v, price = price + :one",` +
			`"ConditionExpression":"attribute_exists(pk) AND #v <> :v","ExpressionAttributeNames":{"#v":"version"},` +
			fmt.Sprintf(`"ExpressionAttributeValues":{":v":{"N":"%d"},":one":{"N":"1"}}}`, i+1)
	}},
	{"DeleteItem", "DeleteItem", func(i int) string {
		return `{"TableName":"plain","Key":` + hotKey(hotPartitions+i, 0) + `}`
	}},
	{"Query of 10", "Query", func(i int) string {
		return `{"TableName":"plain","KeyConditionExpression":"pk = :p",` +
			fmt.Sprintf(`"ExpressionAttributeValues":{":p":{"S":"customer-%06d"}}}`, i%hotPartitions)
	}},
	{"Query of 10 filtered", "Query", func(i int) string {
		return `{"TableName":"plain","KeyConditionExpression":"pk = :p AND sk >= :z","FilterExpression":"#o = :o AND address.city = :c",` +
			fmt.Sprintf(`"ExpressionAttributeNames":{"#o":"open"},"ExpressionAttributeValues":{":p":{"S":"customer-%06d"},":z":{"N":"0"},":o":{"BOOL":true},":c":{"S":"Oslo"}}}`, i%hotPartitions)
	}},
	{"Query of 10 on GSI", "Query", func(i int) string {
		return `{"TableName":"indexed","IndexName":"group","KeyConditionExpression":"gk = :g",` +
			fmt.Sprintf(`"ExpressionAttributeValues":{":g":{"S":"group-%06d"}}}`, i%hotPartitions)
	}},
	{"Scan page", "Scan", func(i int) string { return `{"TableName":"plain"}` }},
	{"BatchGetItem of 25", "BatchGetItem", func(i int) string {
		var keys []string
		for n := range 25 {
			keys = append(keys, hotKey((i+n)%hotPartitions, n%10))
		}
		return `{"RequestItems":{"plain":{"Keys":[` + strings.Join(keys, ",") + `]}}}`
	}},
	{"BatchWriteItem of 25", "BatchWriteItem", func(i int) string {
		var puts []string
		for n := range 25 {
			puts = append(puts, `{"PutRequest":{"Item":`+hotItem((i+n)%hotPartitions, n%10, i)+`}}`)
		}
		return `{"RequestItems":{"plain":[` + strings.Join(puts, ",") + `]}}`
	}},
	{"TransactWriteItems of 4", "TransactWriteItems", func(i int) string {
		p := i % hotPartitions
		return `{"TransactItems":[` +
			`{"Put":{"TableName":"plain","Item":` + hotItem(p, 0, i) + `}},` +
			`{"Update":{"TableName":"plain","Key":` + hotKey(p, 1) + `,"UpdateExpression":"SET #v = :v","ExpressionAttributeNames":{"#v":"version"},` +
			fmt.Sprintf(`"ExpressionAttributeValues":{":v":{"N":"%d"}}}},`, i+1) +
			`{"ConditionCheck":{"TableName":"plain","Key":` + hotKey(p, 2) + `,"ConditionExpression":"attribute_exists(pk)"}},` +
			`{"Delete":{"TableName":"plain","Key":` + hotKey(hotPartitions+p, 3) + `}}],` +
			`"ClientRequestToken":"token-000000000000"}`
	}},
}

// setToken gives a transaction a unique token.
func setToken(body []byte, n int) {
	digits := body[len(body)-len(`000000000000"}`) : len(body)-2]
	for i := range digits {
		digits[len(digits)-1-i] = byte('0' + n%10)
		n /= 10
	}
}
