package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash/maphash"
	"sync/atomic"

	"github.com/stator-db/stator/internal/protocol/keys"
)

// signingScope is what a signing key is valid for.
type signingScope struct {
	key     *keys.Key
	day     [8]byte
	region  string
	service string
}

// signingKey is derived from a secret for a scope.
type signingKey struct {
	signingScope
	mac macKey
}

// newSigningKey derives the key of a scope.
func newSigningKey(s signingScope) *signingKey {
	key := []byte("AWS4" + s.key.Secret.Reveal())
	for _, part := range []string{string(s.day[:]), s.region, s.service, terminator} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return &signingKey{signingScope: s, mac: newMACKey(key)}
}

// appendSum appends the signature of a text.
func (k *signingKey) appendSum(b, text []byte) []byte {
	w := workspaces.Get().(*workspace)
	defer w.release()
	return w.hash.appendMAC(b, &k.mac, k.mac.inner, text)
}

// cachedKeys is how many signing keys are cached.
const cachedKeys = 512

// signingKeys caches signing keys, each in the one slot that its scope has. A key is replaced by
// another of the same slot, so the cache is bounded.
type signingKeys struct {
	seed  maphash.Seed
	slots [cachedKeys]atomic.Pointer[signingKey]
}

func newSigningKeys() *signingKeys { return &signingKeys{seed: maphash.MakeSeed()} }

// find returns the signing key of a scope, whose region is valid. The name is that of the scope and
// the access key in the request.
func (c *signingKeys) find(name []byte, key *keys.Key, day, region []byte, service string) *signingKey {
	slot := &c.slots[maphash.Bytes(c.seed, name)%cachedKeys]
	k := slot.Load()
	if k == nil || k.key != key || string(k.day[:]) != string(day) || k.region != string(region) || k.service != service {
		k = newSigningKey(signingScope{key: key, day: [8]byte(day), region: string(region), service: service})
		slot.Store(k)
	}
	return k
}
