package prove

import (
	"context"
	"encoding/json"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// fixtures are the items of a run: those that are stored beforehand, and those
// that its requests write.
type fixtures struct {
	items   []batchEntry
	written []model.Target
}

// batchEntry is one put or delete of a batch.
type batchEntry struct {
	table   string
	request any
	bytes   int
}

// addStored adds an item that is stored beforehand.
func (f *fixtures) addStored(stored model.Stored) {
	text := wire.AppendItem(nil, stored.Item)
	put := map[string]any{"PutRequest": map[string]any{"Item": json.RawMessage(text)}}
	f.items = append(f.items, batchEntry{stored.Table, put, len(text)})
	f.written = append(f.written, model.Target{Table: stored.Table, Item: stored.Item, Writes: true})
}

// addWritten adds the items that a call will write.
func (f *fixtures) addWritten(c model.Call) {
	for _, t := range c.Targets {
		if t.Writes {
			f.written = append(f.written, t)
		}
	}
}

// store stores the items that must exist beforehand.
func (f *fixtures) store(ctx context.Context, send apply.Send) error {
	return writeBatches(ctx, send, f.items)
}

// remove deletes all items, stored and written.
func (f *fixtures) remove(ctx context.Context, send apply.Send, m *model.Model) error {
	var deletes []batchEntry
	seen := make(map[string]bool)
	for _, t := range f.written {
		table, _ := m.Table(t.Table)
		key := wire.AppendItem(nil, table.Schema().Key.Of(t.Item))
		if id := t.Table + string(key); !seen[id] {
			seen[id] = true
			deletes = append(deletes, batchEntry{t.Table, map[string]any{"DeleteRequest": map[string]any{"Key": json.RawMessage(key)}}, len(key)})
		}
	}
	return writeBatches(ctx, send, deletes)
}

// Store stores items, the last of those that have the same key.
func Store(ctx context.Context, send apply.Send, m *model.Model, items []model.Stored, progress func(done, all int)) error {
	var f fixtures
	at := make(map[string]int)
	for _, stored := range items {
		table, _ := m.Table(stored.Table)
		key := stored.Table + "\x00" + string(keyspace.Item(nil, table.Schema(), stored.Item))
		f.addStored(stored)
		if i, found := at[key]; found {
			f.items[i] = f.items[len(f.items)-1]
			f.items = f.items[:len(f.items)-1]
			continue
		}
		at[key] = len(f.items) - 1
	}
	return storeFixtures(ctx, send, f.items, progress)
}

// The limits of a BatchWriteItem.
const (
	batchItems = 25
	batchBytes = 8 << 20
)

// writeBatches writes entries in batches. It retries unprocessed entries a
// limited number of times.
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
		if err := apply.WriteBatch(ctx, send, tables); err != nil {
			return err
		}
	}
	return nil
}
