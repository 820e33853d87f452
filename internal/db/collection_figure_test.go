package db

import "testing"

// The limit of an item collection is the one that docs/limits.md states.
func TestCollectionLimitIsTenGB(t *testing.T) {
	if maxCollection != 10<<30 {
		t.Errorf("an item collection has up to %d bytes", int64(maxCollection))
	}
}
