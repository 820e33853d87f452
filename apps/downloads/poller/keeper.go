package poller

import (
	"context"
	"errors"
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

	mutex   sync.Mutex
	ctx     context.Context
	driven  map[string]bool
	drivers sync.WaitGroup
}

// Run drives batches until the context ends, and waits for its goroutines.
func (k *Keeper) Run(ctx context.Context) error {
	k.mutex.Lock()
	k.ctx, k.driven = ctx, make(map[string]bool)
	k.mutex.Unlock()
	defer k.drivers.Wait()
	for resumed := false; ; {
		if !resumed {
			err := k.resume(ctx)
			if resumed = err == nil; !resumed && ctx.Err() == nil {
				k.Poller.Log.Warn("looking for unfinished batches failed; retrying", "error", err)
			}
		}
		wait := time.Minute
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

// ensure starts the batch that is due, unless any process has started it, and
// returns when to check again. That is soon, whatever the next scheduled time is,
// since the clock may be set in between.
func (k *Keeper) ensure(ctx context.Context) (time.Duration, error) {
	now := k.Poller.Batches.Now()
	date := k.Schedule.Day(k.Schedule.Due(now))
	id := ledger.ScheduledID(date)
	err := k.Poller.Batches.Create(ctx, id, date)
	switch {
	case err == nil:
		k.Poller.Log.Info("scheduled batch started", "batch", id, "date", date)
		k.drive(id)
	case !errors.Is(err, ledger.ErrLost):
		return k.Retry, err
	}
	return min(time.Minute, k.Schedule.Next(now).Sub(now)), nil
}

// Trigger starts another batch for a day.
func (k *Keeper) Trigger(ctx context.Context, date string) (string, error) {
	if err := k.Poller.Batches.Triggerable(date); err != nil {
		return "", err
	}
	for {
		id := ledger.NewID(date)
		err := k.Poller.Batches.Create(ctx, id, date)
		if errors.Is(err, ledger.ErrLost) {
			continue // a collision of 32 random bits
		}
		if err != nil {
			return "", err
		}
		k.Poller.Log.Info("batch triggered", "batch", id, "date", date)
		k.drive(id)
		return id, nil
	}
}

// resume drives the unfinished batches of all days in the table.
func (k *Keeper) resume(ctx context.Context) error {
	day := k.Poller.Batches.Now().UTC().AddDate(0, 0, 1)
	for range ledger.KeepDays + 2 {
		date := day.Format(time.DateOnly)
		for _, s := range []ledger.Status{ledger.Initiated, ledger.Queued} {
			batches, err := k.Poller.Batches.OfDay(ctx, date, s)
			if err != nil {
				return err
			}
			for _, b := range batches {
				k.Poller.Log.Info("batch resumed", "batch", b.BatchID, "status", b.Status)
				k.drive(b.BatchID)
			}
		}
		day = day.AddDate(0, 0, -1)
	}
	return nil
}

// drive drives a batch in the background, once, and retries after errors.
func (k *Keeper) drive(id string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.driven[id] || k.ctx == nil || k.ctx.Err() != nil {
		return // the next process resumes it
	}
	k.driven[id] = true
	ctx := k.ctx
	k.drivers.Go(func() {
		defer func() {
			k.mutex.Lock()
			defer k.mutex.Unlock()
			delete(k.driven, id)
		}()
		for {
			_, err := k.Poller.Run(ctx, id)
			if err == nil || ctx.Err() != nil || errors.Is(err, ledger.ErrUnknown) {
				return
			}
			k.Poller.Log.Error("driving a batch failed; retrying", "batch", id, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(k.Retry):
			}
		}
	})
}

// Driven returns how many batches are being driven.
func (k *Keeper) Driven() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.driven)
}
