package buffer

import (
	"bytes"
	"testing"
)

// What was written stays as memory grows, whichever way it does.
func TestMemoryGrows(t *testing.T) {
	for _, most := range []int{100, Small, 3 * Unit, 20 * Unit} {
		var m Memory
		for range 3 {
			var want []byte
			text := m.Empty()
			for n := 1; len(text) < most; n = min(2*n, 100_000) {
				part := bytes.Repeat([]byte{byte(n)}, n)
				text = append(m.Grow(text, n), part...)
				want = append(want, part...)
			}
			if !bytes.Equal(text, want) {
				t.Fatalf("of %d bytes some are others", len(text))
			}
			m.Keep(text)
			if m.End(); cap(m.Empty()) > Small {
				t.Errorf("%d bytes are kept", cap(m.Empty()))
			}
		}
	}
}

// A small piece is used again, and so is a large one.
func TestPiecesAreUsedAgain(t *testing.T) {
	var m Memory
	m.Keep(append(m.Grow(m.Empty(), 10), "text"...))
	m.End()
	if text := m.Empty(); len(text) != 0 || string(text[:4]) != "text" {
		t.Errorf("the next piece holds %q", text)
	}
	large := append(Get(2*Unit), "text"...)
	if Put(large) != nil {
		t.Error("a large piece is kept")
	}
	// The pool may have lost it, but not given something else.
	if again := Get(2 * Unit); len(again) != 0 || cap(again) != 2*Unit {
		t.Errorf("it has %d of %d bytes", len(again), cap(again))
	}
}
