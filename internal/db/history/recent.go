package history

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/stator-db/stator/internal/store"
)

// Recent keeps the key ranges whose past was read last, so that the next page, and a
// request that is repeated, need not read their changes again.
type Recent struct {
	LogBytes   int // of the change log that one request reads at most
	RangeBytes int // that the changes of one key range take in memory at most
	KeptBytes  int // that all ranges take that no request uses
	Running    int // how many requests may read at a time

	mu      sync.Mutex
	running int
	counter uint64 // orders the views and the ranges: see take
	ranges  []*changedRange
	bytes   int
	absent  []absentRange
}

// NewRecent returns a Recent with the usual limits.
func NewRecent() *Recent {
	return &Recent{LogBytes: 64 << 20, RangeBytes: 8 << 20, KeptBytes: 16 << 20, Running: 2}
}

// maxAbsent bounds the number of ranges that are known to have had no items.
const maxAbsent = 256

// absentRange is a range of keys where there were no items at a time. That never changes.
type absentRange struct {
	rangeID
	start, end []byte
}

// Reader reads the past of tables in one view.
type Reader struct {
	view    *View
	horizon uint64
	opened  uint64
	recent  *Recent
}

// Open takes a view of now, to read the past. It returns ErrBusy if there are as many
// readers as there may be.
func (r *Recent) Open(ctx context.Context, engine store.Engine) (*Reader, error) {
	r.mu.Lock()
	if r.running >= r.Running {
		r.mu.Unlock()
		return nil, ErrBusy
	}
	r.running++
	r.counter++
	opened := r.counter
	r.mu.Unlock()
	// The horizon before the view: the view has all changes before it.
	horizon, err := engine.Horizon(ctx)
	var view *View
	if err == nil {
		view, err = Open(ctx, engine)
	}
	if err != nil {
		r.end()
		return nil, err
	}
	view.MaxBytes = r.RangeBytes
	return &Reader{view: view, horizon: uint64(horizon), opened: opened, recent: r}, nil
}

// View returns the reader's view.
func (r *Reader) View() *View { return r.view }

// Close releases the view.
func (r *Reader) Close() error {
	r.recent.end()
	return r.view.Close()
}

func (r *Recent) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
}

// now returns a number that is larger than those of all readers that have been opened.
func (r *Recent) now() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter++
	return r.counter
}

// take removes the range where a span begins, or ends if it is reverse, and returns it;
// nil if there is none. A range may have changes that are missing in the view of a
// reader that was opened before the range was put back.
func (r *Recent) take(id rangeID, span store.Range, opened uint64) *changedRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, found := range r.ranges {
		if found.rangeID == id && found.shared <= opened && isFirst(found.start, found.end, span) {
			r.ranges = slices.Delete(r.ranges, i, i+1)
			r.bytes -= found.bytes
			return found
		}
	}
	return nil
}

// isFirst reports whether a range has the first keys of a span.
func isFirst(start, end []byte, span store.Range) bool {
	if span.Reverse {
		return bytes.Compare(start, span.End) < 0 && bytes.Compare(span.End, end) <= 0
	}
	return bytes.Compare(start, span.Start) <= 0 && bytes.Compare(span.Start, end) < 0
}

// put puts a range back.
func (r *Recent) put(of *changedRange, now uint64) {
	of.shared = now
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranges = append(r.ranges, of)
	r.bytes += of.bytes
	for r.bytes > r.KeptBytes && len(r.ranges) > 1 || len(r.ranges) > maxAbsent {
		r.bytes -= r.ranges[0].bytes
		r.ranges = slices.Delete(r.ranges, 0, 1)
	}
}

// addAbsent records that there were no items in a span.
func (r *Recent) addAbsent(id rangeID, span store.Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.absent {
		a := &r.absent[i]
		switch {
		case a.rangeID != id:
		case bytes.Equal(a.end, span.Start):
			a.end = span.End
			return
		case bytes.Equal(a.start, span.End):
			a.start = span.Start
			return
		}
	}
	if len(r.absent) >= maxAbsent {
		r.absent = slices.Delete(r.absent, 0, 1)
	}
	r.absent = append(r.absent, absentRange{id, bytes.Clone(span.Start), bytes.Clone(span.End)})
}

// skipAbsent removes the first keys of a span if it is known that there were no items.
func (r *Recent) skipAbsent(id rangeID, span *store.Range) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.absent {
		if a.rangeID != id || !isFirst(a.start, a.end, *span) {
			continue
		}
		if span.Reverse {
			span.End = a.start
		} else {
			span.Start = a.end
		}
		return true
	}
	return false
}
