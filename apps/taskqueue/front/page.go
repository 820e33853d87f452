package front

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"sort"
	"time"

	"github.com/stator-db/stator/apps/internal/web"
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
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"color": color,
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
	mux.HandleFunc("GET /queues/{queue}", f.queuePage)
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
	queues := f.Queue.Queues()
	var sum task.QueueView
	for _, q := range queues {
		sum.Pending += q.Pending
		sum.Delayed += q.Delayed
		sum.Running += q.Running
		sum.Waiting += q.Waiting
	}
	f.show(w, r, http.StatusOK, "overview", map[string]any{
		"Queues": queues, "Sum": sum, "Seen": len(workers), "Workers": busiest(workers), "Recent": f.Queue.Recent(), "Healthy": f.Queue.Healthy(r.Context()),
	})
}

// busiest returns the workers to show: workers with tasks first, then by when
// they were last seen.
func busiest(workers []task.WorkerView) []task.WorkerView {
	sort.SliceStable(workers, func(i, j int) bool {
		a, b := workers[i], workers[j]
		if (len(a.Tasks) > 0) != (len(b.Tasks) > 0) {
			return len(a.Tasks) > 0
		}
		return a.Seen.After(b.Seen)
	})
	return workers[:min(len(workers), 50)]
}

func (f *Front) queuePage(w http.ResponseWriter, r *http.Request) {
	q, err := f.Queue.Queue(r.PathValue("queue"))
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	status := task.Status(r.URL.Query().Get("status"))
	if status == "" {
		status = task.Pending
	}
	page, err := f.Queue.List(r.Context(), q.Name, status, r.URL.Query().Get("next"), 50)
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	f.show(w, r, http.StatusOK, "queue", map[string]any{"Queue": q, "Status": status, "Statuses": task.Statuses, "Page": page})
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
