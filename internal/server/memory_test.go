package server

import (
	"cmp"
	"context"
	"io"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/server/door"
)

// Who asks for least has memory first, and of equals who came first. Room is made
// by one for all who wait.
func TestManyWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		holder := m.newShare()
		if m.small.ask(&holder.small, maxSmall) != nil {
			t.Fatal("there is no memory from the start")
		}
		const many = 200
		before := runtime.NumGoroutine()
		type wanted struct{ bytes, number int64 }
		var order []wanted
		for n := range int64(many) {
			bytes := 16<<10 + n%3
			go func() {
				s := m.newShare()
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
		if more := runtime.NumGoroutine() - before; more > many+many/2 { // other tests may leave some
			t.Errorf("%d who wait are %d goroutines", many, more)
		}
		for len(order) < many {
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

		if err := m.newShare().take(maxSmall / 512); err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("who waits in vain is told %v", err)
		}
		time.Sleep(2 * bodyLook)
		synctest.Wait()
		if m.small.pressing || len(m.small.waiting) != 0 {
			t.Error("room is made for nobody")
		}
	})
}

// Room is made again and again while somebody waits, also when one who asks for
// more has come in between and had it made at once.
func TestRoomIsMadeAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		if m.large.ask(&m.newShare().large, maxLarge) != nil {
			t.Fatal("there is no memory from the start")
		}
		for _, bytes := range []int64{2 * largeBytes, 2 * m.large.least} {
			go func() { _ = m.newShare().take(bytes) }() // in vain
			time.Sleep(bodyLook / 3)
		}
		for began := time.Now(); time.Since(began) < bodyPatience/2; time.Sleep(bodyLook / 7) {
			synctest.Wait()
			m.mu.Lock()
			if late := time.Since(m.large.pressed) - bodyLook; late > 0 {
				t.Errorf("room is made %v too late", late)
			}
			m.mu.Unlock()
		}
		time.Sleep(bodyPatience) // until nobody waits
	})
}

// newShare is for a body that is read without a request.
func (m *memory) newShare() *share {
	return &share{memory: m, patience: bodyPatience, ctx: context.Background()}
}

// lastMoment is a body whose memory others want in the moment when it is whole.
type lastMoment struct {
	io.Reader
	end func()
}

func (b *lastMoment) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.end != nil {
		b.end()
		b.end = nil
	}
	return n, err
}

// Who was cut is told to come again, even if his body was whole: net/http takes him
// for gone.
func TestCutInTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		web := httptest.NewRequest("POST", "/", &lastMoment{strings.NewReader(strings.Repeat(" ", 1<<20)), func() {
			time.Sleep(2 * bodyGrace)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.makeRoom(&m.large, 1<<20)
		}})
		x := door.Begin(httptest.NewRecorder(), web)
		defer x.End()
		_, held, err := m.read(t.Context(), &x.Request)
		defer held.release()
		if err == nil || err.Error() != apierror.Throttled().Error() {
			t.Errorf("he is told %v", err)
		}
	})
}
