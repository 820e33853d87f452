package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

func testScans(t *testing.T, open Open) {
	e, _ := open(t)
	put(t, e, "a", "1", "b", "2", "b\x00", "3", "ba", "4", "c", "5", "\xfe\xff", "6")
	s := snapshot(t, e)
	for _, c := range []struct {
		name       string
		start, end string
		want       []string
	}{
		{"everything", "", "", []string{"a=1", "b=2", "b\x00=3", "ba=4", "c=5", "\xfe\xff=6"}},
		{"the start is inside", "b", "", []string{"b=2", "b\x00=3", "ba=4", "c=5", "\xfe\xff=6"}},
		{"the end is outside", "", "ba", []string{"a=1", "b=2", "b\x00=3"}},
		{"a prefix", "b", "c", []string{"b=2", "b\x00=3", "ba=4"}},
		{"bounds that are not keys", "aa", "bz", []string{"b=2", "b\x00=3", "ba=4"}},
		{"one key", "b", "b\x00", []string{"b=2"}},
		{"an empty range", "b", "b", nil},
		{"an end before the start", "c", "a", nil},
		{"beyond the last key", "d", "e", nil},
		{"past the reserved keys", "c", "\xff\xff", []string{"c=5", "\xfe\xff=6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := store.Range{Start: []byte(c.start), End: []byte(c.end)}
			same(t, "scan forward", scan(t, s, r), c.want)
			same(t, "read forward", readRange(t, e, r), c.want)
			r.Reverse = true
			backward := slices.Clone(c.want)
			slices.Reverse(backward)
			same(t, "scan backward", scan(t, s, r), backward)
			same(t, "read backward", readRange(t, e, r), backward)
		})
	}
	t.Run("keys only", func(t *testing.T) {
		r, want := store.Range{End: []byte("ba"), KeysOnly: true}, []string{"a=", "b=", "b\x00="}
		same(t, "scan", scan(t, s, r), want)
		same(t, "read", readRange(t, e, r), want)
	})
	t.Run("it stops when the caller does", func(t *testing.T) {
		n := 0
		for _, err := range s.Scan(context.Background(), store.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d steps", n)
		}
	})
	t.Run("it stops when the context is cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var last error
		n := 0
		for _, err := range s.Scan(ctx, store.Range{}) {
			n, last = n+1, err
			cancel()
		}
		if !errors.Is(last, context.Canceled) || n > 3 {
			t.Errorf("%d steps, the last with error %v", n, last)
		}
	})
	t.Run("a scan may scan and update inside", func(t *testing.T) {
		e, _ := open(t)
		put(t, e, "a", "1", "b", "2")
		s := snapshot(t, e)
		for p, err := range s.Scan(context.Background(), store.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			put(t, e, string(p.Key), "new")
			same(t, "inner scan", scan(t, s, store.Range{}), []string{"a=1", "b=2"})
		}
		same(t, "get", get(t, strong(e), "a", "b"), []string{"new", "new"})
	})
	t.Run("no deleted keys", func(t *testing.T) {
		e, _ := open(t)
		put(t, e, "a", "1", "b", "2", "c", "3")
		put(t, e, "b", "")
		same(t, "scan", scan(t, snapshot(t, e), store.Range{}), []string{"a=1", "c=3"})
	})
	t.Run("nothing in an empty engine", func(t *testing.T) {
		e, _ := open(t)
		same(t, "scan", scan(t, snapshot(t, e), store.Range{}), nil)
	})
}

func testReadRange(t *testing.T, open Open) {
	ctx := context.Background()
	cases(t, open, []engineTest{
		{"an empty engine has no pairs", func(t *testing.T, e store.Engine) {
			same(t, "read", readRange(t, e, store.Range{}), nil)
		}},
		{"it shows the latest values and no deleted keys", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "b", "2", "c", "3")
			put(t, e, "b", "", "c", "4")
			same(t, "read", readRange(t, e, store.Range{}), []string{"a=1", "c=4"})
			if err := e.DeleteRange(ctx, []byte("a"), []byte("b")); err != nil {
				t.Fatal(err)
			}
			same(t, "read after DeleteRange", readRange(t, e, store.Range{}), []string{"c=4"})
		}},
		{"it stops when fn returns false", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "b", "2", "c", "3")
			for most := 1; most <= 3; most++ {
				for _, reverse := range []bool{false, true} {
					n := 0
					err := e.ReadRange(ctx, store.Range{Reverse: reverse}, func(store.Pair) bool { n++; return n < most })
					if err != nil || n != most {
						t.Errorf("%d pairs, %v, want %d", n, err, most)
					}
				}
			}
		}},
		{"it stops when the context is cancelled", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "b", "2", "c", "3")
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			n := 0
			err := e.ReadRange(ctx, store.Range{}, func(store.Pair) bool { n++; cancel(); return true })
			if !errors.Is(err, context.Canceled) || n != 1 {
				t.Errorf("%d pairs, %v, want 1 and a cancelled context", n, err)
			}
		}},
		{"it shows one moment, though fn updates and reads", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "b", "2", "c", "3")
			var shown []string
			err := e.ReadRange(ctx, store.Range{}, func(p store.Pair) bool {
				if shown = append(shown, fmt.Sprintf("%s=%s", p.Key, p.Value)); len(shown) == 1 {
					put(t, e, "a", "new", "b", "", "d", "4")
					same(t, "inner read", readRange(t, e, store.Range{}), []string{"a=new", "c=3", "d=4"})
				}
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "read", shown, []string{"a=1", "b=2", "c=3"})
		}},
		{"fn may panic", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			if panics(func() { _ = e.ReadRange(ctx, store.Range{}, func(store.Pair) bool { panic("in fn") }) }) == nil {
				t.Error("the panic is lost")
			}
			same(t, "read", readRange(t, e, store.Range{}), []string{"a=1"})
		}},
	})
}

func testSnapshots(t *testing.T, open Open) {
	cases(t, open, []engineTest{
		{"it shows the values of its moment", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "deleted", "1")
			s := snapshot(t, e)
			put(t, e, "a", "2", "deleted", "", "new", "1")
			same(t, "get", get(t, s.Get, "a", "deleted", "new"), []string{"1", "1", "-"})
			same(t, "scan", scan(t, s, store.Range{}), []string{"a=1", "deleted=1"})
			same(t, "latest", get(t, strong(e), "a", "deleted", "new"), []string{"2", "-", "1"})
		}},
		{"after Close it is closed, and Close may be called again", func(t *testing.T, e store.Engine) {
			s := snapshot(t, e)
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Get(context.Background(), []byte("a")); !errors.Is(err, store.ErrClosed) {
				t.Errorf("Get: %v", err)
			}
			for _, err := range s.Scan(context.Background(), store.Range{}) {
				if !errors.Is(err, store.ErrClosed) {
					t.Errorf("Scan: %v", err)
				}
			}
		}},
	})
}

func testRanges(t *testing.T, open Open) {
	ctx := context.Background()
	cases(t, open, []engineTest{
		{"DeleteRange deletes its range only", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "b", "1", "bb", "1", "c", "1")
			if err := e.DeleteRange(ctx, []byte("b"), []byte("c")); err != nil {
				t.Fatal(err)
			}
			same(t, "scan", scan(t, snapshot(t, e), store.Range{}), []string{"a=1", "c=1"})
			put(t, e, "bb", "2")
			same(t, "get", get(t, strong(e), "b", "bb"), []string{"-", "2"})
		}},
		{"DeleteRange of everything leaves the engine usable", func(t *testing.T, e store.Engine) {
			before := put(t, e, "a", "1")
			if err := e.DeleteRange(ctx, nil, nil); err != nil {
				t.Fatal(err)
			}
			same(t, "scan", scan(t, snapshot(t, e), store.Range{}), nil)
			if after := put(t, e, "a", "1"); after <= before {
				t.Errorf("stamp %d after %d", after, before)
			}
		}},
		{"DeleteRange of nothing", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			if err := errors.Join(e.DeleteRange(ctx, []byte("a"), []byte("a")), e.DeleteRange(ctx, []byte("b"), []byte("a"))); err != nil {
				t.Fatal(err)
			}
			same(t, "get", get(t, strong(e), "a"), []string{"1"})
		}},
	})
}
