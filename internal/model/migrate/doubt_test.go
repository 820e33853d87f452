package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A request that was given up, and that the server executes after a later write,
// does not leave an item out of date.
func TestCopierRepairsDelayedWrites(t *testing.T) {
	for _, operation := range []string{"PutItem", "DeleteItem"} {
		t.Run(operation, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				r, user := limitedRun(t, copiedUsers)
				var mutex sync.Mutex
				tables := map[string]json.RawMessage{"users": json.RawMessage(`{"id": {"S": "1"}, "email": {"S": "first"}}`)}
				write := func(operation string, in map[string]any) {
					mutex.Lock()
					defer mutex.Unlock()
					delete(tables, in["TableName"].(string))
					if operation == "PutItem" {
						tables[in["TableName"].(string)], _ = json.Marshal(in["Item"])
					}
				}
				delay := true
				r.m.c.tables = func(ctx context.Context, op string, body any) ([]byte, error) {
					in, _ := body.(map[string]any)
					switch {
					case op == "GetItem":
						mutex.Lock()
						defer mutex.Unlock()
						return json.Marshal(map[string]any{"Item": tables[in["TableName"].(string)]})
					case op == operation && delay:
						delay = false
						time.AfterFunc(15*time.Second, func() { write(op, in) })
						<-ctx.Done()
						return nil, errors.New("no reply")
					case op == "PutItem" || op == "DeleteItem":
						write(op, in)
					}
					return []byte("{}"), nil
				}
				key := r.m.plan.forward.sources["users"].Schema().Key.Of(user)
				sync := func(images ...item.Item) {
					t.Helper()
					if err := r.forward.sync(t.Context(), "users", key, images); err != nil {
						t.Fatal(err)
					}
				}
				if operation == "PutItem" {
					sync()
				} else {
					write("DeleteItem", map[string]any{"TableName": "users"})
					sync(user)
				}
				last := json.RawMessage(`{"id": {"S": "1"}, "email": {"S": "last"}}`)
				write("PutItem", map[string]any{"TableName": "users", "Item": last})
				sync()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- r.forward.resolveDoubts(ctx, time.Second) }()
				if err := r.forward.waitDoubts(ctx, time.Second); err != nil {
					t.Error(err)
				}
				cancel()
				<-done
				mutex.Lock()
				defer mutex.Unlock()
				if got := string(tables["users2"]); got != `{"PK":{"S":"U#1"},"email":{"S":"last"},"id":{"S":"1"}}` {
					t.Errorf("the new item is %s", got)
				}
			})
		})
	}
}
