package db

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store"
)

// The topics of the messages about tables. Their payload is the table's name and
// the id of the change.
const (
	topicTable   = "table"   // a table was changed
	topicSettled = "settled" // all servers have read the change
)

// broadcastStored makes all servers read a table again whose change is stored. When
// it returns, every write in flight, on any server, uses the current description.
// It takes two rounds: in the first, each server reads the table and blocks requests
// that use it; in the second, all servers release them. So a client that has seen the
// change through one server sees it through every other.
//
// It ignores the cancellation of ctx: otherwise the servers would use the old
// description until their next start, or block the table until settleTimeout.
func (d *DB) broadcastStored(ctx context.Context, name string) error {
	ctx = context.WithoutCancel(ctx)
	change := name + "\x00" + NewUUID()
	if err := d.Broadcast(ctx, topicTable, change); err != nil {
		return err
	}
	return d.Broadcast(ctx, topicSettled, change)
}

// Broadcast delivers a message to the handler that Subscribe has set for its
// topic, on every server that shares the data, this one included. It returns
// when all servers have handled it.
func (d *DB) Broadcast(ctx context.Context, topic, payload string) error {
	return d.engine.Broadcast(ctx, []byte(topic+"\x00"+payload))
}

// Subscribe sets the handler for the messages of a topic. The handler may be
// called more than once for one message. An empty payload means that any number
// of messages may have been missed.
func (d *DB) Subscribe(topic string, handle func(ctx context.Context, payload string) error) {
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	d.listeners[topic] = handle
}

// Leads reports whether this server is the leader of the servers that share the
// data. The leader may change at any time.
func (d *DB) Leads() bool { return d.engine.Leads() }

// onMessage handles a message. nil means that any message may have been missed.
func (d *DB) onMessage(ctx context.Context, message []byte) error {
	topic, payload, _ := strings.Cut(string(message), "\x00")
	name, id, _ := strings.Cut(payload, "\x00")
	switch topic {
	case topicTable:
		return d.reload(ctx, name, id)
	case topicSettled:
		d.catalog.endChange(name, id)
		return nil
	case "":
		// Another server may have led meanwhile and continued our work. This
		// process commits updates again only after this handler has returned,
		// so none of the cancelled work commits.
		d.leader.Cancel()
		if err := d.reload(ctx, "", ""); err != nil {
			return err
		}
		d.catalog.endAllChanges()
	}
	d.catalog.mu.RLock()
	listeners := maps.Clone(d.listeners)
	d.catalog.mu.RUnlock()
	for t, handle := range listeners {
		if t == topic || topic == "" {
			if err := handle(ctx, payload); err != nil {
				return err
			}
		}
	}
	return nil
}

// reload reads a changed table again, or the whole catalog if name is "". When
// it returns, every write in flight in this process uses the current
// description. Requests that use the named table wait until the change has
// settled.
func (d *DB) reload(ctx context.Context, name, id string) error {
	if name != "" {
		d.catalog.beginChange(name, id)
	}
	before, err := d.refresh(ctx, name)
	if err != nil {
		return err
	}
	for _, t := range before {
		t.inUse.Lock()   // wait for writes that began with the old description
		t.inUse.Unlock() //nolint:staticcheck // the critical section is empty on purpose
	}
	d.drop.Signal()
	d.build.Signal()
	d.restores.wake.Signal()
	return nil
}

// refresh reads a table, or the whole catalog if name is "", from the engine. It
// returns the tables that it may have replaced, as they were before.
func (d *DB) refresh(ctx context.Context, name string) (before []*table, err error) {
	d.catalog.refreshing.Lock()
	defer d.catalog.refreshing.Unlock()
	if name == "" {
		before = d.all()
		return before, d.load(ctx)
	}
	was, known := d.find(name)
	keys := [][]byte{keyspace.Catalog(name)}
	if known {
		before = append(before, was)
		keys = append(keys, keyspace.DroppedStreams(was.ID))
	}
	values, err := d.engine.Get(ctx, store.Strong, keys...)
	if err != nil {
		return nil, err
	}
	var now, drop *schema.Table
	if values[0] != nil {
		if now, err = codec.DecodeTable(values[0]); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
	}
	if known && values[1] != nil {
		if drop, err = codec.DecodeTable(values[1]); err != nil {
			return nil, fmt.Errorf("dropped table %s: %w", name, err)
		}
	}
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	d.catalog.put(name, now)
	if drop != nil {
		d.catalog.dropped[drop.ID] = drop
	}
	return before, nil
}

// load reads the whole catalog from the engine. Tables that exist already keep
// their counts.
func (d *DB) load(ctx context.Context) error {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	tables, err := history.At(snap).Tables(ctx)
	if err != nil {
		return err
	}
	dropped, err := readDropped(ctx, snap)
	if err != nil {
		return err
	}
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	was := catalog{tables: d.catalog.tables}
	d.catalog.tables = make(map[string]*table, len(tables))
	for _, t := range tables {
		if old, ok := was.tables[t.Name]; ok {
			d.catalog.tables[t.Name] = old
		}
		d.catalog.put(t.Name, t)
	}
	d.catalog.dropped = dropped
	return nil
}

// readDropped reads the dropped tables whose streams can still be read.
func readDropped(ctx context.Context, snap store.Snapshot) (map[uint32]*schema.Table, error) {
	dropped := make(map[uint32]*schema.Table)
	start, end := keyspace.DroppedStreamsSpan()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		t, err := codec.DecodeTable(pair.Value)
		if err != nil {
			return nil, fmt.Errorf("dropped table: %w", err)
		}
		dropped[t.ID] = t
	}
	return dropped, nil
}
