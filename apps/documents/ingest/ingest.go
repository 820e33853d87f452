// Package ingest makes documents of the files that are put into a bucket.
//
// A file is put at inbox/<tenant>/<project>/<workflow>/<batch>/<file>. It is
// copied to where the tenant's files are, written down under the condition that
// it is not there yet, and only then taken from the inbox. Whatever happens in
// between, the file is met again, and its second time does nothing.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// Inbox is where files are put, and Rejected where those go of which no document
// can be made, each with a file that says why.
const (
	Inbox    = "inbox/"
	Rejected = "rejected/"
)

// unfinished is behind the names of files that are still being written, where
// the bucket is a folder. They are left alone.
const unfinished = ".tmp"

// Ingest takes files out of the inbox.
type Ingest struct {
	Store  *table.Store
	Bucket *blob.Bucket
	Every  time.Duration // that the inbox is looked through
	Wake   func()        // is called when there is something to process
	Files  *prometheus.CounterVec
	Log    *slog.Logger
}

// NewMetrics registers the count of files by what became of them.
func NewMetrics(r prometheus.Registerer) *prometheus.CounterVec {
	files := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_ingested_files_total", Help: "Files met in the inbox, by what became of them."}, []string{"outcome"})
	r.MustRegister(files)
	return files
}

// Run looks through the inbox until the context ends.
func (i *Ingest) Run(ctx context.Context) error {
	tick := time.NewTicker(i.Every)
	defer tick.Stop()
	for {
		if err := i.Pass(ctx); err != nil && ctx.Err() == nil {
			i.Log.Error("could not take files from the inbox; they stay there", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// some is how many files are taken together.
const some = 400

// Pass takes all files that are in the inbox now.
func (i *Ingest) Pass(ctx context.Context) error {
	files := i.Bucket.List(&blob.ListOptions{Prefix: Inbox})
	var names []string
	var faults error
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
			faults = errors.Join(faults, i.Take(ctx, names))
			names = names[:0]
		}
	}
	return errors.Join(faults, i.Take(ctx, names))
}

// arrival is a file in the inbox, and what its name says.
type arrival struct {
	name     string // in the bucket
	tenant   keys.Tenant
	project  keys.ProjectID
	workflow keys.WorkflowID
	folder   string
	file     string
}

// parse reads a name. The bucket's own rules say who may write below a tenant's
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
			return a, errors.New("the names of the batch and of the file have 1 to 200 bytes of UTF-8")
		}
	}
	return a, nil
}

func (a arrival) batch() keys.BatchID {
	return keys.DeriveID[keys.BatchID](a.tenant.String(), "inbox", a.project.String(), a.workflow.String(), a.folder)
}

// Take takes the files with these names. Any of them may be gone, or met before.
func (i *Ingest) Take(ctx context.Context, names []string) error {
	groups := make(map[keys.BatchID][]arrival)
	var order []keys.BatchID
	var faults error
	for _, name := range names {
		if strings.HasSuffix(name, unfinished) {
			continue
		}
		a, err := parse(name)
		if err != nil {
			faults = errors.Join(faults, i.reject(ctx, name, err))
			continue
		}
		b := a.batch()
		if groups[b] == nil {
			order = append(order, b)
		}
		groups[b] = append(groups[b], a)
	}
	for _, b := range order {
		if err := i.takeBatch(ctx, b, groups[b]); err != nil {
			faults = errors.Join(faults, fmt.Errorf("batch %s: %w", b, err))
		}
	}
	return faults
}

// takeBatch takes files of one batch.
func (i *Ingest) takeBatch(ctx context.Context, id keys.BatchID, files []arrival) error {
	first := files[0]
	w, err := i.Store.Workflow(ctx, first.tenant, first.project, first.workflow)
	if errors.Is(err, table.ErrNotFound) {
		err = errors.New("there is no such tenant, project or workflow")
		var faults error
		for _, a := range files {
			faults = errors.Join(faults, i.reject(ctx, a.name, err))
		}
		return faults
	}
	if err != nil {
		return err
	}
	var documents []table.NewDocument
	for _, a := range files {
		d := table.NewDocument{ID: keys.DeriveID[keys.DocumentID](id.String(), "inbox", a.file), Name: a.file}
		d.Object = a.tenant.File(id, d.ID)
		err := i.Bucket.Copy(ctx, d.Object.String(), a.name, nil)
		if gcerrors.Code(err) == gcerrors.NotFound {
			i.Files.WithLabelValues("gone").Inc() // somebody was faster
			continue
		}
		if err != nil {
			return fmt.Errorf("copy a file: %w", err)
		}
		documents = append(documents, d)
	}
	if len(documents) == 0 {
		return nil
	}
	added, err := i.record(ctx, table.NewBatch{ID: id, Workflow: w, Name: first.folder, Documents: documents})
	if err != nil {
		return err
	}
	i.Files.WithLabelValues("new").Add(float64(added))
	i.Files.WithLabelValues("duplicate").Add(float64(len(documents) - added))
	if added > 0 {
		i.Wake()
	}
	for _, a := range files {
		if err := i.Bucket.Delete(ctx, a.name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("take a file from the inbox: %w", err)
		}
	}
	return nil
}

// record writes documents down, in a new batch or in one that is there. It tells
// how many were new.
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

// reject moves a file out of the way, with a word about why.
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
		return fmt.Errorf("say why a file is rejected: %w", err)
	}
	i.Files.WithLabelValues("rejected").Inc()
	if err := i.Bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("take a rejected file from the inbox: %w", err)
	}
	return nil
}
