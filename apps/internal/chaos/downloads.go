package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/home"
)

// downloadsFiles is how many files a day has.
const downloadsFiles = 8

// pipeline is what the check of the downloads uses.
type pipeline struct {
	*downloads.System
	up   *stand.Stand
	date string
}

// checkDownloads downloads the files of a day, of which one fails, and one fails again for a second batch,
// which takes it over; an operator queues that one again. Each file must be downloaded as often as it was
// queued, be in the bucket as the upstream has it, and the batches must have all of them.
func checkDownloads(ctx context.Context, r *run) (err error) {
	folder, err := os.MkdirTemp("", "downloads-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	o := downloads.Defaults()
	o.KeyFile = filepath.Join(folder, "key.pem")
	key, err := seal.MakeKey(o.KeyFile)
	if err != nil {
		return err
	}
	up := stand.New(stand.Options{Key: &key.PublicKey, Seed: "chaos", Files: downloadsFiles, Size: 4000, Pause: time.Millisecond})
	server := httptest.NewServer(up)
	defer server.Close()
	o.Home, o.Upstream, o.Log = home.Options{Endpoint: r.endpoint}, server.URL, r.log
	o.Every, o.Backoff = 50*time.Millisecond, 10*time.Millisecond
	if r.seed%2 == 0 {
		o.Small = 2 // checks batches by their index
	}
	s, err := downloads.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.Jobs.DB, s.Batches.DB = quick(s.Home.DB), quick(s.Home.DB)
	s.Keeper.Poller.Sweeper.Volatile = false // as with a queue between processes
	p := &pipeline{System: s, up: up, date: time.Now().UTC().Format(time.DateOnly)}
	stop := background(ctx, func(ctx context.Context) error { return s.Run(ctx, nil) })
	defer func() { err = errors.Join(err, stop()) }()
	return p.days(ctx)
}

// days downloads the day with two batches and a requeue.
func (p *pipeline) days(ctx context.Context) error {
	for _, entity := range []int{2, 5} {
		if err := p.up.Fault(stand.Entity(entity), "forgedsum", 1); err != nil {
			return err
		}
	}
	first, err := p.batch(ctx)
	if err != nil {
		return err
	}
	if err := p.expect(first, 2, 5); err != nil {
		return err
	}
	if err := p.up.Fault(stand.Entity(5), "forgedsum", 1); err != nil {
		return err
	}
	second, err := p.batch(ctx)
	if err != nil {
		return err
	}
	if err := p.expect(second, 5); err != nil {
		return err
	}
	out, err := p.Requeue(ctx, downloads.Requeue{Files: []string{p.id(5)}})
	if err != nil {
		return err
	}
	if len(out.Files) != 1 || len(out.Batches) != 1 {
		return fmt.Errorf("queued again are %+v", out)
	}
	if second, err = p.end(ctx, second.BatchID); err != nil {
		return err
	}
	if err := p.expect(second); err != nil {
		return err
	}
	return p.whole(ctx)
}

func (p *pipeline) id(entity int) string { return ledger.FileID(stand.Entity(entity), p.date) }

// batch starts a batch and waits for its end.
func (p *pipeline) batch(ctx context.Context) (*ledger.Batch, error) {
	id, err := p.Keeper.Trigger(ctx, p.date)
	if err != nil {
		return nil, err
	}
	return p.end(ctx, id)
}

func (p *pipeline) end(ctx context.Context, id string) (b *ledger.Batch, err error) {
	batches := *p.Batches
	batches.DB = patient(batches.DB)
	err = until(ctx, func() (string, error) {
		var err error
		if b, err = batches.Get(ctx, id); err != nil {
			return "", err
		}
		if !b.Over() {
			return fmt.Sprintf("batch %s is %s; %v", id, b.Status, p.open(ctx)), nil
		}
		return "", nil
	})
	return b, err
}

// open describes the jobs that have not ended.
func (p *pipeline) open(ctx context.Context) (found []string) {
	if ctx.Err() == nil {
		return nil // it is asked for after the time is over
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	jobs := *p.Jobs
	jobs.DB = patient(jobs.DB)
	for i := range downloadsFiles {
		if j, err := jobs.Get(ctx, p.id(i)); err == nil && (j.Status == ledger.Available || j.Status == ledger.Downloading) {
			found = append(found, fmt.Sprintf("%s is %s since %d, try %d", j.FileID, j.Status, j.StatusUpdatedAt, j.Tries))
		}
	}
	return found
}

// expect compares how the files of a batch have ended.
func (p *pipeline) expect(b *ledger.Batch, failed ...int) error {
	var want, bad []string
	for i := range downloadsFiles {
		if slices.Contains(failed, i) {
			bad = append(bad, p.id(i))
		} else {
			want = append(want, p.id(i))
		}
	}
	for _, list := range [][]string{want, bad, b.CompletedFiles, b.FailedFiles} {
		slices.Sort(list)
	}
	status := ledger.Completed
	if len(bad) > 0 {
		status = ledger.Failed
	}
	if b.Status != status || len(b.ExpectedFiles) != downloadsFiles || !slices.Equal(b.CompletedFiles, want) || !slices.Equal(b.FailedFiles, bad) {
		return fmt.Errorf("batch %s is %s: completed %v, want %v; failed %v, want %v; expected are %d: %s", b.BatchID, b.Status, b.CompletedFiles, want, b.FailedFiles, bad, len(b.ExpectedFiles), b.ErrorMessage)
	}
	return nil
}

// whole compares the jobs, the bucket and what the upstream has served.
func (p *pipeline) whole(ctx context.Context) error {
	found, err := items(ctx, p.Jobs.DB, ledger.JobsTable)
	if err != nil {
		return err
	}
	if len(found) != downloadsFiles {
		return fmt.Errorf("there are %d jobs", len(found))
	}
	jobs := *p.Jobs
	jobs.DB = patient(jobs.DB)
	for i := range downloadsFiles {
		j, err := jobs.Get(ctx, p.id(i))
		if err != nil {
			return err
		}
		if j.Status != ledger.Completed || j.CompletedAt == "" {
			return fmt.Errorf("job %s is %+v", p.id(i), j)
		}
		got, err := p.Bucket.ReadAll(ctx, j.Object())
		if err != nil {
			return err
		}
		if string(got) != string(p.up.Plain(p.date, stand.Entity(i))) {
			return fmt.Errorf("%s in the bucket has %d bytes, and is not what the upstream has", j.Object(), len(got))
		}
		if served := p.up.Counts(p.id(i)); i != 2 && i != 5 && served.Starts != 1 {
			return fmt.Errorf("%s was fetched %d times, want once", p.id(i), served.Starts)
		}
	}
	return nil
}
