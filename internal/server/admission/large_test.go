package admission

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Of those that wait, a smaller one passes larger ones that came before it, but
// not for ever.
func TestSmallerBodiesComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := NewLargeBodies(1)
		acquire(t, large.slots, 1)
		var order []string
		var waiting sync.WaitGroup
		come := func(name string, bytes int) {
			waiting.Go(func() {
				err := large.Run(t.Context(), bytes, func() { order = append(order, name) }) // by one at a time
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			synctest.Wait()
		}
		come("16 MB", 16<<20)
		come("8 MB", 8<<20)
		come("1 MB", 1<<20)
		time.Sleep(time.Second)
		come("1 MB, a second later", 1<<20)
		large.slots.Release()
		waiting.Wait()
		if want := []string{"1 MB", "8 MB", "16 MB", "1 MB, a second later"}; !slices.Equal(order, want) {
			t.Errorf("they come in the order %q, want %q", order, want)
		}
		idle(t, large.slots, 1)
	})
}

// What panics on a thread of its own is told where it was asked for.
func TestAtLowPriorityTellsPanics(t *testing.T) {
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v, want a bug", p)
		}
	}()
	atLowPriority(func() { panic("a bug") })
	t.Error("it went on")
}
