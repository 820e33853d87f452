package throttle

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/partition"
)

// A partition that consumes hotShare of its maximum for hotMinutes is split.
const (
	hotShare   = 0.9
	hotMinutes = 3
)

// maxRanges limits the memory for the partitions of a table or index.
const maxRanges = 4096

// hashRanges are the partitions of a table or an index. They are replaced, not changed.
type hashRanges struct {
	partition.Map
	all []*hashRange
}

// hashRange is one partition: a range of hashes.
type hashRange struct {
	limits     [2]limit        // by Kind
	milliunits [2]atomic.Int64 // of the present minute
	charges    atomic.Uint32
	sample     [32]atomic.Uint64 // hashes of keys that were accessed
	charged    [2]atomic.Int64   // in thousandths, by Kind; for TakeCharged

	hot int // minutes in a row; guarded by metered.mu
}

// maxUnits is what a partition serves per second, by Kind.
var maxUnits = [2]int64{Read: partition.MaxRead, Write: partition.MaxWrite}

func newHashRange(now time.Duration) *hashRange {
	p := new(hashRange)
	for kind := range p.limits {
		p.limits[kind].set(now, maxUnits[kind], time.Second)
	}
	return p
}

func evenRanges(n int, now time.Duration) *hashRanges {
	p := &hashRanges{Map: partition.Even(n)}
	for range n {
		p.all = append(p.all, newHashRange(now))
	}
	return p
}

func (p *hashRanges) of(hash uint64) *hashRange { return p.all[p.Map.Of(hash)] }

// grown returns the partitions after the widest ones were split, until there are n.
func (p *hashRanges) grown(n int, now time.Duration) *hashRanges {
	for p.Len() < min(n, maxRanges) {
		i, middle := p.Widest()
		p = p.split(i, middle, now)
	}
	return p
}

// split returns the partitions after partition i was split at a hash. The two begin
// with the units of one second.
func (p *hashRanges) split(i int, at uint64, now time.Duration) *hashRanges {
	m, ok := p.Map.Split(i, at)
	if !ok || p.Len() >= maxRanges {
		return p
	}
	all := slices.Clone(p.all)
	all[i] = newHashRange(now)
	all[i].takeCharged(p.all[i])
	return &hashRanges{m, slices.Insert(all, i+1, newHashRange(now))}
}

// takeCharged takes over what is kept for TakeCharged.
func (p *hashRange) takeCharged(was *hashRange) {
	for kind := range was.charged {
		p.charged[kind].Store(was.charged[kind].Swap(0))
	}
}

// count counts units, and samples the keys.
func (p *hashRange) count(kind Kind, at Place, units float64) {
	if at.Scan {
		return
	}
	p.milliunits[kind].Add(milli(units))
	// Multiplied, so that keys that are accessed in turn are all sampled.
	if n := p.charges.Add(1) * 0x9e3779b1; n < 1<<28 {
		p.sample[n%uint32(len(p.sample))].Store(at.Hash)
	}
}

// endMinute reports whether the partition has been hot for long enough to be split.
// idle is set if other minutes without requests followed.
func (p *hashRange) endMinute(idle bool) bool {
	hot := false
	for kind := range p.milliunits {
		perSecond := float64(p.milliunits[kind].Swap(0)) / 60_000
		hot = hot || perSecond >= hotShare*float64(maxUnits[kind])
	}
	if !hot || idle {
		p.hot = 0
		return false
	}
	p.hot++
	return p.hot >= hotMinutes
}

// middle returns the hash at which half of the sampled accesses are on either side.
// It is not ok if all of them are to one key: that cannot be split.
func (p *hashRange) middle() (at uint64, ok bool) {
	var hashes []uint64
	for i := range p.sample {
		if h := p.sample[i].Load(); h != 0 {
			hashes = append(hashes, h)
		}
	}
	if len(hashes) == 0 {
		return 0, false
	}
	slices.Sort(hashes)
	half := len(hashes) / 2
	for i := range hashes { // the change of hash that is nearest to the half
		for _, j := range [2]int{half - i, half + i} {
			if j > 0 && j < len(hashes) && hashes[j] != hashes[j-1] {
				return hashes[j], true
			}
		}
	}
	return 0, false
}

// cooled returns the partitions after those that are hot were split, and the hashes at
// which they were.
func (p *hashRanges) cooled(now time.Duration, idle bool) (after *hashRanges, splits []uint64) {
	after = p
	for i := len(p.all) - 1; i >= 0; i-- { // from the end, so that positions remain valid
		if !p.all[i].endMinute(idle) {
			continue
		}
		if at, ok := p.all[i].middle(); ok {
			if split := after.split(i, at, now); split != after {
				after, splits = split, append(splits, at)
			}
		}
	}
	return after, splits
}
