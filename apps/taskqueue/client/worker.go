package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Worker claims tasks of a queue and executes them.
type Worker struct {
	Client   *Client
	Queue    string
	ID       string        // unique among running workers
	Lease    time.Duration // time without heartbeats after which a task is given to another worker; defaults to 30 s
	Parallel int           // number of concurrent tasks; defaults to 1
	Log      *slog.Logger  // nil disables logging

	// Do executes a task and returns its result. After an error the task is
	// retried later, unless the error was made by Never. The context ends when
	// the worker must abandon the task: the task was cancelled, the lease could
	// not be extended, or the worker stops. The result is then ignored.
	Do func(context.Context, task.Claim) (result string, err error)
}

// Never marks an error as permanent: the task is not retried.
func Never(err error) error { return never{err} }

type never struct{ error }

func (n never) Unwrap() error { return n.error }

// Run works until the context ends; tasks in progress are then released.
func (w *Worker) Run(ctx context.Context) error {
	if w.Lease == 0 {
		w.Lease = 30 * time.Second
	}
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	if err := task.CheckName("worker", w.ID); err != nil {
		return err
	}
	var rows sync.WaitGroup
	errs := make(chan error, max(1, w.Parallel))
	for range max(1, w.Parallel) {
		rows.Go(func() { errs <- w.row(ctx) })
	}
	rows.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// row executes one task after the other.
func (w *Worker) row(ctx context.Context) error {
	for ctx.Err() == nil {
		sent := time.Now()
		claim, ok, err := w.Client.Claim(ctx, w.Queue, task.ClaimRequest{Worker: w.ID, Lease: task.Duration(w.Lease), Wait: task.Duration(20 * time.Second)})
		var refused *Error
		switch {
		case ctx.Err() != nil && !ok:
			return nil
		case errors.As(err, &refused) && refused.Status == 400:
			return err
		case err != nil:
			w.Log.Warn("claiming a task failed; retrying", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		case ok:
			w.one(ctx, claim, sent)
		}
	}
	return nil
}

var (
	errLost    = errors.New("the task no longer belongs to this worker")
	errStopped = errors.New("the worker stops")
)

// one executes a task and reports the result. requested is when the claim was
// requested; if that was long ago, a heartbeat checks that the claim still holds
// before the task is executed.
func (w *Worker) one(ctx context.Context, claim task.Claim, sent time.Time) {
	if lease := time.Duration(claim.Lease); time.Since(sent) > lease/10 {
		sent = time.Now()
		try, cancel := context.WithTimeout(ctx, lease/3)
		err := w.Client.Heartbeat(try, claim)
		cancel()
		if err != nil {
			w.Log.Warn("a task was claimed, but its lease may have expired", "task", claim.ID, "error", err)
			return
		}
	}
	doing, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	stop := context.AfterFunc(ctx, func() { abandon(errStopped) })
	defer stop()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		w.keep(doing, claim, sent, abandon)
	}()
	result, err := w.do(doing, claim)
	cause := context.Cause(doing)
	abandon(nil)
	<-kept
	say, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Lease)
	defer cancel()
	switch {
	case errors.Is(cause, errStopped) && err != nil:
		err = w.Client.Release(say, claim)
	case errors.Is(cause, errLost):
		w.Log.Warn("abandoned a task that no longer belongs to this worker", "task", claim.ID)
		return
	case err != nil:
		var isNever never
		word := task.Report{Reason: shorten(err.Error()), Never: errors.As(err, &isNever)}
		w.Log.Info("a task failed", "task", claim.ID, "attempt", claim.Attempts, "error", err)
		err = w.Client.Fail(say, claim, word)
	default:
		err = w.Client.Complete(say, claim, result)
	}
	if err != nil {
		w.Log.Warn("the result of a task could not be reported; the task is retried when its lease expires", "task", claim.ID, "error", err)
	}
}

// do calls Do; a panic fails the task, not the worker.
func (w *Worker) do(ctx context.Context, claim task.Claim) (result string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.Do(ctx, claim)
}

// keep sends heartbeats while a task runs. If none succeeds for nine tenths of
// the lease, the worker abandons the task before the server gives it to another
// worker: the worker counts from when it sent the last successful request, the
// server from when it received it.
func (w *Worker) keep(ctx context.Context, claim task.Claim, sent time.Time, abandon context.CancelCauseFunc) {
	lease := time.Duration(claim.Lease)
	beat := time.NewTicker(lease / 3)
	defer beat.Stop()
	over := time.AfterFunc(lease*9/10-time.Since(sent), func() { abandon(errLost) })
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		sent = time.Now()
		try, cancel := context.WithTimeout(ctx, lease/3)
		err := w.Client.Heartbeat(try, claim)
		cancel()
		var refused *Error
		switch {
		case err == nil:
			over.Reset(lease*9/10 - time.Since(sent))
		case errors.As(err, &refused) && refused.Status < 500:
			abandon(errLost)
			return
		}
	}
}

func shorten(s string) string {
	if len(s) > 2000 {
		return strings.ToValidUTF8(s[:2000], "") + "…"
	}
	return s
}
