package admission

import (
	"testing"
	"time"
)

// The limits of admission control are those that docs/limits.md states.
func TestFiguresOfAdmissionControl(t *testing.T) {
	for name, c := range map[string]struct{ got, want int64 }{
		"requests in flight":         {int64(maxLimits.Requests), 512},
		"wait for a slot":            {int64(MaxSlotWait), int64(time.Second)},
		"rejections a second":        {int64(time.Second / rejectionInterval), 400},
		"longest wait for rejection": {int64(maxRejectionWait), int64(10 * time.Second)},
		"first bytes of bodies":      {maxLimits.SmallBodies, 64 << 20},
		"further bytes of bodies":    {maxLimits.LargeBodies, 96 << 20},
		"size of a large body":       {LargeBytes, 256 << 10},
		"streams of all tables":      {MaxBackups, 4},
		"replies to a standby":       {MaxFollowers, 2},
		"memory of large requests":   {maxLimits.Memory, 256 << 20},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
}
