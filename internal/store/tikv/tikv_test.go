//go:build !race

package tikv_test

import (
	"testing"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/storetest"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

func opener(splits ...string) storetest.Open {
	return func(t *testing.T) (store.Engine, func() store.Engine) {
		c := tikvtest.New(t, splits...)
		var e store.Engine
		closeIt := func() {
			if err := e.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		e = c.Open(t, tikv.Options{})
		t.Cleanup(func() { closeIt() })
		return e, func() store.Engine {
			closeIt()
			e = c.Open(t, tikv.Options{})
			return e
		}
	}
}

func TestOneRegion(t *testing.T) { storetest.Run(t, opener()) }

func TestManyRegions(t *testing.T) { storetest.Run(t, opener("b", "k1", "k5", "p000100", "q")) }
