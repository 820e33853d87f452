package keyspace

import "testing"

// The length of a stored key is the one that docs/limits.md states.
func TestKeysHaveUpTo4096Bytes(t *testing.T) {
	if MaxBytes != 4096 {
		t.Errorf("a key has up to %d bytes", MaxBytes)
	}
}
