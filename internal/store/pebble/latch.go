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
	all [latch.Count]stripe
}

type stripe struct {
	last atomic.Uint64 // the largest stamp that wrote, or is about to write, a key of this stripe
	near atomic.Uint64 // so too, for keys whose first bytes belong to this stripe
}

// nearBytes is how many first bytes tell keys that are near each other. A range
// within such waits for writes there alone.
const nearBytes = 15

func newStripes(patience time.Duration) *stripes { return &stripes{Set: latch.NewSet(patience)} }

// raise notes that stamp is about to write key. It comes before the write is
// visible, so that who sees the write sees the note.
func (s *stripes) raise(key []byte, stamp store.Stamp) {
	raiseTo(&s.all[s.Of(key)].last, stamp)
	if len(key) >= nearBytes {
		raiseTo(&s.all[s.Of(key[:nearBytes])].near, stamp)
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

// newestIn is what newest is for all keys between two, which have their first
// bytes in common; not ok if they have too few.
func (s *stripes) newestIn(start, end []byte) (stamp store.Stamp, ok bool) {
	if len(start) < nearBytes || len(end) < nearBytes || string(start[:nearBytes]) != string(end[:nearBytes]) {
		return 0, false
	}
	return store.Stamp(s.all[s.Of(start[:nearBytes])].near.Load()), true
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
