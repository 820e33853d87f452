package cache

import (
	"container/heap"
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// timedRank is a request of the simulation.
type timedRank struct {
	at   float64
	rank int
}

// simulated plays requests in virtual time against an LRU cache with a time to live, and
// returns the share of reads that hit, and that read an older version.
func simulated(p *population, slots int, seed uint64, requests int) (hit, old float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	type held struct {
		rank    int
		filled  float64
		version int
	}
	var recent list.List
	entries := make(map[int]*list.Element)
	versions := make(map[int]int)
	draw := func(s *stream) func() int {
		sums, sum := make([]float64, int(p.keys)), 0.0
		for k := range sums {
			sum += math.Pow(float64(k+1), -s.exponent)
			sums[k] = sum
		}
		return func() int {
			u := r.Float64() * sum
			low, high := 0, len(sums)-1
			for low < high {
				if mid := (low + high) / 2; sums[mid] < u {
					low = mid + 1
				} else {
					high = mid
				}
			}
			return low
		}
	}
	fill := func(rank int, now float64) {
		if e, ok := entries[rank]; ok {
			e.Value = held{rank, now, versions[rank]}
			recent.MoveToFront(e)
			return
		}
		entries[rank] = recent.PushFront(held{rank, now, versions[rank]})
		if recent.Len() > slots {
			delete(entries, recent.Remove(recent.Back()).(held).rank)
		}
	}
	var expiries expiryQueue
	now, reads, hits, olds := 0.0, 0, 0, 0
	readRank := draw(p.reads[0])
	writeRate, writeRank := 0.0, func() int { return 0 }
	if len(p.writes) > 0 {
		writeRate, writeRank = p.writes[0].rate, draw(p.writes[0])
	}
	total := p.reads[0].rate + writeRate
	for i := range requests {
		now += r.ExpFloat64() / total
		for len(expiries) > 0 && expiries[0].at <= now { // expired entries leave room
			due := heap.Pop(&expiries).(timedRank)
			if e, ok := entries[due.rank]; ok && now-e.Value.(held).filled >= p.ttl {
				recent.Remove(e)
				delete(entries, due.rank)
			}
		}
		if r.Float64() < writeRate/total {
			rank := writeRank()
			versions[rank]++
			if p.renewed {
				fill(rank, now)
				heap.Push(&expiries, timedRank{at: now + p.ttl, rank: rank})
			}
			continue
		}
		rank := readRank()
		counted := i > requests/4 // the cache is warm
		if counted {
			reads++
		}
		if e, ok := entries[rank]; ok {
			recent.MoveToFront(e)
			if counted {
				hits++
				if e.Value.(held).version != versions[rank] {
					olds++
				}
			}
			continue
		}
		fill(rank, now)
		heap.Push(&expiries, timedRank{at: now + p.ttl, rank: rank})
	}
	return float64(hits) / float64(reads), float64(olds) / float64(reads)
}

// expiryQueue has the earliest expiry first.
type expiryQueue []timedRank

func (q expiryQueue) Len() int           { return len(q) }
func (q expiryQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q expiryQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *expiryQueue) Push(x any)        { *q = append(*q, x.(timedRank)) }
func (q *expiryQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// The forecast is within two points of what requests at random meet.
func TestForecastAgreesWithSimulation(t *testing.T) {
	const seed, keys, requests = 7, 1000, 80_000
	for _, c := range []struct {
		skew, ttl, writes float64
		slots             int
		renewed           bool
	}{
		{0, math.Inf(1), 0, 250, false}, {1.1, math.Inf(1), 0, 50, false}, // memory alone
		{0.8, 5, 0, keys, false}, {0.8, 2, 0, 150, false}, // a time to live alone, and with memory
		{0.6, 5, 200, keys, false}, {0.8, 10, 50, 150, false}, // writes around the cache
		{1, 3, 300, keys, true}, {0.8, 3, 300, 150, true}, // writes through it
	} {
		t.Run(fmt.Sprintf("skew %v, ttl %v, %v writes, %d of %d keys, renewed %v", c.skew, c.ttl, c.writes, c.slots, keys, c.renewed), func(t *testing.T) {
			t.Parallel()
			p := &population{keys: keys, bytes: 1, ttl: c.ttl, renewed: c.renewed, reads: []*stream{{rate: 1000, exponent: c.skew}}}
			if c.writes > 0 {
				p.writes = []*stream{{rate: c.writes, exponent: c.skew}}
			}
			p.prepare()
			hit, old := p.hits(p.reads[0], characteristicTime([]*population{p}, float64(c.slots)))
			wantHit, wantOld := simulated(p, c.slots, seed, requests)
			if math.Abs(hit-wantHit) > 0.02 || math.Abs(old-wantOld) > 0.02 {
				t.Errorf("seed %d: forecast %.3f hits and %.3f old, simulated %.3f and %.3f", seed, hit, old, wantHit, wantOld)
			}
			t.Logf("forecast %.3f hits and %.3f old, simulated %.3f and %.3f", hit, old, wantHit, wantOld)
		})
	}
}

// Bins give the shares that single keys have.
func TestZipfBins(t *testing.T) {
	for _, exponent := range []float64{0, 0.5, 0.99, 1, 1.5} {
		const n = 50_000
		bins, sum := rankBins(n), 0.0
		for k := 1; k <= n; k++ {
			sum += math.Pow(float64(k), -exponent)
		}
		counted := 0.0
		for i, share := range zipf(bins, exponent) {
			want := 0.0
			for k := bins[i].first; k < bins[i].first+bins[i].count; k++ {
				want += math.Pow(k, -exponent) / sum
			}
			if counted += bins[i].count; math.Abs(share-want) > 1e-3*want {
				t.Fatalf("exponent %v: the ranks from %v have %v, want %v", exponent, bins[i].first, share, want)
			}
		}
		if counted != n {
			t.Errorf("exponent %v: %v keys, want %d", exponent, counted, n)
		}
	}
}

// An exponent is found again by the share of the hottest keys.
func TestExponentFor(t *testing.T) {
	for _, exponent := range []float64{0.3, 0.8, 1, 1.4} {
		for _, n := range []float64{100, 1e4, 1e8} {
			for _, hot := range []float64{1, 20, 90} {
				bins, share := rankBins(n), 0.0
				for i, s := range zipf(bins, exponent) {
					if bins[i].first <= hot {
						share += s
					}
				}
				if got := exponentFor(n, hot, share); math.Abs(got-exponent) > 0.01 {
					t.Errorf("%v of %v keys have %.3f: exponent %.3f, want %v", hot, n, share, got, exponent)
				}
			}
		}
	}
}
