package api

import (
	"net/http"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/internal/web"
)

// deleted wakes the processors, which delete what belongs to something that was
// deleted, and updates the pages.
func (s *Server) deleted(c *call, err error) (any, error) {
	if err == nil {
		s.Wake()
		s.Notify(c.tenant())
	}
	return nil, err
}

func (s *Server) deleteDocument(c *call) (any, error) {
	b, d, err := s.document(c)
	if err != nil {
		return nil, err
	}
	return s.deleted(c, s.Store.DeleteDocument(c.ctx(), b, d.ID))
}

func (s *Server) deleteBatch(c *call) (any, error) {
	b, err := s.batch(c)
	if err != nil {
		return nil, err
	}
	return s.deleted(c, s.Store.DeleteBatch(c.ctx(), b))
}

func (s *Server) deleteWorkflow(c *call) (any, error) {
	p, err := id[keys.ProjectID](c, "project")
	if err != nil {
		return nil, err
	}
	w, err := id[keys.WorkflowID](c, "workflow")
	if err != nil {
		return nil, err
	}
	return s.deleted(c, s.Store.DeleteWorkflow(c.ctx(), c.tenant(), p, w))
}

func (s *Server) deleteProject(c *call) (any, error) {
	p, err := s.project(c)
	if err != nil {
		return nil, err
	}
	return s.deleted(c, s.Store.DeleteProject(c.ctx(), p))
}

// deleteTenant deletes the tenant of the session. The name must be repeated, since
// everything is deleted.
func (s *Server) deleteTenant(c *call) (any, error) {
	if c.r.PathValue("tenant") != c.tenant().String() {
		return nil, notFound
	}
	return s.eraseTenant(c, c.query("name"))
}

func (s *Server) eraseTenant(c *call, name string) (any, error) {
	t, err := s.Store.Tenant(c.ctx(), c.tenant())
	if err != nil {
		return nil, err
	}
	if name != t.Name {
		return nil, web.Refuse(http.StatusBadRequest, "no_confirmation", "to delete the tenant with everything that belongs to it, repeat its name, %q", t.Name)
	}
	return s.deleted(c, s.Store.DeleteTenant(c.ctx(), t.ID))
}

// The forms of the pages, which lead to the page above.

func (s *Server) deleteDocumentForm(c *call) (any, error) {
	_, err := s.deleteDocument(c)
	return led("/projects/" + c.r.PathValue("project") + "/batches/" + c.r.PathValue("batch")), err
}

func (s *Server) deleteBatchForm(c *call) (any, error) {
	_, err := s.deleteBatch(c)
	return led("/projects/" + c.r.PathValue("project")), err
}

func (s *Server) deleteWorkflowForm(c *call) (any, error) {
	_, err := s.deleteWorkflow(c)
	return led("/projects/" + c.r.PathValue("project")), err
}

func (s *Server) deleteProjectForm(c *call) (any, error) {
	_, err := s.deleteProject(c)
	return led("/"), err
}

func (s *Server) deleteTenantForm(c *call) (any, error) {
	_, err := s.eraseTenant(c, c.r.PostFormValue("name"))
	return led("/signin"), err
}
