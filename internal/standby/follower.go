package standby

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/commit"
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
	id   string // of this process, and of a standby without a copy
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

	last *Status // when the following ended, once it is promoted
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

// errCopiesAgain is the error of a standby with a copy that makes another.
var errCopiesAgain = errors.New("the server no longer has the changes for this standby: copying everything again")

// errPromoted is the error of a standby that was promoted.
var errPromoted = errors.New("it was promoted, and does not follow any more")

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
			lead.Wait(ctx, beforeCopy)
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
		lead.Wait(ctx, retry)
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
		f.o.Log.Error(errCopiesAgain.Error(), "of", f.o.Of)
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
	err = f.request(ctx, TargetChanges, s.changesRequest(f.id), func(r *messageReader) (err error) {
		changes, end, err = readChanges(r, s.Position)
		return err
	})
	if err != nil {
		return nil, end, err
	}
	if err := e.Healthy(ctx); err != nil { // also without changes to apply
		return nil, end, err
	}
	now := *fresh
	now.Observe(sent, end.Newest, end.Next)
	next := s.after(changes, end)
	next.Fresh = now.Known()
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
	last := f.Status()
	if err := e.EndStandby(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.last = &last
	f.mu.Unlock()
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
