package standby

import (
	"testing"
	"time"
	"unsafe"
)

// The lag counts the time in which the standby's machine was suspended, in which the monotonic clock
// stands still and the wall clock does not. It does not become smaller if the wall clock is set back.
func TestLagAfterSuspend(t *testing.T) {
	fresh := time.Now()
	for _, c := range []struct {
		name            string
		wall, monotonic time.Duration
		want            time.Duration
	}{
		{"neither suspended nor set", time.Minute, time.Minute, time.Minute},
		{"suspended", time.Hour, time.Second, time.Hour},
		{"the wall clock is set back", -time.Hour, time.Minute, time.Minute},
	} {
		now := withWall(t, fresh.Add(c.monotonic), c.wall-c.monotonic)
		if now.Sub(fresh) != c.monotonic || now.Round(0).Sub(fresh.Round(0)) != c.wall {
			t.Fatal("the representation of times has changed")
		}
		if seconds, unknown := lagSince(fresh, now); unknown || seconds != c.want.Seconds() {
			t.Errorf("%s: the standby is said to be %.0f seconds behind (unknown %v), want %s", c.name, seconds, unknown, c.want)
		}
	}
}

// withWall returns a time whose reading of the wall clock differs by whole seconds, with the same
// reading of the monotonic clock. Package time has no function for it.
func withWall(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	const nanosecondBits = 30 // below the seconds of the wall clock
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << nanosecondBits
	return at
}
