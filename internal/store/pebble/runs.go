package pebble

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stator-db/stator/internal/store"
)

// runStart is the start of a run: one process's use of the data.
type runStart struct {
	id    string
	begin store.Stamp // the stamps of the run are at least this one
}

// maxRuns is how many runs are recorded. A standby that has last read from an earlier one needs a
// new folder.
const maxRuns = 1000

// runsKey is the key of the runs since the data first had a standby, oldest first. They tell data
// with which a standby has been served from an older state of it that was put in its place: that
// one lacks the later runs, however often it was started since.
var runsKey = []byte{store.Reserved, 'r'}

// encodeRuns encodes runs.
func encodeRuns(runs []runStart) (b []byte) {
	for _, r := range runs {
		b = binary.BigEndian.AppendUint64(b, uint64(r.begin))
		b = append(binary.AppendUvarint(b, uint64(len(r.id))), r.id...)
	}
	return b
}

// decodeRuns decodes what encodeRuns returns.
func decodeRuns(b []byte) (runs []runStart, err error) {
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, fmt.Errorf("the record of the runs cannot be decoded: %w", store.ErrCorrupt)
		}
		begin := store.Stamp(binary.BigEndian.Uint64(b))
		id, rest, ok := cutBytes(b[8:])
		if !ok || len(id) == 0 {
			return nil, fmt.Errorf("the record of the runs cannot be decoded: %w", store.ErrCorrupt)
		}
		runs, b = append(runs, runStart{string(id), begin}), rest
	}
	return runs, nil
}

// beginRun reads the earlier runs, and records this one if there are some. The first is recorded
// when a standby is attached.
func (e *Engine) beginRun() error {
	e.feed.run = runStart{rand.Text(), e.windows.Bound()}
	value, err := e.reserved(runsKey)
	if err != nil || value == nil {
		return err
	}
	if e.feed.earlier, err = decodeRuns(value); err != nil {
		return err
	}
	if err := e.db.Set(runsKey, encodeRuns(e.feed.runs()), e.sync()); err != nil {
		return failure("record the run", err)
	}
	return nil
}

// runs returns the runs that are to be recorded: the newest, and this one.
func (f *feed) runs() []runStart {
	all := append(slices.Clone(f.earlier), f.run)
	return all[max(0, len(all)-maxRuns):]
}

// Run returns an id of this process's use of the data.
func (e *Engine) Run() string { return e.feed.run.id }

// RunEnd returns a stamp that is larger than all that a standby can have got from a run. It reports
// false if the data has not had that run, or had it too many runs ago.
func (e *Engine) RunEnd(id string) (end store.Stamp, ok bool) {
	if id == e.feed.run.id {
		return e.horizon(), true
	}
	runs := e.feed.runs()
	i := slices.IndexFunc(runs, func(r runStart) bool { return r.id == id })
	if i < 0 {
		return 0, false
	}
	return runs[i+1].begin, true // this run is the last
}
