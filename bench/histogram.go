package main

import (
	"encoding/json"
	"math/bits"
	"time"
)

// A histogram counts durations in buckets that grow with them: each power of
// two of nanoseconds is cut into 64, so that a quantile is at most 1.6 % too
// long, from one nanosecond to centuries.
type histogram struct {
	counts [subBuckets * 59]uint64
	total  uint64
}

const (
	subBits    = 6
	subBuckets = 1 << subBits
)

func (h *histogram) record(d time.Duration) {
	h.counts[bucket(max(0, d))]++
	h.total++
}

// bucket returns the bucket of a duration. Buckets are exact below 64 ns; above,
// the number is made of the position of the highest bit and the six bits after it.
func bucket(d time.Duration) int {
	v := uint64(d)
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits | int(v>>shift&(subBuckets-1))
}

// longest returns the longest duration that falls into a bucket.
func longest(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	return time.Duration((uint64(subBuckets|bucket&(subBuckets-1))+1)<<shift - 1)
}

// quantile returns a duration that the fraction q of all durations does not
// exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := min(uint64(q*float64(h.total)), h.total-1)
	seen := uint64(0)
	for b, n := range h.counts {
		if seen += n; seen > rank {
			return longest(b)
		}
	}
	panic("a histogram's total exceeds the sum of its counts")
}

func (h *histogram) add(other *histogram) {
	for b, n := range other.counts {
		h.counts[b] += n
	}
	h.total += other.total
}

// MarshalJSON writes the buckets that are not empty, by number.
func (h *histogram) MarshalJSON() ([]byte, error) {
	filled := map[int]uint64{}
	for b, n := range h.counts {
		if n > 0 {
			filled[b] = n
		}
	}
	return json.Marshal(filled)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *histogram) UnmarshalJSON(text []byte) error {
	filled := map[int]uint64{}
	if err := json.Unmarshal(text, &filled); err != nil {
		return err
	}
	*h = histogram{}
	for b, n := range filled {
		if b >= 0 && b < len(h.counts) {
			h.counts[b] = n
			h.total += n
		}
	}
	return nil
}
