package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/storetest"
)

func openBase(t testing.TB) store.Engine {
	t.Helper()
	e, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func mustFork(t testing.TB, of store.Engine, o Options) *Engine {
	t.Helper()
	e, err := Fork(context.Background(), of, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestForkOfAnEmptyEngine(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (store.Engine, func() store.Engine) {
		return mustFork(t, openBase(t), Options{}), nil
	})
}

// A fork whose base had keys, which the fork has deleted, is an empty engine too.
func TestForkWhoseKeysAreDeleted(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (store.Engine, func() store.Engine) {
		base := openBase(t)
		for _, k := range []string{"a", "ab", "b", "c", "k1", "k000500", "\xfe\xff"} {
			set(t, base, k, "base")
		}
		parent := mustFork(t, base, Options{})
		if err := parent.DeleteRange(context.Background(), []byte("ab"), []byte("c")); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"a", "c", "k1", "k000500", "\xfe\xff"} {
			set(t, parent, k, "")
		}
		return mustFork(t, parent, Options{}), nil
	})
}

// set writes one key; an empty value deletes it.
func set(t testing.TB, e store.Engine, key, value string) {
	t.Helper()
	if err := update(context.Background(), e, key, value); err != nil {
		t.Fatal(err)
	}
}

func update(ctx context.Context, e store.Engine, key, value string) error {
	return e.Update(ctx, [][]byte{[]byte(key)}, func(tx store.Tx) error {
		if value == "" {
			tx.Delete([]byte(key))
		} else {
			tx.Set([]byte(key), []byte(value))
		}
		return nil
	})
}

// Random operations on a base and on forks of it, of forks and of each other's states: each
// engine agrees with a map of its own.
func TestForksAreIsolated(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type member struct {
		store.Engine
		want map[string]string
	}
	members := []*member{{openBase(t), make(map[string]string)}}
	key := func() string { return fmt.Sprintf("%c%02d", "abc"[r.IntN(3)], r.IntN(40)) }
	for step := range 4000 {
		at := r.IntN(len(members))
		m := members[at]
		switch p := r.IntN(100); {
		case p < 75:
			k, v := key(), ""
			if r.IntN(3) > 0 {
				v = fmt.Sprint(step)
			}
			set(t, m, k, v)
			if m.want[k] = v; v == "" {
				delete(m.want, k)
			}
		case p < 78:
			from, to := key(), key()
			if err := m.DeleteRange(context.Background(), []byte(from), []byte(to)); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(m.want, func(k, _ string) bool { return k >= from && k < to })
		case p < 80 && len(members) < 8:
			members = append(members, &member{mustFork(t, m.Engine, Options{}), maps.Clone(m.want)})
		case p < 81 && at > 0:
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			members = slices.Delete(members, at, at+1)
		default:
			from, to := key(), key()
			for _, reverse := range []bool{false, true} {
				compare(t, m, store.Range{Start: []byte(from), End: []byte(to), Reverse: reverse}, m.want)
			}
			got, err := m.Get(context.Background(), store.Strong, []byte(from))
			if err != nil || string(got[0]) != m.want[from] {
				t.Fatalf("%s is %q, %v, want %q", from, got[0], err, m.want[from])
			}
		}
	}
	for _, m := range members {
		compare(t, m, store.Range{}, m.want)
	}
}

func compare(t *testing.T, e store.Engine, r store.Range, all map[string]string) {
	t.Helper()
	var got, want []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if k >= string(r.Start) && (len(r.End) == 0 || k < string(r.End)) {
			want = append(want, k+"="+all[k])
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	err := e.ReadRange(context.Background(), r, func(p store.Pair) bool {
		got = append(got, string(p.Key)+"="+string(p.Value))
		return true
	})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("range %q to %q: %v, %q, want %q", r.Start, r.End, err, got, want)
	}
}

// The stamps of a fork are above those of all that it has of its base.
func TestStampsContinue(t *testing.T) {
	base := openBase(t)
	stamp := func(e store.Engine) (s store.Stamp) {
		err := e.Update(context.Background(), nil, func(tx store.Tx) error {
			s = tx.Stamp()
			tx.Set([]byte("a"), []byte("1"))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	of := base
	for last := stamp(base); of == base || last == 0; {
		fork := mustFork(t, of, Options{})
		of = mustFork(t, fork, Options{})
		if h, err := of.Horizon(context.Background()); err != nil || h <= last {
			t.Errorf("horizon %d, %v, after %d", h, err, last)
		}
		if next := stamp(of); next <= last {
			t.Errorf("stamp %d after %d", next, last)
		}
	}
}

// What is created and deleted again takes no memory, nor does what a deleted range hides.
func TestBytes(t *testing.T) {
	base := openBase(t)
	set(t, base, "old", "1")
	e := mustFork(t, base, Options{})
	for i := range 100 {
		k := fmt.Sprintf("k%d", i)
		set(t, e, k, "1")
		set(t, e, k, "2")
		if e.Bytes() == 0 {
			t.Fatal("a key takes no memory")
		}
		set(t, e, k, "")
	}
	if n := e.Bytes(); n != 0 {
		t.Errorf("%d bytes of nothing", n)
	}
	set(t, e, "old", "")
	if e.Bytes() == 0 {
		t.Error("the delete of a key of the base takes no memory")
	}
	if n := mustFork(t, e, Options{}).Bytes(); n != 0 {
		t.Errorf("%d bytes were written to a fork that was not written to", n)
	}
}

func TestLimits(t *testing.T) {
	base, ctx := openBase(t), context.Background()
	budget := &Budget{MaxBytes: 1 << 10}
	e := mustFork(t, base, Options{MaxBytes: 700, Budget: budget})
	set(t, e, "a", "1")
	var limit *LimitError
	if err := update(ctx, e, "b", string(make([]byte, 600))); !errors.As(err, &limit) || limit.All {
		t.Errorf("a large update: %v", err)
	}
	if got, err := e.Get(ctx, store.Strong, []byte("b")); err != nil || got[0] != nil {
		t.Errorf("the rejected update was applied: %v", err)
	}
	set(t, e, "a", string(make([]byte, 500)))
	other := mustFork(t, base, Options{Budget: budget})
	if err := update(ctx, other, "b", string(make([]byte, 600))); !errors.As(err, &limit) || !limit.All {
		t.Errorf("an update beyond the budget: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	set(t, other, "b", string(make([]byte, 600)))
	if err := other.Close(); err != nil || budget.Used() != 0 {
		t.Errorf("%d bytes are used by closed forks, %v", budget.Used(), err)
	}
}

// A full fork takes deletes, up to a part beyond its bound and that of all forks.
func TestFreeingUpdates(t *testing.T) {
	ctx := context.Background()
	base, budget := openBase(t), &Budget{MaxBytes: 1 << 10}
	for i := range 100 {
		set(t, base, fmt.Sprintf("k%02d", i), "1")
	}
	for name, e := range map[string]*Engine{"one fork": mustFork(t, base, Options{MaxBytes: 1 << 10}), "all forks": mustFork(t, base, Options{Budget: budget})} {
		deleted, freed := 0, 0
		var err error
		for ; deleted < 100; deleted++ {
			if err = update(ctx, e, fmt.Sprintf("k%02d", deleted), ""); err != nil {
				break
			}
		}
		if !errors.Is(err, store.ErrFull) {
			t.Errorf("%s: after %d deletes: %v", name, deleted, err)
		}
		for ; deleted+freed < 100; freed++ {
			if err = update(store.Freeing(ctx), e, fmt.Sprintf("k%02d", deleted+freed), ""); err != nil {
				break
			}
		}
		if freed == 0 || e.Bytes() > 1<<10+1<<7 || !errors.Is(err, store.ErrFull) {
			t.Errorf("%s: %d deletes that free space, with %d bytes: %v", name, freed, e.Bytes(), err)
		}
	}
}

// What an engine without a bound has written is not charged to its forks, and not to forks of those.
func TestUnchargedBytes(t *testing.T) {
	budget := &Budget{MaxBytes: 1 << 10}
	parent := mustFork(t, openBase(t), Options{})
	set(t, parent, "a", string(make([]byte, 2<<10)))
	child := mustFork(t, parent, Options{Budget: budget})
	set(t, child, "b", "1")
	one := budget.Used()
	grandchild := mustFork(t, child, Options{Budget: budget})
	if one == 0 || budget.Used() != 2*one {
		t.Errorf("%d bytes are charged, then %d", one, budget.Used())
	}
	set(t, grandchild, "a", "")
	for _, e := range []*Engine{grandchild, child} {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if budget.Used() != 0 {
		t.Errorf("%d bytes are used by closed forks", budget.Used())
	}
}

// An engine that is replaced makes room, and takes it back if it is not.
func TestUncharge(t *testing.T) {
	budget := &Budget{MaxBytes: 1 << 10}
	e := mustFork(t, openBase(t), Options{Budget: budget})
	set(t, e, "a", string(make([]byte, 600)))
	before := budget.Used()
	charge := e.Uncharge()
	if budget.Used() != 0 {
		t.Errorf("%d bytes are used", budget.Used())
	}
	set(t, e, "b", "1")
	charge()
	if used := budget.Used(); used <= before || used != e.Bytes() {
		t.Errorf("%d bytes are used, of %d", used, e.Bytes())
	}
	e.Uncharge()
	if err := e.Close(); err != nil || budget.Used() != 0 {
		t.Errorf("%d bytes are used by closed forks, %v", budget.Used(), err)
	}
}

// The last of the forks that share a snapshot closes it, in any order.
func TestSharedBase(t *testing.T) {
	base := openBase(t)
	set(t, base, "a", "1")
	parent := mustFork(t, base, Options{})
	child := mustFork(t, parent, Options{})
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, child, store.Range{}, map[string]string{"a": "1"})
	if _, err := Fork(context.Background(), parent, Options{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("fork of a closed fork: %v", err)
	}
	if err := child.Close(); err != nil || child.base.forks.Load() != 0 {
		t.Errorf("the snapshot has %d forks, %v", child.base.forks.Load(), err)
	}
}
