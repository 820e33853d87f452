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

// Runner executes jobs that are due. Any number of processes may run one: a job is
// claimed for a time, and is claimed by others if its owner crashes.
type Runner struct {
	Store   *table.Store
	Machine *Machine
	Reports *Reporter
	AtOnce  int           // concurrent jobs
	Lease   time.Duration // duration of a claim
	Every   time.Duration // interval of looking for jobs
	Metrics *Metrics
	Log     *slog.Logger

	wake chan struct{}
	once sync.Once
}

func (r *Runner) bell() chan struct{} {
	r.once.Do(func() { r.wake = make(chan struct{}, 1) })
	return r.wake
}

// Wake makes the runner look for jobs at once.
func (r *Runner) Wake() {
	select {
	case r.bell() <- struct{}{}:
	default:
	}
}

// Run executes jobs until the context ends. Jobs in progress are then abandoned:
// other processes, or the next start, continue them.
func (r *Runner) Run(ctx context.Context) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	var working sync.WaitGroup
	defer working.Wait()
	turns := make(chan struct{}, r.AtOnce)
	for {
		if _, err := r.look(ctx, turns, &working); err != nil && ctx.Err() == nil {
			r.Log.Error("looking for work failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.bell():
		}
	}
}

// Pass executes all jobs that are due, and returns how many it claimed.
func (r *Runner) Pass(ctx context.Context) (int, error) {
	var working sync.WaitGroup
	defer working.Wait()
	return r.look(ctx, make(chan struct{}, r.AtOnce), &working)
}

// look claims the jobs that are due and starts them, up to the number of free
// slots.
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
				r.Wake() // there may be more than were read
			})
		}
	}
	return claimed, nil
}

// do executes a claimed job and writes the outcome to the table.
func (r *Runner) do(ctx context.Context, job table.Job) {
	lease := hold(ctx, r, job)
	again, err := r.work(lease.ctx, job)
	job, kept := lease.release()
	outcome := "done"
	switch {
	case ctx.Err() != nil && kept:
		// Released, so that other processes need not wait until the claim expires.
		outcome = "stopped"
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, err = r.Store.Claim(rest, &job, "", 0)
	case !kept:
		outcome = "lost" // or deleted by its own work
	case err != nil:
		outcome = "failed"
		r.Log.Error("a job failed; retrying", "kind", job.Kind, "error", err)
		_, err = r.Store.Claim(ctx, &job, "", 5*time.Second)
	case !again.IsZero():
		outcome = "postponed"
		_, err = r.Store.Claim(ctx, &job, "", again.Sub(r.Store.Now()))
	}
	if err != nil && outcome != "done" && outcome != "lost" {
		r.Log.Error("releasing a job failed; it is due again when its claim expires", "kind", job.Kind, "error", err)
	}
	r.Metrics.Jobs.WithLabelValues(job.Kind, outcome).Inc()
}

// work executes a job by its kind. It returns when to execute it again; the zero
// time if the job is done.
func (r *Runner) work(ctx context.Context, job table.Job) (time.Time, error) {
	switch job.Kind {
	case table.JobWork:
		return r.Machine.Run(ctx, job.Batch)
	case table.JobMake:
		r.Log.Warn("removing an unfinished batch", "batch", job.Batch, "tenant", job.Tenant)
		return time.Time{}, r.Store.Discard(ctx, job)
	case table.JobHide:
		return r.clear(ctx, job)
	case table.JobHook, table.JobMail:
		return r.Reports.do(ctx, job)
	case table.JobDelete:
		return r.Store.Delete(ctx, job, objects{r.Machine.Files})
	}
	return time.Time{}, fmt.Errorf("a job has the unknown kind %q", job.Kind)
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

// lease renews a claim while its job is executed.
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
				r.Log.Warn("renewing a claim failed", "kind", job.Kind, "error", err)
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

// release stops the renewing, and returns the current job, and whether the claim
// is still held as far as we know.
func (l *lease) release() (table.Job, bool) {
	l.stop()
	<-l.done
	return l.job, l.kept
}
