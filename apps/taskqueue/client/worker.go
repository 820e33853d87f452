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

// Worker claims tasks of a queue and does them.
type Worker struct {
	Client   *Client
	Queue    string
	ID       string        // of no other worker at the same time
	Lease    time.Duration // after what silence a task is given to another; 30 s unless set
	Parallel int           // tasks at once; 1 unless set
	Log      *slog.Logger  // nothing is logged unless set

	// Do does a task and returns its result. An error lets it be tried again
	// later; one made by Never does not. The context ends when the worker must
	// let go of the task: it was called off, the lease could not be prolonged,
	// or the worker stops. Whatever Do returns then does not count.
	Do func(context.Context, task.Claim) (result string, err error)
}

// Never says of an error that trying again is of no use.
func Never(err error) error { return never{err} }

type never struct{ error }

func (n never) Unwrap() error { return n.error }

// Run works until the context ends; tasks under way are then given back.
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

// row does one task after the other.
func (w *Worker) row(ctx context.Context) error {
	for ctx.Err() == nil {
		sent := time.Now()
		claim, ok, err := w.Client.Claim(ctx, w.Queue, task.Claiming{Worker: w.ID, Lease: task.Duration(w.Lease), Wait: task.Duration(20 * time.Second)})
		var refused *Error
		switch {
		case ctx.Err() != nil && !ok:
			return nil
		case errors.As(err, &refused) && refused.Status == 400:
			return err
		case err != nil:
			w.Log.Warn("no task could be claimed; trying again", "error", err)
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
	errLost    = errors.New("the task is no longer this worker's")
	errStopped = errors.New("the worker stops")
)

// one does a task and says what came of it. The claim was asked for at a time,
// and made at some time since: if that was not just now, a heartbeat tells
// whether the task is still ours before anything is done.
func (w *Worker) one(ctx context.Context, claim task.Claim, sent time.Time) {
	if lease := time.Duration(claim.Lease); time.Since(sent) > lease/10 {
		sent = time.Now()
		try, cancel := context.WithTimeout(ctx, lease/3)
		err := w.Client.Heartbeat(try, claim)
		cancel()
		if err != nil {
			w.Log.Warn("a task was claimed, but may be another's by now", "task", claim.ID, "error", err)
			return
		}
	}
	doing, letGo := context.WithCancelCause(context.WithoutCancel(ctx))
	defer letGo(nil)
	stop := context.AfterFunc(ctx, func() { letGo(errStopped) })
	defer stop()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		w.keep(doing, claim, sent, letGo)
	}()
	result, err := w.do(doing, claim)
	cause := context.Cause(doing)
	letGo(nil)
	<-kept
	say, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Lease)
	defer cancel()
	switch {
	case errors.Is(cause, errStopped) && err != nil:
		err = w.Client.Release(say, claim)
	case errors.Is(cause, errLost):
		w.Log.Warn("let go of a task that is no longer ours", "task", claim.ID)
		return
	case err != nil:
		var isNever never
		word := task.Word{Reason: shorten(err.Error()), Never: errors.As(err, &isNever)}
		w.Log.Info("a task failed", "task", claim.ID, "attempt", claim.Attempts, "error", err)
		err = w.Client.Fail(say, claim, word)
	default:
		err = w.Client.Complete(say, claim, result)
	}
	if err != nil {
		w.Log.Warn("what became of a task could not be said; it is tried again when its lease is over", "task", claim.ID, "error", err)
	}
}

// do calls Do; a panic is a failure of the task, not the end of the worker.
func (w *Worker) do(ctx context.Context, claim task.Claim) (result string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.Do(ctx, claim)
}

// keep sends heartbeats while a task is done. If none arrives for nine tenths of
// the lease, the worker lets go before the server gives the task to another: it
// counts from when it sent the last word that arrived, the server from later on.
func (w *Worker) keep(ctx context.Context, claim task.Claim, sent time.Time, letGo context.CancelCauseFunc) {
	lease := time.Duration(claim.Lease)
	beat := time.NewTicker(lease / 3)
	defer beat.Stop()
	over := time.AfterFunc(lease*9/10-time.Since(sent), func() { letGo(errLost) })
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
			letGo(errLost)
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
