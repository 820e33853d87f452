package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

func (s *Server) listProjects(c *call) (any, error) {
	return s.Store.Projects(c.ctx(), c.tenant(), c.query("cursor"))
}

func (s *Server) createProject(c *call) (any, error) {
	var in struct{ Name string }
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	return s.newProject(c, in.Name)
}

func (s *Server) newProject(c *call, name string) (table.Project, error) {
	name, err := readName("name", name)
	if err != nil {
		return table.Project{}, err
	}
	p, err := s.Store.CreateProject(c.ctx(), c.tenant(), name)
	s.Notify(c.tenant())
	return p, err
}

func (s *Server) project(c *call) (table.Project, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return table.Project{}, err
	}
	return s.Store.Project(c.ctx(), c.tenant(), p)
}

func (s *Server) getProject(c *call) (any, error) { return s.project(c) }

func (s *Server) listWorkflows(c *call) (any, error) {
	p, err := s.project(c)
	if err != nil {
		return nil, err
	}
	return s.Store.Workflows(c.ctx(), c.tenant(), p.ID, c.query("cursor"))
}

// newWorkflow is a workflow in a request.
type newWorkflow struct {
	Name                string          `json:"name"`
	Extraction          json.RawMessage `json:"extraction"`
	ConfidenceThreshold float64         `json:"confidenceThreshold"`
	ReviewThreshold     float64         `json:"reviewThreshold"`
}

// maxExtraction is the maximum size of an extraction, in bytes of JSON.
const maxExtraction = 60 << 10

// check validates the request and returns the workflow.
func (s *Server) check(c *call, p keys.ProjectID, in newWorkflow) (table.Workflow, error) {
	name, err := readName("name", in.Name)
	if err != nil {
		return table.Workflow{}, err
	}
	if in.ConfidenceThreshold < 0 || in.ConfidenceThreshold > in.ReviewThreshold || in.ReviewThreshold > 1 {
		return table.Workflow{}, web.Refuse(http.StatusBadRequest, "bad_thresholds", "the thresholds are %v and %v, but must be 0 <= confidenceThreshold <= reviewThreshold <= 1", in.ConfidenceThreshold, in.ReviewThreshold)
	}
	if len(in.Extraction) > maxExtraction {
		return table.Workflow{}, web.Refuse(http.StatusRequestEntityTooLarge, "too_large", "the extraction has %d bytes, but can have at most %d", len(in.Extraction), maxExtraction)
	}
	e, err := extract.ParseExtraction(in.Extraction)
	if err != nil {
		return table.Workflow{}, web.Refuse(http.StatusBadRequest, "bad_extraction", "%v", err)
	}
	for _, x := range []string{e.Extractor, e.Verify} {
		if x != "" && !slices.Contains(s.Methods, x) {
			return table.Workflow{}, web.Refuse(http.StatusBadRequest, "no_service", "the extractor %q is not configured: choose the built-in extractor", x)
		}
	}
	text, err := json.Marshal(e)
	return table.Workflow{
		Tenant: c.tenant(), Project: p, Name: name, Extraction: string(text),
		ConfidenceThreshold: in.ConfidenceThreshold, ReviewThreshold: in.ReviewThreshold,
	}, err
}

func (s *Server) createWorkflow(c *call) (any, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return nil, err
	}
	var in newWorkflow
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	w, err := s.check(c, p, in)
	if err != nil {
		return nil, err
	}
	w, err = s.Store.CreateWorkflow(c.ctx(), w)
	return w, err
}

func (s *Server) workflow(c *call) (table.Workflow, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return table.Workflow{}, err
	}
	w, err := id[keys.WorkflowID](c, "workflow")
	if err != nil {
		return table.Workflow{}, err
	}
	return s.Store.Workflow(c.ctx(), c.tenant(), p, w)
}

func (s *Server) getWorkflow(c *call) (any, error) { return s.workflow(c) }

func (s *Server) changeWorkflow(c *call) (any, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return nil, err
	}
	wid, err := id[keys.WorkflowID](c, "workflow")
	if err != nil {
		return nil, err
	}
	var in newWorkflow
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	w, err := s.check(c, p, in)
	if err != nil {
		return nil, err
	}
	w.ID = wid
	w, err = s.Store.ChangeWorkflow(c.ctx(), w)
	s.Notify(c.tenant())
	return w, err
}
