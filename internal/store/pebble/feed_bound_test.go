package pebble

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// setRandom sets keys with a prefix to values that cannot be compressed, of this many bytes in all.
func setRandom(t *testing.T, e *Engine, prefix string, bytes int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(bytes)))
	value := make([]byte, 1000)
	for i := range bytes / len(value) {
		for k := range value {
			value[k] = byte(r.Uint32())
		}
		if err := set(e, fmt.Sprintf("%s%06d", prefix, i), value); err != nil {
			t.Fatal(err)
		}
	}
}

// During a copy, and until the standby has caught up, as many changes are kept as there is data:
// otherwise a large database with many writes could not be copied. After that the bound is the usual
// one, and a copy during which more is written is given up.
func TestFeedBoundOfACopy(t *testing.T) {
	const usual, data = 50_000, 400_000
	for _, c := range []struct {
		name     string
		restarts bool
		writes   int // bytes during the copy
		kept     bool
	}{
		{"less than the data", false, data / 2, true},
		{"less than the data, and a restart", true, data / 2, true},
		{"control: more than the data", false, data * 3 / 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), FeedBytes: usual}
			e := mustOpen(t, o)
			defer func() { _ = e.Close() }()
			setRandom(t, e, "data", data)
			if err := e.db.Flush(); err != nil {
				t.Fatal(err)
			}
			snap, position, _, err := e.Attach(t.Context(), "slot")
			if err != nil {
				t.Fatal(err)
			}
			setRandom(t, e, "change", c.writes)
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
			if c.restarts {
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				e = mustOpen(t, o)
				e.feed.mu.Lock()
				err := e.countRecords(t.Context())
				e.feed.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
			}
			e.dropSlot(t.Context())
			if kept := e.Attached().Slot != ""; kept != c.kept {
				t.Fatalf("the slot is kept: %v", kept)
			}
			if !c.kept {
				return
			}
			for last := store.Stamp(0); last != position; {
				last = position
				if _, position, _, err = e.Changes(t.Context(), "slot", position, 1<<20, 0); err != nil {
					t.Fatal(err)
				}
			}
			e.feed.mu.Lock()
			e.feed.trimmed = time.Time{} // it is time to remove what the standby has
			e.feed.mu.Unlock()
			if _, position, _, err = e.Changes(t.Context(), "slot", position, 1<<20, 0); err != nil {
				t.Fatal(err)
			}
			setRandom(t, e, "later", 2*usual)
			e.dropSlot(t.Context())
			if _, _, _, err := e.Changes(t.Context(), "slot", position, 1, 0); !errors.Is(err, ErrNoSlot) {
				t.Errorf("after the standby has caught up, more than the usual bound is kept: %v", err)
			}
		})
	}
}
