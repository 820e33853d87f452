package api

import (
	"net/http"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/workflow"
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

// newWorkflow is a workflow in a request. With updatedAt, the time of the change that
// the client has read, it replaces no later one.
type newWorkflow struct {
	workflow.Definition
	Updated string `json:"updatedAt"`
}

// check validates a definition and returns the workflow. The fault has the code of
// the first problem, and all problems as its detail.
func (s *Server) check(c *call, p keys.ProjectID, d workflow.Definition) (table.Workflow, error) {
	checked, problems := d.Check(s.Methods)
	if len(problems) > 0 {
		return table.Workflow{}, badWorkflow(problems)
	}
	return workflowOf(c, p, checked), nil
}

func badWorkflow(problems []workflow.Problem) error {
	status := http.StatusBadRequest
	if problems[0].Code == workflow.TooLarge {
		status = http.StatusRequestEntityTooLarge
	}
	f := web.Refuse(status, problems[0].Code, "%s: %s", problems[0].Place, problems[0].Message)
	f.Detail = map[string]any{"problems": problems}
	return f
}

func workflowOf(c *call, p keys.ProjectID, d workflow.Checked) table.Workflow {
	return table.Workflow{
		Tenant: c.tenant(), Project: p, Name: d.Name, Extraction: string(d.Extraction),
		ConfidenceThreshold: d.ConfidenceThreshold, ReviewThreshold: d.ReviewThreshold,
	}
}

func (s *Server) createWorkflow(c *call) (any, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return nil, err
	}
	var in workflow.Definition
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
	w, err := s.check(c, p, in.Definition)
	if err != nil {
		return nil, err
	}
	w.ID = wid
	w, err = s.Store.ChangeWorkflow(c.ctx(), w, in.Updated)
	s.Notify(c.tenant())
	return w, err
}
