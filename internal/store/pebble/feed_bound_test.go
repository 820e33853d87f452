package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/logtest"
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

// The records take no more than their bound: then the slot is dropped, with an error in
// the log, and the standby learns that it needs a copy.
func TestFeedBound(t *testing.T) {
	var log logtest.Log
	e := mustOpen(t, Options{Dir: t.TempDir(), FeedBytes: 100 << 10, Log: log.Logger()})
	defer func() { _ = e.Close() }()
	snap, start, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	for i := range 300 {
		if err := set(e, fmt.Sprint(i), bytes.Repeat([]byte("x"), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for e.feed.on.Load() {
		time.Sleep(time.Millisecond)
	}
	for !strings.Contains(log.String(), "level=ERROR msg=\"changes are no longer kept for the standby") {
		time.Sleep(time.Millisecond)
	}
	if a := e.Attached(); a != (Attachment{}) {
		t.Errorf("the slot is %+v", a)
	}
	if _, _, _, err := e.Changes(t.Context(), "slot", start, 1<<20, 0); !errors.Is(err, ErrNoSlot) {
		t.Errorf("changes without a slot: %v", err)
	}
	if kept, err := e.feedBytes(0, ^store.Stamp(0)); err != nil || kept > 0 {
		t.Errorf("%d bytes are kept, %v", kept, err)
	}
}

// The changes for a standby are removed before the disk is so full that writes are rejected,
// and none are kept until there is space again.
func TestFeedLeavesSpaceForWrites(t *testing.T) {
	fs := &usageFS{FS: vfs.NewMem()}
	fs.free.Store(1 << 29)
	e := mustOpen(t, Options{Dir: "d", FS: fs, DiskCheck: 5 * time.Millisecond})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	if err := set(e, "a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	keep := reserve(1 << 30)
	for _, c := range []struct {
		name     string
		free     uint64
		attached bool
	}{{"enough", 2 * keep, true}, {"little", keep + keep*3/8, false}} {
		fs.free.Store(c.free - e.disk.held.bytes())
		for e.disk.free.Load() != c.free {
			time.Sleep(time.Millisecond)
		}
		if err := set(e, "a", []byte(c.name)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for e.feed.on.Load() != c.attached {
			time.Sleep(time.Millisecond)
		}
	}
	if _, _, _, err := e.Attach(t.Context(), "slot"); !errors.Is(err, ErrNoSpace) {
		t.Errorf("Attach: %v", err)
	}
	if err := set(e, "a", []byte("still")); err != nil {
		t.Error(err)
	}
}

// A slot whose records were removed since they were too many is not dropped.
func TestSlotIsKeptIfThereIsSpaceAgain(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir()})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	e.dropSlot(t.Context())
	if a := e.Attached(); a.Slot != "slot" {
		t.Errorf("the slot is %+v", a)
	}
}

// The space of a slot is free soon after it is removed, also if Pebble has no reason to flush.
func TestRemovedSlotFreesSpace(t *testing.T) {
	e := mustOpen(t, Options{Dir: t.TempDir(), memtableBytes: 256 << 10, IdleFlush: -1})
	defer func() { _ = e.Close() }()
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 10_000)
	for i := range 200 {
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		if err := set(e, fmt.Sprint(i), value); err != nil {
			t.Fatal(err)
		}
	}
	used := func() uint64 {
		bytes, err := e.db.EstimateDiskUsage(feedKey(0), feedEnd)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if used() < 1_000_000 {
		t.Fatalf("the records take %d bytes", used())
	}
	if err := e.Detach(t.Context(), "slot"); err != nil {
		t.Fatal(err)
	}
	for used() > 100_000 {
		time.Sleep(10 * time.Millisecond)
	}
}

// Records of an earlier process are counted also if the standby has some of them, which are
// removed, before the count in the background has begun.
func TestRecordsAreCountedBeforeSomeAreRemoved(t *testing.T) {
	c := newCrashable(t, 6)
	defer func() { _ = c.Close() }()
	snap, from, _, err := c.Attach(t.Context(), "slot")
	if err != nil {
		t.Fatal(err)
	}
	_ = snap.Close()
	for i := range 8 {
		if err := set(c.Engine, fmt.Sprint(i), bytes.Repeat([]byte("x"), 100)); err != nil {
			t.Fatal(err)
		}
	}
	const each = 32 + 1 + 1 + 1 + 1 + 100 // of a record
	if _, from, _, err = c.Changes(t.Context(), "slot", from, 3*each, 0); err != nil {
		t.Fatal(err)
	}
	c.crash()
	count := func() {
		t.Helper()
		c.feed.mu.Lock()
		defer c.feed.mu.Unlock()
		if err := c.countRecords(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count()
	c.feed.mu.Lock()
	c.feed.counted = false // as if that had not been done
	c.feed.bytes.Store(0)
	c.feed.mu.Unlock()
	if _, _, _, err := c.Changes(t.Context(), "slot", from, 1<<20, 0); err != nil {
		t.Fatal(err)
	}
	count()
	if kept := c.feed.bytes.Load(); kept != 5*each {
		t.Errorf("%d bytes are counted, want %d", kept, 5*each)
	}
}

// A change whose range has no keys, or has keys of the engine, is rejected.
func TestApplyRejectsOddRanges(t *testing.T) {
	for name, r := range map[string][2]string{
		"the end before the start": {"m", "a"},
		"empty":                    {"m", "m"},
		"no end":                   {"m", ""},
		"the engine's own keys":    {"m", "\xff\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d"})
			defer e.Close()
			if err := set(e, "z", []byte("v")); err != nil {
				t.Fatal(err)
			}
			edits := appendEdit(nil, editDeleteRange, []byte(r[0]), []byte(r[1]))
			if err := e.Apply(t.Context(), []Change{{Stamp: 1, Edits: edits}}, e.horizon(), []byte("state")); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("Apply returns %v", err)
			}
			if got := pairs(t, e); len(got) != 1 {
				t.Errorf("the engine has %v", got)
			}
			if err := e.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
