package db

import (
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A write waits up to five seconds for another write of the same item. If that
// write takes longer, it is rejected.
func TestWritersOfOneItemQueue(t *testing.T) {
	for _, c := range []struct {
		name     string
		held     time.Duration
		rejected bool
	}{
		{"less than five seconds", 5*time.Second - time.Millisecond, false},
		{"more than five seconds", 5*time.Second + time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				e := newEngine(t, pebble.InMemory())
				d := newDB(t, e, Options{})
				create(t, d, orders("Orders"))
				at := keyspace.Item(nil, tableOf(t, d, "Orders"), key("p", 1))
				held, released := make(chan struct{}), make(chan error)
				go func() {
					err := e.Update(t.Context(), [][]byte{at}, func(store.Tx) error {
						close(held)
						time.Sleep(c.held)
						return nil
					})
					released <- err
				}()
				<-held
				started := time.Now()
				_, err := d.Write(t.Context(), putWrite(fullItem("p", 1)))
				waited := time.Since(started)
				if c.rejected {
					expect(t, "the write", err, "TransactionConflictException: Transaction is ongoing for the item")
					if waited != 5*time.Second {
						t.Errorf("the write was rejected after %v, want 5s", waited)
					}
				} else if err != nil || waited != c.held {
					t.Errorf("after %v the write returns %v, want success after %v", waited, err, c.held)
				}
				if err := <-released; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
