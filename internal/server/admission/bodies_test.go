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
)

// Who asks for least has memory first, and of equals who came first. Room is made
// by one for all who wait.
func TestManyWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewBodies()
		holder := m.newReservation()
		if m.small.reserve(&holder.small, smallPoolBytes) != nil {
			t.Fatal("there is no memory from the start")
		}
		const many = 200
		before := runtime.NumGoroutine()
		type wanted struct{ bytes, number int64 }
		var order []wanted
		for n := range int64(many) {
			bytes := 16<<10 + n%3
			go func() {
				s := m.newReservation()
				if err := s.reserve(bytes); err != nil {
					t.Errorf("%d bytes are refused: %v", bytes, err)
					return
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				order = append(order, wanted{bytes, n})
			}()
			synctest.Wait() // so that they come one after the other
		}
		if more := runtime.NumGoroutine() - before; more > many+many/2 { // other tests may leave some
			t.Errorf("%d who wait are %d goroutines", many, more)
		}
		for len(order) < many {
			m.mu.Lock()
			m.small.release(16<<10 + 2)
			m.mu.Unlock()
			synctest.Wait()
		}
		if !slices.IsSortedFunc(order, func(a, b wanted) int {
			return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.number, b.number))
		}) {
			t.Errorf("the order is %d", order)
		}

		if err := m.newReservation().reserve(smallPoolBytes / 512); err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("who waits in vain is told %v", err)
		}
		time.Sleep(2 * evictionInterval)
		synctest.Wait()
		if m.small.evicting || len(m.small.waiting) != 0 {
			t.Error("room is made for nobody")
		}
	})
}

// Room is made again and again while somebody waits, also when one who asks for
// more has come in between and had it made at once.
func TestRoomIsMadeAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewBodies()
		if m.large.reserve(&m.newReservation().large, largePoolBytes) != nil {
			t.Fatal("there is no memory from the start")
		}
		for _, bytes := range []int64{2 * LargeBytes, 2 * m.large.minEvicted} {
			go func() { _ = m.newReservation().reserve(bytes) }() // in vain
			time.Sleep(evictionInterval / 3)
		}
		for began := time.Now(); time.Since(began) < maxBodyWait/2; time.Sleep(evictionInterval / 7) {
			synctest.Wait()
			m.mu.Lock()
			if late := time.Since(m.large.evictedAt) - evictionInterval; late > 0 {
				t.Errorf("room is made %v too late", late)
			}
			m.mu.Unlock()
		}
		time.Sleep(maxBodyWait) // until nobody waits
	})
}

// newReservation is for a body that is read without a request.
func (m *Bodies) newReservation() *Reservation {
	return &Reservation{Bodies: m, waitLeft: maxBodyWait, ctx: context.Background()}
}

// lastMoment is a body whose memory others want in the moment when it is whole.
type lastMoment struct{ end func() }

func (b lastMoment) Read(_ int64, reserve func(int64) error) ([]byte, error) {
	if err := reserve(2 * LargeBytes); err != nil {
		return nil, err
	}
	b.end()
	return make([]byte, 2*LargeBytes), nil
}

func (lastMoment) Cut()  {}
func (lastMoment) Drop() {}

// Who was cut is told to come again, even if his body was whole: net/http takes him
// for gone.
func TestCutInTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewBodies()
		_, held, err := m.Read(t.Context(), lastMoment{func() {
			time.Sleep(2 * slowBodyAfter)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.evictSlow(&m.large, 1<<20)
		}})
		defer held.Release()
		if err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("he is told %v", err)
		}
	})
}
