package pebble

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// The runs of data that has had a standby are known by where they ended, the newest of them only,
// and none before the first standby.
func TestRuns(t *testing.T) {
	o := Options{FS: vfs.NewMem(), Dir: "d"}
	e := mustOpen(t, o)
	before := e.Run()
	restart := func() {
		t.Helper()
		fill(t, e, 1)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpen(t, o)
	}
	restart()
	if _, ok := e.RunEnd(before); ok {
		t.Error("a run before the first standby is recorded")
	}
	snap, _, _, err := e.Attach(t.Context(), "slot")
	if err != nil || snap.Close() != nil {
		t.Fatal(err)
	}
	first := e.Run()
	if end, ok := e.RunEnd(first); !ok || end != e.horizon() {
		t.Errorf("the run in progress ends at %d, %v, want %d", end, ok, e.horizon())
	}
	restart()
	begin, second := e.feed.run.begin, e.Run()
	if err := e.Detach(t.Context(), "slot"); err != nil {
		t.Fatal(err)
	}
	restart()
	if end, ok := e.RunEnd(first); !ok || end != begin {
		t.Errorf("the first run ends at %d, %v, want %d", end, ok, begin)
	}
	if end, ok := e.RunEnd(second); !ok || end != e.feed.run.begin {
		t.Errorf("the second run ends at %d, %v, want %d", end, ok, e.feed.run.begin)
	}
	many := make([]runStart, maxRuns-1)
	for i := range many {
		many[i] = runStart{fmt.Sprint(i), store.Stamp(i)}
	}
	if err := e.db.Set(runsKey, encodeRuns(append([]runStart{{first, 1}}, many...)), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	restart()
	if _, ok := e.RunEnd(first); ok || len(e.feed.runs()) != maxRuns {
		t.Errorf("%d runs are recorded, also the first: %v", len(e.feed.runs()), ok)
	}
	if err := errors.Join(e.Check(t.Context()), e.Close()); err != nil {
		t.Error(err)
	}
}

// A record of runs is decoded to what was encoded, and one that is truncated is not decoded to
// other runs.
func TestEncodedRuns(t *testing.T) {
	runs := []runStart{{"a", 1}, {"bc", 1 << 60}}
	b := encodeRuns(runs)
	for i := range b {
		if got, err := decodeRuns(b[:i]); err == nil && !slices.Equal(got, runs[:len(got)]) || err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the first %d bytes are decoded to %v, %v", i, got, err)
		}
	}
	if got, err := decodeRuns(b); err != nil || !slices.Equal(got, runs) {
		t.Errorf("decoded to %v, %v", got, err)
	}
}
