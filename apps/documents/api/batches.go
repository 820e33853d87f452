package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

// upload stores a file, the request's body, of which a document can be made.
func (s *Server) upload(c *call) (any, error) {
	upload, err := s.keep(c, c.r.Body)
	return map[string]any{"upload": upload}, err
}

// keep stores a file among the tenant's uploads, up to the size that the plan allows.
func (s *Server) keep(c *call, body io.ReadCloser) (keys.TokenID, error) {
	upload := keys.NewID[keys.TokenID]()
	plan, limit, err := s.fileLimit(c)
	if err != nil {
		return upload, err
	}
	if err := s.Store.CountUpload(c.ctx(), plan, c.tenant()); err != nil {
		return upload, err
	}
	from := http.MaxBytesReader(c.w, body, limit)
	err = s.Bucket.Upload(c.ctx(), c.tenant().Upload(upload).String(), from, &blob.WriterOptions{ContentType: "application/octet-stream"})
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return upload, web.Refuse(http.StatusRequestEntityTooLarge, "too_large", "the file has more than %d bytes, the limit of the plan %s", limit, plan.Name)
	}
	if err != nil {
		return upload, fmt.Errorf("store an upload: %w", err)
	}
	return upload, nil
}

// newDocument is a document in a request: a file that was uploaded.
type newDocument struct {
	Name   string       `json:"name"`
	Upload keys.TokenID `json:"upload"`
}

// large is the maximum size of a request with documents, in bytes.
const large = 4 << 20

// newBatch is a batch in a request. A repeated request with the same key returns
// the same batch.
type newBatch struct {
	Workflow  keys.WorkflowID `json:"workflowId"`
	Name      string          `json:"name"`
	Key       string          `json:"key"`
	Documents []newDocument   `json:"documents"`
}

func (s *Server) createBatch(c *call) (any, error) {
	var in newBatch
	if err := web.Read(c.w, c.r, large, &in); err != nil {
		return nil, err
	}
	return s.makeBatch(c, in)
}

func (s *Server) makeBatch(c *call, in newBatch) (table.Batch, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return table.Batch{}, err
	}
	if in.Workflow.IsZero() {
		return table.Batch{}, web.Refuse(http.StatusBadRequest, "no_workflow", "the batch has no workflowId")
	}
	name, err := readName("name", in.Name)
	if err != nil {
		return table.Batch{}, err
	}
	if len(in.Key) > 200 {
		return table.Batch{}, web.Refuse(http.StatusBadRequest, "bad_key", "the key has %d bytes, but can have at most 200", len(in.Key))
	}
	w, err := s.Store.Workflow(c.ctx(), c.tenant(), p, in.Workflow)
	if err != nil {
		return table.Batch{}, err
	}
	batch := keys.NewID[keys.BatchID]()
	if in.Key != "" {
		all, err := json.Marshal(in)
		if err != nil {
			return table.Batch{}, err
		}
		batch = keys.DeriveID[keys.BatchID](c.tenant().String(), "request", p.String(), string(all))
	}
	files, err := s.newFiles(c, batch, in.Documents, table.MaxDocuments, func(i int) keys.DocumentID {
		return keys.PlacedID[keys.DocumentID](i, batch.String(), "request", strconv.Itoa(i))
	})
	if err != nil {
		return table.Batch{}, err
	}
	b, created, err := s.Store.CreateBatch(c.ctx(), table.NewBatch{ID: batch, Workflow: w, Name: name, Documents: files.documents})
	if err := files.end(c.ctx(), created, err); err != nil {
		return table.Batch{}, err
	}
	s.Wake()
	s.Notify(c.tenant())
	return b, nil
}

func (s *Server) listBatches(c *call) (any, error) {
	p, err := s.project(c)
	if err != nil {
		return nil, err
	}
	return s.Store.Batches(c.ctx(), p, c.query("cursor"))
}

func (s *Server) batch(c *call) (table.Batch, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return table.Batch{}, err
	}
	b, err := id[keys.BatchID](c, "batch")
	if err != nil {
		return table.Batch{}, err
	}
	return s.Store.Batch(c.ctx(), c.tenant(), p, b)
}

func (s *Server) getBatch(c *call) (any, error) { return s.batch(c) }

// findBatch finds a batch by its id alone. The index has no tenants, so the tenant
// of the batch is compared with the session's.
func (s *Server) findBatch(c *call) (any, error) {
	b, err := id[keys.BatchID](c, "batch")
	if err != nil {
		return nil, err
	}
	found, err := s.Store.FindBatch(c.ctx(), b)
	if err != nil {
		return nil, err
	}
	if found.Tenant != c.tenant() {
		return nil, notFound
	}
	return found, nil
}

func readStatus(text string) (table.Status, error) {
	if status := table.Status(text); status.Interesting() {
		return status, nil
	}
	return "", web.Refuse(http.StatusBadRequest, "bad_status", "the status is %.60q, but must be PROCESSING, FAILED or REVIEW_REQUIRED", text)
}

func (s *Server) listBatchesByStatus(c *call) (any, error) {
	status, err := readStatus(c.query("status"))
	if err != nil {
		return nil, err
	}
	batches, err := s.Store.BatchesIn(c.ctx(), c.tenant(), status)
	return table.Page[table.Batch]{Items: batches}, err
}
