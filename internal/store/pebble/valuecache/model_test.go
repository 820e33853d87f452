package valuecache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// However the steps of readers, writers and range deletes interleave, the cache has the
// newest value of a key or none.
func TestCacheAgainstModel(t *testing.T) {
	hits := 0
	for seed := range uint64(30) {
		m := newCacheModel(seed)
		for range 30_000 {
			if err := m.step(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		hits += m.hits
	}
	if hits < 100_000 {
		t.Errorf("only %d hits", hits)
	}
}

const modelKeys = 400

type cacheModel struct {
	cache  *Cache
	random *rand.Rand

	visible  [modelKeys][]byte // what Pebble would return
	latched  [modelKeys]bool
	deleting [modelKeys]int // range deletes that are visible, but not yet passed to the cache
	written  int            // values, all of them different

	pending [][]func() // the remaining steps of each operation in progress
	hits    int
}

func newCacheModel(seed uint64) *cacheModel {
	random := rand.New(rand.NewPCG(seed, 0))
	return &cacheModel{cache: New(shardCount*(2000+random.Int64N(4000)), func(int) {}), random: random}
}

func modelKey(n int) []byte { return fmt.Appendf(nil, "%c%03d", 'a'+n/100, n) }

// step runs the next step of one operation in progress, and gets a key.
func (m *cacheModel) step() error {
	for len(m.pending) < 4 {
		m.pending = append(m.pending, m.begin())
	}
	i := m.random.IntN(len(m.pending))
	m.pending[i][0]()
	if m.pending[i] = m.pending[i][1:]; len(m.pending[i]) == 0 {
		m.pending = append(m.pending[:i], m.pending[i+1:]...)
	}
	n := m.random.IntN(modelKeys)
	v, _ := m.cache.Get(modelKey(n))
	if v != nil {
		m.hits++
	}
	if v != nil && m.deleting[n] == 0 && !bytes.Equal(v, m.visible[n]) {
		return fmt.Errorf("%s is %.10q in the cache, want %.10q", modelKey(n), v, m.visible[n])
	}
	return nil
}

// begin returns the steps of a reader, a writer or a range delete.
func (m *cacheModel) begin() []func() {
	n := m.random.IntN(modelKeys)
	if m.random.IntN(2) == 0 { // some keys are read and written much more than others
		n %= 8
	}
	switch kind := m.random.IntN(1000); {
	case kind < 500 || m.latched[n]:
		return m.reader(n)
	case kind < 997:
		return m.writer(n)
	}
	return m.rangeDelete(n, n+m.random.IntN(modelKeys-n))
}

func (m *cacheModel) reader(n int) []func() {
	var cached, read []byte
	var version uint64
	return []func(){
		func() { cached, version = m.cache.Get(modelKey(n)) },
		func() { read = m.visible[n] },
		func() {
			if cached == nil && read != nil {
				m.cache.Add(modelKey(n), read, version)
			}
		},
	}
}

// writer writes one key, or two that are next to each other.
func (m *cacheModel) writer(n int) []func() {
	keys := []int{n}
	if next := n + 1; next < modelKeys && !m.latched[next] && m.random.IntN(4) == 0 {
		keys = append(keys, next)
	}
	values := make([][]byte, len(keys)) // nil deletes
	for i, k := range keys {
		m.latched[k] = true
		if m.random.IntN(3) > 0 {
			m.written++
			values[i] = fmt.Appendf(nil, "%d%*s", m.written, m.random.IntN(50), "")
		}
	}
	existed, aborts := m.random.IntN(4) > 0, m.random.IntN(50) == 0
	var w Write
	return []func(){
		func() {
			w.Begin(m.cache)
			for i, k := range keys {
				if values[i] == nil {
					w.Invalidate(modelKey(k))
				} else {
					w.Replace(modelKey(k), values[i], existed)
				}
			}
		},
		func() {
			if aborts {
				return
			}
			w.Commit()
			for i, k := range keys {
				m.visible[k] = values[i]
			}
		},
		func() {
			for _, k := range keys {
				m.latched[k] = false
			}
			w.End()
		},
	}
}

func (m *cacheModel) rangeDelete(from, to int) []func() {
	return []func(){
		func() {
			for n := from; n < to; n++ {
				m.visible[n] = nil
				m.deleting[n]++
			}
		},
		func() {
			m.cache.RemoveRange(modelKey(from), modelKey(to))
			for n := from; n < to; n++ {
				m.deleting[n]--
			}
		},
	}
}
