// Package latch serialises calls of an engine that use the same keys, and lets Close wait for
// all calls.
package latch

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// Count is the number of latches of a Set that NewSet returns.
const Count = 4096

// Set serialises callers that use the same keys. Keys are spread over the latches by hash;
// two keys that share one, which is rare, only wait for each other needlessly.
type Set struct {
	seed     maphash.Seed
	patience time.Duration // the longest wait for one latch
	all      []chan struct{}
}

// NewSet returns a Set in which no caller waits longer than patience for one latch.
func NewSet(patience time.Duration) *Set { return NewSetOf(Count, patience) }

// NewSetOf is NewSet with count latches, a power of two.
func NewSetOf(count int, patience time.Duration) *Set {
	s := &Set{seed: maphash.MakeSeed(), patience: patience, all: make([]chan struct{}, count)}
	for i := range s.all {
		s.all[i] = make(chan struct{}, 1)
	}
	return s
}

// Of returns the number of a key's latch.
func (s *Set) Of(key []byte) int { return int(maphash.Bytes(s.seed, key) & uint64(len(s.all)-1)) }

// Lock takes the latches of keys in ascending order, each once, so that callers cannot
// deadlock. It returns the argument of Unlock, in the memory of held if that is large enough.
func (s *Set) Lock(ctx context.Context, held []int, keys [][]byte) ([]int, error) {
	held = held[:0]
	for _, k := range keys {
		held = append(held, s.Of(k))
	}
	slices.Sort(held)
	held = slices.Compact(held)
	for i, n := range held {
		if err := s.lock(ctx, n); err != nil {
			s.Unlock(held[:i])
			return nil, err
		}
	}
	return held, nil
}

func (s *Set) lock(ctx context.Context, n int) error {
	select {
	case s.all[n] <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	select {
	case s.all[n] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("waited %v for another update of the same key: %w", s.patience, store.ErrConflict)
	}
}

// Unlock releases the latches that Lock took.
func (s *Set) Unlock(held []int) {
	for _, n := range held {
		<-s.all[n]
	}
}
