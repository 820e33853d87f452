package ops

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// almostFullEngine admits only updates that free space.
type almostFullEngine struct {
	store.Engine
	full atomic.Bool
}

func (e *almostFullEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if e.full.Load() && !store.IsFreeing(ctx) {
		return store.ErrFull
	}
	return e.Engine.Update(ctx, keys, fn)
}

// On a disk that is almost full, requests that free space succeed, and others are rejected.
func TestRequestsOnAFullDisk(t *testing.T) {
	memory, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	engine := &almostFullEngine{Engine: memory}
	d, err := db.Open(t.Context(), engine, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(d.Close(), engine.Close()) })
	s := New(Parts{DB: d})
	do := func(operation, body string) error {
		_, err := answer(t.Context(), s, operation, []byte(body), new(buffer.Scratch))
		return err
	}
	const key = `{"a":{"S":"x"}}`
	const table = `{"TableName":"full","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST"}`
	if err := errors.Join(do("CreateTable", table), do("PutItem", `{"TableName":"full","Item":`+key+`}`)); err != nil {
		t.Fatal(err)
	}
	engine.full.Store(true)
	const del, put = `{"DeleteRequest":{"Key":` + key + `}}`, `{"PutRequest":{"Item":{"a":{"S":"y"}}}}`
	const transactDelete = `{"Delete":{"TableName":"full","Key":` + key + `}}`
	for _, c := range []struct {
		operation, body string
		accepted        bool
	}{
		{"PutItem", `{"TableName":"full","Item":` + key + `}`, false},
		{"UpdateItem", `{"TableName":"full","Key":` + key + `,"UpdateExpression":"SET b = :b","ExpressionAttributeValues":{":b":{"S":"1"}}}`, false},
		{"BatchWriteItem", `{"RequestItems":{"full":[` + del + `,` + put + `]}}`, false},
		{"TransactWriteItems", `{"TransactItems":[` + transactDelete + `,{"Put":{"TableName":"full","Item":{"a":{"S":"y"}}}}]}`, false},
		{"ExecuteStatement", `{"Statement":"INSERT INTO \"full\" VALUE {'a':'z'}"}`, false},
		{"CreateTable", `{"TableName":"full2",` + table[len(`{"TableName":"full",`):], false},
		{"DeleteItem", `{"TableName":"full","Key":` + key + `}`, true},
		{"BatchWriteItem", `{"RequestItems":{"full":[` + del + `]}}`, true},
		{"TransactWriteItems", `{"ClientRequestToken":"t","TransactItems":[` + transactDelete + `,{"ConditionCheck":{"TableName":"full","Key":{"a":{"S":"y"}},"ConditionExpression":"attribute_not_exists(a)"}}]}`, true},
		{"ExecuteStatement", `{"Statement":"DELETE FROM \"full\" WHERE a = 'x'"}`, true},
		{"UpdateTimeToLive", `{"TableName":"full","TimeToLiveSpecification":{"AttributeName":"t","Enabled":true}}`, true},
		{"DeleteTable", `{"TableName":"full"}`, true},
	} {
		err := do(c.operation, c.body)
		if c.accepted && err != nil || !c.accepted && !errors.Is(err, store.ErrFull) {
			t.Errorf("%s %s: %v", c.operation, c.body, err)
		}
	}
}
