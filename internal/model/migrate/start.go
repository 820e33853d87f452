package migrate

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// startStreams passes over the records that the streams of the sources have
// before the items are read: a stream that is older than the migration has those
// of 24 hours. The end of a shard that is closed is stored. That of an open shard
// is an iterator in memory, since a shard without records has no sequence number
// to store: a process that is killed before the first record reads this shard from
// its beginning.
func (r *phaseRun) startStreams(ctx context.Context) error {
	r.starts = make(map[string]map[string]string)
	for table, arn := range r.state.ARNs {
		f := &streamFollower{c: r.m.c, store: r.store, table: table, arn: arn, now: r.m.options.Now, followed: r.state.followed(), shards: make(map[string]*followedShard)}
		if err := f.list(ctx); err != nil {
			return err
		}
		starts, err := f.start(ctx)
		if err != nil {
			return err
		}
		r.starts[table] = starts
	}
	return nil
}

// starts returns the iterators of shards of which no record was handled, for the
// next followers. These have stopped.
func (g *following) starts() map[string]map[string]string {
	all := make(map[string]map[string]string)
	for _, f := range g.all {
		all[f.table] = make(map[string]string)
		for id, s := range f.shards {
			if s.after == "" && !s.ended && s.current && s.iterator != "" {
				all[f.table][id] = s.iterator
			}
		}
	}
	return all
}

// start returns iterators at the ends of the shards that are open.
func (f *streamFollower) start(ctx context.Context) (map[string]string, error) {
	var mutex sync.Mutex
	starts := make(map[string]string)
	shards := slices.Collect(maps.Values(f.shards))
	err := parallel(ctx, maxShards, len(shards), func(ctx context.Context, i int) error {
		s := shards[i]
		if s.closed {
			s.ended = true
			return f.save(ctx, s)
		}
		iterator, err := f.iterator(ctx, s.id, "LATEST", "")
		if err != nil {
			return err
		}
		// The first page makes sure that the iterator has its position now, and not
		// when it is first used. Its records are those of changes before the scan.
		page, err := f.records(ctx, iterator, pageRecords)
		if err != nil {
			return err
		}
		if s.iterator = page.NextShardIterator; s.iterator == "" {
			s.ended = true
			return f.save(ctx, s)
		}
		mutex.Lock()
		defer mutex.Unlock()
		starts[s.id] = s.iterator
		return nil
	})
	return starts, err
}
