package pebble

import (
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/latch"
)

// stripes serialise Updates of the same keys, and know how new their values can
// be.
type stripes struct {
	*latch.Set
	prefixBytes int // 0: no prefixes
	all         [latch.Count]stripe
}

type stripe struct {
	last atomic.Uint64 // the largest stamp that wrote, or is about to write, a key of this stripe
	near atomic.Uint64 // so too, for keys whose prefix belongs to this stripe
}

func newStripes(patience time.Duration, prefixBytes int) *stripes {
	return &stripes{Set: latch.NewSet(patience), prefixBytes: prefixBytes}
}

// raise notes that stamp is about to write key. It comes before the write is
// visible, so that who sees the write sees the note.
func (s *stripes) raise(key []byte, stamp store.Stamp) {
	raiseTo(&s.all[s.Of(key)].last, stamp)
	if n := s.prefixBytes; n > 0 && len(key) >= n {
		raiseTo(&s.all[s.Of(key[:n])].near, stamp)
	}
}

func raiseTo(last *atomic.Uint64, stamp store.Stamp) {
	for {
		old := last.Load()
		// Undeclared keys are not latched, so a larger stamp may be there.
		if old >= uint64(stamp) || last.CompareAndSwap(old, uint64(stamp)) {
			return
		}
	}
}

// newestWithPrefix is what newest is for all keys with a prefix of prefixBytes.
func (s *stripes) newestWithPrefix(prefix []byte) store.Stamp {
	return store.Stamp(s.all[s.Of(prefix)].near.Load())
}

// newest is at least the stamp of the value that a read of any of keys, done
// before this call, can have returned.
func (s *stripes) newest(keys ...[]byte) store.Stamp {
	var newest uint64
	for _, k := range keys {
		newest = max(newest, s.all[s.Of(k)].last.Load())
	}
	return store.Stamp(newest)
}
