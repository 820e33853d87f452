package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

func testKeys(t *testing.T, open Open) {
	cases(t, open, []engineTest{
		{"absent is nil", func(t *testing.T, e store.Engine) {
			same(t, "get", get(t, strong(e), "a"), []string{"-"})
		}},
		{"a key that was set can be read", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			same(t, "get", get(t, strong(e), "a", "b"), []string{"1", "-"})
		}},
		{"the later value wins", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			put(t, e, "a", "2")
			same(t, "get", get(t, strong(e), "a"), []string{"2"})
		}},
		{"a deleted key is absent", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1", "b", "1")
			put(t, e, "a", "")
			put(t, e, "never", "")
			same(t, "get", get(t, strong(e), "a", "b"), []string{"-", "1"})
		}},
		{"a key may hold any bytes", func(t *testing.T, e store.Engine) {
			put(t, e, "\x00", "1", "a\x00", "2", "a\xff\xff", "3", "\xfe\xff", "4")
			same(t, "get", get(t, strong(e), "\x00", "a\x00", "a\xff\xff", "\xfe\xff", "a"), []string{"1", "2", "3", "4", "-"})
		}},
		{"no keys, no values", func(t *testing.T, e store.Engine) {
			same(t, "get", get(t, strong(e)), nil)
		}},
		{"values are in the order of the keys", func(t *testing.T, e store.Engine) {
			var keys, want []string
			for i := range 1000 {
				k := fmt.Sprintf("k%d", (i*617)%1000)
				keys, want = append(keys, k), append(want, "v"+k)
				put(t, e, k, "v"+k)
			}
			same(t, "get", get(t, strong(e), keys...), want)
		}},
		{"a key may be read twice", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			same(t, "get", get(t, strong(e), "a", "a"), []string{"1", "1"})
		}},
		{"the values may be kept", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			before, err := e.Get(context.Background(), store.Recent, []byte("a"))
			if err != nil {
				t.Fatal(err)
			}
			put(t, e, "a", "2")
			put(t, e, "a", "3")
			same(t, "get", get(t, strong(e), "a"), []string{"3"})
			same(t, "the value read before", []string{string(before[0])}, []string{"1"})
		}},
		{"a caller may change its bytes after an Update", func(t *testing.T, e store.Engine) {
			put(t, e, "a", "1")
			for range 2 { // the second time over a value that was read
				key, value := []byte("a"), []byte("2")
				err := e.Update(context.Background(), [][]byte{key}, func(tx store.Tx) error {
					tx.Set(key, value)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				key[0], value[0] = 'x', 'x'
				same(t, "get", get(t, strong(e), "a"), []string{"2"})
			}
		}},
		{"an empty key panics", func(t *testing.T, e store.Engine) {
			if panics(func() { _, _ = e.Get(context.Background(), store.Strong, nil) }) == nil {
				t.Error("Get of an empty key does not panic")
			}
		}},
		{"a reserved key panics", func(t *testing.T, e store.Engine) {
			if panics(func() { put(t, e, "\xffx", "1") }) == nil {
				t.Error("Update of a reserved key does not panic")
			}
		}},
	})
}

func testUpdates(t *testing.T, open Open) {
	cases(t, open, []engineTest{
		{"it reads committed values", testReadsCommitted},
		{"it reads its own writes", testReadsOwnWrites},
		{"it reads its own writes among many keys", testReadsOwnWritesOfMany},
		{"a key may be declared twice", testDeclaredTwice},
		{"an error commits nothing and is returned unchanged", testErrorCommitsNothing},
		{"without writes it commits nothing", testNoWrites},
		{"without declared keys it can still write", testNoDeclaredKeys},
		{"undeclared keys are written with the rest", testUndeclaredWrites},
		{"a Get of an undeclared key panics, and leaves the engine usable", testUndeclaredGetPanics},
		{"an empty value panics", testEmptyValuePanics},
		{"values that it read may be kept", testReadValuesMayBeKept},
	})
}

func testReadsCommitted(t *testing.T, e store.Engine) {
	ctx := context.Background()
	put(t, e, "a", "1")
	err := e.Update(ctx, byteKeys("a", "b"), func(tx store.Tx) error {
		if v, ok := tx.Get([]byte("a")); string(v) != "1" || !ok {
			t.Errorf("Get = %q, %v", v, ok)
		}
		if v, ok := tx.Get([]byte("b")); v != nil || ok {
			t.Errorf("Get of an absent key = %q, %v", v, ok)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testReadsOwnWrites(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	err := e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		tx.Set(key, []byte("1"))
		if v, ok := tx.Get(key); string(v) != "1" || !ok {
			t.Errorf("after Set, Get = %q, %v", v, ok)
		}
		tx.Delete(key)
		if v, ok := tx.Get(key); v != nil || ok {
			t.Errorf("after Delete, Get = %q, %v", v, ok)
		}
		tx.Set(key, []byte("2"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "get", get(t, strong(e), "a"), []string{"2"})
}

func testReadsOwnWritesOfMany(t *testing.T, e store.Engine) {
	ctx := context.Background()
	var keys [][]byte
	for i := range 50 {
		keys = append(keys, fmt.Appendf(nil, "k%d", i))
	}
	err := e.Update(ctx, keys, func(tx store.Tx) error {
		for _, k := range keys {
			tx.Set(k, k)
		}
		for _, k := range keys {
			if v, ok := tx.Get(k); !bytes.Equal(v, k) || !ok {
				t.Errorf("Get of %s = %q, %v", k, v, ok)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "get", get(t, strong(e), "k0", "k49"), []string{"k0", "k49"})
}

func testDeclaredTwice(t *testing.T, e store.Engine) {
	for range 2 {
		if err := increment(e, "a", "a"); err != nil {
			t.Fatal(err)
		}
	}
	if n := number(t, e, "a"); n != 4 {
		t.Errorf("after 2 times 2 increments: %d", n)
	}
}

func testErrorCommitsNothing(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	put(t, e, "a", "1")
	want := errors.New("no")
	err := e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		tx.Set(key, []byte("2"))
		tx.Set([]byte("undeclared"), []byte("2"))
		return want
	})
	if err != want { //nolint:errorlint // it must be the same error
		t.Errorf("Update: %v", err)
	}
	same(t, "get", get(t, strong(e), "a", "undeclared"), []string{"1", "-"})
}

func testNoWrites(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	put(t, e, "a", "1")
	if err := e.Update(ctx, [][]byte{key}, func(store.Tx) error { return nil }); err != nil {
		t.Errorf("Update: %v", err)
	}
	same(t, "get", get(t, strong(e), "a"), []string{"1"})
}

func testNoDeclaredKeys(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	err := e.Update(ctx, nil, func(tx store.Tx) error {
		tx.Set(key, []byte("1"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "get", get(t, strong(e), "a"), []string{"1"})
}

func testUndeclaredWrites(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	put(t, e, "deleted", "1")
	err := e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		tx.Set([]byte("a/index"), []byte("1"))
		tx.Delete([]byte("deleted"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "get", get(t, strong(e), "a", "a/index", "deleted"), []string{"-", "1", "-"})
}

func testUndeclaredGetPanics(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	what := panics(func() {
		_ = e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
			tx.Set(key, []byte("1"))
			tx.Get([]byte("b"))
			return nil
		})
	})
	if what == nil {
		t.Error("it does not panic")
	}
	same(t, "get", get(t, strong(e), "a"), []string{"-"})
	put(t, e, "a", "2")
	snapshot(t, e)
}

func testEmptyValuePanics(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	what := panics(func() {
		_ = e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
			tx.Set(key, nil)
			return nil
		})
	})
	if what == nil {
		t.Error("it does not panic")
	}
	put(t, e, "a", "2")
}

func testReadValuesMayBeKept(t *testing.T, e store.Engine) {
	ctx := context.Background()
	key := []byte("a")
	put(t, e, "a", "before")
	var before []byte
	err := e.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		before, _ = tx.Get(key)
		tx.Set(key, []byte("after!"))
		return nil
	})
	if err != nil || string(before) != "before" {
		t.Errorf("kept %q, %v", before, err)
	}
}

func testLimits(t *testing.T, open Open) {
	e, _ := open(t)
	l := e.Limits()
	if l.MaxKeyBytes < 1024 || l.MaxValueBytes < 1<<20 || l.MaxUpdateBytes < l.MaxValueBytes || l.MaxUpdateKeys < 1000 {
		t.Errorf("limits are too small: %+v", l)
	}
	longest := bytes.Repeat([]byte("k"), l.MaxKeyBytes)
	largest := bytes.Repeat([]byte("v"), l.MaxValueBytes)
	set := func(key, value []byte) func(store.Tx) error {
		return func(tx store.Tx) error {
			tx.Set(key, value)
			return nil
		}
	}
	for _, c := range []struct {
		name string
		keys [][]byte
		fn   func(store.Tx) error
		want error
	}{
		{"the longest key fits", [][]byte{longest}, set(longest, []byte("1")), nil},
		{"a longer one does not", [][]byte{append(longest, 'k')}, set([]byte("a"), []byte("1")), store.ErrTooLarge},
		{"nor undeclared", nil, set(append(longest, 'k'), []byte("1")), store.ErrTooLarge},
		{"the largest value fits", byteKeys("a"), set([]byte("a"), largest), nil},
		{"a larger one does not", byteKeys("a"), set([]byte("a"), append(largest, 'v')), store.ErrTooLarge},
		{"too many bytes do not", nil, func(tx store.Tx) error {
			for i := range l.MaxUpdateBytes/len(largest) + 1 {
				tx.Set(fmt.Appendf(nil, "too much %d", i), largest)
			}
			return nil
		}, store.ErrTooLarge},
		{"too many keys do not", nil, func(tx store.Tx) error {
			for i := range l.MaxUpdateKeys + 1 {
				tx.Delete(fmt.Appendf(nil, "too many %d", i))
			}
			return nil
		}, store.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := e.Update(context.Background(), c.keys, c.fn); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	same(t, "a rejected update", get(t, strong(e), "too much 0"), []string{"-"})
	if v, err := e.Get(context.Background(), store.Strong, longest, []byte("a")); err != nil || len(v[0]) != 1 || len(v[1]) != len(largest) {
		t.Errorf("the largest key and value are changed: %v", err)
	}
}
