package wire

import (
	"encoding/binary"
	"math/bits"
)

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// clean returns how many bytes at the beginning of b a JSON string can hold
// unescaped: up to a quote, a backslash or a control character. ascii reports
// whether all of them are ASCII.
func clean(b []byte) (n int, ascii bool) {
	var seen uint64
	for ; n+32 <= len(b); n += 32 {
		v, w, x, y := word(b, n), word(b, n+8), word(b, n+16), word(b, n+24)
		if special(v)|special(w)|special(x)|special(y) != 0 {
			break
		}
		seen |= v | w | x | y
	}
	for ; n+8 <= len(b); n += 8 {
		w := word(b, n)
		if found := special(w); found != 0 {
			at := bits.TrailingZeros64(found) / 8
			seen |= w & (1<<(8*at) - 1)
			return n + at, seen&highBits == 0
		}
		seen |= w
	}
	if n < len(b) && len(b) >= 8 { // some of the last eight bytes were already scanned
		if w := word(b, len(b)-8); special(w) == 0 {
			return len(b), (seen|w)&highBits == 0
		}
	}
	for ; n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\'; n++ {
		seen |= uint64(b[n])
	}
	return n, seen&highBits == 0
}

// word returns the eight bytes of b at n.
func word(b []byte, n int) uint64 { return binary.LittleEndian.Uint64(b[n : n+8]) }

// special sets the high bit of each byte of w that is a quote, a backslash or
// a control character. Bytes above the lowest match may be false positives,
// since a subtraction borrows from them.
func special(w uint64) uint64 {
	// With its second bit flipped a quote directly follows the control
	// characters, of which only the order changes.
	low := (w ^ 0x02*everyByte) - 0x21*everyByte
	slash := (w ^ '\\'*everyByte) - everyByte
	return (low | slash) &^ w & highBits
}
