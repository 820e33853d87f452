// Package ingest creates documents from the files that are put into a bucket.
//
// A file is put at inbox/<tenant>/<project>/<workflow>/<batch>/<file>. It is copied
// to the tenant's files, recorded under the condition that it is new, and only
// then removed from the inbox. After a crash at any point the file is ingested
// again, which changes nothing if it was recorded.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// Inbox is the folder for new files, and Rejected the folder for files that cannot
// become documents, each with a file that has the reason.
const (
	Inbox    = "inbox/"
	Rejected = "rejected/"
)

// unfinished is the suffix of files that are still being written, where the bucket
// is a folder. They are skipped.
const unfinished = ".tmp"

// Ingest ingests files from the inbox.
type Ingest struct {
	Store  *table.Store
	Bucket *blob.Bucket
	Every  time.Duration // interval of the passes through the inbox
	Wake   func()        // called when there is work to process
	Files  *prometheus.CounterVec
	Log    *slog.Logger
}

// NewMetrics registers the counter of files by outcome.
func NewMetrics(r prometheus.Registerer) *prometheus.CounterVec {
	files := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_ingested_files_total", Help: "Files found in the inbox, by outcome."}, []string{"outcome"})
	r.MustRegister(files)
	return files
}

// Run ingests files until the context ends.
func (i *Ingest) Run(ctx context.Context) error {
	tick := time.NewTicker(i.Every)
	defer tick.Stop()
	for {
		if err := i.Pass(ctx); err != nil && ctx.Err() == nil {
			i.Log.Error("ingesting files failed; they stay in the inbox", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// some is the number of files that are ingested together.
const some = 400

// Pass ingests all files that are in the inbox now.
func (i *Ingest) Pass(ctx context.Context) error {
	files := i.Bucket.List(&blob.ListOptions{Prefix: Inbox})
	var names []string
	var faults error
	arrived, place := i.Store.Now(), 0
	for {
		object, err := files.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("list the inbox: %w", err)
		}
		names = append(names, object.Key)
		if len(names) == some {
			faults = errors.Join(faults, i.take(ctx, names, arrived, place))
			place += len(names)
			names = names[:0]
		}
	}
	return errors.Join(faults, i.take(ctx, names, arrived, place))
}

// arrival is a file in the inbox, and the parts of its name.
type arrival struct {
	name     string // in the bucket
	tenant   keys.Tenant
	project  keys.ProjectID
	workflow keys.WorkflowID
	folder   string
	file     string
	place    int // among the files that arrived together
}

// parse parses a name. The bucket's access rules decide who may write to a tenant's
// folder.
func parse(name string) (a arrival, err error) {
	parts := strings.Split(name, "/")
	if len(parts) != 6 {
		return a, errors.New("the name is not inbox/tenant/project/workflow/batch/file")
	}
	a = arrival{name: name, folder: parts[4], file: parts[5]}
	if a.tenant, err = keys.ParseTenant(parts[1]); err != nil {
		return a, fmt.Errorf("the tenant: %w", err)
	}
	if a.project, err = keys.ParseID[keys.ProjectID](parts[2]); err != nil {
		return a, fmt.Errorf("the project: %w", err)
	}
	if a.workflow, err = keys.ParseID[keys.WorkflowID](parts[3]); err != nil {
		return a, fmt.Errorf("the workflow: %w", err)
	}
	for _, s := range []string{a.folder, a.file} {
		if s == "" || len(s) > 200 || !utf8.ValidString(s) {
			return a, errors.New("the names of the batch and of the file must have 1 to 200 bytes of UTF-8")
		}
	}
	return a, nil
}

func (a arrival) batch() keys.BatchID {
	return keys.InboxBatchID(a.tenant, a.project, a.workflow, a.folder)
}

func (a arrival) document(b keys.BatchID) keys.DocumentID {
	return keys.InboxID(b, a.file)
}

// ids returns the ids of the documents of files in a batch.
func ids(b keys.BatchID, files []arrival) []keys.DocumentID {
	var all []keys.DocumentID
	for _, a := range files {
		all = append(all, a.document(b))
	}
	return all
}

// Take ingests the files with these names. Some may no longer exist, or be
// ingested already.
func (i *Ingest) Take(ctx context.Context, names []string) error {
	return i.take(ctx, names, i.Store.Now(), 0)
}

// take is Take for files that arrived at a time, together with others; place is that of
// the first of them.
func (i *Ingest) take(ctx context.Context, names []string, arrived time.Time, place int) error {
	groups := make(map[keys.BatchID][]arrival)
	var order []keys.BatchID
	var faults error
	for n, name := range names {
		if strings.HasSuffix(name, unfinished) {
			continue
		}
		a, err := parse(name)
		if err != nil {
			faults = errors.Join(faults, i.reject(ctx, name, err))
			continue
		}
		a.place = place + n
		b := a.batch()
		if groups[b] == nil {
			order = append(order, b)
		}
		groups[b] = append(groups[b], a)
	}
	for _, b := range order {
		if err := i.takeBatch(ctx, b, groups[b], arrived); err != nil {
			faults = errors.Join(faults, fmt.Errorf("batch %s: %w", b, err))
		}
	}
	return faults
}

// takeBatch ingests files of one batch.
func (i *Ingest) takeBatch(ctx context.Context, id keys.BatchID, files []arrival, arrived time.Time) error {
	first := files[0]
	w, err := i.Store.Workflow(ctx, first.tenant, first.project, first.workflow)
	if errors.Is(err, table.ErrNotFound) {
		err = errors.New("the tenant, project or workflow does not exist")
		var faults error
		for _, a := range files {
			faults = errors.Join(faults, i.reject(ctx, a.name, err))
		}
		return faults
	}
	if err != nil {
		return err
	}
	if files, err = i.allowed(ctx, files); err != nil || len(files) == 0 {
		return err
	}
	if files, err = i.ready(ctx, id, files); err != nil || len(files) == 0 {
		return err
	}
	recorded, err := i.Store.Recorded(ctx, first.tenant, id, ids(id, files))
	if err != nil {
		return err
	}
	var documents []table.NewDocument
	var taken []arrival
	for _, a := range files {
		if recorded[a.document(id)] {
			taken = append(taken, a) // a copy would replace the file of the document
			continue
		}
		d := table.NewDocument{ID: a.document(id), Name: a.file, Arrived: arrived, Place: a.place}
		d.Object = a.tenant.File(id, d.ID)
		err := i.Bucket.Copy(ctx, d.Object.String(), a.name, nil)
		if gcerrors.Code(err) == gcerrors.NotFound {
			i.Files.WithLabelValues("gone").Inc() // another process was faster
			continue
		}
		if err != nil {
			return fmt.Errorf("copy a file: %w", err)
		}
		documents, taken = append(documents, d), append(taken, a)
	}
	added := 0
	if len(documents) > 0 {
		if added, err = i.record(ctx, table.NewBatch{ID: id, Workflow: w, Name: first.folder, Documents: documents}); err != nil {
			return errors.Join(err, i.undo(ctx, err, first.tenant, id, documents))
		}
	}
	i.Files.WithLabelValues("new").Add(float64(added))
	i.Files.WithLabelValues("duplicate").Add(float64(len(taken) - added))
	if added > 0 {
		i.Wake()
	}
	return i.remove(ctx, taken)
}

// undo removes the copies of files whose documents were refused: nothing else would,
// since the batch may never have existed. After another error the next pass uses them.
func (i *Ingest) undo(ctx context.Context, why error, t keys.Tenant, b keys.BatchID, documents []table.NewDocument) error {
	var limit *table.LimitError
	if !errors.Is(why, table.ErrNotFound) && !errors.As(why, &limit) {
		return nil
	}
	var all []keys.DocumentID
	for _, d := range documents {
		all = append(all, d.ID)
	}
	recorded, err := i.Store.Recorded(ctx, t, b, all)
	if err != nil {
		return err
	}
	for _, d := range documents {
		if recorded[d.ID] {
			continue
		}
		if err := i.Bucket.Delete(ctx, d.Object.String()); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("remove the copy of a refused file: %w", err)
		}
	}
	return nil
}

// remove removes files from the inbox.
func (i *Ingest) remove(ctx context.Context, files []arrival) error {
	for _, a := range files {
		if err := i.Bucket.Delete(ctx, a.name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("remove a file from the inbox: %w", err)
		}
	}
	return nil
}

// ready returns the files that can be copied. Those whose batch or document is being
// deleted stay in the inbox until that has ended: the deletion would delete the copies.
func (i *Ingest) ready(ctx context.Context, id keys.BatchID, files []arrival) ([]arrival, error) {
	deleted, err := i.Store.Deleting(ctx, files[0].tenant, id, ids(id, files))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(files), func(a arrival) bool { return deleted[a.document(id)] }), nil
}

// allowed rejects the files that the plan of the tenant does not allow. Of files that
// are more than the rest of the month's documents it returns the first ones; the next
// pass rejects the others.
func (i *Ingest) allowed(ctx context.Context, files []arrival) ([]arrival, error) {
	usage, err := i.Store.Usage(ctx, files[0].tenant)
	if err != nil {
		return nil, err
	}
	var fit []arrival
	var faults error
	for _, a := range files {
		if usage.MaxDocuments > 0 && usage.Documents >= usage.MaxDocuments {
			faults = errors.Join(faults, i.reject(ctx, a.name, &table.LimitError{Plan: usage.Plan, What: "documents a month", Limit: int64(usage.MaxDocuments), Used: int64(usage.Documents)}))
			continue
		}
		if usage.MaxFileBytes > 0 {
			object, err := i.Bucket.Attributes(ctx, a.name)
			if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				return nil, fmt.Errorf("look up a file: %w", err)
			}
			if err == nil && object.Size > usage.MaxFileBytes {
				faults = errors.Join(faults, i.reject(ctx, a.name, fmt.Errorf("the file has %d bytes, but the plan %s allows %d", object.Size, usage.Plan, usage.MaxFileBytes)))
				continue
			}
		}
		fit = append(fit, a)
	}
	if usage.MaxDocuments > 0 {
		fit = fit[:min(len(fit), max(0, usage.MaxDocuments-usage.Documents))]
	}
	return fit, faults
}

// record records documents in a new or an existing batch. It returns the number of
// new ones.
func (i *Ingest) record(ctx context.Context, n table.NewBatch) (int, error) {
	b, err := i.Store.Batch(ctx, n.Workflow.Tenant, n.Workflow.Project, n.ID)
	first, all := 0, n.Documents
	if errors.Is(err, table.ErrNotFound) {
		var created bool
		n.Documents = all[:min(len(all), table.InOne)]
		if b, created, err = i.Store.CreateBatch(ctx, n); created {
			first = len(n.Documents)
		}
	}
	if err != nil {
		return 0, err
	}
	added, err := i.Store.AddDocuments(ctx, b, all[first:])
	return first + len(added), err
}

// reject moves a file to Rejected and adds a file with the reason.
func (i *Ingest) reject(ctx context.Context, name string, why error) error {
	i.Log.Warn("a file is rejected", "file", name, "error", why)
	to := Rejected + strings.TrimPrefix(name, Inbox)
	err := i.Bucket.Copy(ctx, to, name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reject a file: %w", err)
	}
	if err := i.Bucket.WriteAll(ctx, to+".why.txt", []byte(why.Error()+"\n"), nil); err != nil {
		return fmt.Errorf("write the reason of a rejection: %w", err)
	}
	i.Files.WithLabelValues("rejected").Inc()
	if err := i.Bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("remove a rejected file from the inbox: %w", err)
	}
	return nil
}
