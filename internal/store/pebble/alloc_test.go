//go:build !race

package pebble

import (
	"context"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// A read allocates what it returns, an update what it reads.
func TestAllocations(t *testing.T) {
	e := mustOpen(t, InMemory())
	defer e.Close()
	ctx, keys, value := context.Background(), [][]byte{[]byte("key")}, make([]byte, 1000)
	for _, c := range []struct {
		name string
		most float64
		do   func() error
	}{
		{"update", 3, func() error {
			err := e.Update(ctx, keys, func(tx store.Tx) error { tx.Set(keys[0], value); return nil })
			return err
		}},
		{"get", 3, func() error {
			_, err := e.Get(ctx, store.Strong, keys...)
			return err
		}},
		{"read range", 5, func() error {
			return e.ReadRange(ctx, store.Range{Start: keys[0]}, func(store.Pair) bool { return true })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := testing.AllocsPerRun(200, func() {
				if err := c.do(); err != nil {
					t.Fatal(err)
				}
			})
			if got > c.most {
				t.Errorf("%v allocations, want at most %v", got, c.most)
			}
			t.Logf("%v of %v", got, c.most)
		})
	}
}
