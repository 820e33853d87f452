package db

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Expiries says which items of a table have expired and are not removed yet, and which
// expire next.
type Expiries struct {
	Table     string
	Attribute string // "" if the table has no time to live
	Filling   bool   // the expiry entries of older items are still being added

	Due       int  // items whose time has passed; at most maxDueCounted
	DueIsMore bool // there are more than Due

	Expired, Next []Expiring // the first of each, by their time

	// Milliseconds is a time so far in the future that it is more likely in milliseconds; 0 for
	// none.
	Milliseconds int64

	LastSweep Sweep
	Interval  time.Duration // between two sweeps
	Leads     bool          // this server removes expired items
}

// Expiring is the key of an item and the second at which it expires.
type Expiring struct {
	Key item.Item
	At  time.Time
}

// Sweep is one removal of all expired items.
type Sweep struct {
	At    time.Time // when it ended or was skipped; zero if this server has not done one
	Error string    // why it did not remove all; empty if it did
}

// maxDueCounted is the largest number of due items that is counted.
const maxDueCounted = 10_000

// Expiries reads the expiry entries of a table: it counts those that are due, and returns the
// keys of the first limit that are due and of the first limit that are not.
func (d *DB) Expiries(ctx context.Context, name string, limit int) (Expiries, error) {
	t, err := d.use(name)
	if err != nil {
		return Expiries{}, err
	}
	e := Expiries{Table: t.Name, Attribute: t.TimeToLive.Attribute, Filling: t.TimeToLive.Filling, Interval: d.expiryInterval, Leads: d.engine.Leads()}
	if last := d.swept.Load(); last != nil {
		e.LastSweep = *last
	}
	if e.Attribute == "" {
		return e, nil
	}
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return Expiries{}, err
	}
	defer snap.Close()
	now := d.Now()
	start, end := keyspace.ExpirySpan(t.ID, schema.OldestExpiry(now), now.Unix())
	e.Expired, err = readExpiring(ctx, snap, t.Table, start, end, limit, func() bool {
		if e.Due == maxDueCounted {
			e.DueIsMore = true
			return false
		}
		e.Due++
		return true
	})
	if err != nil {
		return Expiries{}, err
	}
	start, end = keyspace.ExpirySpan(t.ID, now.Unix(), year5000)
	if e.Next, err = readExpiring(ctx, snap, t.Table, start, end, limit, nil); err != nil {
		return Expiries{}, err
	}
	e.Milliseconds, err = farExpiry(ctx, snap, t.ID)
	return e, err
}

// readExpiring returns the keys of the first limit items with an expiry entry in a span. If
// count is not nil, it is called for each entry, and reading goes on until it returns false.
func readExpiring(ctx context.Context, snap store.Snapshot, t *schema.Table, start, end []byte, limit int, count func() bool) (found []Expiring, err error) {
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		if count == nil && len(found) == limit || count != nil && !count() {
			break
		}
		if len(found) == limit {
			continue
		}
		at, key := keyspace.ExpiryOf(pair.Key)
		key = bytes.Clone(key)
		stored, err := snap.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		it, err := decodeItem(t, key, stored[0])
		if err != nil {
			return nil, err
		}
		// An entry without its item is removed by the next sweep.
		if is, expires := t.Expiry(it); expires && is == at {
			found = append(found, Expiring{Key: t.Key.Of(it), At: time.Unix(at, 0)})
		}
	}
	return found, nil
}

// farExpiry returns the first time of an expiry entry from year5000 on; 0 if there is none.
func farExpiry(ctx context.Context, snap store.Snapshot, table uint32) (at int64, err error) {
	start, end := keyspace.ExpirySpan(table, year5000, math.MaxInt64)
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return 0, err
		}
		at, _ = keyspace.ExpiryOf(pair.Key)
		break
	}
	return at, nil
}
