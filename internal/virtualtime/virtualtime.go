// Package virtualtime runs tests in which time passes only while all goroutines wait.
package virtualtime

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test, made safe for the race detector.
//
// All timers of a bubble share one context of the race detector. A timer with a channel
// fires in the goroutine that looks at its channel, so two goroutines that look at two
// such timers at the same moment use that context at the same time, which the detector
// does not allow: it ends the process with "ThreadSanitizer: CHECK failed", crashes, or
// never returns (golang/go#78156). With the race detector, Test therefore lets one
// goroutine run at a time. The detector finds races by the order that locks and channels
// establish, so it does not need goroutines that run at the same time.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if race {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
