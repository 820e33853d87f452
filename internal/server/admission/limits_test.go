package admission

import "testing"

// In a small process the limits are smaller, and one compressed body of the largest size fits,
// with what it is decoded into.
func TestLimitsFollowTheMemory(t *testing.T) {
	if l := LimitsFor(512 << 20); l != (Limits{Requests: 128, Memory: 64 << 20, SmallBodies: 16 << 20, LargeBodies: 34 << 20}) {
		t.Errorf("the limits in 512 MB are %+v", l)
	}
	for _, memory := range []int64{1, 64 << 20, 512 << 20, 1 << 30, fullMemory - 1, fullMemory, 1 << 40, 0} {
		l := LimitsFor(memory)
		if l.LargeBodies < 2*MaxBodyBytes || l.Requests < 32 || l.Memory < 32<<20 || l.SmallBodies < LargeBytes {
			t.Errorf("the limits in %d bytes are %+v", memory, l)
		}
		if (memory == 0 || memory >= fullMemory) != (l == maxLimits) {
			t.Errorf("the limits in %d bytes are %+v", memory, l)
		}
	}
}
