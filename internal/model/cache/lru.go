package cache

import "math"

// The hit rates come from Che's approximation of an LRU cache (Che, Tung and Wang, 2002),
// extended by times to live. Requests for a key are a Poisson process. A key leaves the cache
// when it was not asked for during the characteristic time of the cache, which is the same for
// all keys, or when its time to live ends. The characteristic time is the one at which the
// expected contents fill the memory.

// lifetime is how long an entry stays in the cache on average, in seconds: accesses is the rate
// of what makes it recent (reads, and writes through the cache), renewals the rate of what
// restarts its time to live (writes through the cache), ttl its time to live, and
// characteristic the characteristic time; both may be infinite.
func lifetime(accesses, renewals, ttl, characteristic float64) float64 {
	expires := ttl // without eviction: until there is a gap of ttl between renewals
	if renewals > 0 && !math.IsInf(ttl, 1) {
		expires = math.Expm1(math.Min(renewals*ttl, maxExponent)) / renewals
	}
	if expires <= characteristic {
		return expires
	}
	// Without a time to live: until there is a gap of the characteristic time between accesses.
	evicted := math.Expm1(math.Min(accesses*characteristic, maxExponent)) / accesses
	if math.IsInf(expires, 1) || evicted <= characteristic {
		return evicted
	}
	// Between both: nothing is evicted before the characteristic time; some entries are at
	// that time, and the others at a constant rate, which gives the same mean.
	remaining := -math.Expm1(-accesses * characteristic)
	rate := remaining / (evicted - characteristic)
	return characteristic - remaining/rate*math.Expm1(-rate*(expires-characteristic))
}

// maxExponent bounds the lifetime of entries that never leave.
const maxExponent = 60

// resident is the share of time in which a key is in the cache. Reads arrive at random, so it
// is also their hit rate.
func resident(accesses, lifetime float64) float64 {
	if accesses == 0 {
		return 0
	}
	if math.IsInf(lifetime, 1) {
		return 1
	}
	return lifetime / (lifetime + 1/accesses)
}

// stale is the share of hits that read an older version than the database has: the age of an
// entry is uniform up to its lifetime, and writes that do not reach it are a Poisson process.
func stale(writes, lifetime float64) float64 {
	x := writes * lifetime
	switch {
	case math.IsInf(x, 1):
		return 1
	case x < 1e-6:
		return x / 2
	}
	return 1 + math.Expm1(-x)/x
}

// rankBin is consecutive ranks of keys with about the same popularity.
type rankBin struct {
	first, count float64 // the first rank, from 1, and how many
}

// rankBins divides the ranks of n keys into bins: the first keys have one each.
func rankBins(n float64) (bins []rankBin) {
	const single, growth = 256, 1.04
	for first := 1.0; first <= n; {
		count := 1.0
		if first >= single {
			count = math.Floor(first * (growth - 1))
		}
		count = math.Min(count, n-first+1)
		bins = append(bins, rankBin{first, count})
		first += count
	}
	return bins
}

// zipf returns the share of the requests that each bin receives, if the k-th key has a
// popularity of k to the power of -exponent.
func zipf(bins []rankBin, exponent float64) []float64 {
	shares, sum := make([]float64, len(bins)), 0.0
	for i, b := range bins {
		if b.count == 1 {
			shares[i] = math.Pow(b.first, -exponent)
		} else {
			shares[i] = powerSum(b.first-0.5, b.first+b.count-0.5, exponent)
		}
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// powerSum is the integral of x to the power of -exponent.
func powerSum(from, to, exponent float64) float64 {
	if math.Abs(exponent-1) < 1e-9 {
		return math.Log(to / from)
	}
	return (math.Pow(to, 1-exponent) - math.Pow(from, 1-exponent)) / (1 - exponent)
}

// maxSkew is the largest exponent that is looked for.
const maxSkew = 4

// exponentFor returns the exponent with which the hottest of n keys receive a share of the
// requests.
func exponentFor(n, hottest, share float64) float64 {
	bins := rankBins(n)
	low, high := 0.0, float64(maxSkew)
	for range 50 {
		exponent := (low + high) / 2
		sum, shares := 0.0, zipf(bins, exponent)
		for i, b := range bins {
			if b.first > hottest {
				break
			}
			sum += shares[i] * math.Min(1, (hottest-b.first+1)/b.count)
		}
		if sum < share {
			low = exponent
		} else {
			high = exponent
		}
	}
	return (low + high) / 2
}

// population is the keys of one kind that share the memory: the items of an entity, or the
// results of one query.
type population struct {
	keys    float64
	bytes   float64 // of one entry
	ttl     float64 // in seconds; infinite if entries do not expire
	renewed bool    // writes renew the entries, as those through the cache do
	reads   []*stream
	writes  []*stream
	created float64 // new keys that are written through the cache a second

	bins []rankBin
}

// stream is requests for the keys of a population.
type stream struct {
	rate     float64 // per second
	exponent float64

	shares []float64 // by bin
}

// prepare computes the shares of all bins.
func (p *population) prepare() {
	p.bins = rankBins(p.keys)
	for _, list := range [][]*stream{p.reads, p.writes} {
		for _, s := range list {
			s.shares = zipf(p.bins, s.exponent)
		}
	}
}

// rates returns the requests a second for one key of a bin.
func (p *population) rates(bin int) (reads, writes float64) {
	for _, s := range p.reads {
		reads += s.rate * s.shares[bin] / p.bins[bin].count
	}
	for _, s := range p.writes {
		writes += s.rate * s.shares[bin] / p.bins[bin].count
	}
	return reads, writes
}

// state returns how long an entry of a bin lives, and the share of time in which it exists.
func (p *population) state(bin int, characteristic float64) (life, share float64) {
	accesses, writes := p.rates(bin)
	renewals := 0.0
	if p.renewed {
		accesses += writes
		renewals = writes
	}
	if accesses == 0 {
		return 0, 0
	}
	life = lifetime(accesses, renewals, p.ttl, characteristic)
	return life, resident(accesses, life)
}

// contents is the expected bytes of the entries.
func (p *population) contents(characteristic float64) (bytes float64) {
	for i, b := range p.bins {
		_, share := p.state(i, characteristic)
		bytes += b.count * share * p.bytes
	}
	if p.renewed && p.created > 0 {
		bytes += p.created * math.Min(p.ttl, characteristic) * p.bytes // entries that nobody reads
	}
	return bytes
}

// hits returns the hit rate of a stream of reads, and the share of its requests that are
// answered with an older version.
func (p *population) hits(s *stream, characteristic float64) (hit, old float64) {
	for i := range p.bins {
		life, share := p.state(i, characteristic)
		hit += s.shares[i] * share
		if !p.renewed {
			_, writes := p.rates(i)
			old += s.shares[i] * share * stale(writes, life)
		}
	}
	return hit, old
}

// characteristicTime returns the time at which the contents of all populations fill the memory;
// infinite if they never do.
func characteristicTime(all []*population, memory float64) float64 {
	total := func(t float64) (bytes float64) {
		for _, p := range all {
			bytes += p.contents(t)
		}
		return bytes
	}
	if total(math.Inf(1)) <= memory {
		return math.Inf(1)
	}
	low, high := 0.0, 1.0
	for total(high) < memory && high < 1e12 {
		low, high = high, 2*high
	}
	for range 60 {
		if mid := (low + high) / 2; total(mid) < memory {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}
