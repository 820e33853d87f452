package pebble

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/store"
)

const stripeCount = 4096

// stripes serialise Updates of the same keys. Keys are spread over them by
// hash, so that two keys rarely share one; when they do, they wait for each
// other needlessly, and nothing worse.
type stripes struct {
	seed     maphash.Seed
	patience time.Duration // how long to wait for one latch
	all      [stripeCount]stripe
}

type stripe struct {
	latch chan struct{} // holds a token while latched
	last  atomic.Uint64 // the largest stamp that wrote, or is about to write, a key of this stripe
}

func newStripes(patience time.Duration) *stripes {
	s := &stripes{seed: maphash.MakeSeed(), patience: patience}
	for i := range s.all {
		s.all[i].latch = make(chan struct{}, 1)
	}
	return s
}

func (s *stripes) index(key []byte) int {
	return int(maphash.Bytes(s.seed, key) % stripeCount)
}

// lock latches the stripes of keys in ascending order, each once, so that two
// callers can never wait for each other. It returns what unlock needs.
func (s *stripes) lock(ctx context.Context, keys [][]byte) (latched []int, err error) {
	wanted := make([]int, len(keys))
	for i, k := range keys {
		wanted[i] = s.index(k)
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for i, n := range wanted {
		if err := s.all[n].lock(ctx, s.patience); err != nil {
			s.unlock(wanted[:i])
			return nil, err
		}
	}
	return wanted, nil
}

func (s *stripe) lock(ctx context.Context, patience time.Duration) error {
	select {
	case s.latch <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.latch <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("others held a key for %v: %w", patience, store.ErrConflict)
	}
}

func (s *stripes) unlock(latched []int) {
	for _, n := range latched {
		<-s.all[n].latch
	}
}

// raise notes that stamp is about to write key. It comes before the write is
// visible, so that who sees the write sees the note.
func (s *stripes) raise(key []byte, stamp store.Stamp) {
	last := &s.all[s.index(key)].last
	for {
		old := last.Load()
		// Undeclared keys are not latched, so a larger stamp may be there.
		if old >= uint64(stamp) || last.CompareAndSwap(old, uint64(stamp)) {
			return
		}
	}
}

// newest is at least the stamp of the value that a read of any of keys, done
// before this call, can have returned.
func (s *stripes) newest(keys ...[]byte) store.Stamp {
	var newest uint64
	for _, k := range keys {
		newest = max(newest, s.all[s.index(k)].last.Load())
	}
	return store.Stamp(newest)
}
