package wire

import (
	"encoding/binary"
	"math/bits"
)

// interned are strings that came before: names of tables and of placeholders,
// texts of expressions. They come again with every request, and need not be
// made again. A place is taken by the last string that hashes to it, so there
// is a bound to what is kept.
type interned [256]string

// maxInterned is the length of the longest string that is kept.
const maxInterned = 128

func (n *interned) of(text []byte) string {
	if len(text) > maxInterned {
		return string(text)
	}
	known := &n[place256(text)]
	if *known != string(text) {
		*known = string(text)
	}
	return *known
}

// place256 spreads texts over 256 places, in every process alike: who chooses
// texts that meet in one place has them made again, and that is all.
func place256(text []byte) byte {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(len(text))
	for ; len(text) >= 8; text = text[8:] {
		h = bits.RotateLeft64((h^binary.LittleEndian.Uint64(text))*odd, 29)
	}
	for _, c := range text {
		h = bits.RotateLeft64((h^uint64(c))*odd, 29)
	}
	return byte(h * odd >> 56)
}
