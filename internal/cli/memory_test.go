package cli

import (
	"runtime/debug"
	"testing"
)

// However many starts there are at once in a process, in the end garbage is
// collected as it was before.
func TestHeldGarbageIsCollectedAgain(t *testing.T) {
	settings := func() (percent int, limit int64) {
		percent = debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent, debug.SetMemoryLimit(-1)
	}
	percent, limit := settings()
	first := holdGarbage()
	if now, _ := settings(); now != -1 {
		t.Errorf("garbage is collected at %d %%, want not at all", now)
	}
	second := holdGarbage()
	first()
	second()
	first()
	if p, l := settings(); p != percent || l != limit {
		t.Errorf("garbage is collected at %d %% and %d bytes, want %d and %d", p, l, percent, limit)
	}
}
