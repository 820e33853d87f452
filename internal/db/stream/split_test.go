package stream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
)

// An id is as long as those of AWS while a stream has few spans, and sorts after that of
// the parent, also if shards are split again and again within a millisecond.
func TestIDsOfSplitShards(t *testing.T) {
	w := newProvisioned(t)
	for range 10 {
		for i := range 4 {
			w.update(func(t *schema.Table) { t.SplitShard(rand.Uint64() >> (16 * i)) })
		}
		w.pass(roll / 3)
		w.write(put("a", fmt.Sprint(rand.Uint64())))
	}
	s := w.onlyStream()
	shards := w.shards(s)
	place := make(map[string]int)
	for i, shard := range shards {
		if i > 0 && shards[i-1].ID >= shard.ID {
			t.Errorf("%s is followed by %s", shards[i-1].ID, shard.ID)
		}
		if n := len(shard.ID); n < 28 || n > 65 {
			t.Errorf("the id %s has %d characters", shard.ID, n)
		}
		place[shard.ID] = i + 1
		if shard.Parent != "" && place[shard.Parent] == 0 {
			t.Errorf("the parent of %+v does not come before it", shard)
		}
		if found, err := w.reader.Shard(t.Context(), s, shard.ID); err != nil || found.ShardKey != shard.ShardKey {
			t.Errorf("the id %s is found as %+v: %v", shard.ID, found, err)
		}
		it := w.reader.AtOldest(shard)
		if got, err := stream.DecodeIterator("arn", it.Encode("arn")); err != nil || got.Shard != it.Shard {
			t.Errorf("the iterator of %+v is %+v: %v", it.Shard, got.Shard, err)
		}
	}
	if spans := len(s.Spans()); spans < 40 {
		t.Errorf("there are %d spans, want many", spans)
	}
}

// liveReader reads a stream that is written, as the Kinesis adapter does: a shard after its
// parent has been read to the end.
type liveReader struct {
	*streamFixture
	at      map[string]stream.Iterator
	ended   map[string]bool
	changes []db.Change
}

// round reads a page of each shard. It reports whether all shards have ended.
func (l *liveReader) round(limit int) (all bool, err error) {
	s := l.onlyStream()
	shards, err := l.reader.Shards(l.Context(), s, "")
	if err != nil {
		return false, err
	}
	all = true
	for shard := range shards {
		if l.ended[shard.ID] {
			continue
		}
		all = false
		if shard.Parent != "" && !l.ended[shard.Parent] {
			continue
		}
		it, begun := l.at[shard.ID]
		if !begun {
			it = l.reader.AtOldest(shard)
		}
		it.Made = l.clock() // the writers move the clock by hours
		page, err := l.reader.Read(l.Context(), s, it, limit)
		if err != nil {
			return false, fmt.Errorf("shard %+v at %+v: %w", shard, it, err)
		}
		l.changes = append(l.changes, page.Changes...)
		l.at[shard.ID], l.ended[shard.ID] = page.Next, page.Ended
	}
	return all, nil
}

// A reader that follows the stream sees each change once, and those of an item in
// their order, while shards are split, and roll, and items are written.
func TestReadersFollowSplits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newProvisioned(t)
	const writers, rounds, ids = 4, 200, 30
	done := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	for n := range writers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for i := range rounds {
				w.pass(time.Duration(r.IntN(20)) * time.Second)
				var cancelled *db.Cancelled
				if _, err := w.db.Transact(t.Context(), nil, randomWrites(r, ids, fmt.Sprint(n, ".", i))...); err != nil && !errors.As(err, &cancelled) {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		r := rand.New(rand.NewPCG(seed, writers))
		for i := range 25 {
			_, err := w.db.UpdateTable(t.Context(), "Orders", func(def *schema.Table) error {
				def.State = schema.Active
				if i%5 == 0 {
					def.Throughput.Write += 1000
					return nil
				}
				def.SplitShard(r.Uint64())
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	go func() { group.Wait(); w.disable(); close(done) }()

	l := &liveReader{streamFixture: w, at: make(map[string]stream.Iterator), ended: make(map[string]bool)}
	for over := false; ; {
		all, err := l.round(5)
		if err != nil {
			t.Fatal(err)
		}
		if over && all {
			break
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
	if n := len(w.shards(w.onlyStream())); n < 40 {
		t.Errorf("there are only %d shards", n)
	}
	items, err := replay(l.changes)
	if err != nil {
		t.Fatal(err)
	}
	for id := range ids {
		now, err := w.db.Get(t.Context(), db.Get{Table: "Orders", Consistent: true}, key(fmt.Sprint(id)))
		if err != nil {
			t.Fatal(err)
		}
		if !now[0].Equal(items[fmt.Sprint(id)]) || now[0] == nil != (items[fmt.Sprint(id)] == nil) {
			t.Errorf("item %d is %v, but replays to %v", id, now[0], items[fmt.Sprint(id)])
		}
	}
}

// A page of a shard that is a small part of its slot ends after some changes of other
// shards, and the next one continues there.
func TestPagesOfASmallShardAreBounded(t *testing.T) {
	w := newProvisioned(t)
	w.update(func(t *schema.Table) { t.SplitShard(1 << 40) })
	s := w.onlyStream()
	shards := w.shards(s)
	small := shards[slices.IndexFunc(shards, func(s stream.Shard) bool { return s.Span == 1 })]
	large := item.String(string(make([]byte, 300_000)))
	const writes = 200
	for i := range writes {
		id := fmt.Sprint(i)
		w.write(db.Write{Table: "Orders", Key: key(id), Effect: db.Replace(key(id).With("v", large))})
	}
	w.disable()
	w.reader.MaxSkipped = 4 << 20
	it, pages := w.reader.AtOldest(small), 0
	for {
		page, err := w.reader.Read(t.Context(), s, it, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Changes) != 0 {
			t.Fatalf("there are %d changes of keys with the smallest hashes", len(page.Changes))
		}
		if pages++; page.Ended {
			break
		}
		it = page.Next
	}
	if pages < 2 {
		t.Errorf("%d changes of other shards were passed over in %d pages", writes, pages)
	}
}

// The shards after an id are the rest of all, for each id, and the earlier ones are not computed
// for the last page.
func TestShardsAfterAnID(t *testing.T) {
	w := newProvisioned(t)
	for range 60 {
		w.update(func(t *schema.Table) { t.SplitShard(rand.Uint64()) })
		w.pass(roll / 10)
	}
	s := w.onlyStream()
	all := w.shards(s)
	after := func(id string) (ids []string) {
		found, err := w.reader.Shards(t.Context(), s, id)
		if err != nil {
			t.Fatal(err)
		}
		for shard := range found {
			ids = append(ids, shard.ID)
		}
		return ids
	}
	ids := after("")
	if len(ids) != len(all) || len(ids) < 60 {
		t.Fatalf("%d shards, of %d", len(ids), len(all))
	}
	for i, id := range ids {
		if got := after(id); !slices.Equal(got, ids[i+1:]) {
			t.Fatalf("after the %d-th shard %s come %q, want %q", i, id, got, ids[i+1:])
		}
	}
	for id, want := range map[string]int{
		"a": len(ids), "z": 0, "shardId-": len(ids), "shardId-x": 0, "shardId-00000000000000000000-00000000": len(ids),
		"shardId-99999999999999999999-00000000": 0, "shardId-00000004398046511104-00000000": 0, ids[5] + "0": len(ids) - 6,
	} {
		if got := after(id); len(got) != want {
			t.Errorf("after %q come %d shards, want %d", id, len(got), want)
		}
	}
	cost := func(id string) float64 { return testing.AllocsPerRun(10, func() { after(id) }) }
	if first, last := cost(""), cost(ids[len(ids)-2]); last > first/2 {
		t.Errorf("the last page takes %v allocations, all pages %v", last, first)
	}
}
