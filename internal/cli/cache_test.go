package cli

import "testing"

// The limit allows garbage of a quarter of the cache, as far as there is that much
// memory.
func TestMemoryLimit(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		name                 string
		cache, machine, want int64
	}{
		{"a small cache", gb, 64 * gb, gb + gb/4 + outsideCacheBytes},
		{"a cache of most of the machine", 24 * gb, 32 * gb, 28 * gb},
		{"a machine that does not report its memory", 24 * gb, 0, 30*gb + outsideCacheBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := memoryLimit(c.cache, c.machine); got != c.want {
				t.Errorf("memoryLimit(%d, %d) = %d, want %d", c.cache, c.machine, got, c.want)
			}
			if most := maxCacheBytes(c.machine); most < c.cache {
				t.Errorf("the largest cache is %d bytes, less than this one", most)
			}
		})
	}
}

// The default of --cache is never above its maximum.
func TestDefaultCacheIsNotTooLarge(t *testing.T) {
	const mb = 1 << 20
	for machine, want := range map[int64]int64{0: 64, 64 * mb: 48, 512 * mb: 64, 8192 * mb: 512, 65536 * mb: 1024} {
		got := defaultCacheMB(machine)
		if got != want || got > maxCacheBytes(machine)/mb {
			t.Errorf("with %d MB of memory the cache has %d MB, want %d; the maximum is %d", machine/mb, got, want, maxCacheBytes(machine)/mb)
		}
	}
}
