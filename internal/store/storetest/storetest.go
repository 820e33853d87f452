// Package storetest tests what store.Engine promises.
package storetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// Open returns an empty engine, and a function that closes it and opens the same data again.
// It closes the engine at the end of the test. An engine that loses its data on Close has a
// nil reopen.
type Open func(t *testing.T) (e store.Engine, reopen func() store.Engine)

// Run tests an engine.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"keys", testKeys},
		{"scans", testScans},
		{"range reads", testReadRange},
		{"snapshots", testSnapshots},
		{"updates", testUpdates},
		{"limits", testLimits},
		{"concurrency", testConcurrency},
		{"stamps", testStamps},
		{"ranges", testRanges},
		{"waiting", testWaiting},
		{"closing", testClosing},
		{"model", testModel},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// cases runs tests, each with an empty engine.
func cases(t *testing.T, open Open, tests []engineTest) {
	for _, c := range tests {
		t.Run(c.claim, func(t *testing.T) {
			e, _ := open(t)
			c.run(t, e)
		})
	}
}

type engineTest struct {
	claim string
	run   func(*testing.T, store.Engine)
}

// put writes pairs, given as key, value, key, value, and returns the stamp of the
// commit. An empty value deletes.
func put(t testing.TB, e store.Engine, pairs ...string) store.Stamp {
	t.Helper()
	var keys [][]byte
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, []byte(pairs[i]))
	}
	var stamp store.Stamp
	err := e.Update(context.Background(), keys, func(tx store.Tx) error {
		stamp = tx.Stamp()
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] == "" {
				tx.Delete([]byte(pairs[i]))
			} else {
				tx.Set([]byte(pairs[i]), []byte(pairs[i+1]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	return stamp
}

// get reads keys. An absent key is shown as "-".
func get(t testing.TB, r getter, keys ...string) []string {
	t.Helper()
	values, err := r(context.Background(), byteKeys(keys...)...)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	shown := make([]string, len(values))
	for i, v := range values {
		if shown[i] = string(v); v == nil {
			shown[i] = "-"
		}
	}
	return shown
}

type getter func(ctx context.Context, keys ...[]byte) ([][]byte, error)

func strong(e store.Engine) getter {
	return func(ctx context.Context, keys ...[]byte) ([][]byte, error) {
		return e.Get(ctx, store.Strong, keys...)
	}
}

func byteKeys(keys ...string) [][]byte {
	b := make([][]byte, len(keys))
	for i, k := range keys {
		b[i] = []byte(k)
	}
	return b
}

// scan returns the pairs of a range as "k=v".
func scan(t testing.TB, s store.Snapshot, r store.Range) []string {
	t.Helper()
	var shown []string
	for p, err := range s.Scan(context.Background(), r) {
		if err != nil {
			t.Fatalf("Scan: %v", err)
		}
		shown = append(shown, fmt.Sprintf("%s=%s", p.Key, p.Value))
	}
	return shown
}

// readRange returns the pairs of a range as "k=v".
func readRange(t testing.TB, e store.Engine, r store.Range) []string {
	t.Helper()
	var shown []string
	err := e.ReadRange(context.Background(), r, func(p store.Pair) bool {
		shown = append(shown, fmt.Sprintf("%s=%s", p.Key, p.Value))
		return true
	})
	if err != nil {
		t.Fatalf("ReadRange: %v", err)
	}
	return shown
}

func snapshot(t testing.TB, e store.Engine) store.Snapshot {
	t.Helper()
	s, err := e.Snapshot(context.Background())
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close snapshot: %v", err)
		}
	})
	return s
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// increment adds one to the numbers at keys.
func increment(e store.Engine, keys ...string) error {
	err := e.Update(context.Background(), byteKeys(keys...), func(tx store.Tx) error {
		for _, k := range keys {
			v, _ := tx.Get([]byte(k))
			tx.Set([]byte(k), encode(decode(v)+1))
		}
		return nil
	})
	return err
}

func encode(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func decode(v []byte) uint64 {
	if v == nil {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func number(t testing.TB, e store.Engine, key string) uint64 {
	t.Helper()
	v, err := e.Get(context.Background(), store.Strong, []byte(key))
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return decode(v[0])
}

func panics(f func()) (what any) {
	defer func() { what = recover() }()
	f()
	return nil
}
