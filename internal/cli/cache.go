package cli

import "math"

// defaultCacheMB is the default of --cache: a sixteenth of the memory, from 64 to
// 1024 MB. A database is rarely alone on a machine.
func defaultCacheMB(memory int64) int64 {
	return max(1, min(max(memory>>20/16, 64), 1024, maxCacheBytes(memory)>>20))
}

// maxCacheBytes is the largest cache: the system kills a process that uses more
// memory than there is.
func maxCacheBytes(memory int64) int64 {
	if memory == 0 {
		return math.MaxInt64
	}
	return memory / 4 * 3
}

// outsideCacheBytes is the memory that a server uses apart from its cache and
// garbage, except for short peaks.
const outsideCacheBytes = 1 << 30

// memoryLimit is the memory limit of the process. It allows garbage of a quarter
// of the cache, as far as there is that much memory. Without a limit the heap
// would grow to twice the memory in use, and a cache of half the memory would
// take all of it.
func memoryLimit(cacheBytes, memory int64) int64 {
	limit := cacheBytes + cacheBytes/4 + outsideCacheBytes
	if memory > 0 {
		limit = min(limit, memory/8*7)
	}
	return limit
}
