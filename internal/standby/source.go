// Package standby keeps a second copy of a database on another machine, which can take
// its place.
//
// A Source is the side of the server, and a Follower that of the standby. What is
// copied are the engine's keys and values, so package standby knows nothing of tables.
package standby

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// Source sends the data of a server to its standby.
type Source struct {
	Engine   *pebble.Engine
	Database func(context.Context) (string, error) // returns the id of the database

	database  atomic.Pointer[string] // what Database has returned; nil until then
	processes processes              // of standbys
}

const (
	replyBytes = 4 << 20                // of changes in a reply, approximately
	replyWait  = 500 * time.Millisecond // for the first change
	pairsBytes = 256 << 10              // of pairs in a message, approximately
	// aliveInterval is the time between empty messages, less than stallTimeout.
	aliveInterval = 5 * time.Second
	// busyTime is how long after its last request a standby counts as attached.
	busyTime = time.Minute
)

// Copy writes a copy of all data, and keeps all changes from then on for the standby.
func (s *Source) Copy(ctx context.Context, request []byte, to io.Writer) error {
	w := newMessageWriter(to)
	if err := s.copy(ctx, request, w); err != nil {
		return s.refuse(w, err)
	}
	return w.flush()
}

func (s *Source) copy(ctx context.Context, request []byte, w *messageWriter) (err error) {
	var in copyRequest
	database, err := s.check(ctx, request, &in)
	if err != nil {
		return err
	}
	if err := checkFormat(in.Format); err != nil {
		return err
	}
	if in.Database != "" { // it has a copy
		if in.Database != database {
			return otherDatabase()
		}
		if err := s.checkHistory(in.Run, in.From); err != nil {
			return err
		}
	}
	if a := s.Engine.Attached(); isBusy(a) && (!strings.HasPrefix(a.Slot, in.Standby+".") || s.processes.isReplaced(in.Process)) {
		return anotherFollows()
	}
	s.processes.answer(in.Process)
	slot := in.Standby + "." + newID()
	snap, start, consistent, err := s.Engine.Attach(ctx, slot)
	if err != nil {
		return err
	}
	defer snap.Close()
	complete := false
	defer func() {
		if !complete { // nothing is kept for a standby without a copy
			err = errors.Join(err, s.Engine.Detach(context.WithoutCancel(ctx), slot))
		}
	}()
	w.json(messageBegin, copyBegin{Slot: slot, Database: database, Run: s.Engine.Run(), Start: start})
	pairs, err := s.sendPairs(ctx, snap, func() error { return s.Engine.KeepSlot(slot) }, w)
	if err != nil {
		return err
	}
	w.json(messageEnd, copyEnd{Pairs: pairs, Consistent: consistent})
	err = w.flush()
	complete = err == nil
	return err
}

// sendPairs sends all pairs of a snapshot, as long as keep returns no error: it records that the
// standby still reads its copy. A scan may find no keys for minutes, if many were deleted, so the
// standby is sent empty messages meanwhile.
func (s *Source) sendPairs(ctx context.Context, snap store.Snapshot, keep func() error, w *messageWriter) (pairs int64, err error) {
	defer every(aliveInterval, func() {
		_ = w.write(messagePairs, nil) // flush returns its error
		w.send()
		_ = keep() // after the next pairs, its error ends the copy
	})()
	var block []byte
	for p, err := range snap.Scan(ctx, store.Range{}) {
		if err != nil {
			return 0, err
		}
		block = append(binary.AppendUvarint(block, uint64(len(p.Key))), p.Key...)
		block = append(binary.AppendUvarint(block, uint64(len(p.Value))), p.Value...)
		pairs++
		if len(block) >= pairsBytes {
			if err := w.write(messagePairs, block); err != nil {
				return 0, err
			}
			block = block[:0]
			if err := keep(); err != nil {
				return 0, err
			}
		}
	}
	if len(block) > 0 {
		_ = w.write(messagePairs, block) // flush returns its error
	}
	return pairs, nil
}

// every calls fn at an interval until stop is called, which returns when fn does not run any more. A
// panic of fn is passed on by stop.
func every(interval time.Duration, fn func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var bug any
	running.Go(func() {
		defer func() { bug = recover() }()
		for lead.Wait(ctx, interval); ctx.Err() == nil; lead.Wait(ctx, interval) {
			fn()
		}
	})
	return func() {
		cancel()
		running.Wait()
		if bug != nil {
			panic(bug)
		}
	}
}

// Changes writes changes that the standby does not have.
func (s *Source) Changes(ctx context.Context, request []byte, to io.Writer) error {
	w := newMessageWriter(to)
	if err := s.changes(ctx, request, w); err != nil {
		return s.refuse(w, err)
	}
	return w.flush()
}

func (s *Source) changes(ctx context.Context, request []byte, w *messageWriter) error {
	var in changesRequest
	database, err := s.check(ctx, request, &in)
	if err != nil {
		return err
	}
	if err := checkFormat(in.Format); err != nil {
		return err
	}
	if in.Database != database {
		return otherDatabase()
	}
	if err := s.checkHistory(in.Run, in.From); err != nil {
		return err
	}
	if err := s.checkLast(in.Slot, in.Last); err != nil {
		return err
	}
	a := s.Engine.Attached()
	if isBusy(a) && s.processes.isReplaced(in.Process) {
		return anotherFollows()
	}
	if a.Slot == in.Slot { // otherwise there are no changes for it
		s.processes.answer(in.Process)
	}
	newest, err := s.Engine.Returned()
	if err != nil {
		return err
	}
	changes, next, horizon, err := s.Engine.Changes(ctx, in.Slot, in.From, replyBytes, replyWait)
	if err != nil {
		return err
	}
	left := s.Engine.Attached().Bytes
	for _, c := range changes {
		left -= int64(len(c.Edits))
		_ = w.write(messageChange, append(binary.BigEndian.AppendUint64(nil, uint64(c.Stamp)), c.Edits...)) // flush returns its error
	}
	w.json(messageEnd, changesEnd{Changes: len(changes), Next: next, Horizon: horizon, Newest: newest, Left: leftOf(left, next, horizon), Run: s.Engine.Run()})
	return nil
}

// check decodes a request and returns the id of the database.
func (s *Source) check(ctx context.Context, request []byte, in any) (database string, err error) {
	if s == nil || s.Engine == nil {
		return "", &refusal{codeUnsupported, "this server cannot have a standby: its data is not in a folder of its own"}
	}
	if err := json.Unmarshal(request, in); err != nil {
		return "", &refusal{codeUnsupported, "the request cannot be decoded: " + err.Error()}
	}
	return s.databaseID(ctx)
}

// databaseID returns the id of the database, which changes only when a standby is promoted,
// before it has a Source. Database may run an Update, so it is called once.
func (s *Source) databaseID(ctx context.Context) (string, error) {
	if id := s.database.Load(); id != nil {
		return *id, nil
	}
	id, err := s.Database(ctx)
	if err != nil {
		return "", err
	}
	s.database.Store(&id)
	return id, nil
}

// checkHistory rejects a standby that has changes which this server does not have: the
// server's data was replaced by an older state of it. Following it would mix the two, and
// copying it would remove those changes. run is the run of the server that sent the newest
// changes to the standby.
func (s *Source) checkHistory(run string, from store.Stamp) error {
	if end, ok := s.Engine.RunEnd(run); !ok || from > end {
		return otherHistory()
	}
	return nil
}

// checkLast is checkHistory for an older state of a run that the standby has read from, in which the
// stamps of the run seem to be those of the standby: a second has not passed since, or the clock was
// set back. last is the stamp of the newest change that the standby has, 0 if it has none.
func (s *Source) checkLast(slot string, last store.Stamp) error {
	if last == 0 {
		return nil
	}
	has, err := s.Engine.HasChange(slot, last)
	if err == nil && !has {
		return otherHistory()
	}
	return err
}

func otherHistory() error {
	return &refusal{codeOtherHistory, "this standby has changes that the server does not have, whose data is an older state; to copy it, start a standby with an empty data folder"}
}

// isBusy reports whether a standby has followed a moment ago.
func isBusy(a pebble.Attachment) bool { return a.Slot != "" && time.Since(a.LastRead) < busyTime }

func anotherFollows() error {
	return &refusal{codeBusy, "another standby follows this server, or another process that has a copy of this standby's data folder; only one can"}
}

func checkFormat(got int) error {
	if got == format {
		return nil
	}
	return &refusal{codeUnsupported, fmt.Sprintf("the standby uses format %d, and this server format %d: run the same version on both", got, format)}
}

func otherDatabase() error {
	return &refusal{codeOtherDatabase, "the server has another database than the one that this standby has a copy of, or one that was promoted since; to copy it, start a standby with an empty data folder"}
}

// refuse sends why a request cannot be answered. If the reason is not one for the
// standby, it returns it.
func (s *Source) refuse(w *messageWriter, err error) error {
	refused := new(refusal)
	switch {
	case errors.As(err, &refused):
	case errors.Is(err, pebble.ErrNoSlot):
		refused = &refusal{codeNoSlot, err.Error()}
	case errors.Is(err, pebble.ErrNotDurable), errors.Is(err, pebble.ErrNoSpace):
		refused = &refusal{codeUnsupported, err.Error()}
	default:
		return err
	}
	w.json(messageRefused, refused)
	return w.flush()
}

// leftOf returns the bytes that were not sent. Their count is approximate, so it is 0 if all
// changes were sent.
func leftOf(bytes int64, next, horizon store.Stamp) int64 {
	if next == horizon {
		return 0
	}
	return max(1, bytes)
}

// Metrics returns the lag of the standby.
func (s *Source) Metrics() []metrics.Metric {
	a := s.Engine.Attached()
	var attached, lagSeconds float64
	if a.Slot != "" {
		attached = 1
		if !a.Fresh.IsZero() {
			lagSeconds = time.Since(a.Fresh).Seconds()
		} else {
			lagSeconds = math.Inf(1) // the standby has not asked since the start
		}
	}
	return []metrics.Metric{
		{Name: "stator_standby_attached", Help: "Whether changes are kept for a standby.", Type: metrics.Gauge, Samples: metrics.Value(attached)},
		{Name: "stator_standby_lag_seconds", Help: "Since when the standby may lack changes; 0 without a standby, +Inf if it has not asked since the start.", Type: metrics.Gauge, Samples: metrics.Value(lagSeconds)},
		{Name: "stator_standby_lag_bytes", Help: "Changes that the standby is not known to have.", Type: metrics.Gauge, Samples: metrics.Value(float64(a.Bytes))},
	}
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
