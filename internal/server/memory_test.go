package server

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

// Who asks for least has memory first, and of equals who came first. Room is made
// by one for all who wait.
func TestManyWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		newShare := func() *share {
			return &share{memory: m, patience: bodyPatience, ctx: context.Background()}
		}
		holder := newShare()
		if m.small.ask(&holder.small, maxSmall) != nil {
			t.Fatal("there is no memory from the start")
		}
		const each = 200
		before := runtime.NumGoroutine()
		type wanted struct{ bytes, number int64 }
		var order []wanted
		for n := range int64(each) {
			bytes := 16<<10 + n%3
			go func() {
				s := newShare()
				if err := s.take(bytes); err != nil {
					t.Errorf("%d bytes are refused: %v", bytes, err)
					return
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				order = append(order, wanted{bytes, n})
			}()
			synctest.Wait() // so that they come one after the other
		}
		if more := runtime.NumGoroutine() - before; more > each+each/2 { // other tests may leave some
			t.Errorf("%d who wait are %d goroutines", each, more)
		}
		for len(order) < each {
			m.mu.Lock()
			m.small.give(16<<10 + 2)
			m.mu.Unlock()
			synctest.Wait()
		}
		if !slices.IsSortedFunc(order, func(a, b wanted) int {
			return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.number, b.number))
		}) {
			t.Errorf("the order is %d", order)
		}

		if err := newShare().take(maxSmall / 512); err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("who waits in vain is told %v", err)
		}
		time.Sleep(2 * bodyLook)
		synctest.Wait()
		if m.small.pressing || len(m.small.waiting) != 0 {
			t.Error("room is made for nobody")
		}
	})
}
