package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// watch checks a queued batch until it is done or its time is over, and ends it.
func (r *run) watch(ctx context.Context, b *ledger.Batch) (*ledger.Batch, error) {
	for _, id := range b.CompletedFiles { // before it was reopened
		r.completed[id] = true
	}
	for {
		if r.Checking != nil {
			r.Checking(b.BatchID)
		}
		done, failed, err := r.check(ctx, b)
		if err != nil {
			return nil, err
		}
		completed := slices.DeleteFunc(slices.Clone(b.ExpectedFiles), func(id string) bool { return !r.completed[id] })
		open := len(b.ExpectedFiles) - len(completed) - len(failed)
		unlisted := len(b.ExpectedFiles) == 0 && b.ErrorMessage != ""
		switch {
		case r.late && (unlisted || !done):
			return r.finish(ctx, b, ledger.Timeout, completed, failed, reason(b, "after %s %d of %d files have neither completed nor failed", r.Timeout, open, len(b.ExpectedFiles)))
		case done && (unlisted || len(failed) > 0):
			return r.finish(ctx, b, ledger.Failed, completed, failed, reason(b, "%d of %d files failed", len(failed), len(b.ExpectedFiles)))
		case done:
			return r.finish(ctx, b, ledger.Completed, completed, nil, "")
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// finish ends a batch. If another process has ended it, which had read files before they were
// queued again, so that files have failed by its record that have completed since, it is
// reopened, and ended once more.
func (r *run) finish(ctx context.Context, b *ledger.Batch, as ledger.Status, completed, failed []string, reason string) (*ledger.Batch, error) {
	after, err := r.Batches.Finish(ctx, b.BatchID, as, completed, failed, reason)
	if !errors.Is(err, ledger.ErrLost) {
		return after, err
	}
	after, err = r.Batches.Get(ctx, b.BatchID)
	if err != nil || !after.Over() || !slices.ContainsFunc(after.FailedFiles, func(id string) bool { return r.completed[id] }) {
		return after, err
	}
	r.Log.Info("another process has ended a batch too early; it is reopened", "batch", b.BatchID)
	return r.Batches.Reopen(ctx, after)
}

// reason returns why a batch fails, after an earlier reason if it has one.
func reason(b *ledger.Batch, format string, args ...any) string {
	switch {
	case b.ErrorMessage == "":
		return fmt.Sprintf(format, args...)
	case len(b.ExpectedFiles) == 0:
		return b.ErrorMessage
	}
	return fmt.Sprintf(format, args...) + "; " + b.ErrorMessage
}

// check reports whether all files of the batch have ended, and which of them failed.
func (r *run) check(ctx context.Context, b *ledger.Batch) (done bool, failed []string, err error) {
	start := time.Now()
	unknown := slices.DeleteFunc(slices.Clone(b.ExpectedFiles), func(id string) bool { return r.completed[id] })
	how := "get"
	done = true
	if len(unknown) > r.Small {
		how = "query"
		if unknown, done, err = r.sift(ctx, b.BatchID, unknown); err != nil || !done && !r.late {
			return false, nil, err
		}
	}
	defer func() { r.Meter.Checked(how, time.Since(start)) }()
	jobs, err := r.look(ctx, unknown)
	if err != nil {
		return false, nil, err
	}
	for i, j := range jobs {
		switch id := unknown[i]; {
		case j == nil:
			// It was rejected, deleted, or has expired: it will never complete.
			failed = append(failed, id)
		case j.Status == ledger.Completed:
			r.completed[id] = true
		case j.Status == ledger.Failed || j.Status == ledger.Error:
			failed = append(failed, id)
		default:
			done = false
			r.repaired(r.Sweeper.Inspect(ctx, j))
		}
	}
	return done, failed, nil
}

// repaired logs that a repair failed. It is attempted again at the next check.
func (r *run) repaired(err error) {
	if err != nil {
		r.Log.Warn("repairing files failed; retrying at the next check", "error", err)
	}
}

// sift checks a large batch by BatchIndex. Unless its time is over, one unfinished
// file is enough to know that the batch is not done; that costs one read unit
// however large the batch is. The files that it returns must be looked up: files
// that failed, since the index may lag, and files that belong to another batch.
func (r *run) sift(ctx context.Context, batch string, ids []string) (unknown []string, done bool, err error) {
	if !r.late {
		for _, s := range []ledger.Status{ledger.Downloading, ledger.Available} {
			if any, err := r.Jobs.Any(ctx, batch, s); err != nil || any {
				r.repaired(r.Sweeper.SweepDue(ctx))
				return nil, false, err
			}
		}
	}
	running := make(map[string]bool)
	for j, err := range r.Jobs.OfBatch(ctx, batch, "") {
		switch {
		case err != nil:
			return nil, false, err
		case j.Status == ledger.Completed:
			r.completed[j.FileID] = true
		case j.Status == ledger.Available || j.Status == ledger.Downloading:
			running[j.FileID] = true
		}
	}
	unknown = slices.DeleteFunc(ids, func(id string) bool { return r.completed[id] || running[id] })
	return unknown, len(running) == 0, nil
}

// AtOnce is the number of concurrent lookups.
const AtOnce = 8

// look reads the jobs of files, nil for a file that has none.
func (r *run) look(ctx context.Context, ids []string) ([]*ledger.Job, error) {
	jobs := make([]*ledger.Job, len(ids))
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(AtOnce)
	for i, id := range ids {
		if ledger.Refused(id) {
			continue
		}
		group.Go(func() error {
			j, err := r.Jobs.Get(each, id)
			if err != nil && !errors.Is(err, ledger.ErrUnknown) {
				return err
			}
			jobs[i] = j
			return nil
		})
	}
	return jobs, group.Wait()
}
