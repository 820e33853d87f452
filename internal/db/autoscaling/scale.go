package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/scaling"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead"
)

const (
	retryDelay = 5 * time.Second

	// settling is how long after the end of a minute its consumption is read, so
	// that all of it has been counted.
	settling = 2 * time.Second
)

// work acts on the settings while this server leads.
func (s *Store) work(ctx context.Context, begun func()) {
	begun()
	lead.RunTerm(ctx, s.db.Clock(), s.db.Leads, lead.Loop{Step: s.step, Wake: s.wake, Retry: retryDelay, Failed: func(err error) {
		s.log.Warn("auto scaling failed; retrying", "error", err)
	}})
}

// step does what is due for all settings. Settings that fail do not stop the
// others.
func (s *Store) step(ctx context.Context) (wait time.Duration, err error) {
	all, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return lead.Idle, nil
	}
	var failures []error
	for _, settings := range all {
		if err := lead.Check(ctx, s.db.Leads); err != nil {
			return 0, nil // the next leader continues
		}
		if err := s.act(ctx, settings); err != nil {
			failures = append(failures, fmt.Errorf("%s, %s: %w", settings.Resource, settings.Dimension, err))
		}
	}
	if err := errors.Join(failures...); err != nil {
		return 0, err
	}
	return s.untilDue(all), nil
}

// untilDue returns how long to wait for the end of a minute, or for a scheduled
// action before that.
func (s *Store) untilDue(all []*Settings) time.Duration {
	now := s.db.Now()
	next := now.Add(-settling).Truncate(scaling.Period).Add(scaling.Period + settling)
	for _, settings := range all {
		if settings.Target == nil {
			continue
		}
		if settings.Target.Unapplied {
			next = earlier(next, now.Add(max(time.Second, settings.Target.waits(now)))) // a table may be changed for some time
		}
		for i := range settings.Actions {
			if at, ok := settings.Actions[i].due(); ok && at.After(now) {
				next = earlier(next, at)
			}
		}
	}
	return max(next.Sub(now), 10*time.Millisecond)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// act does what is due for the settings of one id.
func (s *Store) act(ctx context.Context, settings *Settings) error {
	if err := s.doActions(ctx, settings); err != nil {
		return err
	}
	if settings.Target == nil {
		return s.removeOld(ctx, settings)
	}
	if settings.Target.Unapplied {
		if settings.Target.waits(s.db.Now()) > 0 {
			return nil
		}
		if err := s.ApplyBounds(ctx, settings.ID); err != nil {
			return err
		}
		var err error
		if settings, err = s.Get(ctx, settings.ID); err != nil || settings.Target == nil || settings.Target.Unapplied {
			return err // what a policy wants is within the bounds, and would be rejected too
		}
	}
	return s.track(ctx, settings)
}

// waits returns how long the bounds are not to be applied yet.
func (t *Target) waits(now time.Time) time.Duration {
	var longest time.Duration
	for _, until := range []time.Time{t.ClaimedUntil, t.RetryAt} {
		if wait := until.Sub(now); wait <= maxWait { // later: the clock was set back
			longest = max(longest, wait)
		}
	}
	return longest
}

// maxWait is how long bounds wait at most to be applied.
const maxWait = time.Minute

// removeOld removes activities that are no longer kept.
func (s *Store) removeOld(ctx context.Context, settings *Settings) error {
	if !settings.dropOld(s.db.Now()) {
		return nil
	}
	return s.change(ctx, settings.ID, func(stored *Settings) error {
		stored.dropOld(s.db.Now())
		return nil
	})
}

// ApplyBounds changes the units of an id whose bounds were set, if they are outside
// of them. Bounds are not applied at other times: units that a customer sets below
// the minimum remain.
func (s *Store) ApplyBounds(ctx context.Context, id ID) error {
	s.applying.Lock() // the request that sets bounds and the work in the background
	defer s.applying.Unlock()
	settings, err := s.Get(ctx, id)
	if err != nil || settings.Target == nil || !settings.Target.Unapplied {
		return err
	}
	return s.applyBounds(ctx, settings)
}

func (s *Store) applyBounds(ctx context.Context, settings *Settings) error {
	target := settings.Target
	units, ok := s.units(settings.ID)
	to, cause := units, ""
	switch {
	case !ok:
	case units < target.Min:
		to, cause = target.Min, fmt.Sprintf("minimum capacity was set to %d", target.Min)
	case units > target.Max:
		to, cause = target.Max, fmt.Sprintf("maximum capacity was set to %d", target.Max)
	}
	activity, err := s.setUnits(ctx, settings, to, cause)
	if err != nil || activity != nil && activity.Status == "" {
		return err // the table is being changed; it is tried again
	}
	return s.change(ctx, settings.ID, func(stored *Settings) error {
		if stored.Target == nil || stored.Target.ARN != target.ARN || stored.Target.Min != target.Min || stored.Target.Max != target.Max {
			return nil // there are other bounds meanwhile
		}
		stored.Target.Unapplied, stored.Target.ClaimedUntil, stored.Target.RetryAt = false, time.Time{}, time.Time{}
		if activity != nil && activity.Status == Failed {
			stored.Target.Unapplied, stored.Target.RetryAt = true, s.db.Now().Add(maxWait)
		}
		if activity != nil {
			stored.addActivity(*activity)
		}
		return nil
	})
}

// units returns the provisioned units of an id. It is not ok if it has none: the
// table or the index does not exist, is being deleted, or is on demand.
func (s *Store) units(id ID) (units int64, ok bool) {
	table, index, write, ok := id.Parts()
	if !ok {
		return 0, false
	}
	d, err := s.db.Describe(table)
	if err != nil || d.OnDemand || d.State == schema.Deleting {
		return 0, false
	}
	throughput := d.Throughput
	if index != "" {
		x, ok := d.Index(index)
		if !ok || !x.Global || x.State == schema.Deleting {
			return 0, false
		}
		throughput = x.Throughput
	}
	if write {
		return throughput.Write, true
	}
	return throughput.Read, true
}

// setUnits changes the units of an id, and returns the activity: nil if there is
// nothing to change, and one without a status if the table is being changed.
func (s *Store) setUnits(ctx context.Context, settings *Settings, to int64, cause string) (*Activity, error) {
	table, index, write, ok := settings.Parts()
	if cause == "" || !ok {
		return nil, nil
	}
	what := "read"
	if write {
		what = "write"
	}
	a := &Activity{ID: db.NewUUID(), Started: s.db.Now(), Cause: cause, Description: fmt.Sprintf("Setting %s capacity units to %d.", what, to)}
	_, err := s.db.UpdateTable(ctx, table, func(t *schema.Table) error {
		before := t.Clone()
		if err := changeUnits(t, index, write, to, s.db.Now()); err != nil {
			return err
		}
		return t.WithinAccount(before, s.db.ProvisionedUnits(), settings.Target.Region)
	})
	if errors.Is(err, errSameUnits) {
		return nil, nil // another server was faster
	}
	fault, isFault := errors.AsType[*apierror.Error](err)
	a.Ended = s.db.Now()
	switch {
	case err == nil:
		a.Status = Successful
		a.Message = fmt.Sprintf("Successfully set %s capacity units to %d. Change successfully fulfilled by dynamodb.", what, to)
		s.log.Info("auto scaling changed units", "resource", settings.Resource, "dimension", settings.Dimension, "units", to, "cause", cause)
	case !isFault:
		return nil, err
	case fault.Code == "ResourceInUseException":
	default:
		a.Status = Failed
		a.Message = fmt.Sprintf("Failed to set %s capacity units to %d. Reason: Failed updating table: %s", what, to, fault.Message)
		if !settings.repeats(*a) {
			s.log.Warn("auto scaling cannot change units", "resource", settings.Resource, "dimension", settings.Dimension, "units", to, "error", fault)
		}
	}
	return a, nil
}

// errSameUnits reports that there is nothing to change.
var errSameUnits = errors.New("the units are the same")

// changeUnits changes the read or the write units of a table or of an index.
func changeUnits(t *schema.Table, index string, write bool, to int64, now time.Time) error {
	set := func(units schema.Throughput) schema.Throughput {
		if write {
			units.Write = to
		} else {
			units.Read = to
		}
		return units
	}
	if t.OnDemand {
		return apierror.InvalidValues("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	}
	if index == "" {
		if set(t.Throughput) == t.Throughput {
			return errSameUnits
		}
		return t.ChangeUnits(set(t.Throughput), now)
	}
	x, ok := t.Index(index)
	if !ok {
		return apierror.NotFound("Requested resource not found: Index %s for table %s", index, t.Name)
	}
	if set(x.Throughput) == x.Throughput {
		return errSameUnits
	}
	t.State = schema.Active // a change of an index does not make the table UPDATING
	return x.ChangeUnits(set(x.Throughput), now)
}

// track changes the units of an id as its policy says.
func (s *Store) track(ctx context.Context, settings *Settings) error {
	if _, alarm := s.decide(settings, s.db.Now()); alarm < 0 {
		return nil
	}
	s.applying.Lock() // no request sets bounds meanwhile
	defer s.applying.Unlock()
	settings, err := s.Get(ctx, settings.ID)
	if err != nil {
		return err
	}
	now := s.db.Now()
	to, alarm := s.decide(settings, now)
	if alarm < 0 {
		return nil // the settings were changed since they were read
	}
	policy := settings.Policy
	cause := fmt.Sprintf("monitor alarm %s in state ALARM triggered policy %s", policy.Alarms[alarm].Name, policy.Name)
	activity, err := s.setUnits(ctx, settings, to, cause)
	if err != nil || activity == nil || activity.Status == "" {
		return err // if the table is being changed, the next minute decides again
	}
	return s.change(ctx, settings.ID, func(stored *Settings) error {
		stored.addActivity(*activity)
		if p := stored.Policy; p != nil && p.ARN == policy.ARN && activity.Status == Successful {
			if alarm == AlarmHigh {
				p.ScaledOut, p.ScaledIn, p.ScaledTo = now, time.Time{}, to // an increase ends the cooldown of decreases
			} else {
				p.ScaledIn = now
			}
		}
		return nil
	})
}

// decide returns the units that a policy wants, and the alarm that says so, or -1.
func (s *Store) decide(settings *Settings, now time.Time) (to int64, alarm int) {
	policy, target := settings.Policy, settings.Target
	if policy == nil || target == nil || s.consumed == nil {
		return 0, -1
	}
	units, ok := s.units(settings.ID)
	if !ok {
		return 0, -1
	}
	to, direction := scaling.Bounds{Min: target.Min, Max: target.Max}.Track(policy.Utilization, units, s.recent(settings.ID, now))
	switch direction {
	case scaling.Out:
		// A cooldown does not hold back a larger increase than the one that began it, as on AWS.
		if !target.OutSuspended && (to > policy.ScaledTo || !cools(policy.ScaledOut, policy.OutCooldown, now)) {
			return to, AlarmHigh
		}
	case scaling.In:
		if !target.InSuspended && (policy.DisableScaleIn == nil || !*policy.DisableScaleIn) && !cools(policy.ScaledIn, policy.InCooldown, now) {
			return to, AlarmLow
		}
	}
	return 0, -1
}

// cools reports whether the cooldown after a change, in seconds, has not ended. A change that
// is later than now was made before the clock was set back.
func cools(changed time.Time, cooldown *int32, now time.Time) bool {
	return cooldown != nil && !inFuture(changed, now) && now.Before(changed.Add(time.Duration(*cooldown)*time.Second))
}

// recent returns the consumption of the last minutes, the latest first, in units
// per second. It ends before a minute that is not known.
func (s *Store) recent(id ID, now time.Time) (rates []float64) {
	table, index, write, _ := id.Parts()
	minute := now.Add(-settling).Truncate(scaling.Period)
	for range scaling.LowCount {
		minute = minute.Add(-scaling.Period)
		consumed, ok := s.consumed(table, index, write, minute)
		if !ok {
			break
		}
		rates = append(rates, consumed/scaling.Period.Seconds())
	}
	return rates
}
