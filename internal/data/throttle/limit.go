package throttle

import (
	"math"
	"sync/atomic"
	"time"
)

// limit is a token bucket: it holds the units that may be consumed at once, and is
// refilled at a rate. Its state is the moment at which it is empty if nothing more
// is consumed; so it needs neither a lock nor a goroutine.
type limit struct {
	emptyAt atomic.Int64 // in nanoseconds; in the future if more was consumed than it held
	rate    atomic.Int64 // in units per second; 0 is no limit
	depth   atomic.Int64 // what it holds at most, in nanoseconds of its rate
}

// set sets the rate and the depth. A new limit begins with the units of one
// second, another keeps the units that it holds.
func (l *limit) set(now time.Duration, rate int64, depth time.Duration) {
	held, had := 1.0, l.rate.Load()
	if had > 0 {
		held = l.units(now) / float64(max(rate, 1))
	}
	deeper := l.depth.Swap(int64(depth)) != int64(depth)
	l.rate.Store(rate)
	if had != rate || deeper {
		l.emptyAt.Store(int64(now) - int64(held*float64(time.Second)))
	}
}

// admits reports whether there is something to consume.
func (l *limit) admits(now time.Duration) bool {
	return l.rate.Load() == 0 || l.emptyAt.Load() < int64(now)
}

// units returns how much may be consumed at once; it is negative if more was
// consumed than there was.
func (l *limit) units(now time.Duration) float64 {
	rate := l.rate.Load()
	if rate == 0 {
		return math.Inf(1)
	}
	held := min(int64(now)-l.emptyAt.Load(), l.depth.Load())
	return float64(held) / float64(time.Second) * float64(rate)
}

// maxDebt is how far below zero units that were consumed elsewhere may take a limit: twice
// what it holds, and a second. They are known late, and may be of a time that is over.
func (l *limit) maxDebt() int64 { return 2*l.depth.Load() + int64(time.Second) }

// consumeLate is consume for units that were consumed elsewhere.
func (l *limit) consumeLate(now time.Duration, units float64) {
	l.consume(now, units)
	for most := int64(now) + l.maxDebt(); ; {
		was := l.emptyAt.Load()
		if was <= most || l.emptyAt.CompareAndSwap(was, most) {
			return
		}
	}
}

// consume takes units out, even if there are not as many: what a request costs is
// known when it has been executed.
func (l *limit) consume(now time.Duration, units float64) {
	rate := l.rate.Load()
	if rate == 0 {
		return
	}
	cost := int64(math.Ceil(units / float64(rate) * float64(time.Second)))
	for {
		was := l.emptyAt.Load()
		if l.emptyAt.CompareAndSwap(was, max(was, int64(now)-l.depth.Load())+cost) {
			return
		}
	}
}
