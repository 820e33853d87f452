package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// ScalingRecords returns the settings of auto scaling. Their contents are up to
// package autoscaling.
func (d *DB) ScalingRecords(ctx context.Context) (map[string][]byte, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	start, end := keyspace.ScalingSpan()
	return records(ctx, snap, store.Range{Start: start, End: end})
}

// Scaling returns the settings of auto scaling of one dimension of a resource, or
// nil if there are none.
func (d *DB) Scaling(ctx context.Context, resource, dimension string) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, keyspace.Scaling(resource, dimension))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// ChangeScaling replaces the settings of auto scaling of one dimension of a
// resource, as ChangeJob does with a job.
func (d *DB) ChangeScaling(ctx context.Context, resource, dimension string, change func(before []byte) (after []byte, err error)) error {
	return d.changeRecord(ctx, keyspace.Scaling(resource, dimension), change)
}

// DAXClusters returns the clusters of DAX with their groups, or nil if there are none. The
// contents are up to package daxcluster.
func (d *DB) DAXClusters(ctx context.Context) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, keyspace.DAX())
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// ChangeDAXClusters replaces the clusters of DAX, as ChangeJob does with a job.
func (d *DB) ChangeDAXClusters(ctx context.Context, change func(before []byte) (after []byte, err error)) error {
	return d.changeRecord(ctx, keyspace.DAX(), change)
}

// DAXList returns a list of attribute names that a client of DAX has defined, or nil if there is none with this
// id. The contents are up to package server/dax.
func (d *DB) DAXList(ctx context.Context, id int64) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, daxListKey(id))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// ChangeDAXList replaces a list of attribute names, as ChangeJob does with a job.
func (d *DB) ChangeDAXList(ctx context.Context, id int64, change func(before []byte) (after []byte, err error)) error {
	return d.changeRecord(ctx, daxListKey(id), change)
}

// DAXLists calls each with the ids and contents of all lists of attribute names. The contents are valid during the call.
func (d *DB) DAXLists(ctx context.Context, each func(id int64, value []byte)) error {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	start := keyspace.Meta(daxLists)
	end := slices.Clone(start)
	end[len(end)-1]++
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		if id := pair.Key[len(start):]; len(id) == 8 {
			each(int64(binary.BigEndian.Uint64(id)), pair.Value)
		}
	}
	return nil
}

const daxLists = "dax list/"

func daxListKey(id int64) []byte {
	return binary.BigEndian.AppendUint64(keyspace.Meta(daxLists), uint64(id))
}

// AccessRecord returns the access keys and principals that are stored, or nil if there are none. The
// contents are up to package access.
func (d *DB) AccessRecord(ctx context.Context) ([]byte, error) {
	values, err := d.engine.Get(ctx, store.Strong, keyspace.Meta("access"))
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// AwaitLease waits until this server has handled all messages that others have broadcast, if it may have
// missed some: one that was cut off from the others, or stopped, has lost its lease.
func (d *DB) AwaitLease(ctx context.Context) error {
	if fleet, ok := d.engine.(store.Fleet); !ok || fleet.Leased() {
		return nil
	}
	_, err := d.AccessRecord(ctx) // any read waits for the lease
	return err
}

// ChangeAccessRecord replaces the access keys and principals, as ChangeJob does with a job.
func (d *DB) ChangeAccessRecord(ctx context.Context, change func(before []byte) (after []byte, err error)) error {
	return d.changeRecord(ctx, keyspace.Meta("access"), change)
}

// records returns the values of a range, by their keys without the kind.
func records(ctx context.Context, snap store.Snapshot, r store.Range) (map[string][]byte, error) {
	all := make(map[string][]byte)
	for pair, err := range snap.Scan(ctx, r) {
		if err != nil {
			return nil, err
		}
		all[string(pair.Key[1:])] = bytes.Clone(pair.Value)
	}
	return all, nil
}

// changeRecord replaces a value by the one that change returns; before is nil if
// there is none. An empty value deletes it. change may be called more than once.
// If it returns an error, changeRecord returns that error and changes nothing.
func (d *DB) changeRecord(ctx context.Context, key []byte, change func(before []byte) (after []byte, err error)) error {
	return d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
		before, _ := tx.Get(key)
		after, err := change(before)
		switch {
		case err != nil:
			return err
		case len(after) == 0:
			tx.Delete(key)
		default:
			tx.Set(key, after)
		}
		return nil
	})
}
