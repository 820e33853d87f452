package tikv

import "testing"

// The limits of one update are those that docs/limits.md states. Package storetest
// tests that they are enforced.
func TestUpdateLimits(t *testing.T) {
	if limits.MaxUpdateBytes != 64<<20 || limits.MaxUpdateKeys != 100_000 {
		t.Errorf("an update has up to %d bytes and %d keys", limits.MaxUpdateBytes, limits.MaxUpdateKeys)
	}
}
