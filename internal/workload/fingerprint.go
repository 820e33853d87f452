package workload

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stator-db/stator/internal/data/item"
)

// Fingerprint is a hash of everything in a request that its shape depends on.
// Requests with the same fingerprint have the same shape, so the form of an
// expression is computed once for each text and not for each request.
type Fingerprint uint64

// Fingerprint hashes the members of a shape that are known without the expressions and
// the keys of the request.
func (r *Recorder) Fingerprint(s *Shape) Fingerprint {
	h := r.mix(1, s.Operation)
	for i, flag := range [...]bool{s.Filter, s.Condition, s.Consistent, s.Statement} {
		if flag {
			h += 1 << (16 + i)
		}
	}
	h = r.mix(h, s.Table)
	if s.Index != "" {
		h = r.mix(h, s.Index)
	}
	return Fingerprint(h)
}

// WithExpression adds an expression of the request, with the names of its
// placeholders. The order of expressions matters.
func (r *Recorder) WithExpression(f Fingerprint, text string, names map[string]string) Fingerprint {
	if text == "" {
		return f + 1
	}
	h := r.mix(uint64(f)+1, text)
	for len(names) > 0 {
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

// WithPrefix adds the prefix of a key attribute's value. The order of attributes matters.
func (r *Recorder) WithPrefix(f Fingerprint, v item.Value) Fingerprint {
	h := uint64(f) + 3
	if p := PrefixOf(v); p != nil {
		h ^= maphash.Bytes(r.seed, p)
	}
	return Fingerprint(spread(h))
}

func (r *Recorder) mix(h uint64, text string) uint64 { return spread(h ^ maphash.String(r.seed, text)) }

func spread(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// ActionSet is a set of fingerprints of actions, of which each counts once.
type ActionSet struct {
	all [MaxActions + 1]Fingerprint
	n   int
}

// Add adds the fingerprint of an action.
func (s *ActionSet) Add(f Fingerprint) {
	if s.n < len(s.all) && !slices.Contains(s.all[:s.n], f) {
		s.all[s.n] = f
		s.n++
	}
}

// Sum returns a fingerprint that does not depend on the order of the actions. It is not
// ok if there are too many actions.
func (s *ActionSet) Sum() (sum Fingerprint, ok bool) {
	for _, f := range s.all[:s.n] {
		sum += f
	}
	return sum, s.n <= MaxActions
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
	set := &r.current.Load().cache.sets[f%cacheSets]
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
	at := c.period.cache.store(e) // a reset may have followed since
	if c.dropped.Load() {         // since it was looked up; the sweep may have been before
		at.CompareAndSwap(e, nil)
	}
}

// store stores an entry and returns its place.
func (c *fingerprintCache) store(e *fingerprintEntry) *atomic.Pointer[fingerprintEntry] {
	set := &c.sets[e.fingerprint%cacheSets]
	for i := range set {
		if set[i].CompareAndSwap(nil, e) {
			return &set[i]
		}
	}
	at := &set[c.next.Add(1)%cacheWays]
	at.Store(e)
	return at
}
