package api

import (
	"context"
	"net/http"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/trial"
	"github.com/stator-db/stator/apps/documents/workflow"
	"github.com/stator-db/stator/apps/internal/web"
)

// sample is the file of a trial: a document of the project, an upload, or what the
// request itself contains.
type sample struct {
	Batch    keys.BatchID    `json:"batchId"`
	Document keys.DocumentID `json:"documentId"`
	Upload   keys.TokenID    `json:"upload"`
	Name     string          `json:"name"` // of an upload or a content
	Content  []byte          `json:"content"`
	Text     string          `json:"text"`
}

// tryWorkflow applies a workflow that is not stored to a sample. It stores nothing.
func (s *Server) tryWorkflow(c *call) (any, error) {
	p, err := s.project(c)
	if err != nil {
		return nil, err
	}
	leave, err := s.Trials.Enter(c.tenant())
	if err != nil {
		return nil, err
	}
	defer leave()
	plan, limit, err := s.fileLimit(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Workflow workflow.Definition `json:"workflow"`
		Sample   sample              `json:"sample"`
		Page     int                 `json:"page"` // of the preview; 0 means none
	}
	if err := web.Read(c.w, c.r, limit/3*4+small, &in); err != nil {
		return nil, err
	}
	checked, problems := in.Workflow.Check(s.Methods)
	if len(problems) > 0 {
		return nil, badWorkflow(problems)
	}
	f, err := s.sampleFile(c.ctx(), c.tenant(), p.ID, in.Sample, limit)
	if err != nil {
		return nil, err
	}
	return s.Trials.Run(c.ctx(), trial.Request{Tenant: c.tenant(), User: c.session.User, Plan: plan, Workflow: checked, File: f, Page: max(in.Page, 0)})
}

// fileLimit returns the plan of the session's tenant, and the maximum size of a file.
func (s *Server) fileLimit(c *call) (table.Plan, int64, error) {
	t, err := s.Store.Tenant(c.ctx(), c.tenant())
	if err != nil {
		return table.Plan{}, 0, err
	}
	plan, _ := table.PlanOf(t.Plan)
	limit := int64(extract.MaxFile)
	if plan.FileBytes > 0 {
		limit = min(limit, plan.FileBytes)
	}
	return plan, limit, nil
}

// sampleFile returns the file of a sample. It is looked up below the tenant, so files
// of other tenants do not exist.
func (s *Server) sampleFile(ctx context.Context, t keys.Tenant, p keys.ProjectID, in sample, limit int64) (extract.File, error) {
	given := 0
	for _, is := range []bool{!in.Document.IsZero() && !in.Batch.IsZero(), !in.Upload.IsZero(), len(in.Content) > 0, in.Text != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return extract.File{}, web.Refuse(http.StatusBadRequest, "bad_sample", "the sample must be a document (batchId and documentId), an upload, a content or a text")
	case int64(max(len(in.Content), len(in.Text))) > limit:
		return extract.File{}, web.Refuse(http.StatusRequestEntityTooLarge, "too_large", "the sample has more than %d bytes, the limit of the plan", limit)
	case in.Text != "":
		return extract.File{Name: "sample.txt", Data: []byte(in.Text)}, nil
	case len(in.Content) > 0:
		return extract.File{Name: in.Name, Data: in.Content}, nil
	}
	d, err := s.sampleDocument(ctx, t, p, in)
	if err != nil {
		return extract.File{}, err
	}
	f, err := pipeline.ReadFile(ctx, s.Bucket, d)
	if extract.IsUnreadable(err) {
		return f, web.Refuse(http.StatusNotFound, "no_file", "the sample cannot be read: %v", err)
	}
	return f, err
}

func (s *Server) sampleDocument(ctx context.Context, t keys.Tenant, p keys.ProjectID, in sample) (table.Document, error) {
	if !in.Upload.IsZero() {
		d := table.Document{Tenant: t, Name: in.Name, Object: t.Upload(in.Upload).String()}
		if there, err := s.Bucket.Exists(ctx, d.Object); err != nil || there {
			return d, lookedUp(err)
		}
		// It has become a document.
		if name, err := first(ctx, s.Bucket, t.UploadsOf(in.Upload)); err == nil {
			d.Object = name
		}
		return d, nil
	}
	b, err := s.Store.Batch(ctx, t, p, in.Batch)
	if err != nil {
		return table.Document{}, err
	}
	return s.Store.Document(ctx, b, in.Document)
}
