package commit

import (
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/latch"
)

// Stripes serialises Updates of the same keys, and knows how new their values can be.
// Keys are spread over the stripes by hash.
type Stripes struct {
	*latch.Set
	prefixBytes int // 0: no prefixes
	all         [latch.Count]stripe
}

type stripe struct {
	key    atomic.Uint64 // the largest stamp that wrote, or is about to write, a key of this stripe
	prefix atomic.Uint64 // the same, for keys whose prefix belongs to this stripe
}

// NewStripes makes stripes in which no Update waits longer than patience for another.
// Prefixes have prefixBytes; 0 disables them.
func NewStripes(patience time.Duration, prefixBytes int) *Stripes {
	return &Stripes{Set: latch.NewSet(patience), prefixBytes: prefixBytes}
}

// Raise records that stamp is about to write key. It is called before the write is
// visible, so a reader that sees the write also sees its stamp.
func (s *Stripes) Raise(key []byte, stamp store.Stamp) {
	raiseTo(&s.all[s.Of(key)].key, uint64(stamp))
	if n := s.prefixBytes; n > 0 && len(key) >= n {
		raiseTo(&s.all[s.Of(key[:n])].prefix, uint64(stamp))
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

// NewestWithPrefix is like Newest, for a read of keys with a prefix of prefixBytes.
func (s *Stripes) NewestWithPrefix(prefix []byte) store.Stamp {
	return store.Stamp(s.all[s.Of(prefix)].prefix.Load())
}

// Newest returns at least the stamp of every value that a read of keys, done before this
// call, can have returned.
func (s *Stripes) Newest(keys ...[]byte) store.Stamp {
	var newest uint64
	for _, k := range keys {
		newest = max(newest, s.all[s.Of(k)].key.Load())
	}
	return store.Stamp(newest)
}
