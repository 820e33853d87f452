// Package buffer pools large byte slices for reuse.
//
// Without it a few clients that send or request megabytes would make the
// server allocate, clear and collect gigabytes. Slices that are not reused
// are garbage collected.
package buffer

import (
	"math/bits"
	"sync"
)

const (
	// Unit is the unit of the sizes of large slices.
	Unit = 1 << 20
	// Small is the largest slice that its owner keeps instead of pooling it.
	Small = 64 << 10
)

// pools hold slices of 128, 256 and 512 KB, and of 1, 2, 3 and more units.
var pools [halves + 18]sync.Pool

const halves = 3

// Size rounds a capacity up to one that is pooled. Small capacities are
// unchanged.
func Size(bytes int) int {
	switch {
	case bytes <= Small:
		return bytes
	case bytes <= Unit/2:
		return 1 << bits.Len(uint(bytes-1))
	}
	return (bytes + Unit - 1) / Unit * Unit
}

// poolOf returns the pool for slices of a size; nil if that size is not
// pooled.
func poolOf(size int) *sync.Pool {
	switch units := size / Unit; {
	case size <= Small || size != Size(size):
		return nil
	case units == 0:
		return &pools[bits.Len(uint(size/Small))-2]
	case halves-1+units < len(pools):
		return &pools[halves-1+units]
	}
	return nil
}

// Get returns an empty slice with this capacity. The memory is not cleared.
func Get(bytes int) []byte {
	if pool := poolOf(bytes); pool != nil {
		if b, ok := pool.Get().(*[]byte); ok {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, bytes)
}

// Put returns a slice to its pool. If the slice is small, Put returns it,
// emptied, for the caller to keep.
func Put(b []byte) []byte {
	if cap(b) <= Small {
		return b[:0]
	}
	if pool := poolOf(cap(b)); pool != nil {
		piece := b // only the copy escapes
		pool.Put(&piece)
	}
	return nil
}

// Scratch is a buffer for one text after another.
type Scratch struct {
	piece []byte
	room  Room
}

// Within bounds the buffer, if it is not small, until End.
func (m *Scratch) Within(r Room) { m.room = r }

// Reserve reserves room for texts of this size; it need not be called for small
// ones.
func (m *Scratch) Reserve(bytes int) bool { return m.room == nil || m.room.Reserve(bytes) }

// Force is Reserve for a request that cannot be repeated.
func (m *Scratch) Force(bytes int) {
	if m.room != nil {
		m.room.Force(bytes)
	}
}

// Empty returns the buffer, emptied, for a text to be appended.
func (m *Scratch) Empty() []byte { return m.piece[:0] }

// Keep makes the memory of text, which was appended to Empty, the buffer of
// the next text.
func (m *Scratch) Keep(text []byte) { m.piece = text }

// Grow returns text, which begins at the first byte of the buffer, with
// capacity for this many more bytes. A page of a megabyte makes the buffer
// grow once or twice, with fewer copies than append would make. It reports
// false if there is no room for a large buffer.
func (m *Scratch) Grow(text []byte, bytes int) ([]byte, bool) {
	if len(text)+bytes <= cap(text) {
		return text, true
	}
	size := max(len(text)+bytes, 2*cap(text))
	if size > Small {
		size = Size(max(size, 2*Unit))
		more := size
		if cap(text) > Small {
			more -= cap(text)
		}
		if !m.Reserve(more) {
			return text, false
		}
	}
	grown := append(Get(size), text...)
	Put(m.piece)
	m.piece = grown
	return grown, true
}

// Exactly returns the buffer, emptied, with capacity for this many bytes, for
// which room was reserved.
func (m *Scratch) Exactly(bytes int) []byte {
	if bytes > cap(m.piece) {
		Put(m.piece)
		m.piece = Get(Size(bytes))
	}
	return m.piece[:0]
}

// End returns the buffer to its pool unless it is small.
func (m *Scratch) End() { m.piece, m.room = Put(m.piece), nil }
