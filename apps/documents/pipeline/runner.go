package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// Runner looks for jobs whose time has come and does them. Any number of
// processes may run one: a job is claimed for a time, and comes back to the
// others if its claimer dies.
type Runner struct {
	Store   *table.Store
	Machine *Machine
	AtOnce  int           // jobs
	Lease   time.Duration // of a claim
	Every   time.Duration // that is looked for jobs
	Metrics *Metrics
	Log     *slog.Logger

	wake chan struct{}
	once sync.Once
}

func (r *Runner) bell() chan struct{} {
	r.once.Do(func() { r.wake = make(chan struct{}, 1) })
	return r.wake
}

// Wake has jobs looked for at once.
func (r *Runner) Wake() {
	select {
	case r.bell() <- struct{}{}:
	default:
	}
}

// Run works until the context ends. Jobs under way are then left where they are:
// others, or the next start, go on with them.
func (r *Runner) Run(ctx context.Context) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	turns := make(chan struct{}, r.AtOnce)
	for {
		if _, err := r.look(ctx, turns, &working); err != nil && ctx.Err() == nil {
			r.Log.Error("could not look for work", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.bell():
		}
	}
}

// Pass does all jobs that are due, and tells how many it claimed.
func (r *Runner) Pass(ctx context.Context) (int, error) {
	var working sync.WaitGroup
	defer working.Wait()
	return r.look(ctx, make(chan struct{}, r.AtOnce), &working)
}

// look claims the jobs that are due and has them done, as many at once as there
// are turns.
func (r *Runner) look(ctx context.Context, turns chan struct{}, working *sync.WaitGroup) (int, error) {
	claimed := 0
	found := 0
	for shard := range keys.JobShards {
		jobs, err := r.Store.DueJobs(ctx, shard)
		if err != nil {
			return claimed, err
		}
		found += len(jobs)
		r.Metrics.Due.Set(float64(found))
		for _, job := range jobs {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return claimed, ctx.Err()
			}
			ours, err := r.Store.Claim(ctx, &job, uuid.NewString(), r.Lease)
			if err != nil || !ours {
				<-turns
				if err != nil {
					return claimed, err
				}
				continue
			}
			claimed++
			working.Go(func() {
				r.do(ctx, job)
				<-turns
				r.Wake() // there may have been more than were looked at
			})
		}
	}
	return claimed, nil
}

// do does a claimed job, and says in the table what comes of it.
func (r *Runner) do(ctx context.Context, job table.Job) {
	lease := hold(ctx, r, job)
	again, err := r.work(lease.ctx, job)
	job, kept := lease.release()
	outcome := "done"
	switch {
	case ctx.Err() != nil && kept:
		// Given back, so that nobody has to wait until the claim runs out.
		outcome = "stopped"
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, err = r.Store.Claim(rest, &job, "", 0)
	case !kept:
		outcome = "lost" // or ended by its own work
	case err != nil:
		outcome = "failed"
		r.Log.Error("a job did not work; it is tried again", "kind", job.Kind, "error", err)
		_, err = r.Store.Claim(ctx, &job, "", 5*time.Second)
	case !again.IsZero():
		outcome = "postponed"
		_, err = r.Store.Claim(ctx, &job, "", again.Sub(r.Store.Now()))
	}
	if err != nil && outcome != "done" && outcome != "lost" {
		r.Log.Error("a job could not be put back; it comes back by itself", "kind", job.Kind, "error", err)
	}
	r.Metrics.Jobs.WithLabelValues(job.Kind, outcome).Inc()
}

// work is what there is to do for each kind. It tells when to do it again; the
// zero time when the job is gone.
func (r *Runner) work(ctx context.Context, job table.Job) (time.Time, error) {
	switch job.Kind {
	case table.JobWork:
		return r.Machine.Run(ctx, job.Batch)
	case table.JobMake:
		r.Log.Warn("a batch that was never finished is removed", "batch", job.Batch, "tenant", job.Tenant)
		return time.Time{}, r.Store.Discard(ctx, job)
	case table.JobHide:
		return r.clear(ctx, job)
	}
	return time.Time{}, fmt.Errorf("a job is of the kind %q, which is not known", job.Kind)
}

func (r *Runner) clear(ctx context.Context, job table.Job) (time.Time, error) {
	b, err := r.Store.FindBatch(ctx, job.Batch)
	if errors.Is(err, table.ErrNotFound) {
		return time.Time{}, r.Store.Drop(ctx, job)
	}
	if err != nil {
		return time.Time{}, err
	}
	again, err := r.Store.Clear(ctx, b)
	if err != nil || !again.IsZero() {
		return again, err
	}
	return time.Time{}, r.Store.Drop(ctx, job)
}

// lease keeps a claim alive while its job is done.
type lease struct {
	ctx  context.Context // ends when the claim is lost
	stop context.CancelFunc
	done chan struct{}
	job  table.Job
	kept bool
}

func hold(ctx context.Context, r *Runner, job table.Job) *lease {
	l := &lease{done: make(chan struct{}), job: job, kept: true}
	l.ctx, l.stop = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		tick := time.NewTicker(r.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-l.ctx.Done():
				return
			case <-tick.C:
			}
			ours, err := r.Store.Claim(l.ctx, &l.job, l.job.Owner, r.Lease)
			if err != nil && l.ctx.Err() == nil {
				r.Log.Warn("a claim could not be renewed", "kind", job.Kind, "error", err)
			}
			if err == nil && !ours {
				l.kept = false
				l.stop()
				return
			}
		}
	}()
	return l
}

// release ends the renewing, and returns the job as it is now, and whether it is
// still ours as far as we know.
func (l *lease) release() (table.Job, bool) {
	l.stop()
	<-l.done
	return l.job, l.kept
}
