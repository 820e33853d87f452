package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Stamps never go back, but the clock may: then it shows some times again, and a
// change may have a larger stamp and an earlier time than another. It may also skip
// times. A run is the stamps between two steps of the clock, in either direction.
// Within a run, a change that was acknowledged before a time has a smaller stamp than
// any change at that time or later. A time that several runs have shown is that of the
// last. A time that none has shown is that of the latest time before it that was shown.

// Runs are the runs of the clock, in the order of their stamps. The zero value is
// those of a clock that was never stepped.
type Runs []run

// run is a run of the clock. The times are in milliseconds.
type run struct {
	stamp uint64 // no change of the run has a smaller one
	from  int64  // the first time that the clock showed
	until int64  // it did not show this time; noEnd in a run that is ahead of all others
}

const noEnd = math.MaxInt64

// The format numbers of the stored runs. The runs of the first format have no ends.
const (
	formatRunStarts = 1
	formatRuns      = 2
)

// The sizes of a stored run: the stamp, and one or two times.
const (
	runStartBytes = 8 + 8
	runBytes      = 8 + 8 + 8
)

// maxRuns bounds how many runs are kept.
const maxRuns = 500

// RunsKey returns the key of the runs of the clock.
func RunsKey() []byte { return keyspace.Meta("clock runs") }

// DecodeRuns decodes stored runs; nil if there are none.
func DecodeRuns(stored []byte) (Runs, error) {
	switch {
	case stored == nil:
		return nil, nil
	case len(stored) > 1 && stored[0] == formatRuns && len(stored)%runBytes == 1:
		var runs Runs
		for b := stored[1:]; len(b) > 0; b = b[runBytes:] {
			runs = append(runs, run{binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:]))})
		}
		return runs, nil
	case len(stored) > 1 && stored[0] == formatRunStarts && len(stored)%runStartBytes == 1:
		runs := Runs{{until: noEnd}}
		for b := stored[1:]; len(b) > 0; b = b[runStartBytes:] {
			stamp := store.Stamp(binary.BigEndian.Uint64(b))
			runs = runs.Begin(stamp, stamp.Time(), time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:]))))
		}
		return runs, nil
	}
	return nil, fmt.Errorf("runs of the clock: %w", store.ErrCorrupt)
}

// Encode returns the runs as they are stored.
func (r Runs) Encode() []byte {
	b := []byte{formatRuns}
	for _, run := range r.all() {
		b = binary.BigEndian.AppendUint64(b, run.stamp)
		b = binary.BigEndian.AppendUint64(b, uint64(run.from))
		b = binary.BigEndian.AppendUint64(b, uint64(run.until))
	}
	return b
}

// all returns the runs, with the first one.
func (r Runs) all() Runs {
	if len(r) == 0 {
		return Runs{{until: noEnd}}
	}
	return r
}

// Begin adds a run. The last one has ended at a time, unless it has an end already.
// If there are too many runs, it joins the two between which the clock stepped least.
func (r Runs) Begin(stamp store.Stamp, ended, from time.Time) Runs {
	runs := slices.Clone(r.all())
	if last := &runs[len(runs)-1]; last.until == noEnd {
		last.until = ended.UnixMilli()
	}
	runs = append(runs, run{uint64(stamp), from.UnixMilli(), noEnd})
	if len(runs) > maxRuns {
		least, at := int64(math.MaxInt64), 0
		for i := range runs[1:] {
			step := runs[i+1].from - runs[i].until
			if step = max(step, -step); step < least {
				least, at = step, i
			}
		}
		runs[at].until = runs[at+1].until
		runs = slices.Delete(runs, at+1, at+2)
	}
	return runs
}

// End sets what the clock shows now, as the end of the last run. The end counts when
// another run begins.
func (r Runs) End(now time.Time) Runs { return r.end(now.UnixMilli()) }

// Continue removes the end of the last run: the clock shows times that no run has shown.
func (r Runs) Continue() Runs { return r.end(noEnd) }

func (r Runs) end(until int64) Runs {
	runs := slices.Clone(r.all())
	runs[len(runs)-1].until = until
	return runs
}

// Ended reports whether the last run has an end.
func (r Runs) Ended() bool { return len(r) > 0 && r[len(r)-1].until != noEnd }

// at returns the run that a time belongs to. The last run is that of now.
func (r Runs) at(t time.Time) int {
	ms, nearest := t.UnixMilli(), -1
	for i, run := range slices.Backward(r) {
		switch {
		case run.from > ms:
		case ms < run.until || i == len(r)-1:
			return i
		case nearest < 0 || run.until > r[nearest].until:
			nearest = i
		}
	}
	return max(0, nearest)
}

// stamps returns the first stamp of a run, and that of the next.
func (r Runs) stamps(i int) (first, end uint64) {
	switch {
	case len(r) == 0:
		return 0, math.MaxUint64
	case i == len(r)-1:
		return r[i].stamp, math.MaxUint64
	}
	return r[i].stamp, r[i+1].stamp
}

// isKept reports whether all changes since a time are recorded. A time in the run in
// which recovery was enabled may be before that.
func (r Runs) isKept(of schema.Recovery, at time.Time) bool {
	start := of.Start
	if start == 0 {
		start = uint64(store.StampAt(of.Since))
	}
	i := r.at(at)
	first, end := r.stamps(i)
	return start < first || start < end && !at.Before(of.Since)
}

// KeptFrom returns the time from which on a table can be restored to any time. A
// recovery may have begun at a time that is not over yet, if the clock was ahead.
func (r Runs) KeptFrom(of schema.Recovery, now time.Time) time.Time {
	oldest := now.AddDate(0, 0, -of.Days)
	bounds := []time.Time{oldest, of.Since}
	for _, run := range r {
		bounds = append(bounds, time.UnixMilli(run.from), time.UnixMilli(run.until))
	}
	slices.SortFunc(bounds, time.Time.Compare)
	kept := now
	for _, at := range slices.Backward(bounds) { // between two of them nothing changes
		if at.After(now) {
			continue
		}
		if at.Before(oldest) || !r.isKept(of, at) {
			break
		}
		kept = at
	}
	return kept
}

// Window returns the range of seconds that a table can be restored to.
func (r Runs) Window(of schema.Recovery, now time.Time) (earliest, latest time.Time) {
	// A second stands for its end, so that no change of the first is missing;
	// the last one has passed.
	earliest, latest = r.KeptFrom(of, now).Truncate(time.Second), now.Truncate(time.Second).Add(-time.Second)
	if latest.Before(earliest) {
		latest = earliest
	}
	return earliest.UTC(), latest
}

// Runs returns the runs of the clock.
func (v *View) Runs(ctx context.Context) (Runs, error) {
	stored, err := v.snap.Get(ctx, RunsKey())
	if err != nil {
		return nil, err
	}
	return DecodeRuns(stored[0])
}
