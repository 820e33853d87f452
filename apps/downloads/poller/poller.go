// Package poller runs batches: it queues a day's files and waits until they are done.
//
// A run is durable. The result of each step is in the tables before the next one
// begins, and each step is idempotent; any process that finds an unfinished batch
// continues it from there.
package poller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/downloads/upstream"
)

// Poller drives batches.
type Poller struct {
	Jobs     *ledger.Jobs
	Batches  *ledger.Batches
	Upstream *upstream.Client
	Send     func(ctx context.Context, id string) error // sends a file's message
	Sweeper  *Sweeper                                   // gets the unfinished jobs that a check reads

	Checking func(batch string) // called before a check reads the files of a batch; may be nil

	Every   time.Duration // time between two checks
	Timeout time.Duration // time limit of a batch
	Small   int           // maximum of open files that are looked up one by one
	Log     *slog.Logger
	Meter   *meter.Meter
}

// Run reads a batch and drives it to its end, from its current status.
func (p *Poller) Run(ctx context.Context, id string) (*ledger.Batch, error) {
	b, err := p.Batches.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return p.Drive(ctx, b, false)
}

// Drive drives a batch to its end, from its current status. A fresh batch was created
// just now, so that no earlier process can have written jobs for it.
func (p *Poller) Drive(ctx context.Context, b *ledger.Batch, fresh bool) (*ledger.Batch, error) {
	// The remaining time of the batch is measured by a timer, so that a clock that
	// jumps while the batch runs neither ends nor extends it.
	left := p.left(b)
	over := time.NewTimer(left)
	defer over.Stop()
	r := &run{Poller: p, over: over.C, late: left == 0, fresh: fresh, completed: make(map[string]bool)}
	for {
		var after *ledger.Batch
		var err error
		switch b.Status {
		case ledger.Initiated:
			after, err = r.queue(ctx, b)
		case ledger.Queued:
			after, err = r.watch(ctx, b)
		default:
			p.Log.Info("batch ended", "batch", b.BatchID, "status", b.Status, "expected", len(b.ExpectedFiles), "completed", len(b.CompletedFiles), "failed", len(b.FailedFiles), "reason", b.ErrorMessage)
			p.Meter.Batch(string(b.Status))
			return b, nil
		}
		// Another process may drive the same batch. The one that loses a
		// conditional write continues from what the other wrote.
		if errors.Is(err, ledger.ErrLost) {
			after, err = p.Batches.Get(ctx, b.BatchID)
		}
		if err != nil {
			return nil, err
		}
		b = after
	}
}

func (p *Poller) left(b *ledger.Batch) time.Duration {
	start, err := time.Parse(time.RFC3339, max(b.StartTime, b.ReopenedAt))
	if err != nil {
		return p.Timeout
	}
	return max(0, min(p.Timeout, p.Timeout-p.Batches.Now().Sub(start)))
}

// run is one batch being driven.
type run struct {
	*Poller
	over      <-chan time.Time
	late      bool            // the batch's time is over
	fresh     bool            // no earlier process has written jobs for the batch
	completed map[string]bool // files known to be completed, which is final
}

// wait waits until the next check, or until the batch's time is over.
func (r *run) wait(ctx context.Context) error {
	next := time.NewTimer(r.Every)
	defer next.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.over:
		r.late = true
	case <-next.C:
	}
	return nil
}

// queue lists the day's files, writes a job for each, sends its message, and records
// the expected files. It can be repeated after a crash: existing jobs are kept, and
// the sweep finds messages that were not sent.
func (r *run) queue(ctx context.Context, b *ledger.Batch) (*ledger.Batch, error) {
	files, reason, err := r.list(ctx, b.PollingDate)
	if err != nil {
		return nil, err
	}
	jobs, refused := r.accept(files, b)
	ids := make([]string, 0, len(jobs)+len(refused))
	for id := range refused {
		ids = append(ids, id)
	}
	for _, j := range jobs {
		ids = append(ids, j.FileID)
	}
	if n := ledger.IDBytes(ids); n > ledger.MaxIDBytes {
		jobs, ids = nil, nil
		reason = fmt.Sprintf("the day has %d files whose ids have %d bytes together; a batch's record holds %d: nothing was queued; have the upstream use shorter names, or divide the day among entities", len(files), n, ledger.MaxIDBytes)
	}
	var sent atomic.Int64
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, j := range jobs {
		group.Go(func() error {
			fresh, err := r.write(each, j)
			if fresh {
				sent.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if !r.fresh {
		if ids, err = r.withWritten(ctx, b.BatchID, ids); err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if reason == "" {
		reason = explain(refused)
	}
	after, err := r.Batches.Expect(ctx, b.BatchID, ids, reason)
	if errors.Is(err, ledger.ErrLost) {
		return r.expectMore(ctx, b.BatchID, ids)
	}
	if err == nil {
		r.Log.Info("batch queued", "batch", b.BatchID, "expected", len(ids), "queued", sent.Load(), "rejected", len(refused), "reason", reason)
	}
	return after, err
}

// withWritten adds the files whose jobs exist. A list before a crash may have had files
// that this one lacks.
func (r *run) withWritten(ctx context.Context, batch string, ids []string) ([]string, error) {
	for j, err := range r.Jobs.OfBatch(ctx, batch, "") {
		if err != nil {
			return nil, err
		}
		ids = append(ids, j.FileID)
	}
	return ids, nil
}

// expectMore adds files that another, faster poller did not see.
func (r *run) expectMore(ctx context.Context, batch string, ids []string) (*ledger.Batch, error) {
	b, err := r.Batches.Get(ctx, batch)
	if err != nil || b.Status != ledger.Queued {
		return b, err
	}
	slices.Sort(b.ExpectedFiles)
	more := slices.DeleteFunc(ids, func(id string) bool {
		_, there := slices.BinarySearch(b.ExpectedFiles, id)
		return there
	})
	if len(more) == 0 {
		return b, nil
	}
	return r.Batches.ExpectMore(ctx, batch, more)
}

// list asks the upstream until it replies. The reason says why there is no list and
// will not be one.
func (r *run) list(ctx context.Context, date string) (files []upstream.File, reason string, err error) {
	for refusals := 0; ; {
		files, err := r.Upstream.List(ctx, date)
		if err == nil {
			return files, "", nil
		}
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		var refusal *upstream.Refusal
		if errors.As(err, &refusal) {
			refusals++
		}
		r.Log.Warn("listing the upstream's files failed", "date", date, "error", err)
		if refusals == 3 || r.late {
			return nil, err.Error(), nil
		}
		if err := r.wait(ctx); err != nil {
			return nil, "", err
		}
	}
}

// accept makes jobs of the listed files. A file that cannot be accepted is expected
// under a safe id, and counts as failed.
func (r *run) accept(files []upstream.File, b *ledger.Batch) (jobs []ledger.Job, refused map[string]string) {
	refused = make(map[string]string)
	seen := make(map[string]upstream.File, len(files))
	for _, f := range files {
		before, again := seen[f.Entity]
		if again && before.SHA256 == f.SHA256 && before.Size == f.Size {
			continue // listed twice
		}
		j, err := r.Upstream.Job(f, b.BatchID, b.PollingDate)
		if again && err == nil {
			err = fmt.Errorf("%s is listed twice, with different contents; the first was used", f.Entity)
		}
		if err != nil {
			refused[refusedID(f, b.PollingDate)] = err.Error()
			continue
		}
		seen[f.Entity] = f
		jobs = append(jobs, j)
	}
	return jobs, refused
}

// refusedID returns the id of a listed file that was not accepted. No entity has such
// a name, and a repeated run gets the same id.
func refusedID(f upstream.File, date string) string {
	sum := sha256.Sum256([]byte(f.Entity + "\x00" + f.SHA256))
	return ledger.RefusedID(hex.EncodeToString(sum[:6]), date)
}

func explain(refused map[string]string) string {
	if len(refused) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the upstream's files were not accepted", len(refused))
	ids := make([]string, 0, len(refused))
	for id := range refused {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for i, id := range ids {
		if i == 10 {
			b.WriteString("; and more")
			break
		}
		fmt.Fprintf(&b, "; %s: %s", id, refused[id])
	}
	return b.String()
}

// write queues one file. It reports whether its message was sent.
func (r *run) write(ctx context.Context, j ledger.Job) (bool, error) {
	there, err := r.Jobs.Queue(ctx, j)
	switch {
	case err != nil:
		return false, err
	case there == nil: // written
	case there.BatchID != j.BatchID && (there.Status == ledger.Failed || there.Status == ledger.Error):
		// An earlier batch of the day failed to get it. This batch retries it.
		if err := r.Jobs.TakeOver(ctx, there, j); errors.Is(err, ledger.ErrLost) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	default: // queued already, by this run before a crash or by another batch
		return false, nil
	}
	r.Sweeper.Sent(j.FileID)
	if err := r.Send(ctx, j.FileID); err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		// The job exists, so the sweep will send it.
		r.Log.Warn("sending a message failed; the sweep will send it", "file", j.FileID, "error", err)
		return false, nil
	}
	r.Meter.Queued()
	return true, nil
}
