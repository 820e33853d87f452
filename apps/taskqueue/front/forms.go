package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// submitted are the values of the form that submits a task. Its key is made with
// the page, so that a form that is sent twice submits one task.
type submitted struct{ Queue, Key string }

func newSubmit(queue string) submitted { return submitted{queue, uuid.NewString()} }

// form reads the body of a form.
func form(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "bad_form", "the form is not valid: %v", err)
	}
	for name, v := range r.PostForm {
		for i := range v {
			v[i] = strings.TrimSpace(v[i])
		}
		r.PostForm[name] = v
	}
	return r.PostForm, nil
}

// formNumber reads a field that is a number; empty means usual.
func formNumber(v url.Values, field string, usual int) (int, error) {
	s := v.Get(field)
	if s == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, &task.Fault{Field: field, Message: fmt.Sprintf("is %q, which is not a number", s)}
	}
	return n, nil
}

func formDuration(v url.Values, field string) (d task.Duration, err error) {
	if s := v.Get(field); s != "" {
		if err := d.UnmarshalText([]byte(s)); err != nil {
			return 0, &task.Fault{Field: field, Message: "is wrong: " + err.Error()}
		}
	}
	return d, nil
}

// submitForm submits a task from a page.
func (f *Front) submitForm(w http.ResponseWriter, r *http.Request) {
	t, err := f.submitFrom(w, r)
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	http.Redirect(w, r, "/tasks/"+t.ID, http.StatusSeeOther)
}

func (f *Front) submitFrom(w http.ResponseWriter, r *http.Request) (t task.Task, err error) {
	v, err := form(w, r)
	if err != nil {
		return t, err
	}
	s := task.Submission{Key: v.Get("key"), Type: v.Get("type"), Payload: json.RawMessage(v.Get("payload"))}
	priority, err := formNumber(v, "priority", 5)
	if err != nil {
		return t, err
	}
	s.Priority = &priority
	if s.MaxAttempts, err = formNumber(v, "maxAttempts", 0); err != nil {
		return t, err
	}
	if s.Delay, err = formDuration(v, "delay"); err != nil {
		return t, err
	}
	t, _, err = f.Queue.Submit(r.Context(), v.Get("queue"), s)
	return t, err
}

// limitsForm sets a queue's limits from its page.
func (f *Front) limitsForm(w http.ResponseWriter, r *http.Request) {
	q, err := f.Queue.Queue(r.PathValue("queue"))
	if err == nil {
		err = f.limitsFrom(w, r, q.Queue)
	}
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	http.Redirect(w, r, "/queues/"+q.Name, http.StatusSeeOther)
}

func (f *Front) limitsFrom(w http.ResponseWriter, r *http.Request, q task.Queue) error {
	v, err := form(w, r)
	if err != nil {
		return err
	}
	if q.MaxPending, err = formNumber(v, "maxPending", q.MaxPending); err != nil {
		return err
	}
	if q.MaxRunning, err = formNumber(v, "maxRunning", q.MaxRunning); err != nil {
		return err
	}
	if v.Has("paused") {
		q.Paused = v.Get("paused") == "true"
	}
	_, err = f.Queue.SetQueue(r.Context(), q)
	return err
}

// bulkTime is how long one click on a bulk button works; the page then offers to
// continue.
const bulkTime = 10 * time.Second

// bulkForm shows what a bulk change would do, or does it.
func (f *Front) bulkForm(w http.ResponseWriter, r *http.Request) {
	data, err := f.bulkFrom(w, r, task.Change(r.PathValue("change")))
	if err != nil {
		f.sorry(w, r, err)
		return
	}
	f.show(w, r, http.StatusOK, "bulk", data)
}

// bulkPage is what the page of a bulk change shows. In a dry run the tasks are
// examples of the tasks that match; otherwise there are none.
type bulkPage struct {
	Change task.Change
	task.BulkRequest
	Total task.BulkReply
	Done  int // changed by previous clicks
}

func (f *Front) bulkFrom(w http.ResponseWriter, r *http.Request, what task.Change) (p bulkPage, err error) {
	v, err := form(w, r)
	if err != nil {
		return p, err
	}
	if what.Event() == "" {
		return p, web.Refuse(http.StatusNotFound, "not_found", "there is no change %q", what)
	}
	older, err := formDuration(v, "olderThan")
	if err != nil {
		return p, err
	}
	done, err := formNumber(v, "done", 0)
	if err != nil {
		return p, err
	}
	p = bulkPage{Change: what, Done: done, BulkRequest: task.BulkRequest{
		Selection: task.Selection{Status: task.Status(v.Get("status")), Queue: v.Get("queue"), Type: v.Get("type"), Reason: v.Get("reason"), OlderThan: older},
		Next:      v.Get("next"), DryRun: v.Get("confirmed") != "true", Note: v.Get("note"),
	}}
	for began := time.Now(); ; {
		reply, err := f.Queue.Bulk(r.Context(), what, p.BulkRequest)
		if err != nil {
			return p, err
		}
		p.Total.Matched += reply.Matched
		p.Total.Changed += reply.Changed
		p.Total.Skipped += reply.Skipped
		if p.DryRun && len(p.Total.Tasks) < pageSize {
			p.Total.Tasks = append(p.Total.Tasks, reply.Tasks...)
		}
		p.Next = reply.Next
		if p.Next == "" || time.Since(began) > bulkTime {
			p.Done += p.Total.Changed
			p.Total.Tasks = p.Total.Tasks[:min(len(p.Total.Tasks), pageSize)]
			return p, nil
		}
	}
}
