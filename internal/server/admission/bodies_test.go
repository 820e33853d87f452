package admission

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/virtualtime"
)

// Memory is granted to the smallest reservation first, and among equals in the
// order of arrival. One goroutine evicts for all waiters.
func TestManyBodiesWaitForMemory(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		m := NewBodies(maxLimits)
		holder := m.newReservation()
		if m.small.reserve(&holder.small, maxLimits.SmallBodies) != nil {
			t.Fatal("there is no free memory at the start")
		}
		const many = 200
		before := runtime.NumGoroutine()
		type grantedBytes struct{ bytes, arrival int64 }
		var order []grantedBytes
		for n := range int64(many) {
			bytes := 16<<10 + n%3
			go func() {
				s := m.newReservation()
				if err := s.reserve(bytes); err != nil {
					t.Errorf("%d bytes are not granted: %v", bytes, err)
					return
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				order = append(order, grantedBytes{bytes, n})
			}()
			synctest.Wait() // so that they arrive one after the other
		}
		if more := runtime.NumGoroutine() - before; more > many+many/2 { // other tests may leave goroutines behind
			t.Errorf("%d waiters need %d goroutines", many, more)
		}
		for len(order) < many {
			m.mu.Lock()
			m.small.release(16<<10 + 2)
			m.mu.Unlock()
			synctest.Wait()
		}
		if !slices.IsSortedFunc(order, func(a, b grantedBytes) int {
			return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.arrival, b.arrival))
		}) {
			t.Errorf("the order is %d", order)
		}

		if err := m.newReservation().reserve(maxLimits.SmallBodies / 512); err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("a waiter that gets no memory gets %v", err)
		}
		time.Sleep(2 * evictionInterval)
		synctest.Wait()
		if m.small.evicting || len(m.small.queue) != 0 {
			t.Error("the pool still evicts although no body waits")
		}
	})
}

// Slow bodies are evicted repeatedly while a body waits, even when a body that
// needs more has arrived in between and evicted at once.
func TestEvictionIsRepeated(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		m := NewBodies(maxLimits)
		if m.large.reserve(&m.newReservation().large, maxLimits.LargeBodies) != nil {
			t.Fatal("there is no free memory at the start")
		}
		for _, bytes := range []int64{2 * LargeBytes, 2 * m.large.minEvicted} {
			go func() { _ = m.newReservation().reserve(bytes) }() // without success
			time.Sleep(evictionInterval / 3)
		}
		for began := time.Now(); time.Since(began) < maxBodyWait/2; time.Sleep(evictionInterval / 7) {
			synctest.Wait()
			m.mu.Lock()
			if late := time.Since(m.large.evictedAt) - evictionInterval; late > 0 {
				t.Errorf("slow bodies are evicted %v too late", late)
			}
			m.mu.Unlock()
		}
		time.Sleep(maxBodyWait) // until no body waits
	})
}

// newReservation is a reservation without a body.
func (m *Bodies) newReservation() *Reservation {
	return &Reservation{bodies: m, waitLeft: maxBodyWait, ctx: context.Background()}
}

// evictedAtEnd is a body that is evicted at the moment when it is complete.
type evictedAtEnd struct{ end func() }

func (b evictedAtEnd) Read(_ int64, reserve func(int64) error) ([]byte, error) {
	if err := reserve(2 * LargeBytes); err != nil {
		return nil, err
	}
	b.end()
	return make([]byte, 2*LargeBytes), nil
}

func (evictedAtEnd) Cut()  {}
func (evictedAtEnd) Drop() {}

// A request whose body was evicted is rejected even if the body is complete:
// net/http treats its client as disconnected.
func TestEvictedAtTheEnd(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		m := NewBodies(maxLimits)
		_, held, err := m.Read(t.Context(), evictedAtEnd{func() {
			time.Sleep(2 * slowBodyAfter)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.evictSlow(&m.large, 1<<20)
		}})
		defer held.Release()
		if err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("Read returns %v, want a ThrottlingException", err)
		}
	})
}
