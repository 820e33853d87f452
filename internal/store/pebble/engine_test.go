package pebble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/storetest"
)

func TestInMemory(t *testing.T) {
	storetest.Run(t, opener(func(*testing.T) Options { return InMemory() }))
}

func TestOnDisk(t *testing.T) {
	storetest.Run(t, opener(func(t *testing.T) Options { return Options{Dir: t.TempDir(), PrefixBytes: 2} }))
}

func TestWhileCompacted(t *testing.T) {
	storetest.Run(t, opener(func(*testing.T) Options {
		return Options{Dir: "d", FS: vfs.NewMem(), PrefixBytes: 2, compactInterval: time.Millisecond, compactMinBytes: 1}
	}))
}

func opener(options func(*testing.T) Options) storetest.Open {
	return func(t *testing.T) (store.Engine, func() store.Engine) {
		o := options(t)
		var e *Engine
		closeIt := func() {
			if err := e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		e = mustOpen(t, o)
		t.Cleanup(func() { closeIt() })
		return e, func() store.Engine {
			closeIt()
			e = mustOpen(t, o)
			return e
		}
	}
}

func mustOpen(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return e
}

// set writes one key.
func set(e *Engine, key string, value []byte) error {
	err := e.Update(context.Background(), [][]byte{[]byte(key)}, func(tx store.Tx) error {
		tx.Set([]byte(key), value)
		return nil
	})
	return err
}

const fillSize = 100

func fillKey(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }

// fill writes n items with values that do not compress.
func fill(t *testing.T, e *Engine, n int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	for i := range n {
		v := make([]byte, fillSize)
		_, _ = random.Read(v)
		if err := set(e, string(fillKey(i)), v); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually polls a condition that another goroutine makes true in real time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 5000 {
		if holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}
