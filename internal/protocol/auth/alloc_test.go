//go:build !race

package auth

import "testing"

// A signature is verified without garbage.
func TestVerifyDoesNotAllocate(t *testing.T) {
	v, r := newTestVerifier(vectorTime), doorRequest()
	if _, err := v.Verify(r); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = v.Verify(r) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
