// Package past reads items and their past, and plans undos, by the API of a server.
package past

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/apply"
)

// ParseTime reads a time: RFC 3339, a date with a time of this machine's zone, seconds
// since 1970, or how long ago it was. Empty is the zero time. Errors name the flag or the
// argument.
func ParseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(n, 0), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is %q, but must be a time such as 2026-11-18T14:03:07Z, 1794924187, or 5m for five minutes ago", flag, text)
}

// TimeText returns a time of a reply as text.
func TimeText(seconds float64) string {
	return time.UnixMilli(int64(seconds*1000 + 0.5)).UTC().Format("2006-01-02T15:04:05.000Z")
}

// readAgain is how long Send waits before it repeats a request that the server was too busy
// for.
const readAgain = 200 * time.Millisecond

// Send sends a request to the past, again and again while the server has not read all
// changes. Progress is called with the message of the server.
func Send(ctx context.Context, sendOwn apply.Send, operation string, body any, progress func(message string)) ([]byte, error) {
	for {
		reply, err := sendOwn(ctx, operation, body)
		fault, ok := errors.AsType[*apierror.Error](err)
		if !ok || fault.Code != apierror.PastNotRead("").Code {
			return reply, err
		}
		progress(fault.Message)
		if err := apply.Sleep(ctx, readAgain); err != nil {
			return nil, err
		}
	}
}

// Revision is a change in the reply of an ItemHistory.
type Revision struct {
	SequenceNumber, EventName, Actor, Principal string
	At                                          float64
	OldImage, NewImage                          Item
}

// By returns who has made the change.
func (r *Revision) By() string {
	if r.Principal != "" {
		return r.Principal
	}
	return r.Actor
}

// History is the reply of an ItemHistory.
type History struct {
	Changes          []json.RawMessage // revisions
	NextToken        string
	KeptFrom, ReadTo float64
	LookedAt         int
}

// UndoPlan is the reply of an UndoChanges.
type UndoPlan struct {
	PlanId           string
	Executed         bool
	Writes           []UndoWrite
	Conflicts        []UndoConflict
	AlreadyUndone    int
	LastEvaluatedKey json.RawMessage
}

// UndoWrite is a write of a plan.
type UndoWrite struct {
	Key, Item, CurrentItem Item
	Action                 string
	Expired                bool
}

// UndoConflict is an item that was changed again later.
type UndoConflict struct{ Key, NewImage, CurrentItem Item }
