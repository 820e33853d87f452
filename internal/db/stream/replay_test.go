package stream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
)

// replay applies the changes of a stream, in the order of its shards, and returns
// the resulting items. The old image of each change must be the new image of the
// previous change of that item.
func replay(changes []db.Change) (map[string]item.Item, error) {
	items := make(map[string]item.Item)
	for _, c := range changes {
		v, _ := c.Image().Get("id")
		id := string(v.Bytes())
		if !items[id].Equal(c.Before) || c.Before == nil != (items[id] == nil) {
			return nil, fmt.Errorf("a change of %s at %d has the old image %v, want %v", id, c.Stamp, c.Before, items[id])
		}
		if items[id] = c.After; c.After == nil {
			delete(items, id)
		}
	}
	return items, nil
}

// follow reads a disabled stream to its end as the Kinesis adapter does: a shard
// after its parent has been read to the end.
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

// Replaying a stream gives the stored items: no change is missing, duplicated or
// out of order, with concurrent writers and while shards roll.
func TestReplay(t *testing.T) {
	t.Run("on demand", func(t *testing.T) { testReplay(t, newFixture(t), keyspace.Slots) })
	t.Run("provisioned", func(t *testing.T) { testReplay(t, newProvisioned(t), 1) })
}

func testReplay(t *testing.T, w *streamFixture, shardsAtATime int) {
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
		t.Errorf("the stream has only %d changes, want at least %d", len(changes), writers*rounds/2)
	}
	if shards := len(w.shards(s)); shards < 3*shardsAtATime {
		t.Errorf("there are only %d shards, want at least %d", shards, 3*shardsAtATime)
	}
	items, err := replay(changes)
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
	last := make(map[int]stream.Position)
	for _, c := range changes {
		v, _ := c.Image().Get("id")
		var id int
		fmt.Sscan(string(v.Bytes()), &id)
		at := stream.Position{Stamp: c.Stamp, N: c.N}
		if at.Sequence() <= last[id].Sequence() {
			t.Errorf("item %d has %s after %s", id, at.Sequence(), last[id].Sequence())
		}
		last[id] = at
	}

	// The control: with a change missing or duplicated, replay fails or gives
	// other items.
	for name, spoil := range map[string]func(i int) []db.Change{
		"missing":    func(i int) []db.Change { return append(append([]db.Change{}, changes[:i]...), changes[i+1:]...) },
		"duplicated": func(i int) []db.Change { return append(append([]db.Change{}, changes[:i+1]...), changes[i:]...) },
	} {
		for range 20 {
			i := rand.IntN(len(changes))
			again, err := replay(spoil(i))
			if err == nil && same(again, items) {
				t.Errorf("change %d %s is not detected", i, name)
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

// randomWrites returns writes of different items. Some of them have no effect, and
// some have a condition that may not hold.
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
