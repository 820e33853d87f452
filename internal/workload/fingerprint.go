package workload

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Fingerprint is a hash of everything in a request that its shape depends on.
// Requests with the same fingerprint have the same shape, so the form of an
// expression is computed once for each text and not for each request.
type Fingerprint uint64

// Fingerprint hashes a shape whose form is not known yet, with the expression
// that determines its form and the names of its placeholders.
func (r *Recorder) Fingerprint(s *Shape, expression string, names map[string]string) Fingerprint {
	h := r.mix(1, s.Operation)
	if s.Filter {
		h += 1 << 16
	}
	if s.Condition {
		h += 1 << 17
	}
	if s.Consistent {
		h += 1 << 18
	}
	h = r.mix(h, s.Table)
	if s.Index != "" {
		h = r.mix(h, s.Index)
	}
	if expression == "" {
		return Fingerprint(h)
	}
	h = r.mix(h+1, expression)
	for text := expression; len(names) > 0; {
		i := strings.IndexByte(text, '#')
		if i < 0 {
			break
		}
		end := i + 1
		for end < len(text) && isNameByte(text[end]) {
			end++
		}
		h = r.mix(h, names[text[i:end]])
		text = text[end:]
	}
	return Fingerprint(h)
}

func (r *Recorder) mix(h uint64, text string) uint64 {
	h = (h ^ maphash.String(r.seed, text)) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// The fingerprint cache has this many sets of this many entries each.
const (
	cacheSets = 2048
	cacheWays = 4
)

// fingerprintCache maps fingerprints to counters. It is set associative: an
// entry can only be in one set, and a new one replaces another of a full set.
// Reads take no lock.
type fingerprintCache struct {
	sets [cacheSets][cacheWays]atomic.Pointer[fingerprintEntry]
	next atomic.Uint32 // which entry of a full set is replaced next
}

type fingerprintEntry struct {
	fingerprint Fingerprint
	counter     *Counter
}

// Cached returns the counter of the requests with a fingerprint; nil if it is
// not cached.
func (r *Recorder) Cached(f Fingerprint) *Counter {
	set := &r.cache.sets[f%cacheSets]
	for i := range set {
		if e := set[i].Load(); e != nil && e.fingerprint == f {
			return e.counter
		}
	}
	return nil
}

// Cache caches the counter of the requests with a fingerprint.
func (r *Recorder) Cache(f Fingerprint, c *Counter) {
	e := &fingerprintEntry{f, c}
	set := &r.cache.sets[f%cacheSets]
	for i := range set {
		if set[i].CompareAndSwap(nil, e) {
			return
		}
	}
	set[r.cache.next.Add(1)%cacheWays].Store(e)
}
