// Package downloader receives files from the queue and downloads them into the
// bucket.
//
// A file is claimed under the condition that its job is available, so one
// downloader has it. While it works it sends heartbeats; a claim without heartbeats
// is released by the poller that drives its batch. A downloader that is slow but alive notices
// that its claim is lost, or that its heartbeats failed for too long, and stops.
package downloader

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/downloads/queue"
	"github.com/stator-db/stator/apps/downloads/upstream"
)

// Downloader downloads files.
type Downloader struct {
	Jobs     *ledger.Jobs
	Upstream *upstream.Client
	Queue    *queue.Queue
	Bucket   *Bucket
	Key      *rsa.PrivateKey
	HTTP     *http.Client

	Parallel int           // concurrent files
	MaxSize  int64         // maximum size of a file in bytes
	Lease    time.Duration // how long a claim lasts without a heartbeat
	Stall    time.Duration // how long a download may receive nothing
	Backoff  time.Duration // delay before the second attempt; it grows with each
	Attempts int           // consecutive attempts without progress, after which a file fails
	Log      *slog.Logger
	Meter    *meter.Meter
}

// Client returns a client for pre-signed URLs: it follows no redirects, does not
// decompress bodies, and has a timeout for the beginning of a reply.
func Client(parallel int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 30 * time.Second,
			IdleConnTimeout:       time.Minute,
			MaxIdleConnsPerHost:   parallel,
			DisableCompression:    true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Run downloads until the context ends. Files in progress are then released.
func (d *Downloader) Run(ctx context.Context) error {
	me := token(3)
	d.Log.Info("downloader started", "downloader", me, "parallel", d.Parallel, "lease", d.Lease)
	slots := make(chan struct{}, d.Parallel)
	var works sync.WaitGroup
	defer works.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		m, err := d.Queue.Receive(ctx)
		if err != nil {
			<-slots
			if ctx.Err() != nil {
				return nil
			}
			d.Log.Warn("the queue does not respond; retrying", "error", err)
			if pause(ctx, d.Backoff) != nil {
				return nil
			}
			continue
		}
		works.Go(func() {
			defer func() { <-slots }()
			d.take(ctx, m, me+token(3))
		})
	}
}

func token(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// take handles a message. The message is acknowledged when the job is claimed: from
// then on the job's status says what is to be done.
func (d *Downloader) take(ctx context.Context, m *queue.Message, claim string) {
	id, err := m.FileID()
	if err != nil {
		d.Log.Error("an invalid message is dropped", "error", err)
		d.Meter.Message("poisoned")
		m.Ack()
		return
	}
	j, err := d.Jobs.Claim(ctx, id, claim)
	switch {
	case errors.Is(err, ledger.ErrLost): // another downloader has it, or it is done
		d.Meter.Message("stale")
		m.Ack()
	case errors.Is(err, ledger.ErrUnknown):
		d.Log.Error("a message names a file that has no job, and is dropped", "file", id)
		d.Meter.Message("unknown")
		m.Ack()
	case err != nil:
		if ctx.Err() == nil {
			d.Log.Warn("claiming a file failed; its message is delivered again", "file", id, "error", err)
		}
		d.Meter.Message("retried")
		m.Again()
		_ = pause(ctx, d.Backoff) // do not retry faster than the table responds
	default:
		d.Meter.Message("claimed")
		m.Ack()
		d.work(ctx, &hold{job: j, confirmed: time.Now()})
	}
}

// hold is a claimed job, shared by the goroutine that sends heartbeats and the one
// that downloads.
type hold struct {
	received atomic.Int64 // bytes

	mutex     sync.Mutex
	job       *ledger.Job
	confirmed time.Time // when the claim was last known to be ours
}

// beat writes a heartbeat, unless the claim was confirmed recently.
func (h *hold) beat(ctx context.Context, jobs *ledger.Jobs, recently time.Duration) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	start := time.Now()
	if start.Sub(h.confirmed) < recently {
		return nil
	}
	err := jobs.Beat(ctx, h.job, h.received.Load())
	if err == nil {
		h.confirmed = start
	}
	return err
}

// Why a download stops without having failed.
var (
	errLost   = errors.New("the claim is lost")
	errSilent = errors.New("no heartbeat succeeded for too long")
)

// fatal is an error that a retry cannot fix: the job ends in Error.
type fatal struct{ error }

// work downloads a claimed file and ends its job.
func (d *Downloader) work(ctx context.Context, h *hold) {
	defer d.Meter.Started()()
	start := time.Now()
	err := d.alive(ctx, h, func(ctx context.Context) error { return d.download(ctx, h) })
	// The job is ended even if this process is about to stop.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Lease)
	defer cancel()
	j := h.job
	log := d.Log.With("file", j.FileID, "claim", j.Claim)
	var bad fatal
	switch {
	case err == nil:
		if err = d.Jobs.Complete(last, j); err == nil {
			d.Meter.Ended(string(ledger.Completed))
			d.Meter.Stored(j.Size, time.Since(start))
			log.Debug("file completed", "bytes", j.Size)
		}
	case errors.Is(err, errLost), errors.Is(err, ledger.ErrLost), errors.Is(err, ledger.ErrUnknown), errors.Is(err, errSilent):
		d.Meter.Recovered("lost")
		log.Warn("a download was stopped", "error", err)
		return
	case ctx.Err() != nil:
		if err = d.Jobs.GiveUp(last, j); err == nil {
			log.Info("a file was released")
		}
	case errors.As(err, &bad):
		err = d.fail(last, log, j, ledger.Error, bad.Error())
	default:
		err = d.fail(last, log, j, ledger.Failed, err.Error())
	}
	if err != nil {
		log.Warn("recording the end of a file failed; its claim will expire", "error", err)
	}
}

func (d *Downloader) fail(ctx context.Context, log *slog.Logger, j *ledger.Job, as ledger.Status, reason string) error {
	err := d.Jobs.Fail(ctx, j, as, reason)
	if err == nil {
		log.Error("file failed", "status", as, "reason", reason)
		d.Meter.Ended(string(as))
	}
	return err
}

// alive runs a function while it sends heartbeats for a job. The function's context
// ends when the claim is lost, or may be.
func (d *Downloader) alive(ctx context.Context, h *hold, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(d.Lease / 3)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			once, done := context.WithTimeout(ctx, d.Lease/3)
			err := h.beat(once, d.Jobs, 0)
			done()
			switch {
			case err == nil:
				last = time.Now()
			case errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrUnknown):
				cancel(errLost)
			case ctx.Err() != nil:
				return
			default:
				d.Log.Warn("a heartbeat failed", "file", h.job.FileID, "error", err)
			}
			if time.Since(last) > d.Lease*2/3 {
				cancel(errSilent)
			}
		}
	})
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errLost) || errors.Is(cause, errSilent)) {
		err = cause
	}
	cancel(nil)
	beating.Wait()
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// named checks that a job can be identified and has a valid object name.
func named(j *ledger.Job) error {
	if j.Broken != nil {
		return fmt.Errorf("the job's record is invalid: %w", j.Broken)
	}
	if err := ledger.CheckEntity(j.Entity); err != nil {
		return err
	}
	if err := ledger.CheckDate(j.DownloadDate); err != nil {
		return err
	}
	if j.FileID != ledger.FileID(j.Entity, j.DownloadDate) {
		return fmt.Errorf("the job of %s has the entity %s and the date %s", j.FileID, j.Entity, j.DownloadDate)
	}
	return nil
}

// sane checks the other fields of a job.
func (d *Downloader) sane(j *ledger.Job) error {
	switch {
	case j.Size < 0 || j.Size > d.MaxSize:
		return fmt.Errorf("the file has %d bytes; --max-size allows %d", j.Size, d.MaxSize)
	case len(j.SHA256) != 32:
		return fmt.Errorf("the job has a SHA-256 of %d bytes", len(j.SHA256))
	}
	return nil
}
