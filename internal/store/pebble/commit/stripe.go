package commit

import (
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/latch"
)

// Stripes serialise Updates of the same keys, and know how new their values can
// be.
type Stripes struct {
	*latch.Set
	prefixBytes int // 0: no prefixes
	all         [latch.Count]stripe
}

type stripe struct {
	last atomic.Uint64 // the largest stamp that wrote, or is about to write, a key of this stripe
	near atomic.Uint64 // so too, for keys whose prefix belongs to this stripe
}

// NewStripes makes stripes in which no Update waits longer than patience for another.
// Prefixes have prefixBytes; 0 is none.
func NewStripes(patience time.Duration, prefixBytes int) *Stripes {
	return &Stripes{Set: latch.NewSet(patience), prefixBytes: prefixBytes}
}

// Raise notes that stamp is about to write key. It comes before the write is
// visible, so that who sees the write sees the note.
func (s *Stripes) Raise(key []byte, stamp store.Stamp) {
	raiseTo(&s.all[s.Of(key)].last, uint64(stamp))
	if n := s.prefixBytes; n > 0 && len(key) >= n {
		raiseTo(&s.all[s.Of(key[:n])].near, uint64(stamp))
	}
}

// raiseTo stores n unless a larger number is there: undeclared keys are not latched, so
// their stamps may be raised in any order.
func raiseTo(to *atomic.Uint64, n uint64) {
	for {
		old := to.Load()
		if old >= n || to.CompareAndSwap(old, n) {
			return
		}
	}
}

// NewestWithPrefix is what newest is for all keys with a prefix of prefixBytes.
func (s *Stripes) NewestWithPrefix(prefix []byte) store.Stamp {
	return store.Stamp(s.all[s.Of(prefix)].near.Load())
}

// Newest is at least the stamp of the value that a read of any of keys, done
// before this call, can have returned.
func (s *Stripes) Newest(keys ...[]byte) store.Stamp {
	var newest uint64
	for _, k := range keys {
		newest = max(newest, s.all[s.Of(k)].last.Load())
	}
	return store.Stamp(newest)
}
