// Package virtualtime runs tests in which time passes only while all goroutines wait.
package virtualtime

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Test is synctest.Test. With the race detector it lets one goroutine run at a time: the
// detector fails when two goroutines look at timers of a bubble at the same moment
// (golang/go#78156; stator's internal/virtualtime, which this module cannot import, has
// the explanation and a test).
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if race {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
