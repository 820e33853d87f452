// Package buffer is memory that is used again.
//
// Without it a few clients that send or ask for megabytes would have the server
// make, clear and collect gigabytes. What nobody takes goes with the garbage.
package buffer

import "sync"

const (
	// Unit is what the size of a large piece is a multiple of.
	Unit = 1 << 20
	// Small is the largest piece that is kept by who has it.
	Small = 64 << 10
)

// large are pieces of 1, 2, 3 and more units.
var large [18]sync.Pool

// Get is an empty piece with room for so many bytes. It may hold what was in it
// before.
func Get(bytes int) []byte {
	if units := bytes / Unit; units > 0 && units < len(large) && bytes%Unit == 0 {
		if b, ok := large[units].Get().(*[]byte); ok {
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
	if units := cap(b) / Unit; units < len(large) && cap(b)%Unit == 0 {
		piece := b // so that only this one escapes
		large[units].Put(&piece)
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
		size = (max(size, 2*Unit) + Unit - 1) / Unit * Unit
	}
	grown := append(Get(size), text...)
	Put(m.piece)
	m.piece = grown
	return grown
}

// End gives up what is not small.
func (m *Memory) End() { m.piece = Put(m.piece) }
