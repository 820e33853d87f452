package wire

import (
	"encoding/binary"
	"math/bits"
)

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// clean is how many bytes at the beginning of b a JSON string can hold as they
// are: up to a quote, a backslash or a control character. It looks at eight at
// a time, and tells whether all of them are ASCII.
func clean(b []byte) (n int, ascii bool) {
	var seen uint64
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		if found := special(w); found != 0 {
			at := bits.TrailingZeros64(found) / 8
			seen |= w & (1<<(8*at) - 1)
			return n + at, seen&highBits == 0
		}
		seen |= w
	}
	for ; n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\'; n++ {
		seen |= uint64(b[n])
	}
	return n, seen&highBits == 0
}

// special has the high bit of a byte set where w has a quote, a backslash or a
// control character. Of bytes above the lowest such it may say so wrongly,
// since a subtraction borrows from them.
func special(w uint64) uint64 {
	control := (w - ' '*everyByte) &^ w
	quote := w ^ '"'*everyByte
	quote = (quote - everyByte) &^ quote
	slash := w ^ '\\'*everyByte
	slash = (slash - everyByte) &^ slash
	return (control | quote | slash) & highBits
}
