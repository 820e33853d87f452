// Package latch makes calls of an engine wait for each other: those that touch
// the same keys, and Close for all.
package latch

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// Count is how many latches a Set has.
const Count = 4096

// Set serialises who touches the same keys. Keys are spread over its latches by
// hash, so that two keys rarely share one; when they do, they wait for each
// other needlessly, and nothing worse.
type Set struct {
	seed     maphash.Seed
	patience time.Duration // how long to wait for one latch
	all      [Count]chan struct{}
}

// NewSet makes a Set in which nobody waits longer than patience for one latch.
func NewSet(patience time.Duration) *Set {
	s := &Set{seed: maphash.MakeSeed(), patience: patience}
	for i := range s.all {
		s.all[i] = make(chan struct{}, 1)
	}
	return s
}

// Of is the number of a key's latch.
func (s *Set) Of(key []byte) int { return int(maphash.Bytes(s.seed, key) % Count) }

// Lock takes the latches of keys in ascending order, each once, so that two
// callers can never wait for each other. It returns what Unlock needs, in the
// space of held when that is enough.
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
		return fmt.Errorf("others held a key for %v: %w", s.patience, store.ErrConflict)
	}
}

// Unlock gives back what Lock took.
func (s *Set) Unlock(held []int) {
	for _, n := range held {
		<-s.all[n]
	}
}
