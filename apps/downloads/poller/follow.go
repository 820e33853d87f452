package poller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// Follow watches the files of a batch that timed out before they had ended: it repairs
// them as a check of a running batch does, and adds those that have ended to the batch's
// record, which is kept longer than theirs. It returns when all have ended, when the batch
// is reopened, or when the context ends.
func (p *Poller) Follow(ctx context.Context, b *ledger.Batch) {
	p.Log.Info("following the files of a batch that timed out", "batch", b.BatchID, "files", len(b.Outstanding()))
	r := &run{Poller: p, completed: make(map[string]bool)}
	for ctx.Err() == nil {
		after, err := r.follow(ctx, b)
		switch {
		case errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrUnknown):
			return // it was reopened, or has expired
		case err != nil && ctx.Err() == nil:
			p.Log.Warn("following the files of a batch failed; retrying", "batch", b.BatchID, "error", err)
		case err == nil && len(after.Outstanding()) == 0:
			p.Log.Info("all files of a batch that timed out have ended", "batch", b.BatchID, "completed", len(after.CompletedFiles), "failed", len(after.FailedFiles))
			p.Meter.Changed()
			return
		case err == nil:
			b = after
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(p.Every, p.Sweeper.Lease)):
		}
	}
}

// follow checks the files once, and returns the batch as it is now.
func (r *run) follow(ctx context.Context, b *ledger.Batch) (*ledger.Batch, error) {
	open := *b
	open.ExpectedFiles = b.Outstanding()
	done, failed, err := r.check(ctx, &open)
	if err != nil {
		return nil, err
	}
	completed := slices.DeleteFunc(open.ExpectedFiles, func(id string) bool { return !r.completed[id] })
	if !done {
		failed = nil // one that is requeued meanwhile may still complete
	}
	if len(completed)+len(failed) == 0 {
		return b, nil
	}
	return r.Batches.Late(ctx, b.BatchID, completed, failed)
}
