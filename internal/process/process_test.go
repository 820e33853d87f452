package process

import (
	"runtime/debug"
	"testing"
)

// After any number of starts in a process, the collector's settings are as they
// were before.
func TestDeferredGCIsResumed(t *testing.T) {
	settings := func() (percent int, limit int64) {
		percent = debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent, debug.SetMemoryLimit(-1)
	}
	percent, limit := settings()
	first := DeferGC()
	if now, _ := settings(); now != -1 {
		t.Errorf("the collector is set to %d %%, want off", now)
	}
	second := DeferGC()
	first()
	second()
	first()
	if p, l := settings(); p != percent || l != limit {
		t.Errorf("the collector is set to %d %% and %d bytes, want %d and %d", p, l, percent, limit)
	}
}
