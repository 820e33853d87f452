package api

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

// perPage is the number of documents on a page of a list.
const perPage = 50

func (s *Server) listDocuments(c *call) (any, error) {
	b, err := s.batch(c)
	if err != nil {
		return nil, err
	}
	if text := c.query("status"); text != "" {
		status, err := readStatus(text)
		if err != nil {
			return nil, err
		}
		return s.Store.NewestIn(c.ctx(), b, status, c.query("cursor"), perPage)
	}
	return s.Store.Documents(c.ctx(), b, c.query("cursor"), perPage)
}

func (s *Server) addDocuments(c *call) (any, error) {
	b, err := s.batch(c)
	if err != nil {
		return nil, err
	}
	var in struct{ Documents []newDocument }
	if err := web.Read(c.w, c.r, large, &in); err != nil {
		return nil, err
	}
	// A document's id is derived from its upload: sent twice, it is one document.
	files, err := s.newFiles(c, b.ID, in.Documents, 1000, func(i int) keys.DocumentID {
		return keys.TimedID[keys.DocumentID](in.Documents[i].Upload, b.ID.String(), "upload", in.Documents[i].Upload.String())
	})
	if err != nil {
		return nil, err
	}
	added, err := s.Store.AddDocuments(c.ctx(), b, files.documents)
	if err := files.end(c.ctx(), len(added) == len(files.documents), err); err != nil {
		return nil, err
	}
	s.Wake()
	s.Notify(c.tenant())
	return map[string]int{"added": len(added)}, nil
}

func (s *Server) document(c *call) (table.Batch, table.Document, error) {
	b, err := s.batch(c)
	if err != nil {
		return b, table.Document{}, err
	}
	d, err := id[keys.DocumentID](c, "document")
	if err != nil {
		return b, table.Document{}, err
	}
	document, err := s.Store.Document(c.ctx(), b, d)
	return b, document, err
}

func (s *Server) getDocument(c *call) (any, error) {
	_, d, err := s.document(c)
	return d, err
}

func (s *Server) getResult(c *call) (any, error) {
	_, d, err := s.document(c)
	if err != nil {
		return nil, err
	}
	return s.Results.Load(c.ctx(), d)
}

// getFile sends the file as it was uploaded. A browser saves it and does not show
// it, since its content is not trusted.
func (s *Server) getFile(c *call) (any, error) {
	_, d, err := s.document(c)
	if err != nil {
		return nil, err
	}
	f, err := pipeline.ReadFile(c.ctx(), s.Bucket, d)
	if extract.IsUnreadable(err) {
		return nil, web.Refuse(http.StatusNotFound, "no_file", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": d.Name}))
	c.w.Write(f.Data)
	return answered{}, nil
}

// decision is a reviewer's decision about a document: approved, with corrections,
// or rejected. A failed document can be approved too, since it keeps what was read.
type decision struct {
	Approve bool              `json:"approve"`
	Fields  map[string]string `json:"fields"`
	Reason  string            `json:"reason"`
}

func (s *Server) review(c *call) (any, error) {
	var in decision
	if err := web.Read(c.w, c.r, large, &in); err != nil {
		return nil, err
	}
	return nil, s.decide(c, in)
}

func (s *Server) decide(c *call, in decision) error {
	b, d, err := s.document(c)
	if err != nil {
		return err
	}
	if d.Status != table.ReviewRequired && (d.Status != table.Failed || !in.Approve) {
		return web.Refuse(http.StatusConflict, "no_review", "the document is %s: only a document that is REVIEW_REQUIRED can be reviewed, and one that is FAILED can be approved", d.Status)
	}
	o := table.Outcome{Document: d, Attempts: d.Attempts, ReviewedBy: c.session.User.String()}
	if in.Approve {
		err = s.approve(c, b, &o, in)
	} else {
		err = s.reject(&o, in)
	}
	if err != nil {
		return err
	}
	err = s.Store.Move(c.ctx(), b, o)
	s.Notify(c.tenant())
	return err
}

func (s *Server) reject(o *table.Outcome, in decision) error {
	if len(in.Fields) > 0 {
		return web.Refuse(http.StatusBadRequest, "bad_review", "a rejected document cannot have corrections")
	}
	if len(in.Reason) > 500 {
		return web.Refuse(http.StatusBadRequest, "bad_review", "the reason has %d bytes, but can have at most 500", len(in.Reason))
	}
	o.Status, o.Confidence, o.Reason = table.Failed, o.Document.Confidence, "rejected in review"
	o.Result, o.ResultObject = o.Document.Result, o.Document.ResultObject
	if in.Reason != "" {
		o.Reason += ": " + in.Reason
	}
	return nil
}

func (s *Server) approve(c *call, b table.Batch, o *table.Outcome, in decision) error {
	result, err := s.resultOf(c, b, o.Document)
	if err != nil {
		return err
	}
	if err := correct(&result, in.Fields); err != nil {
		return err
	}
	if !slices.ContainsFunc(result.Fields, func(f extract.Field) bool { return f.Value != "" || len(f.Values) > 0 }) {
		return web.Refuse(http.StatusBadRequest, "bad_review", "a document without any value cannot be approved: enter the values, or leave it")
	}
	o.Status, o.Confidence = table.Succeeded, 1
	result.Confidence = 1
	return s.Results.Keep(c.ctx(), o, result)
}

// resultOf returns what was read from a document. If nothing was, it returns the
// fields of the workflow without values, which a reviewer can enter.
func (s *Server) resultOf(c *call, b table.Batch, d table.Document) (extract.Result, error) {
	result, err := s.Results.Load(c.ctx(), d)
	if !errors.Is(err, pipeline.ErrNoResult) || d.Status != table.Failed {
		return result, err
	}
	w, err := s.Store.Workflow(c.ctx(), b.Tenant, b.Project, b.Workflow)
	if errors.Is(err, table.ErrNotFound) {
		return result, pipeline.ErrNoResult
	}
	if err != nil {
		return result, err
	}
	e, err := extract.ParseExtraction([]byte(w.Extraction))
	if err != nil {
		return result, fmt.Errorf("the workflow of a document is not valid: %w", err)
	}
	for _, f := range e.Fields {
		result.Fields = append(result.Fields, extract.Field{Name: f.Name})
	}
	result.Extractor = "reviewer"
	return result, nil
}

// correct applies a reviewer's values to a result.
func correct(result *extract.Result, corrections map[string]string) error {
	known := make(map[string]*extract.Field)
	for i := range result.Fields {
		known[result.Fields[i].Name] = &result.Fields[i]
	}
	for name, value := range corrections {
		f := known[name]
		switch {
		case f == nil:
			return web.Refuse(http.StatusBadRequest, "bad_review", "the document has no field %.60q", name)
		case len(f.Values) > 0:
			return web.Refuse(http.StatusBadRequest, "bad_review", "the field %.60q is a column: its rows cannot be corrected here", name)
		case len(value) > 10_000:
			return web.Refuse(http.StatusBadRequest, "bad_review", "the value of %.60q has %d bytes, but can have at most 10000", name, len(value))
		case f.Value != value:
			f.Value, f.Confidence, f.Source, f.Problem = value, 1, "reviewer", ""
		}
	}
	return nil
}

func (s *Server) retry(c *call) (any, error) { return nil, s.tryAgain(c) }

// tryAgain has a failed document processed again.
func (s *Server) tryAgain(c *call) error {
	b, d, err := s.document(c)
	if err != nil {
		return err
	}
	if d.Status != table.Failed {
		return web.Refuse(http.StatusConflict, "no_retry", "the document is %s: only a document that is FAILED can be retried", d.Status)
	}
	if err := s.Store.Move(c.ctx(), b, table.Outcome{
		Document: d, Status: table.Processing, Confidence: d.Confidence, Result: d.Result, ResultObject: d.ResultObject,
	}); err != nil {
		return fmt.Errorf("retry a document: %w", err)
	}
	s.Wake()
	s.Notify(c.tenant())
	return nil
}
