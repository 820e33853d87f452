package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/commit"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// A standby is not given changes as if they were all, if some were removed, or if it has
// changes that the engine does not have.
func TestFeedPositions(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, start, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	if err := set(e, "a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	changes, next, _, err := e.Changes(t.Context(), "slot", start, 1<<20, time.Minute)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%v, %v", changes, err)
	}
	if _, _, _, err := e.Changes(t.Context(), "slot", next, 1<<20, 0); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		slot string
		from store.Stamp
	}{"another slot": {"other", next}, "removed": {"slot", start}, "ahead": {"slot", next + 1<<40}} {
		if _, _, _, err := e.Changes(t.Context(), c.slot, c.from, 1<<20, 0); !errors.Is(err, ErrNoSlot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The lag is the size of the changes that the standby has not acknowledged, also after a
// restart, and the time since it had all.
func TestLagOfAStandby(t *testing.T) {
	c := newCrashable(t, 1)
	defer func() { _ = c.Close() }()
	snap, from, _, err := c.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	write := func(n int) {
		for i := range n {
			if err := set(c.Engine, fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const each = 32 + 1 + 1 + 1 + 1 + 100 // of a record
	wait := func(records ...int) {
		for !slices.ContainsFunc(records, func(n int) bool { return c.Attached().Bytes == int64(n*each) }) { // after a restart they are counted in the background
			time.Sleep(time.Millisecond)
		}
	}
	next := func() {
		t.Helper()
		var err error
		if _, from, _, err = c.Changes(t.Context(), "slot", from, 3*each, 0); err != nil {
			t.Fatal(err)
		}
	}
	write(8)
	wait(8) // nothing is acknowledged
	next()  // 0 to 2
	wait(8) // sent, but not acknowledged
	next()  // 3 to 5
	wait(5) // the first reply is acknowledged
	c.crash()
	wait(8, 5) // after a restart nothing is known to be acknowledged; the first three may be removed already
	next()     // 6 and 7
	wait(2)    // the second reply is acknowledged
	behind := c.Attached().Fresh
	next()
	if a := c.Attached(); a.Bytes != 0 || !a.Fresh.After(behind) {
		t.Errorf("a standby that has all: %+v", a)
	}
	write(1)
	wait(1) // one more
}

// A standby is not said to have an Update that has returned while one with a smaller stamp was
// in flight: it is not sent before that one.
func TestFreshnessWithUpdatesInFlight(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, from, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	begun, end := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = e.Update(context.Background(), nil, func(tx store.Tx) error {
			close(begun)
			<-end
			tx.Set([]byte("first"), []byte("v"))
			return nil
		})
	})
	<-begun
	if err := set(e, "second", []byte("v")); err != nil {
		t.Fatal(err)
	}
	returned := time.Now()
	newest, err := e.Returned()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		changes, next, horizon, err := e.Changes(t.Context(), "slot", from, 1<<20, 0)
		if err != nil || len(changes) > 0 || next != horizon {
			t.Fatalf("%d changes up to %d of %d, %v", len(changes), next, horizon, err)
		}
		if fresh := e.Attached().Fresh; fresh.After(returned) {
			t.Errorf("the standby is said to have everything %s after an Update that it lacks", fresh.Sub(returned))
		}
		if next >= newest {
			t.Errorf("the Update that has returned is before %d, which the standby of %d does not lack", newest, next)
		}
		from = next
	}
	close(end)
	running.Wait()
	for range 2 {
		if _, from, _, err = e.Changes(t.Context(), "slot", from, 1<<20, 0); err != nil {
			t.Fatal(err)
		}
	}
	if fresh := e.Attached().Fresh; !fresh.After(returned) || from < newest {
		t.Errorf("a standby that has all before %d of %d is said to have everything of %s, want after %s", from, newest, fresh, returned)
	}
}

// The slot is reported while the disk does not answer.
func TestAttachedDoesNotWait(t *testing.T) {
	var blocks atomic.Bool
	blocked, release := make(chan struct{}, 100), make(chan struct{})
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && blocks.Load() {
			select {
			case blocked <- struct{}{}:
			default:
			}
			<-release
		}
		return nil
	})
	e := mustOpen(t, Options{Dir: "d", FS: fs})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	blocks.Store(true)
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Detach(context.Background(), "slot"); err != nil {
			t.Error(err)
		}
	})
	<-blocked
	for e.feed.mu.TryLock() { // Detach holds it until the disk answers
		e.feed.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	if a := e.Attached(); a.Slot != "slot" {
		t.Errorf("the slot is %+v", a)
	}
	blocks.Store(false)
	close(release)
	running.Wait()
	if a := e.Attached(); a.Slot != "" {
		t.Errorf("after it was removed, the slot is %+v", a)
	}
}

// A standby has at every moment all Updates that had returned when it was known to have
// everything.
func TestFreshnessUnderLoad(t *testing.T) {
	e := mustOpen(t, Options{Dir: "d", FS: vfs.NewMem()})
	defer func() { _ = e.Close() }()
	snap, from, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	var mu sync.Mutex
	returned := make(map[string]time.Time)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 500 {
				key := fmt.Sprintf("%d/%d", w, i)
				if err := set(e, key, []byte("v")); err != nil {
					t.Error(err)
				}
				mu.Lock()
				returned[key] = time.Now()
				mu.Unlock()
			}
		})
	}
	var fresh commit.Freshness
	has := make(map[string]bool)
	for done := false; !done; {
		sent := time.Now()
		newest, err := e.Returned()
		if err != nil {
			t.Fatal(err)
		}
		changes, next, _, err := e.Changes(t.Context(), "slot", from, 1000, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			_ = decodeEdits(c.Edits, func(_ byte, key, _ []byte) error {
				has[string(key)] = true
				return nil
			})
		}
		from = next
		fresh.Observe(sent, newest, next)
		mu.Lock()
		for key, at := range returned {
			if at.Before(fresh.Known()) && !has[key] {
				t.Errorf("the standby lacks %s, which had returned %s before", key, fresh.Known().Sub(at))
				break
			}
		}
		done = len(has) == 4*500 || t.Failed()
		mu.Unlock()
	}
	writers.Wait()
	if t.Failed() {
		return
	}
	last := time.Now()
	for range 2 {
		newest, err := e.Returned()
		if err != nil {
			t.Fatal(err)
		}
		_, next, _, err := e.Changes(t.Context(), "slot", from, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		from = next
		fresh.Observe(time.Now(), newest, next)
	}
	if fresh.Known().Before(last) {
		t.Errorf("a standby that has everything is known to have that of %s, want %s", fresh.Known(), last)
	}
}
