package commit

import (
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// A range of one prefix waits for the writes of keys with that prefix, of which it may
// show or lack one, and for no others.
func TestNewestWithPrefix(t *testing.T) {
	const prefixBytes = 15
	s := NewStripes(0, prefixBytes)
	written := []byte("the first partition: a")
	s.Raise([]byte("short"), 9)
	s.Raise(written, 7)
	s.Raise(written, 5)
	for _, c := range []struct {
		name, prefix string
		want         store.Stamp
	}{
		{"the prefix of the key", "the first parti", 7},
		{"another prefix", "another partiti", 0},
	} {
		if c.want == 0 && s.Of([]byte(c.prefix)) == s.Of(written[:prefixBytes]) {
			continue // they share a stripe
		}
		if got := s.NewestWithPrefix([]byte(c.prefix)); got != c.want {
			t.Errorf("%s: the newest stamp is %d, want %d", c.name, got, c.want)
		}
	}
	if got := s.Newest(written, []byte("short")); got != 9 {
		t.Errorf("the newest stamp of both keys is %d, want 9", got)
	}
}
