package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

// newFiles are the documents of a request, with their files. Each document has a copy of its
// upload: several documents can be made of one, and each is deleted by itself.
type newFiles struct {
	bucket    *blob.Bucket
	store     *table.Store
	log       *slog.Logger
	tenant    keys.Tenant
	batch     keys.BatchID
	documents []table.NewDocument
	uploads   []keys.TokenID

	mutex sync.Mutex
	made  []int // indexes of the documents whose files this request has made
}

// newFiles validates the documents of a request and makes their files. Uploads are looked up
// below the session's tenant, so uploads of other tenants do not exist. The caller must
// call end.
func (s *Server) newFiles(c *call, batch keys.BatchID, in []newDocument, most int, id func(i int) keys.DocumentID) (*newFiles, error) {
	if len(in) == 0 || len(in) > most {
		return nil, web.Refuse(http.StatusBadRequest, "bad_documents", "the request has %d documents, but must have 1 to %d", len(in), most)
	}
	f := &newFiles{bucket: s.Bucket, store: s.Store, log: s.Log, tenant: c.tenant(), batch: batch}
	for i, d := range in {
		name, err := readName(fmt.Sprintf("name of document %d", i+1), d.Name)
		if err != nil {
			return nil, err
		}
		if d.Upload.IsZero() {
			return nil, web.Refuse(http.StatusBadRequest, "no_upload", "document %d has no upload", i+1)
		}
		f.uploads = append(f.uploads, d.Upload)
		f.documents = append(f.documents, table.NewDocument{ID: id(i), Name: name, Object: f.tenant.UploadOf(d.Upload, id(i)), Place: i})
	}
	all, ctx := errgroup.WithContext(c.ctx())
	all.SetLimit(16)
	for i := range f.documents {
		all.Go(func() error { return f.make(ctx, i) })
	}
	if err := all.Wait(); err != nil {
		return nil, errors.Join(err, f.undo(c.ctx()))
	}
	return f, nil
}

// make makes the file of a document, unless an earlier request has. An upload is removed
// when it has become a document; further ones are copied from the files of the others.
func (f *newFiles) make(ctx context.Context, i int) error {
	to := f.documents[i].Object.String()
	if there, err := f.bucket.Exists(ctx, to); err != nil || there {
		return lookedUp(err)
	}
	from := f.tenant.Upload(f.uploads[i]).String()
	err := f.bucket.Copy(ctx, to, from, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		if from, err = first(ctx, f.bucket, f.tenant.UploadsOf(f.uploads[i])); err == nil {
			err = f.bucket.Copy(ctx, to, from, nil)
		}
	}
	if gcerrors.Code(err) == gcerrors.NotFound || errors.Is(err, io.EOF) {
		return web.Refuse(http.StatusNotFound, "no_upload", "the upload of document %d does not exist", i+1)
	}
	if err != nil {
		return fmt.Errorf("copy an upload: %w", err)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.made = append(f.made, i)
	return nil
}

func lookedUp(err error) error {
	if err != nil {
		return fmt.Errorf("look up an upload: %w", err)
	}
	return nil
}

// first returns the first object whose name has a prefix. The error is io.EOF if there is
// none.
func first(ctx context.Context, b *blob.Bucket, prefix string) (string, error) {
	o, err := b.List(&blob.ListOptions{Prefix: prefix}).Next(ctx)
	if err != nil {
		return "", err
	}
	return o.Key, nil
}

// end is called with the outcome of the creation of the documents, and returns its error.
// If all were created, their uploads are removed; if not, the files of those that were not.
func (f *newFiles) end(ctx context.Context, created bool, err error) error {
	if err != nil && !refused(err) {
		return err // they may have been created
	}
	if err != nil || !created {
		return errors.Join(err, f.undo(ctx))
	}
	for _, u := range f.uploads {
		err := f.bucket.Delete(ctx, f.tenant.Upload(u).String())
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			// The documents exist, and the upload is deleted with the first of them.
			f.log.Warn("an upload that has become a document is not removed", "error", err)
		}
	}
	return nil
}

// refused reports whether an error means that no request creates the documents. After a
// conflict a concurrent request of the same key may, and uses the same files.
func refused(err error) bool {
	var limit *table.LimitError
	return errors.As(err, &limit) || errors.Is(err, table.ErrNotFound)
}

// undo removes the files that this request has made and whose documents do not exist.
func (f *newFiles) undo(ctx context.Context) error {
	var ids []keys.DocumentID
	for _, i := range f.made {
		ids = append(ids, f.documents[i].ID)
	}
	if len(ids) == 0 {
		return nil
	}
	recorded, err := f.store.Recorded(ctx, f.tenant, f.batch, ids)
	if err != nil {
		return err
	}
	for _, i := range f.made {
		if d := f.documents[i]; !recorded[d.ID] {
			if err := f.bucket.Delete(ctx, d.Object.String()); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				return fmt.Errorf("remove the file of a document that was not created: %w", err)
			}
		}
	}
	return nil
}
