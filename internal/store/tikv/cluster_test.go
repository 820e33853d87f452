//go:build cluster

package tikv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/storetest"
	"github.com/stator-db/stator/internal/store/tikv"
)

// TestCluster tests the engine on the cluster that STATOR_TIKV names. Each test has a prefix
// of its own.
func TestCluster(t *testing.T) {
	url := os.Getenv("STATOR_TIKV")
	if url == "" {
		t.Fatal("STATOR_TIKV is not set: use make test-cluster, or make conformance-tikv PD=host:2379")
	}
	address, err := tikv.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := tikv.Connect(context.Background(), tikv.Options{Address: address, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kv.Close(); err != nil {
			t.Error(err)
		}
	})
	keepOpen := func() error { return nil } // connecting takes seconds
	storetest.Run(t, func(t *testing.T) (store.Engine, func() store.Engine) {
		o := tikv.Options{Address: address, Log: testLog(t)}
		o.Prefix = fmt.Sprintf("%s-%x", address.Prefix, rand.Uint64())
		var e *tikv.Engine
		begin := func() {
			if e, err = tikv.Join(context.Background(), kv, o, keepOpen); err != nil {
				t.Fatal(err)
			}
		}
		end := func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		begin()
		t.Cleanup(func() { end() })
		return e, func() store.Engine {
			end()
			begin()
			return e
		}
	})
}
