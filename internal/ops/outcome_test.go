package ops

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// deletingEngine starts to delete a table as soon as the update of a request
// has committed, before the reply is made. Background work updates as well.
type deletingEngine struct {
	store.Engine
	mu          sync.Mutex
	deleteTable func()        // nil: disarmed
	following   chan struct{} // closed once the database waits for the deletion
}

// fromRequest is the key of a context's value that marks the request.
type fromRequest struct{}

func (e *deletingEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.Engine.Update(ctx, keys, fn); err != nil {
		return err
	}
	if ctx.Value(fromRequest{}) == nil {
		return nil
	}
	e.mu.Lock()
	deleteTable, following := e.deleteTable, make(chan struct{})
	if deleteTable != nil {
		e.deleteTable, e.following = nil, following
	}
	e.mu.Unlock()
	if deleteTable != nil {
		go deleteTable()
		<-following
	}
	return nil
}

// Get is how the database reloads a changed table. From the first Get on, requests
// for the table wait until the change is complete.
func (e *deletingEngine) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	e.mu.Lock()
	if e.following != nil {
		close(e.following)
		e.following = nil
	}
	e.mu.Unlock()
	return e.Engine.Get(ctx, c, keys...)
}

// A write that committed succeeds, with the metrics asked for, even if its
// table is deleted before the reply is made.
func TestReplyOfWriteToDeletedTable(t *testing.T) {
	memory, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	engine := &deletingEngine{Engine: memory}
	d, err := db.Open(t.Context(), engine, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { errors.Join(d.Close(), engine.Close()) })
	s := New(Parts{DB: d})
	do := func(operation, body string) (string, error) {
		ctx := context.WithValue(t.Context(), fromRequest{}, true)
		reply, err := answer(ctx, s, operation, []byte(body), new(buffer.Scratch))
		return string(reply), err
	}
	const key = `{"a":{"S":"x"},"b":{"S":"y"}}`
	const size = `,"ReturnItemCollectionMetrics":"SIZE"}`
	for operation, body := range map[string]string{
		"PutItem":            `{"TableName":"local","Item":` + key + size,
		"UpdateItem":         `{"TableName":"local","Key":` + key + size,
		"DeleteItem":         `{"TableName":"local","Key":` + key + size,
		"BatchWriteItem":     `{"RequestItems":{"local":[{"PutRequest":{"Item":` + key + `}}]}` + size,
		"TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"local","Item":` + key + `}}]` + size,
	} {
		t.Run(operation, func(t *testing.T) {
			_, err := do("CreateTable", `{"TableName":"local","BillingMode":"PAY_PER_REQUEST",`+
				`"AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"},{"AttributeName":"b","AttributeType":"S"},{"AttributeName":"c","AttributeType":"S"}],`+
				`"KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{"AttributeName":"b","KeyType":"RANGE"}],`+
				`"LocalSecondaryIndexes":[{"IndexName":"byC","KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{"AttributeName":"c","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]}`)
			if err != nil {
				t.Fatal(err)
			}
			deleted := make(chan error, 1)
			engine.mu.Lock()
			engine.deleteTable = func() {
				_, err := d.DeleteTable(t.Context(), "local")
				deleted <- err
			}
			engine.mu.Unlock()
			reply, err := do(operation, body)
			if err != nil || !strings.Contains(reply, `"SizeEstimateRangeGB"`) {
				t.Errorf("the committed %s is answered %s, %v", operation, reply, err)
			}
			if err := <-deleted; err != nil {
				t.Error(err)
			}
		})
	}
}
