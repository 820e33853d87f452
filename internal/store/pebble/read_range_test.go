package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// Each shows what a Scan of a snapshot does.
func TestEach(t *testing.T) {
	e := mustOpen(t, InMemory())
	defer e.Close()
	fill(t, e, 20)
	ctx := context.Background()
	snap, err := e.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for _, r := range []store.Range{
		{},
		{Reverse: true},
		{KeysOnly: true},
		{Start: fillKey(3), End: fillKey(9)},
		{Start: fillKey(3), End: fillKey(9), Reverse: true},
		{Start: fillKey(9), End: fillKey(9)},
	} {
		for _, most := range []int{1, 4, 100} {
			t.Run(fmt.Sprintf("%s to %s, reverse %v, keys only %v, most %d", r.Start, r.End, r.Reverse, r.KeysOnly, most), func(t *testing.T) {
				var want, got []string
				for pair, err := range snap.Scan(ctx, r) {
					if err != nil {
						t.Fatal(err)
					}
					if want = append(want, fmt.Sprintf("%s=%x", pair.Key, pair.Value)); len(want) == most {
						break
					}
				}
				err := e.Each(ctx, r, func(pair store.Pair) bool {
					got = append(got, fmt.Sprintf("%s=%x", pair.Key, pair.Value))
					return len(got) < most
				})
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			})
		}
	}
}

// Each shows one moment: an Update that comes while it is under way is not in
// it, neither in part nor whole.
func TestEachIsOneMoment(t *testing.T) {
	e := mustOpen(t, InMemory())
	defer e.Close()
	fill(t, e, 10)
	ctx := context.Background()
	seen := 0
	err := e.Each(ctx, store.Range{}, func(pair store.Pair) bool {
		if seen++; seen == 1 {
			if err := e.Update(ctx, nil, func(tx store.Tx) error {
				tx.Delete(fillKey(5))
				tx.Set([]byte("k9"), []byte("new"))
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	if err != nil || seen != 10 {
		t.Errorf("%d pairs and %v, want 10", seen, err)
	}
}

// Each ends with its context and with the engine.
func TestEachEnds(t *testing.T) {
	e := mustOpen(t, InMemory())
	fill(t, e, 3)
	ctx, cancel := context.WithCancel(context.Background())
	seen := 0
	err := e.Each(ctx, store.Range{}, func(store.Pair) bool { seen++; cancel(); return true })
	if !errors.Is(err, context.Canceled) || seen != 1 {
		t.Errorf("%d pairs and %v, want 1 and a cancelled context", seen, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Each(context.Background(), store.Range{}, func(store.Pair) bool { return true }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed engine says %v", err)
	}
}

// A range waits for writes to keys that are near it, of which it may show or
// lack one, and for no others.
func TestEachWaitsForWhatIsNear(t *testing.T) {
	s := newStripes(0)
	near, far := []byte("the first partition: a"), []byte("another partition: a")
	s.raise(near, 7)
	for _, c := range []struct {
		name       string
		start, end string
		want       store.Stamp
		ok         bool
	}{
		{"a range around the key", "the first partition: ", "the first partition: b", 7, true},
		{"a range beside the key", "the first partition: x", "the first partition: y", 7, true},
		{"a range of other keys", string(far), string(far) + "b", 0, true},
		{"a range of many", "a", "z", 0, false},
		{"a range to the end", "the first partition: ", "", 0, false},
		{"a range over two", "another partition", "the first partition", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := s.newestIn([]byte(c.start), []byte(c.end))
			if ok != c.ok || ok && got < c.want || c.name == "a range of other keys" && got != c.want && s.Of(near[:nearBytes]) != s.Of(far[:nearBytes]) {
				t.Errorf("the newest stamp is %d, %v, want %d, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

// What panics while it is shown something leaves nothing open.
func TestEachEndsWithAPanic(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1})
	fill(t, e, 3)
	func() {
		defer func() { _ = recover() }()
		_ = e.Each(t.Context(), store.Range{}, func(store.Pair) bool { panic("as told") })
	}()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
