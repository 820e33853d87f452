package db

import (
	"context"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// Verify checks all stored data, in one snapshot, for consistency, and then what
// the engine can check itself. It calls progress after each part with the table
// that is being read, or "", and the number of keys so far.
func (d *DB) Verify(ctx context.Context, progress func(table string, keys int64)) ([]verify.Report, error) {
	walk := verify.New(verify.Options{Snapshot: d.engine.Snapshot, Recount: d.recount})
	defer walk.Close()
	for done := false; !done; {
		var err error
		if _, done, err = walk.Step(ctx); err != nil {
			return nil, err
		}
		progress(walk.Position())
	}
	if err := d.checkEngine(ctx, walk); err != nil {
		return nil, err
	}
	return walk.Reports(), nil
}

// checkEngine checks what an engine has besides the keys of the database.
func (d *DB) checkEngine(ctx context.Context, walk *verify.Walk) error {
	engine, ok := d.engine.(store.Checker)
	if !ok {
		return nil
	}
	err := engine.Check(ctx)
	if err != nil && ctx.Err() == nil {
		walk.Found(verify.Finding{Kind: verify.KindEngine, Text: err.Error()})
		return nil
	}
	return ctx.Err()
}

// OnlineWalk returns a walk over all stored data that takes a snapshot for each
// part, for a database that is in use. It compares item counts only if counts is
// set, since that can read a whole table at once.
func (d *DB) OnlineWalk(counts bool, found func(verify.Finding)) *verify.Walk {
	o := verify.Options{Snapshot: d.engine.Snapshot, Online: true, Found: found, PartKeys: onlinePartKeys, MaxTracked: onlineMaxTracked}
	if counts {
		o.Recount = d.recount
	}
	return verify.New(o)
}

const (
	onlinePartKeys   = 250     // a part takes a few milliseconds
	onlineMaxTracked = 200_000 // some 20 MB
)

// VerifyOnline is Verify for a database that is in use, at a number of keys a
// second.
func (d *DB) VerifyOnline(ctx context.Context, rate int, progress func(table string, keys int64)) ([]verify.Report, error) {
	walk := d.OnlineWalk(true, nil)
	defer walk.Close()
	for {
		began := time.Now()
		keys, done, err := walk.Step(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			return walk.Reports(), nil
		}
		progress(walk.Position())
		if wait := Pace(keys, rate) - time.Since(began); wait > 0 {
			lead.Wait(ctx, wait)
		}
	}
}

// Pace returns how long a number of keys take at a rate.
func Pace(keys, rate int) time.Duration {
	return time.Duration(keys) * time.Second / time.Duration(rate)
}

// recount counts the items of a table, or the entries of an index, and returns
// the saved count of the same moment. Both are zero for a table that does not
// exist any more. The unsaved counts of other servers are missing.
func (d *DB) recount(ctx context.Context, name string, id uint16) (saved, actual codec.Count, err error) {
	t, ok := d.find(name)
	if !ok {
		return codec.Count{}, codec.Count{}, nil
	}
	return d.countExactly(ctx, t, id)
}

// countExactly returns the count of an index, or with id 0 of the items, as it is
// known and as it is.
func (d *DB) countExactly(ctx context.Context, t *table, id uint16) (known, exact Count, err error) {
	t.inUse.Lock() // no write of this process is between its commit and countWrite
	known = t.counts.current()[id]
	snap, err := d.engine.Snapshot(ctx)
	t.inUse.Unlock()
	if err != nil {
		return Count{}, Count{}, err
	}
	defer snap.Close()
	start, end := keyspace.IndexSpan(t.ID, id)
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return Count{}, Count{}, err
		}
		entry, err := codec.DecodeItem(pair.Value)
		if err != nil {
			return Count{}, Count{}, err
		}
		if err := item.Check(entry); err != nil {
			return Count{}, Count{}, fmt.Errorf("count table %s: %w: %w", t.Name, err, store.ErrCorrupt)
		}
		exact.Items++
		exact.Bytes += int64(entry.Size())
	}
	return known, exact, nil
}
