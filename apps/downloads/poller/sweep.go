package poller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
)

// Sweeper repairs what crashes leave: jobs whose message was lost, and jobs whose
// downloader crashed. It has no time of its own: a poller passes it the jobs that it
// reads while a batch runs, so an idle pipeline sends no request. Any number of sweepers
// may run. Its methods may be called concurrently.
type Sweeper struct {
	Jobs  *ledger.Jobs
	Send  func(ctx context.Context, id string) error
	Log   *slog.Logger
	Meter *meter.Meter

	Lease    time.Duration // how long a claim lasts without a heartbeat
	Resend   time.Duration // how long a job may be available before its message is sent again
	MaxTries int           // lost claims before the job ends in Error
	Timeout  time.Duration // time limit of a batch

	// Volatile is set if messages are lost with the process: a job that is available
	// and whose message this process has not sent is sent at once.
	Volatile bool

	// Clock measures elapsed time; defaults to time.Now.
	Clock func() time.Time

	mutex                 sync.Mutex
	seen                  map[string]sign
	claimsAt, availableAt time.Time // the last sweeps of StatusIndex
}

// sign is what this process last saw of a job, and since when.
type sign struct {
	status ledger.Status
	claim  string
	at     int64 // the last heartbeat or message
	since  time.Time
	asked  int64 // epoch ms; when this process sent the message for another reason than a sweep, or 0
}

// perSweep is the maximum number of jobs of a status in a sweep.
const perSweep = 10_000

func (s *Sweeper) now() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return time.Now()
}

// Sent records that this process has sent a job's message.
func (s *Sweeper) Sent(id string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.remember(id, sign{status: ledger.Available, since: s.now(), asked: s.Jobs.Now().UnixMilli()})
}

func (s *Sweeper) remember(id string, as sign) {
	if s.seen == nil {
		s.seen = make(map[string]sign)
	}
	s.seen[id] = as
}

// Reset forgets all jobs. It is called when no batch runs.
func (s *Sweeper) Reset() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.seen, s.claimsAt, s.availableAt = nil, time.Time{}, time.Time{}
}

// Inspect repairs a job if it needs that.
func (s *Sweeper) Inspect(ctx context.Context, j *ledger.Job) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	err := s.inspect(ctx, j)
	if errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrUnknown) {
		return nil // it changed meanwhile
	}
	return err
}

func (s *Sweeper) inspect(ctx context.Context, j *ledger.Job) error {
	is := sign{status: j.Status, claim: j.Claim, at: j.HeartbeatAt, since: s.now()}
	switch j.Status {
	case ledger.Available:
		is.claim, is.at = "", j.SentAt
	case ledger.Downloading:
	default:
		delete(s.seen, j.FileID)
		return nil
	}
	last, known := s.seen[j.FileID]
	if known && last.status == is.status && last.claim == is.claim && (last.at == is.at || last.at == 0) {
		is.since = last.since
	}
	if known && last.status == is.status {
		is.asked = last.asked
	}
	s.remember(j.FileID, is)
	if j.Status == ledger.Available {
		return s.resend(ctx, j, is, !known && s.Volatile)
	}
	// The lease is measured by this process's own timer, so that neither the clock of
	// the writer nor a jump of ours makes a live claim look dead.
	if s.now().Sub(is.since) <= s.Lease {
		return nil
	}
	return s.free(ctx, j)
}

// SweepDue inspects the unfinished jobs of all batches by StatusIndex, if that was long
// ago: the claims three times in a lease, the others twice in the time after which a
// message is sent again. It is for batches that are too large to read each job.
func (s *Sweeper) SweepDue(ctx context.Context) error {
	now := s.now()
	s.mutex.Lock()
	claims, available := now.Sub(s.claimsAt) >= s.Lease/3, now.Sub(s.availableAt) >= s.Resend/2
	if claims {
		s.claimsAt = now
	}
	if available {
		s.availableAt = now
	}
	s.mutex.Unlock()
	var errs []error
	if claims {
		errs = append(errs, s.sweep(ctx, ledger.Downloading))
	}
	if available {
		errs = append(errs, s.sweep(ctx, ledger.Available))
	}
	return errors.Join(errs...)
}

// Sweep inspects the unfinished jobs of all batches now.
func (s *Sweeper) Sweep(ctx context.Context) error {
	return errors.Join(s.sweep(ctx, ledger.Downloading), s.sweep(ctx, ledger.Available))
}

func (s *Sweeper) sweep(ctx context.Context, of ledger.Status) error {
	n := 0
	for j, err := range s.Jobs.ByStatus(ctx, of) {
		if err != nil {
			return err
		}
		if err := s.Inspect(ctx, j); err != nil {
			return err
		}
		if n++; n == perSweep {
			break
		}
	}
	return nil
}

// free makes a job available whose downloader crashed, or ends it if that happened
// too often: then the file is the likely cause.
func (s *Sweeper) free(ctx context.Context, j *ledger.Job) error {
	delete(s.seen, j.FileID)
	if j.Tries >= s.MaxTries {
		err := s.Jobs.Abandon(ctx, j, fmt.Sprintf("%d downloaders claimed it, and crashed or stopped responding", j.Tries))
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
	s.remember(j.FileID, sign{status: ledger.Available, since: s.now()})
	return s.Send(ctx, j.FileID)
}

// resend sends the message of a job that no downloader claims: after Resend, and then
// each time twice as late, since a message that waits behind others is not lost. Only
// the sweeper that records the time sends; if it crashes in between, a later one does.
func (s *Sweeper) resend(ctx context.Context, j *ledger.Job, is sign, lost bool) error {
	interval := s.interval(j, is.asked)
	silent := s.Jobs.Now().Sub(time.UnixMilli(j.SentAt))
	if !lost && silent < interval && s.now().Sub(is.since) < interval {
		return nil
	}
	after, err := s.Jobs.Touch(ctx, j)
	if err != nil {
		return err
	}
	s.remember(j.FileID, sign{status: ledger.Available, at: after.SentAt, since: s.now(), asked: is.asked})
	if err := s.Send(ctx, j.FileID); err != nil {
		return err
	}
	s.Log.Info("a message was sent again", "file", j.FileID)
	s.Meter.Recovered("resent")
	return nil
}

// interval returns how long the last message of a job may be unanswered. It doubles from when
// the job became available or was requeued. It is at most an eighth of a batch's time, since a
// job that has been available for long may have been requeued by an earlier process.
func (s *Sweeper) interval(j *ledger.Job, asked int64) time.Duration {
	interval := time.Duration(j.SentAt-max(j.StatusUpdatedAt, asked)) * time.Millisecond
	if s.Timeout > 0 {
		interval = min(interval, s.Timeout/8)
	}
	return max(s.Resend, interval)
}
