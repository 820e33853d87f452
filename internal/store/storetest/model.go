package storetest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
)

var seedFlag = flag.Uint64("storetest.seed", 0, "seed of the model test; 0 for a random one")

// testModel runs random operations on an engine and on a map, and compares them.
func testModel(t *testing.T, open Open) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -storetest.seed=%d", seed)
	e, reopen := open(t)
	m := &model{T: t, r: rand.New(rand.NewPCG(seed, 0)), engine: e, values: make(map[string]string)}
	for range 500 {
		switch p := m.r.IntN(100); {
		case p < 60:
			m.update()
		case p < 80:
			m.get()
		case p < 92:
			m.scan()
		case p < 96:
			m.snapshot()
		case p < 99:
			m.deleteRange()
		case reopen != nil:
			m.closeSnapshot()
			m.engine = reopen()
		}
	}
	m.closeSnapshot()
}

type model struct {
	*testing.T
	r      *rand.Rand
	engine store.Engine
	values map[string]string

	view store.Snapshot    // may be nil
	seen map[string]string // values at the time of view
}

// key returns one of few keys, some of which are prefixes of others.
func (m *model) key() string {
	const letters = "\x00ab\xff"
	k := []byte{"abc"[m.r.IntN(3)]}
	for range m.r.IntN(3) {
		k = append(k, letters[m.r.IntN(len(letters))])
	}
	return string(k)
}

func (m *model) update() {
	var pairs []string
	for range 1 + m.r.IntN(4) {
		value := "" // a delete
		if m.r.IntN(3) > 0 {
			value = fmt.Sprint(m.r.IntN(1000))
		}
		pairs = append(pairs, m.key(), value)
	}
	put(m, m.engine, pairs...)
	for i := 0; i < len(pairs); i += 2 {
		if m.values[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(m.values, pairs[i])
		}
	}
}

func (m *model) get() {
	keys := []string{m.key(), m.key(), m.key()}
	same(m, fmt.Sprintf("get %q", keys), get(m, strong(m.engine), keys...), look(m.values, keys))
	if m.view != nil {
		same(m, fmt.Sprintf("get %q in a snapshot", keys), get(m, m.view.Get, keys...), look(m.seen, keys))
	}
}

func look(values map[string]string, keys []string) []string {
	shown := make([]string, len(keys))
	for i, k := range keys {
		if v, ok := values[k]; ok {
			shown[i] = v
		} else {
			shown[i] = "-"
		}
	}
	return shown
}

func (m *model) bounds() (start, end string) {
	if m.r.IntN(4) > 0 {
		start = m.key()
	}
	if m.r.IntN(4) > 0 {
		end = m.key()
	}
	return start, end
}

func (m *model) scan() {
	start, end := m.bounds()
	r := store.Range{Start: []byte(start), End: []byte(end), Reverse: m.r.IntN(2) == 0}
	s, err := m.engine.Snapshot(context.Background())
	if err != nil {
		m.Fatal(err)
	}
	same(m, fmt.Sprintf("scan %q to %q", start, end), scan(m, s, r), walk(m.values, r))
	same(m, fmt.Sprintf("read %q to %q", start, end), readRange(m, m.engine, r), walk(m.values, r))
	if err := s.Close(); err != nil {
		m.Fatal(err)
	}
	if m.view != nil {
		same(m, fmt.Sprintf("scan %q to %q in a snapshot", start, end), scan(m, m.view, r), walk(m.seen, r))
	}
}

func walk(values map[string]string, r store.Range) []string {
	var shown []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if k >= string(r.Start) && (len(r.End) == 0 || k < string(r.End)) {
			shown = append(shown, k+"="+values[k])
		}
	}
	if r.Reverse {
		slices.Reverse(shown)
	}
	return shown
}

func (m *model) deleteRange() {
	start, end := m.bounds()
	if err := m.engine.DeleteRange(context.Background(), []byte(start), []byte(end)); err != nil {
		m.Fatal(err)
	}
	maps.DeleteFunc(m.values, func(k, _ string) bool { return k >= start && (end == "" || k < end) })
}

func (m *model) snapshot() {
	m.closeSnapshot()
	var err error
	if m.view, err = m.engine.Snapshot(context.Background()); err != nil {
		m.Fatal(err)
	}
	m.seen = maps.Clone(m.values)
}

// closeSnapshot closes the snapshot, if one is open.
func (m *model) closeSnapshot() {
	if m.view == nil {
		return
	}
	if err := m.view.Close(); err != nil {
		m.Fatal(err)
	}
	m.view = nil
}
