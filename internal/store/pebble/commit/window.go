package commit

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// Window is the stamps of about a second. The first batch of a window carries a record
// of it, and the stamps given out after Open are larger than those of the last window
// recorded. So they are larger than any that was shown before, whatever the clock says,
// and no write pays for that with a sync of its own.
type Window uint64

const windowBits = store.StampCounterBits + 10

// WindowOf returns the window of a stamp.
func WindowOf(s store.Stamp) Window { return Window(s >> windowBits) }

func (w Window) firstStamp() store.Stamp { return store.Stamp(w << windowBits) }

// Key is the key of the record of a window. Each window has a key of its own: Updates of
// two windows may be written in either order, and the larger must win.
func (w Window) Key() []byte {
	return binary.BigEndian.AppendUint64([]byte{store.Reserved, 'w'}, uint64(w))
}

// WindowOfKey returns the window whose record has this key.
func WindowOfKey(key []byte) Window { return Window(binary.BigEndian.Uint64(key[2:])) }

// IsWindow reports whether a key and its value are the record of a window.
func IsWindow(key, value []byte) bool {
	return len(key) == 2+8 && key[0] == store.Reserved && key[1] == 'w' && len(value) == 1 && value[0] == 1
}

// WindowKeys returns the bounds of the keys of all windows.
func WindowKeys() (lower, upper []byte) {
	return []byte{store.Reserved, 'w'}, []byte{store.Reserved, 'w' + 1}
}

// Windows knows the last window whose record is durable.
type Windows struct {
	durable atomic.Uint64
}

// Start sets the last window that is recorded.
func (w *Windows) Start(last Window) { w.durable.Store(uint64(last)) }

// Due reports whether the batch of a stamp has to carry the record of its window. Then it
// also deletes the record of the last one.
func (w *Windows) Due(stamp store.Stamp) (current, last Window, due bool) {
	last, current = Window(w.durable.Load()), WindowOf(stamp)
	return current, last, current > last
}

// Recorded is called when the batch of a stamp is durable.
func (w *Windows) Recorded(stamp store.Stamp) { raiseTo(&w.durable, uint64(WindowOf(stamp))) }

// Bound is the smallest stamp that Open may begin with after a crash now.
func (w *Windows) Bound() store.Stamp {
	return (Window(w.durable.Load()) + 1).firstStamp()
}
