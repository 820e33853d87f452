package api

import (
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/trial"
	"github.com/stator-db/stator/apps/documents/workflow"
	"github.com/stator-db/stator/apps/internal/web"
)

// editor is what a request to the editor is about.
type editor struct {
	Project  table.Project
	Workflow table.Workflow // the zero value is a new one
}

// editor reads the project and, unless it is a new one, the workflow of a request.
func (s *Server) editor(c *call) (editor, error) {
	p, err := s.project(c)
	if err != nil || c.r.PathValue("workflow") == "" {
		return editor{Project: p}, err
	}
	w, err := s.workflow(c)
	return editor{p, w}, err
}

// Path returns the path of the workflow's pages, or of all workflows.
func (e editor) Path() string {
	path := "/projects/" + e.Project.ID.String() + "/workflows"
	if !e.Workflow.ID.IsZero() {
		path += "/" + e.Workflow.ID.String()
	}
	return path
}

// editorPage shows the editor. The trial begins when a person or the script asks.
func (s *Server) editorPage(c *call) (any, error) {
	of, err := s.editor(c)
	if err != nil {
		return nil, err
	}
	e := edited{Confidence: "0.55", Review: "0.85", Extractor: "builtin", Fields: firstFields}
	if !of.Workflow.ID.IsZero() {
		if e, err = editedOf(of.Workflow); err != nil {
			return nil, err
		}
	}
	e.Page = 1
	return s.showEditor(c, of, e, nil)
}

// tryForm shows the editor with what its form has, and what the workflow finds in the
// sample. It stores nothing.
func (s *Server) tryForm(c *call) (any, error) {
	of, err := s.editor(c)
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
	e, err := readEdited(c, limit)
	if err != nil {
		return nil, err
	}
	problems := e.act()
	checked, more := e.check(s.Methods)
	if len(problems) == 0 {
		problems = more
	}
	page, err := s.showEditor(c, of, e, problems)
	if err != nil || len(problems) > 0 {
		return page, err
	}
	if e.Live && (checked.Extract.First() != "builtin" || checked.Extract.Verify != "") {
		page.data["Waits"] = true // each trial calls a service
		return page, nil
	}
	o, err := s.tryEdited(c, of, e, plan, limit, checked)
	var f *web.Fault
	switch {
	case errors.As(fault(err), &f):
		page.data["Problems"], page.status = map[string]string{placeSample: f.Message}, f.Status
	case err != nil:
		return nil, err
	case o != nil:
		page.data["Trial"], page.data["Picture"] = o, picture(o.Preview)
	}
	return page, nil
}

// tryEdited runs the trial of a form. Without a sample there is none.
func (s *Server) tryEdited(c *call, of editor, e edited, plan table.Plan, limit int64, w workflow.Checked) (*trial.Outcome, error) {
	f := e.file
	if len(f.Data) == 0 {
		var in sample
		switch batch, document, _ := strings.Cut(e.Sample, "/"); {
		case strings.TrimSpace(e.Text) != "":
			in.Text = e.Text
		case e.Sample == "":
			return nil, nil
		default:
			var err, err2 error
			in.Batch, err = keys.ParseID[keys.BatchID](batch)
			in.Document, err2 = keys.ParseID[keys.DocumentID](document)
			if err != nil || err2 != nil {
				return nil, notFound
			}
		}
		var err error
		if f, err = s.sampleFile(c.ctx(), c.tenant(), of.Project.ID, in, limit); err != nil {
			return nil, err
		}
	}
	o, err := s.Trials.Run(c.ctx(), trial.Request{Tenant: c.tenant(), User: c.session.User, Plan: plan, Workflow: w, File: f, Page: e.Page})
	return &o, err
}

// picture returns the address of an SVG picture that is part of the page.
func picture(svg string) template.URL {
	if svg == "" {
		return ""
	}
	return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg)))
}

// saveForm creates or replaces the workflow, unless there are problems or somebody
// else has changed it since it was read.
func (s *Server) saveForm(c *call) (any, error) {
	of, err := s.editor(c)
	if err != nil {
		return nil, err
	}
	e, err := readEdited(c, 0)
	if err != nil {
		return nil, err
	}
	checked, problems := e.check(s.Methods)
	if len(problems) > 0 {
		page, err := s.showEditor(c, of, e, problems)
		page.status = http.StatusBadRequest
		return page, err
	}
	w := workflowOf(c, of.Project.ID, checked)
	if w.ID = of.Workflow.ID; w.ID.IsZero() {
		_, err = s.Store.CreateWorkflow(c.ctx(), w)
	} else if e.Was == "" {
		err = web.Refuse(http.StatusBadRequest, "bad_form", "the form does not have the time of the change that was read")
	} else {
		_, err = s.Store.ChangeWorkflow(c.ctx(), w, e.Was)
	}
	if errors.Is(err, table.ErrMoved) {
		return s.conflict(c, e)
	}
	s.Notify(c.tenant())
	return led("/projects/" + of.Project.ID.String()), err
}

// conflict shows a form that was not saved, since somebody else was faster.
func (s *Server) conflict(c *call, e edited) (any, error) {
	of, err := s.editor(c)
	if err != nil {
		return nil, err
	}
	page, err := s.showEditor(c, of, e, nil)
	page.status = http.StatusConflict
	if err == nil {
		page.data["Conflict"] = of.Workflow
	}
	return page, err
}

// samples are the documents of a batch that can be chosen for a trial.
type samples struct {
	Batch     table.Batch
	Documents []table.Document
}

// samples returns documents of the last batches. Those of the workflow come first.
func (s *Server) samples(c *call, of editor) ([]samples, error) {
	batches, err := s.Store.Batches(c.ctx(), of.Project, "")
	if err != nil {
		return nil, err
	}
	var own, others []samples
	for _, b := range batches.Items[:min(len(batches.Items), 5)] {
		documents, err := s.Store.Documents(c.ctx(), b, "", 10)
		if err != nil {
			return nil, err
		}
		if b.Workflow == of.Workflow.ID {
			own = append(own, samples{b, documents.Items})
		} else {
			others = append(others, samples{b, documents.Items})
		}
	}
	return append(own, others...), nil
}

// readableSample returns the first document that can be read, or the first one, as a form
// has it.
func readableSample(all []samples) string {
	text := func(d table.Document) string { return d.Batch.String() + "/" + d.ID.String() }
	for _, s := range all {
		for _, d := range s.Documents {
			if !d.Unreadable {
				return text(d)
			}
		}
	}
	return text(all[0].Documents[0])
}

// showEditor returns the page. The script needs no samples.
func (s *Server) showEditor(c *call, of editor, e edited, problems []workflow.Problem) (shown, error) {
	data := map[string]any{"Of": of, "Methods": s.Methods, "Types": extract.Types, "Problems": byPlace(problems), "All": problems}
	if !e.Live {
		all, err := s.samples(c, of)
		if err != nil {
			return shown{}, err
		}
		if c.r.Method == http.MethodGet && len(all) > 0 && len(all[0].Documents) > 0 {
			e.Sample = readableSample(all)
		}
		data["Samples"] = all
	}
	data["Form"] = e
	return shown{name: "workflow.html", data: data}, nil
}

// byPlace returns the first problem of each place.
func byPlace(problems []workflow.Problem) map[string]string {
	first := make(map[string]string)
	for _, p := range problems {
		if first[p.Place] == "" {
			first[p.Place] = p.Message
		}
	}
	return first
}
