package downloader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
)

// Sweeper repairs what crashes leave: jobs whose message was lost, and jobs whose
// downloader crashed. Both are found by StatusIndex. Any number of sweepers may
// run.
type Sweeper struct {
	Jobs  *ledger.Jobs
	Send  func(ctx context.Context, id string) error
	Log   *slog.Logger
	Meter *meter.Meter

	Lease    time.Duration // how long a claim lasts without a heartbeat
	Resend   time.Duration // how long a job may be available before its message is sent again
	MaxTries int           // lost claims before the job ends in Error

	// Afresh is set if no message survived the last process, so that the first
	// sweep sends all of them.
	Afresh bool

	// Clock measures elapsed time; defaults to time.Now.
	Clock func() time.Time

	seen map[string]sign
}

// sign is a heartbeat, and when this process first saw it.
type sign struct {
	claim string
	at    int64
	since time.Time
}

// perSweep is the maximum number of jobs of a sweep.
const perSweep = 10_000

// Run sweeps until the context ends.
func (s *Sweeper) Run(ctx context.Context) error {
	every := max(min(s.Lease, s.Resend)/3, 50*time.Millisecond)
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("a sweep failed; retrying", "error", err)
		}
		if pause(ctx, every) != nil {
			return nil
		}
	}
}

// Sweep sweeps once.
func (s *Sweeper) Sweep(ctx context.Context) error {
	return errors.Join(s.release(ctx), s.resend(ctx))
}

// release frees the jobs whose claim had no heartbeat for a lease. The lease is
// measured by this process's own timer, so that neither the clock of the writer nor
// a jump of ours makes a live claim look dead.
func (s *Sweeper) release(ctx context.Context) error {
	now := time.Now()
	if s.Clock != nil {
		now = s.Clock()
	}
	seen := make(map[string]sign)
	for j, err := range s.Jobs.ByStatus(ctx, ledger.Downloading, farFuture) {
		if err != nil {
			return err
		}
		if len(seen) == perSweep {
			break
		}
		last, known := s.seen[j.FileID]
		if !known || last.claim != j.Claim || last.at != j.StatusUpdatedAt {
			last = sign{j.Claim, j.StatusUpdatedAt, now}
		}
		if now.Sub(last.since) <= s.Lease {
			seen[j.FileID] = last
			continue
		}
		if err := s.free(ctx, j); err != nil && !errors.Is(err, ledger.ErrLost) {
			return err
		}
	}
	s.seen = seen
	return nil
}

// farFuture is later than any time of a clock.
var farFuture = time.UnixMilli(1 << 52)

// free makes a job available whose downloader crashed, or ends it if that happened
// too often: then the file is the likely cause.
func (s *Sweeper) free(ctx context.Context, j *ledger.Job) error {
	if j.Tries >= s.MaxTries {
		err := s.Jobs.Fail(ctx, j, ledger.Error, fmt.Sprintf("%d downloaders claimed it, and crashed or stopped responding", j.Tries))
		if err == nil {
			s.Log.Error("a file is abandoned", "file", j.FileID, "claim", j.Claim, "tries", j.Tries)
			s.Meter.Recovered("given_up")
			s.Meter.Ended(string(ledger.Error))
		}
		return err
	}
	if err := s.Jobs.Release(ctx, j); err != nil {
		return err
	}
	s.Log.Warn("a downloader stopped responding; its file is released", "file", j.FileID, "claim", j.Claim, "tries", j.Tries)
	s.Meter.Recovered("released")
	return s.Send(ctx, j.FileID)
}

// resend sends the messages of jobs that no downloader claims. Only the sweeper that
// updates the job's time sends; if it crashes in between, the next sweep after
// Resend does.
func (s *Sweeper) resend(ctx context.Context) error {
	now := s.Jobs.Now()
	until := now.Add(-s.Resend)
	if s.Afresh {
		until = now
	}
	sent := 0
	each := func(j *ledger.Job, err error) error {
		if err != nil {
			return err
		}
		if err := s.Jobs.Touch(ctx, j); errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrUnknown) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(ctx, j.FileID); err != nil {
			return err
		}
		sent++
		s.Meter.Recovered("resent")
		return nil
	}
	for j, err := range s.Jobs.ByStatus(ctx, ledger.Available, until) {
		if err := each(j, err); err != nil {
			return err
		}
		if sent == perSweep {
			break
		}
	}
	// A time in the future is from a clock that was set back since.
	for j, err := range s.Jobs.After(ctx, ledger.Available, now.Add(max(s.Resend, time.Minute))) {
		if err := each(j, err); err != nil {
			return err
		}
		if sent == perSweep {
			break
		}
	}
	if sent > 0 {
		s.Log.Info("messages sent again", "files", sent, "afresh", s.Afresh)
	}
	s.Afresh = false
	return nil
}
