package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"
)

// A hash that goes on from a state is that of the whole text, and the HMAC is that of crypto/hmac.
func TestHasher(t *testing.T) {
	key := sha256.Sum256([]byte("key"))
	mac, h := newMACKey(key[:]), newHasher()
	for n := range 4 * sha256.BlockSize {
		text := []byte(strings.Repeat("0123456789", 30)[:n])
		want := sha256.Sum256(text)
		reference := hmac.New(sha256.New, key[:])
		reference.Write(text)
		for whole := wholeBlocks(text); ; whole = whole[:len(whole)-sha256.BlockSize] {
			rest := text[len(whole):]
			if got := h.appendSum(nil, midstate(nil).after(whole), rest); !bytes.Equal(got, want[:]) {
				t.Errorf("the hash of %d bytes after the state of %d is wrong", n, len(whole))
			}
			if got := h.appendMAC(nil, &mac, mac.inner.after(whole), rest); !bytes.Equal(got, reference.Sum(nil)) {
				t.Errorf("the HMAC of %d bytes after the state of %d is wrong", n, len(whole))
			}
			if len(whole) == 0 {
				break
			}
		}
	}
}
