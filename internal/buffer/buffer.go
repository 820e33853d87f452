// Package buffer is memory that is used again.
//
// Without it a few clients that send or ask for megabytes would have the server
// make, clear and collect gigabytes. What nobody takes goes with the garbage.
package buffer

import (
	"math/bits"
	"sync"
)

const (
	// Unit is what the size of a large piece is a multiple of.
	Unit = 1 << 20
	// Small is the largest piece that is kept by who has it.
	Small = 64 << 10
)

// pools have pieces of 128, 256 and 512 KB, and of 1, 2, 3 and more units.
var pools [halves + 18]sync.Pool

const halves = 3

// Size is the size of a piece that is used again and has room for so many bytes;
// that of a small one is as it is.
func Size(bytes int) int {
	switch {
	case bytes <= Small:
		return bytes
	case bytes <= Unit/2:
		return 1 << bits.Len(uint(bytes-1))
	}
	return (bytes + Unit - 1) / Unit * Unit
}

// poolOf is where pieces of a Size are; nil if there is none.
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

// Get is an empty piece with room for so many bytes. It may hold what was in it
// before.
func Get(bytes int) []byte {
	if pool := poolOf(bytes); pool != nil {
		if b, ok := pool.Get().(*[]byte); ok {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, bytes)
}

// Put gives a piece back, and returns it, empty, if it is small enough to be
// kept instead.
func Put(b []byte) []byte {
	if cap(b) <= Small {
		return b[:0]
	}
	if pool := poolOf(cap(b)); pool != nil {
		piece := b // so that only this one escapes
		pool.Put(&piece)
	}
	return nil
}

// Memory is a piece to which one text after the other is written.
type Memory struct{ piece []byte }

// Empty is what a text is appended to.
func (m *Memory) Empty() []byte { return m.piece[:0] }

// Keep has the next text written where this one is, which was appended to
// Empty.
func (m *Memory) Keep(text []byte) { m.piece = text }

// Grow replaces the piece, in which text begins at its first byte, by one that
// has room for so many bytes more. Pages of a megabyte make it grow once or
// twice, without the copies that append would make.
func (m *Memory) Grow(text []byte, bytes int) []byte {
	if len(text)+bytes <= cap(text) {
		return text
	}
	size := max(len(text)+bytes, 2*cap(text))
	if size > Small {
		size = Size(max(size, 2*Unit))
	}
	grown := append(Get(size), text...)
	Put(m.piece)
	m.piece = grown
	return grown
}

// End gives up what is not small.
func (m *Memory) End() { m.piece = Put(m.piece) }
