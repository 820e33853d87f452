package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// byName returns the triggers in the order of their names.
func (s *Set) byName() []*trigger {
	if s == nil {
		return nil
	}
	return slices.SortedFunc(slices.Values(s.all), func(a, b *trigger) int { return cmp.Compare(a.Name, b.Name) })
}

// Table returns the table of a trigger.
func (s *Set) Table(name string) (table string, ok bool) {
	for _, t := range s.byName() {
		if t.Name == name {
			return t.Table, true
		}
	}
	return "", false
}

// withDeadLetters returns a trigger that has a dead-letter file.
func (s *Set) withDeadLetters(name string) (*trigger, error) {
	for _, t := range s.byName() {
		switch {
		case t.Name != name:
		case t.dead == nil:
			return nil, apierror.Validation("Trigger %s has no dead-letter file: it retries each record until it is delivered", name)
		default:
			return t, nil
		}
	}
	return nil, apierror.NoTriggerNamed(name)
}

// owner returns the owner of the trigger's dead letters.
func (t *trigger) owner() letterOwner { return letterOwner{t.Name, t.Table} }

const (
	// letterPage is the size at which a page of dead letters ends.
	letterPage = 1 << 20
	// letterScan is how much of a dead-letter file a request reads at most for a page.
	letterScan = 16 << 20
)

// DeadLetters returns a page of the dead letters of a trigger, and the token of the next page.
func (s *Set) DeadLetters(_ context.Context, name, token string, limit int) (page []api.DeadLetter, next string, err error) {
	t, err := s.withDeadLetters(name)
	if err != nil {
		return nil, "", err
	}
	at, err := t.dead.offset(token)
	if err != nil {
		return nil, "", err
	}
	page = []api.DeadLetter{}
	size := 0
	at, ended, err := t.dead.scan(at, letterScan, func(l *storedLetter) (more bool) {
		if !l.decode(t.owner()) {
			return true
		}
		page = append(page, api.DeadLetter{
			DeadLetterId: l.id(), GivenUpAt: api.TimeOf(l.Time), Condition: l.Reason, Attempts: l.Attempts, Error: l.Error, Record: string(l.Record),
		})
		size += len(l.Record)
		return len(page) < limit && size < letterPage
	})
	if err != nil || ended {
		return page, "", err
	}
	return page, t.dead.token(at), nil
}

const (
	// replayTime is after how long a replay begins no further record.
	replayTime = 10 * time.Second
	// maxReplayed bounds the records of one replay.
	maxReplayed = 10_000
	// maxRejected is how many records in a row may be rejected before a replay ends.
	maxRejected = 10
	// maxFailuresShown is how many failures a reply has.
	maxFailuresShown = 100
)

// Replay posts dead letters of a trigger again, each by itself, and removes those that the endpoint
// accepts.
func (s *Set) Replay(ctx context.Context, in *api.ReplayDeadLetters) (*api.ReplayDeadLettersReply, error) {
	t, err := s.withDeadLetters(*in.TriggerName)
	if err != nil {
		return nil, err
	}
	if !t.dead.replaying.TryLock() {
		return nil, apierror.InUse("Dead letters of the file of trigger %s are being replayed. Wait until that is complete", t.Name)
	}
	defer t.dead.replaying.Unlock()
	if err := t.dead.checkPlace(); err != nil {
		return nil, err
	}
	r := &replay{trigger: t, until: time.Now().Add(replayTime), accepted: make(map[string]bool), reply: &api.ReplayDeadLettersReply{Failed: []api.FailedReplay{}}}
	token := ""
	if in.NextToken != nil {
		token = *in.NextToken
	}
	if r.at, err = t.dead.offset(token); err != nil {
		return nil, err
	}
	if in.All == nil || !*in.All {
		r.wanted = make(map[string]bool)
		for _, id := range in.DeadLetterIds {
			r.wanted[id] = true
		}
	}
	err = r.run(ctx)
	if len(r.accepted) > 0 {
		// Also after an error: the endpoint has these records.
		at, removeErr := t.dead.remove(r.accepted, r.at)
		if removeErr != nil {
			return nil, errors.Join(err, fmt.Errorf("%d dead letters of trigger %s were delivered, but remain in %s: %w", len(r.accepted), t.Name, t.DeadLetter, removeErr))
		}
		r.at = at
		t.log.Info("dead letters were replayed", "records", r.reply.Replayed, "rejected", r.reply.Rejected, "file", t.DeadLetter)
	}
	if err != nil {
		return nil, err
	}
	left := slices.Sorted(maps.Keys(r.wanted))
	switch {
	case r.ended:
		r.reply.NotFound = left
	case r.wanted != nil:
		r.reply.NotTried = left
	default:
		r.reply.NextToken = t.dead.token(r.at)
	}
	return r.reply, nil
}

// replay is one replay of dead letters.
type replay struct {
	*trigger
	until    time.Time       // of the system, as a client waits: the clock of the database may be one for tests
	wanted   map[string]bool // ids that were not found yet; nil for all
	accepted map[string]bool // ids that the endpoint has accepted
	at       int64           // offset after the letters that were handled
	ended    bool            // all were handled
	inARow   int             // letters that were rejected one after the other
	reply    *api.ReplayDeadLettersReply
}

// run replays letters until it has reached a limit or the end of the file.
func (r *replay) run(ctx context.Context) error {
	for !r.ended && !r.isOver(ctx) {
		if r.wanted != nil && len(r.wanted) == 0 {
			r.ended = true
			return nil
		}
		// A part is read before its letters are posted: the file is not locked meanwhile.
		var letters []storedLetter
		size, from := 0, r.at
		next, ended, err := r.dead.scan(from, letterScan, func(l *storedLetter) bool {
			if id := l.id(); l.decode(r.owner()) && (r.wanted == nil || r.wanted[id]) { // the id, while the line is there
				letters = append(letters, *l)
				size += len(l.Record)
			}
			return size < letterPage
		})
		if err != nil {
			return err
		}
		for i := range letters {
			if r.isOver(ctx) {
				return nil // the others remain
			}
			r.one(ctx, &letters[i])
			r.at = letters[i].end
		}
		r.at, r.ended = next, ended
	}
	return nil
}

func (r *replay) isOver(ctx context.Context) bool {
	return ctx.Err() != nil || r.inARow >= maxRejected || len(r.accepted) >= maxReplayed || !time.Now().Before(r.until)
}

// one replays one letter. A line that repeats another is not posted again.
func (r *replay) one(ctx context.Context, l *storedLetter) {
	id := l.id()
	delete(r.wanted, id)
	if r.accepted[id] {
		return
	}
	record := &pendingRecord{text: l.Record, at: positionOf(l.Record)}
	if _, err := r.post(ctx, []*pendingRecord{record}); err != nil {
		r.inARow++
		r.reply.Rejected++
		if len(r.reply.Failed) < maxFailuresShown {
			r.reply.Failed = append(r.reply.Failed, api.FailedReplay{DeadLetterId: id, Error: err.Error()})
		}
		return
	}
	r.inARow = 0
	r.reply.Replayed++
	r.accepted[id] = true
}

// positionOf returns the position of a record, by which a reply names it.
func positionOf(record []byte) stream.Position {
	var in struct {
		Dynamodb struct{ SequenceNumber string } `json:"dynamodb"`
	}
	if json.Unmarshal(record, &in) != nil {
		return stream.Position{}
	}
	at, _ := stream.ParseSequence(strings.TrimSpace(in.Dynamodb.SequenceNumber))
	return at
}
