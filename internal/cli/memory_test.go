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

// Garbage has a quarter of the cache, as far as the machine has so much.
func TestMemoryLimit(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		name                 string
		cache, machine, want int64
	}{
		{"a small cache", gb, 64 * gb, gb + gb/4 + besideCache},
		{"a cache of most of the machine", 24 * gb, 32 * gb, 28 * gb},
		{"a machine that does not tell", 24 * gb, 0, 30*gb + besideCache},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := memoryLimit(c.cache, c.machine); got != c.want {
				t.Errorf("memoryLimit(%d, %d) = %d, want %d", c.cache, c.machine, got, c.want)
			}
			if most := mostCache(c.machine); most < c.cache {
				t.Errorf("the most is %d, below the cache", most)
			}
		})
	}
}

// Whatever machine it is, the cache that a server has by itself is one that it takes.
func TestDefaultCacheIsNotTooLarge(t *testing.T) {
	const mb = 1 << 20
	for machine, want := range map[int64]int64{0: 64, 64 * mb: 48, 512 * mb: 64, 8192 * mb: 512, 65536 * mb: 1024} {
		got := defaultCacheMB(machine)
		if got != want || got > mostCache(machine)/mb {
			t.Errorf("a machine of %d MB has a cache of %d MB, want %d; the most is %d", machine/mb, got, want, mostCache(machine)/mb)
		}
	}
}
