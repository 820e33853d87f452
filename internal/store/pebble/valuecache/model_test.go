package valuecache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whatever readers, writers and those who delete ranges do between one another's
// steps, the memory knows the newest value of a key or none.
func TestMemoryAgainstModel(t *testing.T) {
	known := 0
	for seed := range uint64(30) {
		m := newMemoryModel(seed)
		for range 30_000 {
			if err := m.step(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		known += m.known
	}
	if known < 100_000 {
		t.Errorf("only %d values were known when they were asked for", known)
	}
}

const modelKeys = 400

type memoryModel struct {
	memory *Cache
	random *rand.Rand

	visible  [modelKeys][]byte // what Pebble would show
	latched  [modelKeys]bool
	deleting [modelKeys]int // ranges whose deletion is visible, and not told yet
	written  int            // values, each of which is another

	under [][]func() // the steps that are left to those who are under way
	known int
}

func newMemoryModel(seed uint64) *memoryModel {
	random := rand.New(rand.NewPCG(seed, 0))
	return &memoryModel{memory: New(memoryShards*(2000+random.Int64N(4000)), func(int) {}), random: random}
}

func modelKey(n int) []byte { return fmt.Appendf(nil, "%c%03d", 'a'+n/100, n) }

// step has one of those who are under way do its next step, and asks for a key.
func (m *memoryModel) step() error {
	for len(m.under) < 4 {
		m.under = append(m.under, m.begin())
	}
	i := m.random.IntN(len(m.under))
	m.under[i][0]()
	if m.under[i] = m.under[i][1:]; len(m.under[i]) == 0 {
		m.under = append(m.under[:i], m.under[i+1:]...)
	}
	n := m.random.IntN(modelKeys)
	v, _ := m.memory.Get(modelKey(n))
	if v != nil {
		m.known++
	}
	if v != nil && m.deleting[n] == 0 && !bytes.Equal(v, m.visible[n]) {
		return fmt.Errorf("%s is %.10q in memory and %.10q in fact", modelKey(n), v, m.visible[n])
	}
	return nil
}

// begin is what a reader, a writer or one who deletes a range does.
func (m *memoryModel) begin() []func() {
	n := m.random.IntN(modelKeys)
	if m.random.IntN(2) == 0 { // some are asked for and written much more than others
		n %= 8
	}
	switch kind := m.random.IntN(1000); {
	case kind < 500 || m.latched[n]:
		return m.reader(n)
	case kind < 997:
		return m.writer(n)
	}
	return m.deleter(n, n+m.random.IntN(modelKeys-n))
}

func (m *memoryModel) reader(n int) []func() {
	var known, read []byte
	var writes uint64
	return []func(){
		func() { known, writes = m.memory.Get(modelKey(n)) },
		func() { read = m.visible[n] },
		func() {
			if known == nil && read != nil {
				m.memory.Keep(modelKey(n), read, writes)
			}
		},
	}
}

func (m *memoryModel) writer(n int) []func() {
	m.latched[n] = true
	var value []byte // nil deletes
	if m.random.IntN(3) > 0 {
		m.written++
		value = fmt.Appendf(nil, "%d%*s", m.written, m.random.IntN(50), "")
	}
	keep := m.random.IntN(4) > 0
	return []func(){
		func() { keep = m.memory.Forget(modelKey(n)) || keep },
		func() { m.visible[n] = value },
		func() {
			m.latched[n] = false
			if !keep {
				value = nil
			}
			m.memory.Replace(modelKey(n), value)
		},
	}
}

func (m *memoryModel) deleter(from, to int) []func() {
	return []func(){
		func() {
			for n := from; n < to; n++ {
				m.visible[n] = nil
				m.deleting[n]++
			}
		},
		func() {
			m.memory.ForgetRange(modelKey(from), modelKey(to))
			for n := from; n < to; n++ {
				m.deleting[n]--
			}
		},
	}
}
