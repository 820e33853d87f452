package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// A range of one prefix waits for the writes of keys with that prefix, of which it may
// show or lack one, and for no others.
func TestReadRangeWaitsForItsPrefix(t *testing.T) {
	const prefixBytes = 15
	s, p := newStripes(0, prefixBytes), newPrefixes(prefixBytes)
	written, other := []byte("the first partition: a"), []byte("another partition: a")
	s.raise(written, 7)
	for _, c := range []struct {
		name       string
		start, end string
		want       store.Stamp
		ok         bool
	}{
		{"a range around the key", "the first partition: ", "the first partition: b", 7, true},
		{"a range after the key", "the first partition: x", "the first partition: y", 7, true},
		{"a range of another prefix", string(other), string(other) + "b", 0, true},
		{"a range of many prefixes", "a", "z", 0, false},
		{"a range without an end", "the first partition: ", "", 0, false},
		{"a range of two prefixes", "another partition", "the first partition", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			prefix, ok := p.of([]byte(c.start), []byte(c.end))
			if ok != c.ok {
				t.Fatalf("the range has one prefix: %v, want %v", ok, c.ok)
			}
			if !ok || c.want == 0 && s.Of(prefix) == s.Of(written[:prefixBytes]) { // they may share a stripe
				return
			}
			if got := s.newestWithPrefix(prefix); got != c.want {
				t.Errorf("the newest stamp is %d, want %d", got, c.want)
			}
		})
	}
}

// A panic of fn leaves no iterator open.
func TestReadRangeClosesAfterPanic(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1})
	fill(t, e, 3)
	func() {
		defer func() { _ = recover() }()
		_ = e.ReadRange(t.Context(), store.Range{}, func(store.Pair) bool { panic("in fn") })
	}()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
