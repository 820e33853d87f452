package pebble

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// A window is the stamps of about a second. The first batch of a window
// carries a record of it, and stamps given out after Open lie beyond the last
// window recorded. So they are larger than any that was shown before, whatever
// the clock says, and no write pays for that with a sync of its own.
const windowBits = store.StampCounterBits + 10

type window uint64

func windowOf(s store.Stamp) window      { return window(s >> windowBits) }
func (w window) firstStamp() store.Stamp { return store.Stamp(w << windowBits) }

// windows knows the last window whose record is durable.
type windows struct {
	durable atomic.Uint64
}

// record adds to the batch of an Update the record of its window, unless that
// is durable already. Each window has a key of its own: Updates of two windows
// may be written in either order, and the larger must win.
func (w *windows) record(b *pebble.Batch, stamp store.Stamp) error {
	durable, current := window(w.durable.Load()), windowOf(stamp)
	if current <= durable {
		return nil
	}
	if err := b.Set(windowKey(current), []byte{1}, nil); err != nil {
		return err
	}
	return b.Delete(windowKey(durable), nil)
}

// recorded notes that the batch of this stamp is durable.
func (w *windows) recorded(stamp store.Stamp) {
	for {
		old := w.durable.Load()
		if old >= uint64(windowOf(stamp)) || w.durable.CompareAndSwap(old, uint64(windowOf(stamp))) {
			return
		}
	}
}

// bound is the least stamp that Open may begin with after a crash now.
func (w *windows) bound() store.Stamp {
	return (window(w.durable.Load()) + 1).firstStamp()
}

// windowKey sorts by the window.
func windowKey(w window) []byte {
	return binary.BigEndian.AppendUint64([]byte{store.Reserved, 'w'}, uint64(w))
}

// lastWindow is the largest window recorded in db. There is none in a new one.
func lastWindow(db *pebble.DB) (w window, ok bool, err error) {
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{store.Reserved, 'w'},
		UpperBound: []byte{store.Reserved, 'w' + 1},
	})
	if err != nil {
		return 0, false, err
	}
	if ok = it.Last(); ok {
		w = window(binary.BigEndian.Uint64(it.Key()[2:]))
	}
	return w, ok, it.Close()
}
