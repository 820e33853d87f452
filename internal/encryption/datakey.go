package encryption

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// DataKey is a key from which the keys of files are derived.
type DataKey struct {
	id     [keyIDBytes]byte
	secret []byte
}

const keyIDBytes = 16

// NewDataKey returns a random data key.
func NewDataKey() *DataKey {
	k := &DataKey{secret: make([]byte, KeyBytes)}
	rand.Read(k.id[:])  //nolint:errcheck // never fails
	rand.Read(k.secret) //nolint:errcheck // never fails
	return k
}

// ID identifies the key.
func (k *DataKey) ID() string { return hex.EncodeToString(k.id[:]) }

// Derive returns another key, for a purpose of its own.
func (k *DataKey) Derive(purpose string) []byte {
	return derive(k.secret, k.id[:], "stator data key: "+purpose, KeyBytes)
}

// Wrap encrypts a data key.
func (k *MasterKey) Wrap(d *DataKey) []byte {
	nonce := make([]byte, k.wrap.NonceSize())
	rand.Read(nonce) //nolint:errcheck // never fails
	return k.wrap.Seal(nonce, nonce, d.secret, d.id[:])
}

// Unwrap decrypts the data key of an id. It returns ErrDamaged if this is not what was wrapped by
// this master key.
func (k *MasterKey) Unwrap(id string, wrapped []byte) (*DataKey, error) {
	d := new(DataKey)
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != keyIDBytes || len(wrapped) < k.wrap.NonceSize() {
		return nil, fmt.Errorf("data key %q: %w", id, ErrDamaged)
	}
	copy(d.id[:], raw)
	nonce, sealed := wrapped[:k.wrap.NonceSize()], wrapped[k.wrap.NonceSize():]
	if d.secret, err = k.wrap.Open(nil, nonce, sealed, raw); err != nil || len(d.secret) != KeyBytes {
		return nil, fmt.Errorf("data key %s: %w", id, ErrDamaged)
	}
	return d, nil
}
