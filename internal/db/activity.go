package db

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// ActivityKind is what an Activity does.
type ActivityKind string

// The kinds of activities.
const (
	CreatingIndex   ActivityKind = "CREATE_INDEX"
	DeletingIndex   ActivityKind = "DELETE_INDEX"
	AddingExpiries  ActivityKind = "ADD_EXPIRIES"
	RestoringTable  ActivityKind = "RESTORE_TABLE"
	unknownProgress              = -1
)

// Activity is background work on a table that is not complete.
type Activity struct {
	Kind         ActivityKind
	Table, Index string
	Source       schema.Restored // of a restore
	Since        time.Time       // zero if it is not known

	// Share is how much is done, from 0 to 1; negative if it is not known. With Share 0 the
	// work may not have begun.
	Share float64

	// Items are done, and Expected in the end. Both are approximate; Expected is 0 if it is not
	// known.
	Items, Expected int64
}

// Activities returns the work in the background on all tables, by table, kind and index. Each
// server that shares the database knows all of it.
func (d *DB) Activities(ctx context.Context) ([]Activity, error) {
	var found []Activity
	var keys [][]byte // of the stored progress
	var builds []int  // the activities that it belongs to
	build := func(a Activity, t *table, index uint16) {
		a.Table, a.Expected = t.Name, t.counts.current()[0].Items
		builds, keys = append(builds, len(found)), append(keys, keyspace.Build(t.ID, index))
		found = append(found, a)
	}
	for _, t := range d.all() {
		if t.State == schema.Deleting {
			continue
		}
		if t.TimeToLive.Filling && t.TimeToLive.Attribute != "" {
			build(Activity{Kind: AddingExpiries, Since: t.TimeToLive.Changed}, t, expiryBuild(t.TimeToLive.Changes))
		}
		for i := range t.Indexes {
			switch x := &t.Indexes[i]; x.State {
			case schema.Creating:
				build(Activity{Kind: CreatingIndex, Index: x.Name}, t, x.ID)
			case schema.Deleting:
				found = append(found, Activity{Kind: DeletingIndex, Table: t.Name, Index: x.Name, Share: unknownProgress})
			}
		}
		if t.Restored.Running && t.Restored.Import == "" {
			found = append(found, d.restoring(t))
		}
	}
	if len(keys) > 0 {
		progress, err := d.engine.Get(ctx, store.Strong, keys...)
		if err != nil {
			return nil, err
		}
		for i, at := range progress {
			if at == nil {
				continue
			}
			// Items are read in the order of their hashes, which are spread evenly.
			a := &found[builds[i]]
			a.Share = float64(keyspace.Hash(at)) / math.MaxUint64
			a.Items = int64(a.Share * float64(a.Expected))
		}
	}
	slices.SortFunc(found, func(a, b Activity) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index))
	})
	return found, nil
}

// restoring returns the restore of a table. What a backup has is not known here.
func (d *DB) restoring(t *table) Activity {
	a := Activity{Kind: RestoringTable, Table: t.Name, Source: t.Restored, Since: t.Created, Items: max(0, t.counts.current()[0].Items), Share: unknownProgress}
	if source, ok := d.find(t.Restored.Table); ok && t.Restored.Backup == "" && source.ID == t.Restored.TableID {
		a.Expect(source.counts.current()[0].Items)
	}
	return a
}

// Expect sets how many items there will be, and the share that follows from it.
func (a *Activity) Expect(items int64) {
	a.Expected = items
	if items > 0 {
		a.Share = min(1, float64(a.Items)/float64(items))
	}
}
