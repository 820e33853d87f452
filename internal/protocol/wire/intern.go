package wire

import (
	"encoding/binary"
	"math/bits"
)

// interned caches strings that many requests repeat: names of tables and
// placeholders, texts of expressions. A slot holds the last string that
// hashed to it, so the memory is bounded.
type interned [256]string

// maxInterned is the length of the longest string that is cached.
const maxInterned = 128

func (n *interned) of(text []byte) string {
	if len(text) > maxInterned {
		return string(text)
	}
	known := &n[slot(text)]
	if *known != string(text) {
		*known = string(text)
	}
	return *known
}

// slot hashes a text to one of 256 slots. The hash is the same in every
// process: a client that chooses colliding texts merely has them allocated
// each time.
func slot(text []byte) byte {
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
