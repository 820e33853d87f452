package front

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue/queue"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

//go:embed pages/*.html static
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"short": func(id string) string {
		if len(id) > 13 {
			return "…" + id[len(id)-12:]
		}
		return id
	},
	"clock":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") },
	"second": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"color":  color,
	"ago": func(d task.Duration) string {
		if d == 0 {
			return ""
		}
		return time.Duration(d).String()
	},
	"indent": func(p json.RawMessage) string {
		var b bytes.Buffer
		if json.Indent(&b, p, "", "  ") != nil {
			return string(p)
		}
		return b.String()
	},
}).ParseFS(files, "pages/*.html"))

// color returns the CSS class of a status or an event.
func color(s any) string {
	name := ""
	switch s := s.(type) {
	case task.Status:
		name = string(s)
	case task.EventType:
		name = string(s)
	}
	switch name {
	case "COMPLETED":
		return "good"
	case "FAILED", "DEAD", "EXPIRED":
		return "bad"
	case "PENDING", "DELAYED", "RETRY", "PROCESSING":
		return "wait"
	}
	return ""
}

func (f *Front) pages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", f.overview)
	mux.HandleFunc("GET /tasks", f.listPage)
	mux.HandleFunc("GET /queues/{queue}", f.listPage)
	mux.HandleFunc("POST /queues/{queue}/limits", f.limitsForm)
	mux.HandleFunc("POST /submit", f.submitForm)
	mux.HandleFunc("POST /bulk/{change}", f.bulkForm)
	mux.HandleFunc("GET /tasks/{id}", f.taskPage)
	mux.HandleFunc("POST /tasks/{id}/{do}", f.taskButton)
	mux.HandleFunc("GET /find", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/tasks/"+template.URLQueryEscaper(r.URL.Query().Get("id")), http.StatusSeeOther)
	})
	mux.Handle("GET /events", f.Live)
	mux.Handle("GET /static/taskqueue.css", http.FileServerFS(files))
}

func (f *Front) overview(w http.ResponseWriter, r *http.Request) {
	workers, err := f.Queue.AtWork(r.Context())
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	broken, err := f.Queue.Broken(r.Context())
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	queues := f.Queue.Queues()
	var sum task.QueueView
	for _, q := range queues {
		sum.Pending += q.Pending
		sum.Delayed += q.Delayed
		sum.Running += q.Running
		sum.Waiting += q.Waiting
		sum.More = sum.More || q.More
	}
	f.show(w, r, http.StatusOK, "overview", map[string]any{
		"Queues": queues, "Sum": sum, "Broken": newBroken(broken), "Seen": len(workers), "Workers": busiest(workers), "Recent": f.Queue.Recent(), "Healthy": f.Queue.Healthy(r.Context()),
		"Submit": newSubmit(""),
	})
}

// brokenTexts are the numbers of dead and failed tasks as the overview shows them.
// A number that reached the limit of counting ends with "+".
type brokenTexts struct {
	Dead, Failed string
	Of           map[string]*brokenTexts // by queue
}

func newBroken(c task.Counts) *brokenTexts {
	text := func(tasks map[task.Status]int, more []task.Status, s task.Status) string {
		if slices.Contains(more, s) {
			return strconv.Itoa(tasks[s]) + "+"
		}
		return strconv.Itoa(tasks[s])
	}
	b := &brokenTexts{Dead: text(c.Total, c.More, task.Dead), Failed: text(c.Total, c.More, task.Failed), Of: make(map[string]*brokenTexts)}
	for _, q := range c.Queues {
		b.Of[q.Queue] = &brokenTexts{Dead: text(q.Tasks, q.More, task.Dead), Failed: text(q.Tasks, q.More, task.Failed)}
	}
	return b
}

// busiest returns the workers to show: workers with tasks first, then by when
// they were last seen.
func busiest(workers []queue.BusyWorker) []queue.BusyWorker {
	sort.SliceStable(workers, func(i, j int) bool {
		a, b := workers[i], workers[j]
		if (len(a.Tasks) > 0) != (len(b.Tasks) > 0) {
			return len(a.Tasks) > 0
		}
		return a.Seen.After(b.Seen)
	})
	return workers[:min(len(workers), 50)]
}

// pageSize is the number of tasks on a page.
const pageSize = 50

// listPage shows tasks of one queue or of all.
func (f *Front) listPage(w http.ResponseWriter, r *http.Request) {
	sel, err := selection(r)
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	var q *task.QueueView
	if name := r.PathValue("queue"); name != "" {
		view, err := f.Queue.Queue(name)
		if err != nil {
			f.sorry(w, r, err)
			return
		}
		q = &view
	}
	page, err := f.Queue.List(r.Context(), sel, r.URL.Query().Get("next"), pageSize)
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	data := map[string]any{"Title": "All tasks", "Queue": q, "Selection": sel, "Page": page, "Base": "/tasks", "Queues": f.Queue.Queues()}
	if q != nil {
		data["Title"], data["Base"], data["Submit"] = "Queue "+q.Name, "/queues/"+q.Name, newSubmit(q.Name)
	}
	for _, c := range []task.Change{task.RequeueTasks, task.CancelTasks} {
		if task.Can(c.Event(), sel.Status) {
			data["Change"] = c
		}
	}
	data["Tabs"] = tabs(sel)
	if page.Next != "" {
		data["Older"] = parameters(sel, "next", page.Next)
	}
	f.show(w, r, http.StatusOK, "list", data)
}

// tab is a link to the tasks of a status.
type tab struct {
	Status task.Status
	Query  template.URL
	Here   bool
}

func tabs(sel task.Selection) []tab {
	var tabs []tab
	here := sel.Status
	for _, s := range task.Statuses {
		sel.Status = s
		tabs = append(tabs, tab{s, parameters(sel), s == here})
	}
	return tabs
}

// parameters returns the query of a page that lists a selection, with more
// parameters in pairs. The queue of a queue's page is in its path as well.
func parameters(sel task.Selection, more ...string) template.URL {
	q := url.Values{"status": {string(sel.Status)}}
	for name, v := range map[string]string{"queue": sel.Queue, "type": sel.Type, "reason": sel.Reason} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if sel.OlderThan != 0 {
		q.Set("olderThan", time.Duration(sel.OlderThan).String())
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return template.URL(q.Encode()) // escaped by Encode
}

func (f *Front) taskPage(w http.ResponseWriter, r *http.Request) {
	t, err := f.Queue.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	events, err := f.Queue.History(r.Context(), t.ID)
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	f.show(w, r, http.StatusOK, "task", map[string]any{
		"Task": t, "Events": events, "CanCancel": task.Can(task.CancelledByClient, t.Status), "CanRequeue": task.Can(task.Requeued, t.Status),
	})
}

// taskButton handles the buttons of a task's page.
func (f *Front) taskButton(w http.ResponseWriter, r *http.Request) {
	id, err := r.PathValue("id"), error(nil)
	switch r.PathValue("do") {
	case "cancel":
		_, err = f.Queue.Cancel(r.Context(), id, "by hand, on the page")
	case "requeue":
		_, err = f.Queue.Requeue(r.Context(), id)
	default:
		err = web.Refuse(http.StatusNotFound, "not_found", "the button does not exist")
	}
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	http.Redirect(w, r, "/tasks/"+id, http.StatusSeeOther)
}

func (f *Front) show(w http.ResponseWriter, r *http.Request, status int, page string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, page+".html", data); err != nil {
		f.Log.Error("a page could not be shown", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error; see the server's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// sorry shows an error as a page.
func (f *Front) sorry(w http.ResponseWriter, r *http.Request, err error) {
	var fault *web.Fault
	if !errors.As(worded(err), &fault) {
		f.Log.Error("a page could not be shown", "path", r.URL.Path, "error", err)
		fault = web.Refuse(http.StatusInternalServerError, "internal", "internal error; see the server's log")
	}
	f.show(w, r, fault.Status, "sorry", fault)
}
