package buffer

import (
	"bytes"
	"testing"
)

// The text stays intact while the buffer grows, to any size.
func TestScratchGrows(t *testing.T) {
	for _, most := range []int{100, Small, 3 * Unit, 20 * Unit} {
		var m Scratch
		for range 3 {
			var want []byte
			text := m.Empty()
			for n := 1; len(text) < most; n = min(2*n, 100_000) {
				part := bytes.Repeat([]byte{byte(n)}, n)
				text, _ = m.Grow(text, n)
				text = append(text, part...)
				want = append(want, part...)
			}
			if !bytes.Equal(text, want) {
				t.Fatalf("the %d bytes are not those that were written", len(text))
			}
			m.Keep(text)
			if m.End(); cap(m.Empty()) > Small {
				t.Errorf("%d bytes are kept", cap(m.Empty()))
			}
		}
	}
}

// Small and large slices are reused.
func TestSlicesAreReused(t *testing.T) {
	var m Scratch
	small, _ := m.Grow(m.Empty(), 10)
	m.Keep(append(small, "text"...))
	m.End()
	if text := m.Empty(); len(text) != 0 || string(text[:4]) != "text" {
		t.Errorf("the next buffer holds %q", text)
	}
	for _, size := range []int{2 * Small, 4 * Small, 8 * Small, Unit, 2 * Unit, 17 * Unit} {
		if Size(size) != size || Size(size-1) != size {
			t.Errorf("the size of %d bytes is %d, and of one less %d", size, Size(size), Size(size-1))
		}
		if poolOf(size) == nil {
			t.Errorf("there is no pool of %d bytes", size)
		}
		piece := append(Get(size), "text"...)
		if Put(piece) != nil {
			t.Errorf("a slice of %d bytes is kept", size)
		}
		// The pool may have dropped the slice, but must not return another
		// size.
		if again := Get(size); len(again) != 0 || cap(again) != size {
			t.Errorf("the slice has length %d and capacity %d, want 0 and %d", len(again), cap(again), size)
		}
	}
	if Put(make([]byte, 0, Unit+1)) != nil || Put(make([]byte, 0, 100*Unit)) != nil {
		t.Error("a slice without a pool is kept")
	}
}
