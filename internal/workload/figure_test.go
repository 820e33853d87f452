package workload

import "testing"

// The number of shapes is the one that docs/limits.md states.
func TestMaxShapesIs4096(t *testing.T) {
	if MaxShapes != 4096 {
		t.Errorf("%d shapes are counted", MaxShapes)
	}
}
