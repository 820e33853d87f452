package db

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// trimInterval is how often Trim runs.
const trimInterval = 10 * time.Minute

// Trim removes the changes that no stream and no recovery needs any more, and
// the descriptions of streams that can no longer be read, if the clock is trusted.
func (d *DB) Trim(ctx context.Context) error {
	if !d.clock.Trusted() {
		return nil
	}
	// Read before the tables are listed: a stream that is enabled in the
	// meantime starts at the horizon or after it.
	horizon, err := d.Horizon(ctx)
	if err != nil {
		return err
	}
	now, trimmed := d.Now(), d.trimTime()
	names, _ := d.Tables("", math.MaxInt)
	for _, name := range names {
		t, ok := d.find(name)
		if !ok {
			continue
		}
		if err := d.trimTable(ctx, t.Table, now, trimmed, horizon); err != nil {
			return err
		}
		if dropUnreadable(t.Clone(), trimmed) {
			if _, err := d.alter(ctx, name, func(t *schema.Table) error {
				dropUnreadable(t, trimmed)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return d.trimDropped(ctx, now, trimmed, horizon)
}

// trimTable removes the changes of a table before keptFrom, up to the horizon.
func (d *DB) trimTable(ctx context.Context, t *schema.Table, now, trimmed time.Time, horizon uint64) error {
	from := min(keptFrom(t, now, trimmed), horizon)
	if d.keepChanges {
		from = min(from, StampAt(now.Add(-keptChanges)))
	}
	for slot := range keyspace.Slots {
		start, end := keyspace.ChangeSpan(t.ID, slot, 0, from)
		if err := d.engine.DeleteRange(ctx, start, end); err != nil {
			return err
		}
	}
	return nil
}

// keptFrom returns the first stamp of the changes that the table's streams and
// its recovery still need: streams those from the time trimmed on.
func keptFrom(t *schema.Table, now, trimmed time.Time) uint64 {
	from := uint64(math.MaxUint64)
	for i := range t.Streams {
		if s := &t.Streams[i]; readable(s, trimmed) {
			from = min(from, max(s.Start, StampAt(trimmed)))
		}
	}
	if t.Recovery.Enabled {
		from = min(from, StampAt(now.AddDate(0, 0, -t.Recovery.Days)))
	}
	return from
}

// trimDropped removes the changes of dropped tables that can no longer be read.
// It removes a table's description once none of its streams can be read.
func (d *DB) trimDropped(ctx context.Context, now, trimmed time.Time, horizon uint64) error {
	d.catalog.mu.RLock()
	dropped := make([]*schema.Table, 0, len(d.catalog.dropped))
	for _, t := range d.catalog.dropped {
		dropped = append(dropped, t)
	}
	d.catalog.mu.RUnlock()
	for _, t := range dropped {
		t = withoutRecovery(t)
		if err := d.trimTable(ctx, t, now, trimmed, horizon); err != nil {
			return err
		}
		if slices.ContainsFunc(t.Streams, func(s schema.Stream) bool { return readable(&s, trimmed) }) {
			continue
		}
		key := keyspace.DroppedStreams(t.ID)
		if err := d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
			tx.Delete(key)
			return nil
		}); err != nil {
			return err
		}
		d.catalog.mu.Lock()
		delete(d.catalog.dropped, t.ID)
		d.catalog.mu.Unlock()
	}
	return nil
}

// withoutRecovery returns a copy of a table with recovery disabled.
func withoutRecovery(t *schema.Table) *schema.Table {
	left := *t
	left.Recovery = schema.Recovery{}
	return &left
}

// dropUnreadable removes the streams of a table that can no longer be read, but for the last
// one, since the table's description contains it, and the policies of all of them. It reports
// whether there were any.
func dropUnreadable(t *schema.Table, trimmed time.Time) bool {
	var kept []schema.Stream
	policies := make(map[string]schema.ResourcePolicy)
	if p, ok := t.Policies[""]; ok {
		policies[""] = p
	}
	for i, s := range t.Streams {
		if readable(&s, trimmed) {
			if p, ok := t.Policies[s.Label]; ok {
				policies[s.Label] = p
			}
		} else if i < len(t.Streams)-1 {
			continue
		}
		kept = append(kept, s)
	}
	dropped := len(kept) < len(t.Streams) || len(policies) < len(t.Policies)
	if dropped {
		t.Streams, t.Policies = kept, policies
	}
	return dropped
}
