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

// What messages between the servers of one engine are about.
const (
	topicTable   = "table"   // a table was changed: its name, and an id of the change
	topicSettled = "settled" // all know of that
)

// broadcastTable has all servers follow a change of a table. When it returns,
// every write under way, in any of them, knows the table as it is. It takes two
// rounds: in the first each server follows and lets nobody look at the table,
// in the second all let them, so that who has seen the change through one
// server sees it through any other.
func (d *DB) broadcastTable(ctx context.Context, name string) error {
	change := name + "\x00" + newUUID()
	if err := d.Broadcast(ctx, topicTable, change); err != nil {
		return err
	}
	return d.Broadcast(ctx, topicSettled, change)
}

// broadcastStored is broadcastTable of a change that is stored already. Who asked
// for it may have gone away: the servers must know it all the same, or they
// would go on with a table that is another after the next start.
func (d *DB) broadcastStored(ctx context.Context, name string) error {
	return d.broadcastTable(context.WithoutCancel(ctx), name)
}

// Broadcast has every server that shares the data do what it has set by
// Subscribe for a topic, this one included, and returns when all have.
func (d *DB) Broadcast(ctx context.Context, topic, payload string) error {
	return d.engine.Broadcast(ctx, []byte(topic+"\x00"+payload))
}

// Subscribe sets what is done when something of a topic is announced. It may
// be done more than once for one announcement, and with "" when any number of
// them may have been missed.
func (d *DB) Subscribe(topic string, handle func(ctx context.Context, payload string) error) {
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	d.listeners[topic] = handle
}

// Leads tells whether this server does the work that only one of those that
// share the data should. It may change at any time.
func (d *DB) Leads() bool { return d.engine.Leads() }

// onMessage does what a message asks for; nil asks for everything.
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
		// Another may lead by now, and have gone on with what we did. From here
		// on nothing of that commits: this process serves again after this.
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

// reload follows a change of the catalog that this server or another has
// made: of the table of a name, or of any when there is none. When it returns,
// every write under way here knows the table as it is, and nobody else looks at
// it until the change has settled.
func (d *DB) reload(ctx context.Context, name, id string) error {
	if name != "" {
		d.catalog.beginChange(name, id)
	}
	before, err := d.refresh(ctx, name)
	if err != nil {
		return err
	}
	for _, t := range before {
		t.inUse.Lock()   // those who write now may have begun with what was before
		t.inUse.Unlock() //nolint:staticcheck // there is nothing to do but to wait
	}
	d.drop.Signal()
	d.build.Signal()
	d.restores.wake.Signal()
	return nil
}

// refresh brings the catalog up to date and tells which tables have changed, as
// they were.
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

// load reads the whole catalog from the engine.
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

// readDropped reads what is kept of dropped tables.
func readDropped(ctx context.Context, snap store.Snapshot) (map[uint32]*schema.Table, error) {
	dropped := make(map[uint32]*schema.Table)
	start, end := keyspace.DroppedStreamsSpan()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		t, err := codec.DecodeTable(pair.Value)
		if err != nil {
			return nil, fmt.Errorf("a dropped table: %w", err)
		}
		dropped[t.ID] = t
	}
	return dropped, nil
}
