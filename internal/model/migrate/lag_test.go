package migrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/migrate"
)

// lagging returns a function that sends requests of streams, whose records appear
// some time after they are written, as on AWS.
func (g *rig) lagging(lag time.Duration) apply.Send {
	var mutex sync.Mutex
	seen := make(map[string]time.Time) // pages with records, by iterator
	return func(ctx context.Context, operation string, body any) ([]byte, error) {
		text, err := g.e.SendStreams(ctx, operation, body)
		if operation != "GetRecords" || err != nil {
			return text, err
		}
		var page struct{ Records []json.RawMessage }
		if err := json.Unmarshal(text, &page); err != nil || len(page.Records) == 0 {
			return text, err
		}
		iterator := body.(map[string]any)["ShardIterator"].(string)
		mutex.Lock()
		defer mutex.Unlock()
		if _, ok := seen[iterator]; !ok {
			seen[iterator] = time.Now()
		}
		if time.Since(seen[iterator]) < lag {
			return json.Marshal(map[string]any{"Records": []any{}, "NextShardIterator": iterator})
		}
		return text, nil
	}
}

// Records that appear late are no differences.
func TestMigrateVerifiesWithLateRecords(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(300)
	g.options.Delay = 10 * time.Second
	g.whileWriting(300, func() {
		if st, err := migrate.New(g.e.Send, g.lagging(200*time.Millisecond), g.old, g.new, g.options).Run(t.Context(), migrate.Ready); err != nil {
			t.Errorf("%v: %+v", err, st.Verified)
		}
	}, w)
	g.options.Quiet = time.Second
	g.do(migrate.Switched)
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// A write of the application to the new tables, whose record appears late, does
// not make the copy of an earlier one a late write.
func TestMigrateLateRecordsAreNoLateWrites(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	g.options.Delay = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	written := make(chan struct{})
	a := w.stored[5]
	toNewOrder(a)
	go func() {
		defer close(written)
		for i := 0; apply.Sleep(ctx, 30*time.Millisecond) == nil; i++ {
			a["note"] = fmt.Sprint(i)
			_, _ = g.e.Send(t.Context(), "PutItem", map[string]any{"TableName": "orders2", "Item": a.json()})
		}
	}()
	st, err := migrate.New(g.e.Send, g.lagging(150*time.Millisecond), g.old, g.new, g.options).Run(ctx, "")
	<-written
	if st.Late != 0 || st.Counts.Followed == 0 {
		t.Errorf("%d late writes, %q, %d followed, %v", st.Late, st.LateKeys, st.Counts.Followed, err)
	}
}
