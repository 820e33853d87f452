package autoscaling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/db"
)

// due returns when a scheduled action is to be done next. It is not ok if that is
// never.
func (a *Action) due() (at time.Time, ok bool) {
	schedule, err := ParseSchedule(a.Schedule, a.Timezone)
	if err != nil {
		return time.Time{}, false // a schedule of an older version
	}
	at, ok = schedule.Next(a.Since, a.Start, a.Created)
	return at, ok && (a.End.IsZero() || !at.After(a.End))
}

// doActions does the scheduled actions that are due. One that was due several
// times while no server was running is done once.
func (s *Store) doActions(ctx context.Context, settings *Settings) error {
	now := s.db.Now()
	if err := s.resumeActions(ctx, settings, now); err != nil {
		return err
	}
	for i := 0; i < len(settings.Actions); i++ {
		at, ok := settings.Actions[i].due()
		if !ok || at.After(now) || settings.Target == nil {
			continue
		}
		due := settings.Actions[i]
		err := s.change(ctx, settings.ID, func(stored *Settings) error {
			for j := range stored.Actions {
				if a := &stored.Actions[j]; a.ARN == due.ARN && a.Since.Equal(due.Since) && stored.Target != nil {
					a.Since = now
					stored.doAction(a, now)
				}
			}
			*settings = *stored
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resumeActions lets actions be due from now on that were set or done at a later time, before
// the clock was set back.
func (s *Store) resumeActions(ctx context.Context, settings *Settings, now time.Time) error {
	if !slices.ContainsFunc(settings.Actions, func(a Action) bool { return inFuture(a.Since, now) }) {
		return nil
	}
	return s.change(ctx, settings.ID, func(stored *Settings) error {
		for i := range stored.Actions {
			if a := &stored.Actions[i]; inFuture(a.Since, now) {
				a.Since = now
			}
		}
		*settings = *stored
		return nil
	})
}

// maxSkew is by how much the clocks of servers may differ.
const maxSkew = time.Minute

// inFuture reports whether a time at which something was done is later than now, since the
// clock was set back.
func inFuture(done, now time.Time) bool { return done.After(now.Add(maxSkew)) }

// doAction sets the bounds of a scheduled action.
func (s *Settings) doAction(a *Action, now time.Time) {
	if s.Target.ScheduledSuspended {
		return
	}
	lowest, highest, what := s.Target.Min, s.Target.Max, ""
	switch {
	case a.Min != nil && a.Max != nil:
		what = fmt.Sprintf("min capacity to %d and max capacity to %d", *a.Min, *a.Max)
	case a.Min != nil:
		what = fmt.Sprintf("min capacity to %d", *a.Min)
	case a.Max != nil:
		what = fmt.Sprintf("max capacity to %d", *a.Max)
	}
	if a.Min != nil {
		lowest = *a.Min
	}
	if a.Max != nil {
		highest = *a.Max
	}
	done := Activity{ID: db.NewUUID(), Started: now, Cause: fmt.Sprintf("scheduled action name %s was triggered", a.Name), Description: "Setting " + what}
	if lowest > highest {
		done.Status, done.Message = Failed, "Failed to set "+what+". Reason: Minimum capacity cannot be greater than maximum capacity"
	} else {
		s.Target.Min, s.Target.Max, s.Target.Unapplied, s.Target.RetryAt = lowest, highest, true, time.Time{}
		done.Status, done.Message = Successful, "Successfully set "+what
	}
	s.addActivity(done)
}
