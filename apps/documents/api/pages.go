package api

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

//go:embed pages static
var files embed.FS

// looks are the functions of the templates.
var looks = template.FuncMap{
	"tone": func(s table.Status) string {
		return map[table.Status]string{table.Succeeded: "good", table.Failed: "bad", table.ReviewRequired: "wait"}[s]
	},
	"words": func(s table.Status) string {
		return strings.ToLower(strings.ReplaceAll(string(s), "_", " "))
	},
	"percent": func(c float64) string { return strconv.Itoa(int(c*100+0.5)) + " %" },
	"sure":    func(c float64) int { return min(10, int(c*10+0.5)) },
	"when": func(t string) string {
		t, _, _ = strings.Cut(strings.Replace(t, "T", " ", 1), ".")
		return t
	},
	"at": func(problems map[string]string, place string, args ...any) []string {
		place = fmt.Sprintf(place, args...)
		return []string{place, problems[place]}
	},
	"fields": func(w table.Workflow) string {
		var names []string
		if e, err := extract.DecodeExtraction([]byte(w.Extraction)); err == nil {
			for _, f := range e.Fields {
				names = append(names, f.Name)
			}
		}
		return strings.Join(names, ", ")
	},
	"dec":   func(i int) int { return i - 1 },
	"add":   func(a, b int) int { return a + b },
	"inc":   func(i int) int { return i + 1 },
	"list":  func(v ...string) []string { return v },
	"pair":  func(a, b int) []int { return []int{a, b} },
	"share": func(n, of int) int { return 100 * n / max(1, of) },
	"short": func(values []string) []string { return values[:min(len(values), 20)] },
}

var pages = template.Must(template.New("").Funcs(looks).ParseFS(files, "pages/*.html"))

// Pages lists the patterns of all pages and of their forms.
func (s *Server) Pages() []Endpoint {
	const project = "/projects/{project}"
	const workflow = project + "/workflows/{workflow}"
	const batch = project + "/batches/{batch}"
	const document = batch + "/documents/{document}"
	return []Endpoint{
		{"GET /{$}", Members, s.homePage},
		{"POST /projects", Members, s.projectForm},
		{"GET " + project, Members, s.projectPage},
		{"GET " + project + "/workflows/new", Members, s.editorPage},
		{"POST " + project + "/workflows/try", Members, s.tryForm},
		{"POST " + project + "/workflows", Members, s.saveForm},
		{"GET " + workflow, Members, s.editorPage},
		{"POST " + workflow + "/try", Members, s.tryForm},
		{"POST " + workflow, Members, s.saveForm},
		{"POST " + project + "/batches", Members, s.batchForm},
		{"GET " + batch, Members, s.batchPage},
		{"GET " + document, Members, s.documentPage},
		{"POST " + document + "/review", Members, s.reviewForm},
		{"POST " + document + "/retry", Members, s.retryForm},
		{"POST " + project + "/reporting", Admins, s.reportingForm},
		{"POST " + document + "/delete", Members, s.deleteDocumentForm},
		{"POST " + batch + "/delete", Members, s.deleteBatchForm},
		{"POST " + workflow + "/delete", Members, s.deleteWorkflowForm},
		{"POST " + project + "/delete", Admins, s.deleteProjectForm},
		{"POST /delete", Admins, s.deleteTenantForm},
		{"GET /people", Members, s.peoplePage},
		{"POST /people/invite", Admins, s.inviteForm},
		{"POST /people/revoke", Admins, s.revokeForm},
		{"POST /people/remove", Admins, s.removeForm},
		{"GET /review", Members, s.reviewPage},
		{"GET /events", Members, s.events},
	}
}

// shown is a page to render, or where a form redirects to.
type shown struct {
	name   string
	data   map[string]any
	status int // defaults to 200
}
type led string

func (s *Server) handlePages(mux *http.ServeMux) {
	web.Static(mux)
	for _, name := range []string{"documents.css", "editor.js"} {
		mux.HandleFunc("GET /look/"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, files, "static/"+name)
		})
	}
	s.handleSignIn(mux)
	for _, e := range s.Pages() {
		mux.HandleFunc(e.Pattern, func(w http.ResponseWriter, r *http.Request) {
			c := &call{w: w, r: r}
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			v, err := s.answer(c, e)
			switch v := v.(type) {
			case shown:
				v.data["Session"], v.data["Member"] = c.session, c.member
				if err == nil {
					s.show(w, cmp.Or(v.status, http.StatusOK), v)
					return
				}
			case led:
				if err == nil {
					http.Redirect(w, r, string(v), http.StatusSeeOther)
					return
				}
			}
			if err != nil {
				s.showFault(w, r, err)
			}
		})
	}
}

// show renders a page. It is rendered completely before it is sent, so that an
// error does not leave half a page.
func (s *Server) show(w http.ResponseWriter, status int, p shown) {
	var page strings.Builder
	if err := pages.ExecuteTemplate(&page, p.name, p.data); err != nil {
		s.Log.Error("rendering a page failed", "page", p.name, "error", err)
		http.Error(w, "internal error; see the server's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, page.String())
}

func (s *Server) showFault(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the browser has gone
	}
	err = fault(err)
	var f *web.Fault
	if !errors.As(err, &f) {
		s.Log.Error("a page request failed", "path", r.URL.Path, "error", err)
		f = web.Refuse(http.StatusInternalServerError, "internal", "internal error; see the server's log")
	}
	if f.Status == http.StatusUnauthorized && r.Method == http.MethodGet && s.Issuer != nil {
		http.Redirect(w, r, "/signin", http.StatusSeeOther)
		return
	}
	s.show(w, f.Status, shown{name: "fault.html", data: map[string]any{"Fault": f}})
}

func (s *Server) events(c *call) (any, error) {
	s.lives.of(c.tenant()).ServeHTTP(c.w, c.r)
	return answered{}, nil
}

func (s *Server) homePage(c *call) (any, error) {
	t, err := s.Store.Tenant(c.ctx(), c.tenant())
	if err != nil {
		return nil, err
	}
	projects, err := s.Store.Projects(c.ctx(), c.tenant(), c.query("cursor"))
	if err != nil {
		return nil, err
	}
	usage, err := s.Store.Usage(c.ctx(), c.tenant())
	if err != nil {
		return nil, err
	}
	data := map[string]any{"Tenant": t, "Projects": projects, "Usage": usage}
	var waiting table.Counts
	for _, status := range []table.Status{table.Processing, table.Failed, table.ReviewRequired} {
		batches, err := s.Store.BatchesIn(c.ctx(), c.tenant(), status)
		if err != nil {
			return nil, err
		}
		data[string(status)] = batches
		for _, b := range batches {
			waiting.Processing += b.Processing
			waiting.Review += b.Review
			waiting.Failed += b.Failed
		}
	}
	data["Waiting"] = waiting
	return shown{name: "home.html", data: data}, nil
}

func (s *Server) projectForm(c *call) (any, error) {
	p, err := s.newProject(c, c.r.PostFormValue("name"))
	return led("/projects/" + p.ID.String()), err
}

func (s *Server) projectPage(c *call) (any, error) {
	p, err := s.project(c)
	if err != nil {
		return nil, err
	}
	workflows, err := s.Store.Workflows(c.ctx(), c.tenant(), p.ID, "")
	if err != nil {
		return nil, err
	}
	batches, err := s.Store.Batches(c.ctx(), p, c.query("cursor"))
	if err != nil {
		return nil, err
	}
	return shown{name: "project.html", data: map[string]any{"Mails": s.Mails(), "Project": p, "Workflows": workflows, "Batches": batches}}, nil
}

// maxForm is the maximum size of the form with the files of a batch, in bytes.
const maxForm = 64 << 20

// batchForm creates a batch from the files that a browser sends. It streams them
// one after the other and holds none in memory.
func (s *Server) batchForm(c *call) (any, error) {
	if _, err := s.project(c); err != nil {
		return nil, err
	}
	form, err := c.r.MultipartReader()
	if err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "bad_form", "the form has no files")
	}
	in := newBatch{}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
		}
		if err := s.formPart(c, part, &in); err != nil {
			return nil, err
		}
	}
	b, err := s.makeBatch(c, in)
	return led("/projects/" + b.Project.String() + "/batches/" + b.ID.String()), err
}

func (s *Server) formPart(c *call, part *multipart.Part, in *newBatch) error {
	if part.FileName() == "" {
		text, err := io.ReadAll(io.LimitReader(part, 1000))
		if err != nil {
			return web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
		}
		switch part.FormName() {
		case "name":
			in.Name = string(text)
		case "workflow":
			if in.Workflow, err = keys.ParseID[keys.WorkflowID](string(text)); err != nil {
				return web.Refuse(http.StatusBadRequest, "no_workflow", "choose a workflow")
			}
		}
		return nil
	}
	if len(in.Documents) == 500 {
		return web.Refuse(http.StatusBadRequest, "bad_documents", "a form can have at most 500 files; the API accepts more")
	}
	upload, err := s.keep(c, part)
	in.Documents = append(in.Documents, newDocument{Name: part.FileName(), Upload: upload})
	return err
}

func (s *Server) batchPage(c *call) (any, error) {
	b, err := s.batch(c)
	if err != nil {
		return nil, err
	}
	status := c.query("status")
	var documents table.Page[table.Document]
	if status == "" {
		documents, err = s.Store.Documents(c.ctx(), b, c.query("cursor"), perPage)
	} else {
		documents, err = s.Store.NewestIn(c.ctx(), b, table.Status(status), c.query("cursor"), perPage)
	}
	if err != nil {
		return nil, err
	}
	return shown{name: "batch.html", data: map[string]any{"Batch": b, "Documents": documents, "Status": status}}, nil
}

func (s *Server) documentPage(c *call) (any, error) {
	b, d, err := s.document(c)
	if err != nil {
		return nil, err
	}
	data := map[string]any{"Batch": b, "Document": d}
	result, err := s.resultOf(c, b, d)
	if err != nil && !errors.Is(err, pipeline.ErrNoResult) {
		return nil, err
	}
	data["Result"] = result
	if f, err := pipeline.ReadFile(c.ctx(), s.Bucket, d); err == nil {
		data["Text"] = preview(f)
	}
	page, err := pageNumber(c)
	if err != nil {
		return nil, err
	}
	if result.Pages > 0 {
		page = min(page, result.Pages)
	}
	data["Page"] = page
	return shown{name: "document.html", data: data}, nil
}

// preview returns the beginning of a text file.
func preview(f extract.File) string {
	head := f.Data[:min(len(f.Data), 4000)]
	if strings.HasPrefix(string(head), "%PDF-") || strings.ContainsRune(string(head), 0) {
		return ""
	}
	return strings.ToValidUTF8(string(head), "�")
}

func (s *Server) reviewForm(c *call) (any, error) {
	if err := c.r.ParseForm(); err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
	}
	in := decision{Approve: c.r.PostForm.Get("decision") == "approve", Reason: c.r.PostForm.Get("reason"), Fields: make(map[string]string)}
	for name := range maps.Keys(c.r.PostForm) {
		if field, ok := strings.CutPrefix(name, "field:"); ok && in.Approve {
			in.Fields[field] = c.r.PostForm.Get(name)
		}
	}
	return led("/review"), s.decide(c, in)
}

func (s *Server) retryForm(c *call) (any, error) {
	return led("/projects/" + c.r.PathValue("project") + "/batches/" + c.r.PathValue("batch")), s.tryAgain(c)
}

// toReview are the documents of a batch that need review.
type toReview struct {
	Batch     table.Batch
	Documents []table.Document
	More      bool
}

// reviewPage lists the documents that need review. A batch with failed documents
// is FAILED, so such batches are searched too.
func (s *Server) reviewPage(c *call) (any, error) {
	var batches []table.Batch
	for _, status := range []table.Status{table.ReviewRequired, table.Failed, table.Processing} {
		some, err := s.Store.BatchesIn(c.ctx(), c.tenant(), status)
		if err != nil {
			return nil, err
		}
		batches = append(batches, slices.DeleteFunc(some, func(b table.Batch) bool { return b.Review == 0 })...)
	}
	var waiting []toReview
	for _, b := range batches[:min(len(batches), 20)] {
		documents, err := s.Store.NewestIn(c.ctx(), b, table.ReviewRequired, "", 20)
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, toReview{b, documents.Items, documents.Next != ""})
	}
	return shown{name: "review.html", data: map[string]any{"Waiting": waiting}}, nil
}

// lines returns the lines of a text field that are not empty.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
