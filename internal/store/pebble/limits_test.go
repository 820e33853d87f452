package pebble

import "testing"

// The limits of one update are those that docs/limits.md states. Package storetest
// tests that they are enforced.
func TestUpdateLimits(t *testing.T) {
	if limits.MaxUpdateBytes != 160<<20 || limits.MaxUpdateKeys != 100_000 {
		t.Errorf("an update has up to %d bytes and %d keys", limits.MaxUpdateBytes, limits.MaxUpdateKeys)
	}
}

// The reserve of a large disk is the one that docs/limits.md states.
func TestReserveIs128MB(t *testing.T) {
	if maxReserveBytes != 128<<20 {
		t.Errorf("the reserve is %d bytes", maxReserveBytes)
	}
}
