package stream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
)

// replay goes through the changes of a stream, shard by shard along the
// lineage, and tells what each item is at the end. Each change must begin where
// the one before it of the same item ended.
func replay(changes []db.Change) (map[string]item.Item, error) {
	items := make(map[string]item.Item)
	for _, c := range changes {
		v, _ := c.Image().Get("id")
		id := string(v.Bytes())
		if !items[id].Equal(c.Before) || c.Before == nil != (items[id] == nil) {
			return nil, fmt.Errorf("a change of %s at %d begins with %v, not with %v", id, c.Stamp, c.Before, items[id])
		}
		if items[id] = c.After; c.After == nil {
			delete(items, id)
		}
	}
	return items, nil
}

// follow reads a stream as the Kinesis adapter does: a shard when its parent
// has been read to the end, until a stream that is disabled has no more.
func (w *streamFixture) follow(s db.Stream, limit int) []db.Change {
	w.Helper()
	var all []db.Change
	done := make(map[string]bool)
	for {
		read := 0
		for _, shard := range w.shards(s) {
			if done[shard.ID] || shard.Parent != "" && !done[shard.Parent] {
				continue
			}
			found, ended := w.drain(s, shard, limit)
			if !ended {
				w.Fatalf("shard %s of a disabled stream does not end", shard.ID)
			}
			all = append(all, found...)
			done[shard.ID] = true
			read++
		}
		if read == 0 {
			return all
		}
	}
}

// The stream of each item replays to what it is: no change is missing, doubled
// or out of order, whoever wrote and however shards rolled meanwhile.
func TestReplay(t *testing.T) {
	w := newFixture(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const writers, rounds, ids = 8, 150, 20
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for i := range rounds {
				w.pass(time.Duration(r.IntN(90)) * time.Second)
				writes := randomWrites(r, ids, fmt.Sprint(n, ".", i))
				var cancelled *db.Cancelled
				if _, err := w.db.Transact(t.Context(), nil, writes...); err != nil && !errors.As(err, &cancelled) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	w.disable()
	s := w.onlyStream()
	changes := w.follow(s, 7)
	if len(changes) < writers*rounds/2 {
		t.Errorf("the stream has only %d changes", len(changes))
	}
	if shards := len(w.shards(s)); shards < 12 {
		t.Errorf("there are only %d shards", shards)
	}
	items, err := replay(changes)
	if err != nil {
		t.Fatal(err)
	}
	for id := range ids {
		now, err := w.db.Get(t.Context(), "Orders", true, key(fmt.Sprint(id)))
		if err != nil {
			t.Fatal(err)
		}
		if !now[0].Equal(items[fmt.Sprint(id)]) || now[0] == nil != (items[fmt.Sprint(id)] == nil) {
			t.Errorf("item %d is %v, the stream says %v", id, now[0], items[fmt.Sprint(id)])
		}
	}
	last := make(map[int]stream.Position)
	for _, c := range changes {
		v, _ := c.Image().Get("id")
		var id int
		fmt.Sscan(string(v.Bytes()), &id)
		at := stream.Position{Stamp: c.Stamp, N: c.N}
		if at.Sequence() <= last[id].Sequence() {
			t.Errorf("item %d has %s behind %s", id, at.Sequence(), last[id].Sequence())
		}
		last[id] = at
	}

	// The control: with a change left out or doubled it does not replay to the
	// same.
	for name, spoil := range map[string]func(i int) []db.Change{
		"left out": func(i int) []db.Change { return append(append([]db.Change{}, changes[:i]...), changes[i+1:]...) },
		"doubled":  func(i int) []db.Change { return append(append([]db.Change{}, changes[:i+1]...), changes[i:]...) },
	} {
		for range 20 {
			i := rand.IntN(len(changes))
			again, err := replay(spoil(i))
			if err == nil && same(again, items) {
				t.Errorf("change %d %s is not noticed", i, name)
			}
		}
	}
}

func same(a, b map[string]item.Item) bool {
	for id := range b {
		if !a[id].Equal(b[id]) {
			return false
		}
	}
	return len(a) == len(b)
}

// randomWrites are some writes of different items, some of which may not
// happen.
func randomWrites(r *rand.Rand, ids int, value string) (writes []db.Write) {
	for _, id := range r.Perm(ids)[:1+r.IntN(4)] {
		write := put(fmt.Sprint(id), value)
		switch r.IntN(6) {
		case 0, 1:
			write = remove(fmt.Sprint(id))
		case 2:
			write.Effect = db.Keep
		case 3:
			write.If = func(before item.Item) bool { return before != nil }
		}
		writes = append(writes, write)
	}
	return writes
}
