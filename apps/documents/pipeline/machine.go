// Package pipeline processes batches from their first document to their final
// status.
//
// The state machine gets only a batch's id. It finds the batch by that id, and with
// it the tenant, the workflow and the thresholds. It may be stopped at any point,
// and run twice concurrently: its writes have the condition that the document is
// still in processing.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// Machine is the state machine.
type Machine struct {
	Store      *table.Store
	Results    *Results
	Files      *blob.Bucket
	Extractors map[string]extract.Extractor // builtin and, optionally, service

	AtOnce   int           // concurrent documents of a batch
	Attempts int           // attempts before a document fails
	Within   time.Duration // time limit for one document, without waiting for others

	// Changed is called with a tenant whose data changed.
	Changed func(keys.Tenant)
	Metrics *Metrics
	Log     *slog.Logger
}

// page is the number of documents that are read before their outcomes are written.
const page = 48

// execution is one run of a batch.
type execution struct {
	*Machine
	batch      table.Batch
	extraction extract.Extraction
	extractor  extract.Extractor
	orphaned   bool      // the workflow was deleted
	again      time.Time // when the first waiting document is due
}

// state does a part of the work and returns the next state; nil is the end.
type state func(ctx context.Context, x *execution) (state, error)

// Run processes a batch as far as possible now. It returns when to run again; the
// zero time means never.
func (m *Machine) Run(ctx context.Context, id keys.BatchID) (time.Time, error) {
	x := &execution{Machine: m}
	x.batch.ID = id
	for next := find; next != nil; {
		var err error
		if next, err = next(ctx, x); err != nil {
			return time.Time{}, fmt.Errorf("batch %s: %w", id, err)
		}
	}
	return x.again, nil
}

// find looks up the batch by its id alone.
func find(ctx context.Context, x *execution) (state, error) {
	b, err := x.Store.FindBatch(ctx, x.batch.ID)
	if err != nil {
		return nil, err
	}
	x.batch = b
	return prepare, nil
}

// prepare reads the workflow and its extractor. The batch of a deleted tenant waits
// until it is deleted with its job.
func prepare(ctx context.Context, x *execution) (state, error) {
	exists, err := x.Store.TenantExists(ctx, x.batch.Tenant)
	if err != nil {
		return nil, err
	}
	if !exists {
		x.again = x.Store.Now().Add(time.Minute)
		return nil, nil
	}
	w, err := x.Store.Workflow(ctx, x.batch.Tenant, x.batch.Project, x.batch.Workflow)
	if errors.Is(err, table.ErrNotFound) {
		x.orphaned = true
		return process, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read its workflow: %w", err)
	}
	if x.extraction, err = extract.ParseExtraction([]byte(w.Extraction)); err != nil {
		return nil, fmt.Errorf("its workflow is not valid: %w", err)
	}
	name := x.extraction.First()
	if x.extractor = x.Extractors[name]; x.extractor == nil {
		return nil, fmt.Errorf("its workflow needs the extractor %q, which does not exist: configure the service with --model-service", name)
	}
	return process, nil
}

// process reads the documents in processing once.
func process(ctx context.Context, x *execution) (state, error) {
	x.again = time.Time{}
	cursor := ""
	for {
		documents, err := x.Store.DocumentsIn(ctx, x.batch, table.Processing, cursor, page)
		if err != nil {
			return nil, err
		}
		if err := x.settle(ctx, documents.Items); err != nil {
			return nil, err
		}
		if cursor = documents.Next; cursor == "" {
			return finish, nil
		}
	}
}

// finish sets the batch's final status if no document is left, processes again if
// some were added meanwhile, or ends until the waiting documents are due.
func finish(ctx context.Context, x *execution) (state, error) {
	if !x.again.IsZero() {
		return nil, nil
	}
	b, done, err := x.Store.Finish(ctx, x.batch)
	if err != nil {
		return nil, err
	}
	x.batch = b
	if !done {
		// Documents were added meanwhile, or the index lags: retry soon.
		x.again = x.Store.Now().Add(500 * time.Millisecond)
		return nil, nil
	}
	x.Metrics.finished(b.Status)
	x.Changed(b.Tenant)
	x.Log.Info("a batch is finished", "batch", b.ID, "tenant", b.Tenant, "status", b.Status, "documents", b.Documents)
	return nil, nil
}

// settle reads some documents and writes their outcomes.
func (x *execution) settle(ctx context.Context, documents []table.Document) error {
	outcomes := make([]*table.Outcome, len(documents))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(x.AtOnce)
	for i, d := range documents {
		if at, err := keys.ParseTime(d.RetryAt); d.RetryAt != "" && err == nil && at.After(x.Store.Now()) {
			x.wait(at)
			continue
		}
		group.Go(func() (err error) {
			outcomes[i], err = x.read(within, d)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var ready []table.Outcome
	for i, o := range outcomes {
		switch {
		case o == nil:
		case o.Status == table.Processing:
			at := x.Store.Now().Add(backoff(o.Attempts))
			if err := x.Store.Defer(ctx, documents[i], o.Reason, at); err != nil {
				return err
			}
			x.Metrics.Retries.Inc()
			x.wait(at)
		default:
			ready = append(ready, *o)
		}
	}
	settled, err := x.Store.Settle(ctx, x.batch, ready)
	for _, o := range settled {
		x.Metrics.settled(o.Status)
	}
	if len(settled) > 0 {
		x.Changed(x.batch.Tenant)
	}
	return err
}

// wait records the earliest time at which there is work.
func (x *execution) wait(at time.Time) {
	if x.again.IsZero() || at.Before(x.again) {
		x.again = at
	}
}

// backoff returns how long a document waits after a number of attempts.
func backoff(attempts int) time.Duration {
	return min(time.Second<<min(attempts, 10), 5*time.Minute)
}

// read returns the outcome of a document. An error stops the batch; errors that the
// document causes are outcomes.
func (x *execution) read(ctx context.Context, d table.Document) (*table.Outcome, error) {
	// A retry that fails keeps what an earlier attempt has read.
	o := &table.Outcome{Document: d, Attempts: d.Attempts + 1, Confidence: d.Confidence, Result: d.Result, ResultObject: d.ResultObject}
	if x.orphaned {
		o.Status, o.Reason = table.Failed, "the workflow was deleted before the document was read"
		return o, nil
	}
	began := time.Now()
	result, err := x.extract(ctx, d)
	x.Metrics.Reading.Observe(time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case extract.IsUnreadable(err):
		o.Status, o.Reason, o.Unreadable = table.Failed, reason(err), true
		return o, nil
	case err != nil && o.Attempts < x.Attempts:
		x.Log.Warn("a document is retried", "document", d.ID, "batch", d.Batch, "attempt", o.Attempts, "error", err, "detail", extract.Detail(err))
		o.Status, o.Reason = table.Processing, "the last attempt failed: "+reason(err)
		return o, nil
	case err != nil:
		x.Log.Warn("a document fails", "document", d.ID, "batch", d.Batch, "attempt", o.Attempts, "error", err, "detail", extract.Detail(err))
		o.Status, o.Reason = table.Failed, fmt.Sprintf("%d attempts failed, the last with: %s", o.Attempts, reason(err))
		return o, nil
	}
	o.Confidence = result.Confidence
	var why string
	if o.Status, why = Judge(x.batch, x.extraction, result); o.Status == table.Failed {
		o.Reason = why
	}
	return o, x.Results.Keep(ctx, o, result)
}

// Judge returns the status of a document with a result, and the reason if it does not
// succeed.
func Judge(b table.Batch, e extract.Extraction, r extract.Result) (table.Status, string) {
	below := map[table.Status]float64{table.Failed: b.ConfidenceThreshold, table.ReviewRequired: b.ReviewThreshold}
	status := b.Judge(r.Confidence)
	if status == table.Succeeded {
		return status, ""
	}
	return status, fmt.Sprintf("the confidence is %.2f, below the workflow's %.2f; lowest for %s", r.Confidence, below[status], worst(e, r))
}

// reason returns the text of an error for an item.
func reason(err error) string { return fmt.Sprintf("%.500s", err.Error()) }

// worst returns the required field with the lowest confidence.
func worst(e extract.Extraction, r extract.Result) string {
	name, least := "its fields", 2.0
	for i, f := range r.Fields {
		if e.Fields[i].Required && f.Confidence < least {
			name, least = fmt.Sprintf("%q", f.Name), f.Confidence
		}
	}
	return name
}

func (x *execution) extract(ctx context.Context, d table.Document) (extract.Result, error) {
	ctx, cancel := extract.Limit(ctx, x.Within)
	defer cancel()
	file, err := ReadFile(ctx, x.Files, d)
	if err != nil {
		return extract.Result{}, x.late(ctx, err)
	}
	r, err := x.safely(ctx, file, d)
	return r, x.late(ctx, err)
}

// errPanic is what a tenant sees of a panic.
var errPanic = errors.New("the extractor failed because of a bug; the operator's log has the details")

// safely calls the extractor. A file can show a bug, which must not end the process: another
// one would read the same file.
func (x *execution) safely(ctx context.Context, f extract.File, d table.Document) (r extract.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.Log.Error("an extractor panicked", "document", d.ID, "batch", d.Batch, "panic", p, "stack", string(debug.Stack()))
			r, err = extract.Result{}, errPanic
		}
	}()
	return x.extractor.Extract(ctx, f, x.extraction)
}

// late returns an error that says so if the cause of err is the time limit.
func (x *execution) late(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), extract.ErrLimit) {
		return fmt.Errorf("reading it took longer than %v", x.Within)
	}
	return err
}

// ReadFile reads a document's file, up to the maximum size.
func ReadFile(ctx context.Context, files *blob.Bucket, d table.Document) (extract.File, error) {
	object, err := d.Tenant.Own(d.Object)
	if err != nil {
		return extract.File{}, &extract.Unreadable{Reason: err.Error()}
	}
	r, err := files.NewReader(ctx, object.String(), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return extract.File{}, &extract.Unreadable{Reason: "the file is not in the bucket"}
	}
	if err != nil {
		return extract.File{}, fmt.Errorf("open the file: %w", err)
	}
	var data []byte
	if r.Size() <= extract.MaxFile {
		data, err = io.ReadAll(io.LimitReader(r, extract.MaxFile+1))
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return extract.File{}, fmt.Errorf("read the file: %w", err)
	}
	if size := max(r.Size(), int64(len(data))); size > extract.MaxFile {
		return extract.File{}, &extract.Unreadable{Reason: fmt.Sprintf("the file has %d bytes, but at most %d are read", size, extract.MaxFile)}
	}
	return extract.File{Name: d.Name, Data: data}, nil
}

// ErrNoResult is returned for a document without a result.
var ErrNoResult = errors.New("the document has no result")
