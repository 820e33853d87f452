package auth

import (
	"crypto/sha256"
	"encoding"
	"fmt"
	"hash"
)

// A midstate is the state of SHA-256 after whole blocks of a text, from which other texts that begin with
// these blocks go on.
type midstate []byte

// wholeBlocks returns the beginning of a text that consists of whole blocks.
func wholeBlocks(text []byte) []byte { return text[:len(text)/sha256.BlockSize*sha256.BlockSize] }

// after returns the state after more blocks. A nil state is that before a text.
func (s midstate) after(blocks []byte) midstate {
	h := newHasher()
	h.start(s)
	h.Write(blocks)
	next, err := h.Hash.(encoding.BinaryAppender).AppendBinary(nil)
	if err != nil {
		panic(fmt.Sprintf("auth: the state of SHA-256 cannot be taken: %v", err)) // it never fails
	}
	return next
}

// A hasher computes SHA-256 from a state on, without garbage.
type hasher struct {
	hash.Hash
	restore func(state []byte) error
	inner   [sha256.Size]byte // of an HMAC
}

func newHasher() hasher {
	h := sha256.New()
	return hasher{Hash: h, restore: h.(encoding.BinaryUnmarshaler).UnmarshalBinary}
}

func (h *hasher) start(from midstate) {
	if from == nil {
		h.Reset()
		return
	}
	if err := h.restore(from); err != nil {
		panic(fmt.Sprintf("auth: a state of SHA-256 cannot be restored: %v", err)) // it was made by after
	}
}

// appendSum appends the hash of a text whose beginning, up to from, is not repeated.
func (h *hasher) appendSum(b []byte, from midstate, text []byte) []byte {
	h.start(from)
	h.Write(text)
	return h.Sum(b)
}

// A macKey is a key of HMAC with SHA-256. Unlike crypto/hmac it can go on from the beginning of a text.
type macKey struct {
	inner, outer midstate // after the blocks that are derived from the key
}

// newMACKey returns a key of at most a block.
func newMACKey(key []byte) macKey {
	pad := func(with byte) midstate {
		block := make([]byte, sha256.BlockSize)
		copy(block, key)
		for i := range block {
			block[i] ^= with
		}
		return midstate(nil).after(block)
	}
	return macKey{inner: pad(0x36), outer: pad(0x5c)}
}

// appendMAC appends the HMAC of a text whose beginning, up to from, is not repeated; from is the inner
// state of the key or one after it.
func (h *hasher) appendMAC(b []byte, key *macKey, from midstate, text []byte) []byte {
	return h.appendSum(b, key.outer, h.appendSum(h.inner[:0], from, text))
}
