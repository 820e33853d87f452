package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// A range waits for writes to keys that are near it, of which it may show or
// lack one, and for no others.
func TestReadRangeWaitsForItsPrefix(t *testing.T) {
	s := newStripes(0)
	near, far := []byte("the first partition: a"), []byte("another partition: a")
	s.raise(near, 7)
	for _, c := range []struct {
		name       string
		start, end string
		want       store.Stamp
		ok         bool
	}{
		{"a range around the key", "the first partition: ", "the first partition: b", 7, true},
		{"a range beside the key", "the first partition: x", "the first partition: y", 7, true},
		{"a range of other keys", string(far), string(far) + "b", 0, true},
		{"a range of many", "a", "z", 0, false},
		{"a range to the end", "the first partition: ", "", 0, false},
		{"a range over two", "another partition", "the first partition", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := s.newestIn([]byte(c.start), []byte(c.end))
			if ok != c.ok || ok && got < c.want || c.name == "a range of other keys" && got != c.want && s.Of(near[:nearBytes]) != s.Of(far[:nearBytes]) {
				t.Errorf("the newest stamp is %d, %v, want %d, %v", got, ok, c.want, c.ok)
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
