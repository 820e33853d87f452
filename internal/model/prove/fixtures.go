package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// fixtures are items that lie on the stage: those that are there before, and those
// that requests leave behind.
type fixtures struct {
	items   []batchEntry
	written []target
}

// batchEntry is one item that is put or removed by a batch.
type batchEntry struct {
	table   string
	request any
	bytes   int
}

func (p *fixtures) addStored(stored model.Stored) {
	text := wire.AppendItem(nil, stored.Item)
	put := map[string]any{"PutRequest": map[string]any{"Item": json.RawMessage(text)}}
	p.items = append(p.items, batchEntry{stored.Table, put, len(text)})
	var attributes map[string]any
	if err := json.Unmarshal(text, &attributes); err != nil {
		panic(fmt.Sprintf("an item is written as %s: %v", text, err))
	}
	p.written = append(p.written, target{table: stored.Table, attributes: attributes})
}

// addWritten notes what a request will write.
func (p *fixtures) addWritten(r model.Request) error {
	text, err := json.Marshal(r.Body)
	if err != nil {
		return err
	}
	targets, err := targetsOf(r.Operation, text)
	for _, t := range targets {
		if t.writes {
			p.written = append(p.written, t)
		}
	}
	return err
}

// store puts the items that are there before.
func (p *fixtures) store(ctx context.Context, send apply.Send) error {
	return writeBatches(ctx, send, p.items)
}

// remove leaves nothing behind.
func (p *fixtures) remove(ctx context.Context, send apply.Send, m *model.Model) error {
	var deletes []batchEntry
	seen := make(map[string]bool)
	for _, t := range p.written {
		table, _ := m.Table(t.table)
		key := make(map[string]any)
		for _, a := range table.Schema().Key.All() {
			key[a.Name] = t.attributes[a.Name]
		}
		text, err := json.Marshal(key)
		if err != nil {
			return err
		}
		if id := t.table + string(text); !seen[id] {
			seen[id] = true
			deletes = append(deletes, batchEntry{t.table, map[string]any{"DeleteRequest": map[string]any{"Key": key}}, len(text)})
		}
	}
	return writeBatches(ctx, send, deletes)
}

// What a BatchWriteItem takes.
const (
	batchItems = 25
	batchBytes = 8 << 20
)

// writeBatches sends writes in batches. What is left undone is sent again, for a
// while.
func writeBatches(ctx context.Context, send apply.Send, writes []batchEntry) error {
	for len(writes) > 0 {
		n, bytes := 0, 0
		tables := make(map[string][]any)
		for n < min(len(writes), batchItems) && (n == 0 || bytes+writes[n].bytes <= batchBytes) {
			w := writes[n]
			tables[w.table] = append(tables[w.table], w.request)
			bytes += w.bytes
			n++
		}
		writes = writes[n:]
		if err := writeBatch(ctx, send, tables); err != nil {
			return err
		}
	}
	return nil
}

func writeBatch(ctx context.Context, send apply.Send, tables map[string][]any) error {
	const tries = 10
	for i := range tries {
		text, err := send(ctx, "BatchWriteItem", map[string]any{"RequestItems": tables})
		if err != nil {
			return err
		}
		var reply struct{ UnprocessedItems map[string][]any }
		if err := json.Unmarshal(text, &reply); err != nil {
			return err
		}
		if len(reply.UnprocessedItems) == 0 {
			return nil
		}
		tables = reply.UnprocessedItems
		if err := apply.Sleep(ctx, 10*time.Millisecond<<i); err != nil {
			return err
		}
	}
	return fmt.Errorf("items were left unprocessed %d times; is the table throttled?", tries)
}

// target is an item that a request names: by its key, or whole.
type target struct {
	table      string
	attributes map[string]any
	writes     bool
	part       map[string]any // the part of the request that names it
}

// targetsOf finds the items that a request names.
func targetsOf(operation string, body []byte) (all []target, err error) {
	var r map[string]any
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	one := func(part map[string]any, writes bool) {
		table, _ := part["TableName"].(string)
		for _, member := range []string{"Key", "Item"} {
			if attributes, ok := part[member].(map[string]any); ok {
				all = append(all, target{table, attributes, writes, part})
			}
		}
	}
	switch operation {
	case "GetItem":
		one(r, false)
	case "PutItem", "UpdateItem", "DeleteItem":
		one(r, true)
	case "TransactGetItems", "TransactWriteItems":
		parts, _ := r["TransactItems"].([]any)
		for _, p := range parts {
			for kind, part := range p.(map[string]any) {
				one(part.(map[string]any), kind != "Get" && kind != "ConditionCheck")
			}
		}
	case "BatchGetItem", "BatchWriteItem":
		tables, _ := r["RequestItems"].(map[string]any)
		for table, part := range tables {
			all = append(all, batchTargets(table, part)...)
		}
	}
	return all, nil
}

// batchTargets are the items of one table in a batch.
func batchTargets(table string, part any) (all []target) {
	if reads, ok := part.(map[string]any); ok {
		keys, _ := reads["Keys"].([]any)
		for _, k := range keys {
			all = append(all, target{table: table, attributes: k.(map[string]any), part: reads})
		}
		return all
	}
	for _, w := range part.([]any) {
		for _, request := range w.(map[string]any) {
			r := request.(map[string]any)
			attributes, ok := r["Key"].(map[string]any)
			if !ok {
				attributes = r["Item"].(map[string]any)
			}
			all = append(all, target{table, attributes, true, r})
		}
	}
	return slices.Clip(all)
}
