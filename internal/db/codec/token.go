package codec

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// FormatToken is the format number of a token's record, and the whole value of
// its due entry.
const FormatToken = 1

// TokenRetention is how long the record of a token is valid.
const TokenRetention = 10 * time.Minute

// Token is the record of a transaction's token.
type Token struct {
	At      time.Time `json:"at"`
	Request []byte    `json:"request"` // the digest of the request
	Sizes   []int     `json:"sizes"`   // by write: the item size that was charged
}

// EncodeToken returns the stored form of a token's record.
func EncodeToken(t Token) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("encode token record: %v", err))
	}
	return append([]byte{FormatToken}, b...)
}

// DecodeToken returns the record of a stored form.
func DecodeToken(value []byte) (Token, error) {
	if len(value) == 0 || value[0] != FormatToken {
		return Token{}, fmt.Errorf("a token record has an unknown format: %w", store.ErrCorrupt)
	}
	var t Token
	if err := json.Unmarshal(value[1:], &t); err != nil {
		return Token{}, fmt.Errorf("a token record: %w: %w", err, store.ErrCorrupt)
	}
	if t.At.IsZero() || len(t.Request) != sha256.Size {
		return Token{}, fmt.Errorf("a token record has no time or a digest of %d bytes: %w", len(t.Request), store.ErrCorrupt)
	}
	return t, nil
}
