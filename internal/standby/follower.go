package standby

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/commit"
)

// Targets of the requests that a standby sends.
const (
	TargetCopy    = "Stator.Copy"
	TargetChanges = "Stator.Changes"
)

// Options configure a Follower.
type Options struct {
	Of     string // URL of the server that it follows
	Engine pebble.Options
	Sign   func(r *http.Request, body []byte) error // signs a request
	Client *http.Client
	Log    *slog.Logger
}

// Follower copies the data of a server and follows its changes, until it is promoted.
type Follower struct {
	o    Options
	id   string // of a standby without a copy
	stop context.CancelFunc
	done chan struct{} // closed when run has returned

	// These are used by run only.
	begun  bool        // the server has begun to send a copy
	folder dirIdentity // of the engine

	mu       sync.Mutex     // not held over I/O: the status is read at any time
	engine   *pebble.Engine // nil until there is a copy
	state    *state         // of the engine
	copied   int64          // pairs of the copy in progress; -1 if none is
	fresh    commit.Freshness
	caught   bool        // it has had all changes up to a horizon since its last copy
	horizon  store.Stamp // of the server, as last heard
	left     int64       // bytes of the changes up to it that are not applied, approximately
	reached  store.Stamp // all changes of the server before are applied
	lastErr  error
	needCopy bool

	replacing bool // a new copy replaces the data, and neither is open yet
}

const (
	firstRetry   = 200 * time.Millisecond
	lastRetry    = 5 * time.Second
	lastCopy     = 5 * time.Minute  // before a copy, if the standby has not caught up after the last ones
	stallTimeout = 30 * time.Second // for the next bytes of a reply
	// idleSave is how far the position may move without changes before it is stored.
	idleSave = 30 * time.Second
)

// errNotHeard is the error of a standby until its server answers.
var errNotHeard = errors.New("the server has not answered yet")

// Open opens the data of a standby, or begins with none, and starts to follow.
func Open(ctx context.Context, o Options) (_ *Follower, err error) {
	if o.Engine.Dir, err = resolveDir(o.Engine.Dir); err != nil {
		return nil, err
	}
	engine, s, err := openDir(o.Engine)
	if err != nil {
		return nil, err
	}
	f := &Follower{o: o, id: newID(), folder: identityOf(o.Engine.Dir), engine: engine, state: s, copied: -1, lastErr: errNotHeard}
	if s != nil {
		f.fresh = commit.FreshSince(s.Fresh)
	}
	f.start(ctx)
	return f, nil
}

// start starts to follow.
func (f *Follower) start(ctx context.Context) {
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	f.done = done
	go func() {
		defer close(done)
		f.run(ctx)
	}()
}

// run copies and follows until the context ends.
func (f *Follower) run(ctx context.Context) {
	retry, beforeCopy := firstRetry, time.Duration(0)
	for ctx.Err() == nil {
		if f.needsCopy() {
			lead.Wait(ctx, nil, beforeCopy)
		}
		f.begun = false
		err := f.step(ctx)
		if ctx.Err() != nil {
			return
		}
		f.report(err)
		switch {
		case f.begun: // a copy that is made again and again is a load for the server
			beforeCopy = min(max(2*beforeCopy, firstRetry), lastCopy)
		case f.caughtUp():
			beforeCopy = 0
		}
		if err == nil {
			retry = firstRetry
			continue
		}
		lead.Wait(ctx, nil, retry)
		retry = min(2*retry, lastRetry)
	}
}

// needsCopy reports whether the next step is a copy.
func (f *Follower) needsCopy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.replacing && (f.needCopy || f.engine == nil)
}

// caughtUp reports whether the standby had all changes at some time since its last copy.
func (f *Follower) caughtUp() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.needCopy && f.caught
}

// step makes a copy if there is none, or applies the next changes. If the last step could not open
// the data, it does so first.
func (f *Follower) step(ctx context.Context) error {
	f.mu.Lock()
	s, closed := f.state, f.replacing
	f.mu.Unlock()
	if closed {
		return f.reopen()
	}
	if f.needsCopy() {
		return f.copy(ctx, s)
	}
	err := f.follow(ctx, s)
	if refused := new(refusal); errors.As(err, &refused) && refused.Code == codeNoSlot {
		f.o.Log.Error("the server no longer has the changes for this standby: copying everything again", "of", f.o.Of)
		f.mu.Lock()
		f.needCopy = true
		f.mu.Unlock()
		return nil
	}
	return err
}

// report keeps the error of a step, and logs it if it is another than before.
func (f *Follower) report(err error) {
	f.mu.Lock()
	before := f.lastErr
	f.lastErr = err
	f.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		f.o.Log.Error("the standby cannot follow its server; retrying", "of", f.o.Of, "error", err)
	case err == nil && before != nil:
		f.o.Log.Info("the server answers the standby", "of", f.o.Of)
	}
}

// request sends a request, and passes its reply to read. It gives up when no bytes
// arrive for a while.
func (f *Follower) request(ctx context.Context, target string, content any, read func(*messageReader) error) error {
	body, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("a request of a standby cannot be encoded as JSON: %v", err))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("the server has sent nothing for %s", stallTimeout)) })
	defer stalled.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.o.Of, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if err := f.o.Sign(r, body); err != nil {
		return err
	}
	reply, err := f.o.Client.Do(r)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<10))
		return fmt.Errorf("the server answers %s: %s", reply.Status, bytes.TrimSpace(text))
	}
	in := bufio.NewReaderSize(&timedReader{reply.Body, stalled}, 64<<10)
	err = read(&messageReader{in})
	if err == nil {
		err = readEnd(in) // without it, the connection is not used again
	}
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// readEnd returns an error unless a reply ends here.
func readEnd(in io.Reader) error {
	switch _, err := io.ReadFull(in, make([]byte, 1)); {
	case err == nil:
		return fmt.Errorf("%w: it has more than its last message", errIncomplete)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
}

// timedReader runs a timer while it waits for bytes.
type timedReader struct {
	io.Reader
	timer *time.Timer
}

func (r *timedReader) Read(b []byte) (int, error) {
	r.timer.Reset(stallTimeout)
	defer r.timer.Stop()
	return r.Reader.Read(b)
}

// follow asks for changes once, and applies them.
func (f *Follower) follow(ctx context.Context, s *state) error {
	fresh := f.fresh // only run changes it
	next, end, err := f.applyNext(ctx, f.engine, s, &fresh)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.horizon, f.reached = next, end.Horizon, end.Next
	f.left, f.fresh = end.Left, fresh
	if end.Next == end.Horizon {
		f.caught = true
	}
	return nil
}

// applyNext asks for the changes that follow the state of an engine, and applies them to it.
// It returns the state that is stored then, and raises fresh.
func (f *Follower) applyNext(ctx context.Context, e *pebble.Engine, s *state, fresh *commit.Freshness) (_ *state, end changesEnd, err error) {
	sent := time.Now()
	var changes []pebble.Change
	in := changesRequest{Format: format, Slot: s.Slot, Database: s.Database, Run: s.Run, From: s.Position}
	err = f.request(ctx, TargetChanges, in, func(r *messageReader) (err error) {
		changes, end, err = readChanges(r, s.Position)
		return err
	})
	if err != nil {
		return nil, end, err
	}
	now := *fresh
	now.Observe(sent, end.Newest, end.Next)
	next := *s
	next.Position, next.Run, next.Fresh = end.Next, end.Run, now.Known()
	if len(changes) > 0 || next.Run != s.Run || end.Next.Time().Sub(s.Position.Time()) > idleSave || s.Position < s.Consistent && end.Next >= s.Consistent {
		if err := e.Apply(ctx, changes, end.Next, next.encode()); err != nil {
			return nil, end, err
		}
		s = &next // without changes, nothing is sent again if it is not stored
	}
	*fresh = now
	return s, end, nil
}

// readChanges reads the reply to a request for changes from a position on.
func readChanges(r *messageReader, from store.Stamp) (changes []pebble.Change, end changesEnd, err error) {
	last, size := from, 0
	for {
		kind, content, err := r.next()
		size += len(content)
		switch {
		case err != nil:
			return nil, end, err
		case size > replyBytes+maxMessageBytes:
			return nil, end, fmt.Errorf("%w: it is too large", errIncomplete)
		case kind == messageEnd:
			err := decodeMessage(content, &end)
			if err == nil && (end.Changes != len(changes) || end.Next < last || end.Next > end.Horizon) {
				err = fmt.Errorf("%w: it has %d changes of %d", errIncomplete, len(changes), end.Changes)
			}
			return changes, end, err
		case kind != messageChange || len(content) < 8:
			return nil, end, fmt.Errorf("%w: a message of kind %q", errIncomplete, kind)
		}
		stamp := store.Stamp(binary.BigEndian.Uint64(content))
		if stamp < last {
			return nil, end, fmt.Errorf("%w: its changes are not in order", errIncomplete)
		}
		changes, last = append(changes, pebble.Change{Stamp: stamp, Edits: content[8:]}), stamp+1
	}
}

// copy makes a copy of all data in a new folder, which replaces the old one once it can be
// promoted. before is the state of the old one, or nil.
func (f *Follower) copy(ctx context.Context, before *state) error {
	in := copyRequest{Format: format, Standby: f.id}
	if before != nil {
		in.Standby, in.Database, in.Run, in.From = before.Standby, before.Database, before.Run, before.Position
	}
	part := f.o.Engine
	part.Dir += partSuffix
	if err := errors.Join(removeOwn(part.Dir), removeOwn(f.o.Engine.Dir+oldSuffix)); err != nil {
		return err
	}
	f.setCopied(0)
	defer f.setCopied(-1)
	began := time.Now()
	var e *pebble.Engine
	err := f.request(ctx, TargetCopy, in, func(r *messageReader) (err error) {
		e, err = f.receive(ctx, r, part, in.Standby, began)
		return err
	})
	received := err == nil
	if received {
		err = f.catchUp(ctx, e)
	}
	if e != nil {
		err = errors.Join(err, e.Close())
	}
	if err != nil && received && before == nil && ctx.Err() != nil {
		return err // the next start continues with it
	}
	if err != nil {
		return errors.Join(err, removeOwn(part.Dir))
	}
	if err := f.replace(part.Dir); err != nil {
		return err
	}
	f.o.Log.Info("the standby has a copy of all data, and follows the changes", "of", f.o.Of, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// catchUp applies changes to a new copy until it can be promoted.
func (f *Follower) catchUp(ctx context.Context, e *pebble.Engine) error {
	s, err := readState(e)
	if err != nil {
		return err
	}
	fresh, retry := commit.FreshSince(s.Fresh), firstRetry
	for s.Position < s.Consistent {
		next, _, err := f.applyNext(ctx, e, s, &fresh)
		if ctx.Err() != nil || errors.As(err, new(*refusal)) {
			return errors.Join(err, ctx.Err())
		}
		f.report(err)
		if err == nil {
			s, retry = next, firstRetry
			continue
		}
		lead.Wait(ctx, nil, retry)
		retry = min(2*retry, lastRetry)
	}
	return nil
}

// receive writes a copy that was requested at a time into a new folder. The caller closes the
// engine, if it is not nil.
func (f *Follower) receive(ctx context.Context, r *messageReader, o pebble.Options, standby string, requested time.Time) (*pebble.Engine, error) {
	var begin copyBegin
	if err := r.nextJSON(messageBegin, &begin); err != nil {
		return nil, err
	}
	f.begun = true
	// Stamps continue those of the server, also if the clock of the standby is ahead.
	o.Now = begin.Start.Time
	if err := createOwn(o.Dir); err != nil {
		return nil, err
	}
	e, err := pebble.Open(o)
	if err != nil {
		return nil, err
	}
	var end copyEnd
	return e, e.Load(ctx, f.pairs(r, &end), begin.Start, func(complete bool) []byte {
		s := state{Format: format, Standby: standby, Of: f.o.Of, Loading: true}
		if complete {
			s = state{Format: format, Standby: standby, Of: f.o.Of, Slot: begin.Slot, Database: begin.Database, Run: begin.Run, Position: begin.Start, Consistent: end.Consistent, Fresh: requested}
		}
		return s.encode()
	})
}

// pairs reads the pairs of a copy, and its end.
func (f *Follower) pairs(r *messageReader, end *copyEnd) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		count := int64(0)
		for {
			kind, content, err := r.next()
			switch {
			case err != nil:
			case kind == messageEnd:
				if err = decodeMessage(content, end); err == nil && end.Pairs != count {
					err = fmt.Errorf("%w: it has %d pairs of %d", errIncomplete, count, end.Pairs)
				}
				if err == nil {
					return
				}
			case kind != messagePairs:
				err = fmt.Errorf("%w: a message of kind %q", errIncomplete, kind)
			}
			for err == nil && len(content) > 0 {
				var p store.Pair
				if p, content, err = cutPair(content); err == nil {
					count++
					if !yield(p, nil) {
						return
					}
				}
			}
			if err != nil {
				yield(store.Pair{}, err)
				return
			}
			f.setCopied(count)
		}
	}
}

// cutPair takes a pair from the content of a message.
func cutPair(b []byte) (p store.Pair, rest []byte, err error) {
	for _, into := range []*[]byte{&p.Key, &p.Value} {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width) {
			return p, nil, fmt.Errorf("%w: a pair cannot be decoded", errIncomplete)
		}
		*into, b = b[width:width+int(n)], b[width+int(n):]
	}
	if len(p.Key) == 0 || p.Key[0] == store.Reserved {
		return p, nil, fmt.Errorf("%w: a pair has the key %x", errIncomplete, p.Key)
	}
	return p, b, nil
}

func (f *Follower) setCopied(pairs int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copied = pairs
}

// replace replaces the data by a copy that can be promoted. If the folder cannot be replaced, it
// opens the old copy again and returns the error.
func (f *Follower) replace(part string) error {
	f.mu.Lock()
	old := f.engine
	f.engine, f.replacing = nil, true // the state stays: no other database may replace this one
	f.mu.Unlock()
	isOwn := false
	if old != nil {
		isOwn = f.folder.isAt(f.o.Engine.Dir) // otherwise it was removed, or replaced by another
		if err := old.Close(); err != nil {
			f.o.Log.Error("the old copy of the standby cannot be closed", "error", err)
		}
	}
	copied := identityOf(part)
	err := replaceDir(part, f.o.Engine.Dir, isOwn)
	replaced := copied.isAt(f.o.Engine.Dir) // also if the rename could not be synced
	f.mu.Lock()
	if replaced {
		f.needCopy, f.caught = false, false
		f.reached, f.horizon, f.left = 0, 0, 0
	}
	f.replacing = replaced || isOwn
	f.mu.Unlock()
	if replaced || isOwn {
		err = errors.Join(err, f.reopen())
	}
	return err
}

// reopen opens the data after a copy. It can be called again after an error: the folder has a copy
// that can be promoted.
func (f *Follower) reopen() error {
	if err := syncFolder(filepath.Dir(f.o.Engine.Dir)); err != nil {
		return err
	}
	e, s, err := openDir(f.o.Engine)
	if err != nil {
		return err
	}
	f.folder = identityOf(f.o.Engine.Dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engine, f.replacing = e, false
	if s != nil {
		f.state, f.fresh = s, commit.FreshSince(s.Fresh)
	}
	return nil
}

// Status is what a standby does. The field names are part of the API and must not
// change.
type Status struct {
	Of string `json:"of"`
	// State is COPYING until there is a copy that can be promoted, FOLLOWING while
	// the server answers, and DISCONNECTED while it does not.
	State      string  `json:"state"`
	Copied     int64   `json:"copied,omitempty"`     // keys of the copy in progress
	Position   uint64  `json:"position"`             // the stamp up to which the changes are applied
	Server     uint64  `json:"serverPosition"`       // the stamp up to which the server had changes, as last heard
	LagStamps  uint64  `json:"lagStamps"`            // the difference
	LagBytes   int64   `json:"lagBytes"`             // of the changes between the two, approximately
	LagSeconds float64 `json:"lagSeconds,omitempty"` // since the standby had all changes that the server had acknowledged, as far as it knows
	LagUnknown bool    `json:"lagUnknown,omitempty"` // LagSeconds is not known: the clock was set back while the standby was stopped
	Error      string  `json:"error,omitempty"`
}

// The states of a standby.
const (
	Copying      = "COPYING"
	Following    = "FOLLOWING"
	Disconnected = "DISCONNECTED"
)

// Status returns what the standby does.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Status{Of: f.o.Of, State: Following, Copied: max(0, f.copied), Position: uint64(f.reached), Server: uint64(f.horizon), LagStamps: uint64(f.horizon - f.reached), LagBytes: f.left}
	if f.state != nil && f.reached < f.state.Position {
		s.Position = uint64(f.state.Position) // it has not heard from the server yet
	}
	if f.lastErr != nil {
		s.State, s.Error = Disconnected, f.lastErr.Error()
	}
	if f.promotable() {
		s.LagSeconds, s.LagUnknown = lagSince(f.fresh.Known(), time.Now())
	} else {
		s.State = Copying
	}
	return s
}

// lagSince returns the seconds since the standby had everything. That time may be one of the wall
// clock, from before a restart, and the clock may have been set back since.
func lagSince(fresh, now time.Time) (seconds float64, unknown bool) {
	if fresh.IsZero() || fresh.After(now) {
		return 0, true
	}
	return now.Sub(fresh).Seconds(), false
}

// promotable reports whether the data is a state that the server had. The caller holds
// mu.
func (f *Follower) promotable() bool {
	return (f.engine != nil || f.replacing) && f.state != nil && f.state.Position >= f.state.Consistent
}

// Metrics returns the lag.
func (f *Follower) Metrics() []metrics.Metric {
	s := f.Status()
	following, lagSeconds := 0.0, s.LagSeconds
	if s.State == Following {
		following = 1
	}
	if s.State == Copying || s.LagUnknown { // it has nothing that could be promoted, or it may lack anything
		lagSeconds = math.Inf(1)
	}
	return []metrics.Metric{
		{Name: "stator_standby_following", Help: "Whether this standby has a copy and its server answers.", Type: metrics.Gauge, Samples: metrics.Value(following)},
		{Name: "stator_standby_lag_seconds", Help: "Since when the standby may lack changes; +Inf until it has a copy, and if it is unknown.", Type: metrics.Gauge, Samples: metrics.Value(lagSeconds)},
		{Name: "stator_standby_lag_bytes", Help: "Changes of the server that the standby knows of and does not have.", Type: metrics.Gauge, Samples: metrics.Value(float64(s.LagBytes))},
	}
}

// ErrNoCopy is returned when a standby without a complete copy is to be promoted.
var ErrNoCopy = errors.New("the standby has no complete copy yet")

// Promote ends the following for ever, and returns the engine, which is from now on
// like that of any server.
func (f *Follower) Promote() (*pebble.Engine, error) {
	f.mu.Lock()
	ok := f.promotable() || f.replacing
	f.mu.Unlock()
	if !ok {
		return nil, ErrNoCopy
	}
	f.stop()
	<-f.done
	e, err := f.end()
	if err != nil {
		f.start(context.Background()) // it remains a standby
	}
	return e, err
}

// end makes the engine that of a server, if it can be promoted. run has returned.
func (f *Follower) end() (*pebble.Engine, error) {
	f.mu.Lock()
	closed := f.replacing
	f.mu.Unlock()
	if closed {
		if err := f.reopen(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	e, ok := f.engine, f.promotable()
	f.mu.Unlock()
	if !ok { // a new copy could not replace it
		return nil, ErrNoCopy
	}
	if err := e.EndStandby(); err != nil {
		return nil, err
	}
	if err := unmark(f.o.Engine.Dir); err != nil {
		f.o.Log.Error("the folder of the promoted data is still marked as a standby's: remove the file", "file", filepath.Join(f.o.Engine.Dir, ownName), "error", err)
	}
	f.takeEngine()
	return e, nil
}

// takeEngine returns the engine, which the caller closes, or nil.
func (f *Follower) takeEngine() *pebble.Engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.engine
	f.engine = nil
	return e
}

// Close stops following. After Promote it does nothing.
func (f *Follower) Close() error {
	f.stop()
	<-f.done
	if e := f.takeEngine(); e != nil {
		return e.Close()
	}
	return nil
}
