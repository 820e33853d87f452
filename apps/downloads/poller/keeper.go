package poller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// Keeper drives all batches: unfinished ones of an earlier process, the scheduled one
// of each day, and triggered ones.
type Keeper struct {
	Poller   *Poller
	Schedule *Schedule // nil without a schedule
	Retry    time.Duration
	Days     int           // how many days back unfinished batches are searched for at the start
	Check    time.Duration // how often the clock is compared with the schedule; defaults to a minute

	mutex   sync.Mutex
	ctx     context.Context
	driven  map[string]bool
	again   map[string]bool // driven batches of which files were queued again
	late    map[string]*follower
	drivers sync.WaitGroup
	ensured string // of Run alone: the last day whose scheduled batch is known to exist
}

// Run drives batches until the context ends, and waits for its goroutines.
func (k *Keeper) Run(ctx context.Context) error {
	k.mutex.Lock()
	k.ctx, k.driven, k.again, k.late = ctx, make(map[string]bool), make(map[string]bool), make(map[string]*follower)
	k.mutex.Unlock()
	k.Poller.Checking = k.checking
	defer k.drivers.Wait()
	for resumed := false; ; {
		if !resumed {
			err := k.resume(ctx)
			if resumed = err == nil; !resumed && ctx.Err() == nil {
				k.Poller.Log.Warn("looking for unfinished batches failed; retrying", "error", err)
			}
		}
		wait := k.check()
		if k.Schedule != nil {
			var err error
			if wait, err = k.ensure(ctx); err != nil && ctx.Err() == nil {
				k.Poller.Log.Warn("starting the scheduled batch failed; retrying", "error", err)
			}
		}
		if !resumed {
			wait = min(wait, k.Retry)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// ensure starts the batch that is due and returns when to check again. A batch that another
// process has started is driven too until it ends, since that process may die. That is soon, whatever the next scheduled time is,
// since the clock may be set in between. Only the first check of a day sends a request.
func (k *Keeper) ensure(ctx context.Context) (time.Duration, error) {
	now := k.Poller.Batches.Now()
	date := k.Schedule.Day(now)
	if date != k.ensured {
		b, err := k.Poller.Batches.Create(ctx, ledger.ScheduledID(date), date)
		switch {
		case err == nil:
			k.Poller.Log.Info("scheduled batch started", "batch", b.BatchID, "date", date)
			k.drive(b, true)
		case errors.Is(err, ledger.ErrLost):
			if err := k.Adopt(ctx, ledger.ScheduledID(date)); err != nil {
				return k.Retry, err
			}
		default:
			return k.Retry, err
		}
		k.ensured = date
	}
	return min(k.check(), k.Schedule.Next(now).Sub(now)), nil
}

func (k *Keeper) check() time.Duration {
	if k.Check > 0 {
		return k.Check
	}
	return time.Minute
}

// Trigger starts another batch for a day.
func (k *Keeper) Trigger(ctx context.Context, date string) (string, error) {
	if err := k.Poller.Batches.Triggerable(date); err != nil {
		return "", err
	}
	for {
		b, err := k.Poller.Batches.Create(ctx, ledger.NewID(date), date)
		if errors.Is(err, ledger.ErrLost) {
			continue // a collision of 32 random bits
		}
		if err != nil {
			return "", err
		}
		k.Poller.Log.Info("batch triggered", "batch", b.BatchID, "date", date)
		k.drive(b, true)
		return b.BatchID, nil
	}
}

// resume drives the unfinished batches of earlier processes: those of the last days, by a
// query for each day, and those of any day that have unfinished files, by two queries. A
// batch that ended while it had unfinished files is reopened: nothing else would send or
// release them. One that begins meanwhile is not of an earlier process: it may time out by itself.
func (k *Keeper) resume(ctx context.Context) error {
	begun := k.Poller.Batches.Now()
	last, due := k.days()
	known := make(map[string]*ledger.Batch)
	var timedOut []*ledger.Batch
	for date := last; date >= back(due, k.Days); date = back(date, 1) {
		found, err := k.Poller.Batches.OfDay(ctx, date, "")
		if err != nil {
			return err
		}
		for _, b := range found {
			known[b.BatchID] = b
			if b.BatchID == ledger.ScheduledID(date) && date == due {
				k.ensured = date
			}
			if b.Over() {
				k.Poller.Meter.Earlier(string(b.Status), b.UpdatedAt)
				if b.Status == ledger.Timeout {
					timedOut = append(timedOut, b)
				}
				continue
			}
			k.adopt(b)
		}
	}
	open := make(map[string]bool)
	for _, s := range []ledger.Status{ledger.Downloading, ledger.Available} {
		for j, err := range k.Poller.Jobs.ByStatus(ctx, s) {
			if err != nil {
				return err
			}
			open[j.BatchID] = true
		}
	}
	for id := range open {
		b := known[id]
		if b != nil && (!b.Over() || b.Status == ledger.Completed) {
			continue
		}
		if b == nil {
			switch young, err := k.begunAfter(ctx, id, begun); {
			case errors.Is(err, ledger.ErrUnknown):
				continue
			case err != nil:
				return err
			case young:
				continue
			}
		}
		if _, err := k.Continue(ctx, id); err != nil && !errors.Is(err, ledger.ErrUnknown) {
			return err
		}
	}
	for _, b := range timedOut {
		if len(b.Outstanding()) > 0 {
			k.drivers.Go(func() { k.follow(ctx, b) })
		}
	}
	return nil
}

// begunAfter reports whether a batch was created after a time.
func (k *Keeper) begunAfter(ctx context.Context, id string, at time.Time) (bool, error) {
	b, err := k.Poller.Batches.Get(ctx, id)
	if err != nil {
		return false, err
	}
	created, err := time.Parse(time.RFC3339, b.CreatedAt)
	return err == nil && !created.Before(at.Truncate(time.Millisecond)), nil
}

func (k *Keeper) adopt(b *ledger.Batch) {
	if k.drive(b, false) {
		k.Poller.Log.Info("batch resumed", "batch", b.BatchID, "status", b.Status)
	}
}

// Adopt drives an unfinished batch that somebody has come upon, if this process does not
// drive it yet. Two processes that drive a batch do no harm.
func (k *Keeper) Adopt(ctx context.Context, id string) error {
	k.mutex.Lock()
	driven := k.driven[id]
	k.mutex.Unlock()
	if driven {
		return nil
	}
	b, err := k.Poller.Batches.Get(ctx, id)
	if err == nil && !b.Over() {
		k.adopt(b)
	}
	return err
}

// days returns the last day that may have a batch, and the day of the scheduled batch
// that is due, or today.
func (k *Keeper) days() (last, due string) {
	now := k.Poller.Batches.Now()
	due = now.UTC().Format(time.DateOnly)
	last = now.UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	if k.Schedule != nil {
		due = min(due, k.Schedule.Day(now))
	}
	return last, due
}

// back returns the day some days before another.
func back(date string, days int) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		panic(fmt.Sprintf("%q is not a day", date))
	}
	return day.AddDate(0, 0, -days).Format(time.DateOnly)
}

// Continue makes a batch follow files that were queued again: one that failed or timed
// out is reopened, and it is driven to its end.
func (k *Keeper) Continue(ctx context.Context, id string) (*ledger.Batch, error) {
	k.mutex.Lock()
	if k.driven[id] {
		// It may be about to end, having read the files before.
		k.again[id] = true
	}
	k.mutex.Unlock()
	b, err := k.Poller.Batches.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if b.Status == ledger.Failed || b.Status == ledger.Timeout {
		if b, err = k.reopen(ctx, b); err != nil {
			return nil, err
		}
	}
	if !b.Over() {
		k.adopt(b)
	}
	return b, nil
}

func (k *Keeper) reopen(ctx context.Context, b *ledger.Batch) (*ledger.Batch, error) {
	after, err := k.Poller.Batches.Reopen(ctx, b)
	if errors.Is(err, ledger.ErrLost) {
		return k.Poller.Batches.Get(ctx, b.BatchID) // another request did it
	}
	if err != nil {
		return nil, err
	}
	k.Poller.Log.Info("batch reopened", "batch", b.BatchID, "status", b.Status)
	return after, nil
}

// retryReopen reopens a batch, and retries after errors. It returns nil if the context ends
// before, or the batch does not exist any more.
func (k *Keeper) retryReopen(ctx context.Context, b *ledger.Batch) *ledger.Batch {
	for {
		after, err := k.reopen(ctx, b)
		if err == nil {
			return after
		}
		if ctx.Err() != nil || errors.Is(err, ledger.ErrUnknown) {
			return nil
		}
		k.Poller.Log.Error("reopening a batch failed; retrying", "batch", b.BatchID, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.Retry):
		}
	}
}

// drive drives a batch in the background, once. It reports whether it was not driven yet.
func (k *Keeper) drive(b *ledger.Batch, fresh bool) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.driven[b.BatchID] || k.ctx == nil || k.ctx.Err() != nil {
		return false // the next process resumes it
	}
	k.driven[b.BatchID] = true
	if f := k.late[b.BatchID]; f != nil {
		f.stop()
	}
	ctx := k.ctx
	k.drivers.Go(func() {
		for {
			after := k.end(ctx, b, fresh)
			again := k.release(b.BatchID)
			if after == nil || after.Status == ledger.Completed {
				return
			}
			if !again {
				k.follow(ctx, after)
				return
			}
			// Files were queued again while the batch ended.
			if b = k.retryReopen(ctx, after); b == nil || b.Over() || !k.hold(b.BatchID) {
				return
			}
			fresh = false
		}
	})
	return true
}

// end drives a batch to its end, and retries after errors. It returns nil if the context
// ends before, or the batch does not exist any more.
func (k *Keeper) end(ctx context.Context, b *ledger.Batch, fresh bool) *ledger.Batch {
	after, err := k.Poller.Drive(ctx, b, fresh)
	for err != nil {
		if ctx.Err() != nil || errors.Is(err, ledger.ErrUnknown) {
			return nil
		}
		k.Poller.Log.Error("driving a batch failed; retrying", "batch", b.BatchID, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.Retry):
		}
		after, err = k.Poller.Run(ctx, b.BatchID)
	}
	return after
}

// release records that a batch is not driven any more. It reports whether files of it
// were queued again meanwhile.
func (k *Keeper) release(id string) (again bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	again = k.again[id]
	delete(k.driven, id)
	delete(k.again, id)
	k.idle()
	return again
}

// idle forgets what was seen of jobs if no batch is driven or followed. The mutex is held.
func (k *Keeper) idle() {
	if len(k.driven) == 0 && len(k.late) == 0 {
		k.Poller.Sweeper.Reset()
	}
}

// follower follows the files of a batch that timed out.
type follower struct{ stop context.CancelFunc }

// follow follows the files of a batch that timed out before they had ended, unless it is
// driven again.
func (k *Keeper) follow(ctx context.Context, b *ledger.Batch) {
	if b.Status != ledger.Timeout || len(b.Outstanding()) == 0 {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	me := &follower{stop}
	k.mutex.Lock()
	if k.driven[b.BatchID] {
		k.mutex.Unlock()
		return
	}
	k.late[b.BatchID] = me
	k.mutex.Unlock()
	k.Poller.Follow(ctx, b)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.late[b.BatchID] == me {
		delete(k.late, b.BatchID)
	}
	k.idle()
}

// checking records that the files of a batch are read now, so that those that were queued
// again before are seen.
func (k *Keeper) checking(id string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.again, id)
}

// hold records that a batch is driven, unless it is already.
func (k *Keeper) hold(id string) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.driven[id] {
		return false
	}
	k.driven[id] = true
	return true
}

// Driven returns how many batches are being driven.
func (k *Keeper) Driven() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.driven)
}
