package standby

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/commit"
)

// copy makes a copy of all data in a new folder, which replaces the old one once it can be
// promoted. before is the state of the old one, or nil.
func (f *Follower) copy(ctx context.Context, before *state) error {
	in := copyRequest{Format: format, Standby: f.id, Process: f.id}
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
		lead.Wait(ctx, retry)
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
	if err := pebble.SyncDir(filepath.Dir(f.o.Engine.Dir)); err != nil {
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
