// Package downloader takes files from the queue and brings them into the bucket.
//
// A file is claimed by the condition that its job is available, so one downloader
// has it. While it works it gives a sign of life; a claim without one is released
// by the sweep of whoever is alive. A downloader that is slow but not dead notices
// that its claim is gone, or that it could not tell anybody for too long, and
// stops by itself.
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
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/downloads/queue"
	"github.com/stator-db/stator/apps/downloads/upstream"
)

// Downloader downloads.
type Downloader struct {
	Jobs     *ledger.Jobs
	Upstream *upstream.Client
	Queue    *queue.Queue
	Bucket   *Bucket
	Key      *rsa.PrivateKey
	HTTP     *http.Client

	Parallel int           // files at once
	MaxSize  int64         // bytes of a file
	Lease    time.Duration // how long a claim without a sign of life is respected
	Stall    time.Duration // how long a download may bring nothing
	Backoff  time.Duration // before the second attempt; later ones wait longer
	Attempts int           // in a row that bring nothing, after which a file fails
	Log      *slog.Logger
	Meter    *meter.Meter
}

// Client is a client for pre-signed URLs: it follows no redirections, opens no
// compressed bodies, and does not wait for ever for an answer to begin.
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

// Run downloads until the context ends. What is under way is then given back.
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
			d.Log.Warn("the queue does not answer; trying again", "error", err)
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

// take does what a message asks for. The message is done with when the job is
// claimed: from then on the job's status tells what is to be done.
func (d *Downloader) take(ctx context.Context, m *queue.Message, claim string) {
	id, err := m.FileID()
	if err != nil {
		d.Log.Error("a message makes no sense and is dropped", "error", err)
		d.Meter.Message("poisoned")
		m.Ack()
		return
	}
	j, err := d.Jobs.Claim(ctx, id, claim)
	switch {
	case errors.Is(err, ledger.ErrLost): // another has it, or it is done
		d.Meter.Message("stale")
		m.Ack()
	case errors.Is(err, ledger.ErrUnknown):
		d.Log.Error("a message names a file that has no job, and is dropped", "file", id)
		d.Meter.Message("unknown")
		m.Ack()
	case err != nil:
		if ctx.Err() == nil {
			d.Log.Warn("a file could not be claimed; its message comes again", "file", id, "error", err)
		}
		d.Meter.Message("retried")
		m.Again()
		_ = pause(ctx, d.Backoff) // no faster than it can be answered
	default:
		d.Meter.Message("claimed")
		m.Ack()
		d.work(ctx, &hold{job: j})
	}
}

// hold is a claimed job. The goroutine that gives signs of life and the one that
// downloads share it.
type hold struct {
	mutex sync.Mutex
	job   *ledger.Job
}

func (h *hold) beat(ctx context.Context, jobs *ledger.Jobs) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return jobs.Beat(ctx, h.job)
}

// Why a download stops that did not fail.
var (
	errLost   = errors.New("the claim is gone")
	errSilent = errors.New("no sign of life could be given for too long")
)

// fatal is an error that no further attempt mends: the job ends in Error.
type fatal struct{ error }

// work downloads a claimed file and ends its job.
func (d *Downloader) work(ctx context.Context, h *hold) {
	defer d.Meter.Started()()
	start := time.Now()
	err := d.alive(ctx, h, func(ctx context.Context) error { return d.download(ctx, h) })
	// The job is ended even when this process is about to.
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
		if err = d.Jobs.Release(last, j); err == nil {
			log.Info("a file was given back")
		}
	case errors.As(err, &bad):
		err = d.fail(last, log, j, ledger.Error, bad.Error())
	default:
		err = d.fail(last, log, j, ledger.Failed, err.Error())
	}
	if err != nil {
		log.Warn("the end of a file could not be written; its claim will be released", "error", err)
	}
}

func (d *Downloader) fail(ctx context.Context, log *slog.Logger, j *ledger.Job, as ledger.Status, reason string) error {
	err := d.Jobs.Fail(ctx, j, as, reason)
	if err == nil {
		log.Error("file ended badly", "status", as, "reason", reason)
		d.Meter.Ended(string(as))
	}
	return err
}

// alive does something while it gives signs of life for a job. The context of
// what is done ends when the claim is gone, or may be.
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
			err := h.beat(once, d.Jobs)
			done()
			switch {
			case err == nil:
				last = time.Now()
			case errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrUnknown):
				cancel(errLost)
			case time.Since(last) > d.Lease*2/3:
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

// named tells whether a job can be told from others and has a place.
func named(j *ledger.Job) error {
	if j.Broken != nil {
		return fmt.Errorf("the job's record cannot be read: %w", j.Broken)
	}
	if err := ledger.CheckEntity(j.Entity); err != nil {
		return err
	}
	if err := ledger.CheckDate(j.DownloadDate); err != nil {
		return err
	}
	if j.FileID != ledger.FileID(j.Entity, j.DownloadDate) {
		return fmt.Errorf("the job of %s is of %s and %s", j.FileID, j.Entity, j.DownloadDate)
	}
	return nil
}

// sane tells what of a job cannot be used.
func (d *Downloader) sane(j *ledger.Job) error {
	switch {
	case j.Size < 0 || j.Size > d.MaxSize:
		return fmt.Errorf("the file has %d bytes; --max-size allows %d", j.Size, d.MaxSize)
	case len(j.SHA256) != 32:
		return fmt.Errorf("the job has a SHA-256 of %d bytes", len(j.SHA256))
	}
	return nil
}
