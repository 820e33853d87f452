package admission

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// Among waiting bodies, a smaller one passes larger ones that arrived before it,
// but not indefinitely.
func TestSmallerBodiesPassLargerOnes(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		large := NewLargeBodies(1)
		acquire(t, large.slots, 1)
		var order []string
		var waiting sync.WaitGroup
		arrive := func(name string, bytes int) {
			waiting.Go(func() {
				err := large.Run(t.Context(), bytes, func() { order = append(order, name) }) // one at a time
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			synctest.Wait()
		}
		arrive("16 MB", 16<<20)
		arrive("8 MB", 8<<20)
		arrive("1 MB", 1<<20)
		time.Sleep(time.Second)
		arrive("1 MB, a second later", 1<<20)
		large.slots.Release()
		waiting.Wait()
		if want := []string{"1 MB", "8 MB", "16 MB", "1 MB, a second later"}; !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
		idle(t, large.slots, 1)
	})
}

// A panic on the low-priority thread reaches the caller.
func TestAtLowPriorityPassesPanicsOn(t *testing.T) {
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v, want a bug", p)
		}
	}()
	atLowPriority(func() { panic("a bug") })
	t.Error("atLowPriority returned")
}
