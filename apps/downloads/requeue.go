package downloads

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/web"
)

// Requeue asks to queue files again: named ones, those of a batch with a status, or all
// that have had a status for some time.
type Requeue struct {
	Files  []string      `json:"files,omitempty"`
	Batch  string        `json:"batch,omitempty"`
	Status ledger.Status `json:"status,omitempty"`
	Older  time.Duration `json:"older,omitempty"`

	// Live includes files whose downloader sent a heartbeat within the lease.
	Live bool `json:"live,omitempty"`
}

// Requeued is the reply to Requeue.
type Requeued struct {
	Files   []FileLine `json:"files"`   // as they are now
	Batches []string   `json:"batches"` // that follow them
	Refused []string   `json:"refused"` // why files were not queued again
}

// maxRequeued is the maximum number of files that one request queues again.
const maxRequeued = 10_000

// Requeue makes files available again, sends their messages at once, and makes their
// batches follow. If it ends early, because of an error or of a client that goes away, the
// batches of the files that were changed follow nevertheless.
func (s *System) Requeue(ctx context.Context, r Requeue) (Requeued, error) {
	out := Requeued{Files: []FileLine{}, Batches: []string{}, Refused: []string{}}
	if s.Keeper == nil {
		return out, web.Refuse(http.StatusConflict, "no_poller", "this process does not poll; send the request to the poller")
	}
	chosen, err := s.choose(ctx, r, &out)
	if err != nil {
		return out, err
	}
	batches, err := s.requeueFiles(ctx, chosen, r.Live, &out)
	errs := []error{err}
	for id := range batches {
		b, err := s.Keeper.Continue(context.WithoutCancel(ctx), id)
		switch {
		case errors.Is(err, ledger.ErrUnknown): // its record has expired
		case err != nil:
			errs = append(errs, err)
		case !b.Over():
			out.Batches = append(out.Batches, id)
		}
	}
	return out, errors.Join(errs...)
}

// requeueFiles makes files available again, until an error or the end of the context. It
// returns the batches of the files that have, or may have, changed.
func (s *System) requeueFiles(ctx context.Context, chosen []*ledger.Job, live bool, out *Requeued) (map[string]bool, error) {
	batches := make(map[string]bool)
	for _, j := range chosen {
		if err := ctx.Err(); err != nil {
			return batches, err
		}
		after, err := s.requeueFile(context.WithoutCancel(ctx), j, live)
		switch {
		case errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrUnknown), errors.Is(err, errLive):
			out.Refused = append(out.Refused, err.Error())
			continue
		case err != nil:
			batches[j.BatchID] = true // the update may have been applied
			return batches, err
		}
		out.Files = append(out.Files, LineOf(after))
		batches[after.BatchID] = true
	}
	return batches, nil
}

// choose returns the jobs that a request is about.
func (s *System) choose(ctx context.Context, r Requeue, out *Requeued) ([]*ledger.Job, error) {
	ways := 0
	for _, given := range []bool{len(r.Files) > 0, r.Batch != "", r.Older > 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1 || len(r.Files) > maxRequeued || slices.Contains(r.Files, ""):
		return nil, web.Refuse(http.StatusBadRequest, "bad_request", "name up to %d files, or a batch, or how long the files have had their status", maxRequeued)
	case len(r.Files) > 0:
		return s.named(ctx, r.Files, out)
	case r.Status != ledger.Available && r.Status != ledger.Downloading && r.Status != ledger.Failed && r.Status != ledger.Error:
		return nil, web.Refuse(http.StatusBadRequest, "bad_status", "the status must be available, downloading, failed or error; completed files are not queued again")
	case r.Batch != "":
		return some(s.Jobs.OfBatch(ctx, r.Batch, r.Status))
	}
	return some(s.Jobs.Since(ctx, r.Status, s.Jobs.Now().Add(-r.Older)))
}

func (s *System) named(ctx context.Context, ids []string, out *Requeued) ([]*ledger.Job, error) {
	var jobs []*ledger.Job
	for _, id := range ids {
		j, err := s.Jobs.Get(ctx, id)
		switch {
		case errors.Is(err, ledger.ErrUnknown):
			out.Refused = append(out.Refused, err.Error())
		case err != nil:
			return nil, err
		default:
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

func some(found iter.Seq2[*ledger.Job, error]) ([]*ledger.Job, error) {
	var jobs []*ledger.Job
	for j, err := range found {
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, j); len(jobs) == maxRequeued {
			break
		}
	}
	return jobs, nil
}

// errLive is returned for a file whose downloader is alive.
var errLive = errors.New("its downloader is alive")

func (s *System) requeueFile(ctx context.Context, j *ledger.Job, live bool) (*ledger.Job, error) {
	silent := s.Jobs.Now().Sub(time.UnixMilli(j.HeartbeatAt))
	if j.Status == ledger.Downloading && silent < s.lease && !live {
		return nil, fmt.Errorf("job %s had a heartbeat %s ago: %w; --live queues it again anyway", j.FileID, silent.Round(time.Second), errLive)
	}
	after, err := s.Jobs.Requeue(ctx, j, live)
	if err != nil {
		return nil, err
	}
	s.Keeper.Poller.Sweeper.Sent(j.FileID)
	if err := s.Keeper.Poller.Send(ctx, j.FileID); err != nil {
		// The job is available and its batch will run, so the sweep sends it.
		s.log.Warn("sending a message failed; the sweep will send it", "file", j.FileID, "error", err)
	}
	return after, nil
}
