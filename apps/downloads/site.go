package downloads

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/web"
)

//go:embed page.html downloads.css
var assets embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"shade": shade,
	"ago":   func(ms int64) string { return time.Since(time.UnixMilli(ms)).Round(time.Second).String() },
}).ParseFS(assets, "page.html"))

// shade returns the CSS class of a status.
func shade(s ledger.Status) string {
	switch s {
	case ledger.Completed:
		return "good"
	case ledger.Failed, ledger.Error, ledger.Timeout:
		return "bad"
	}
	return "wait"
}

// Handler serves the page, the API of the command line, /metrics and /healthz.
func (s *System) Handler() http.Handler {
	mux := http.NewServeMux()
	web.Static(mux)
	web.Operate(mux, s.metrics, func(ctx context.Context) error {
		if _, err := s.Batches.Get(ctx, "healthz"); err != nil && !errors.Is(err, ledger.ErrUnknown) {
			return err
		}
		return nil
	})
	mux.Handle("GET /events", &s.live)
	mux.Handle("GET /downloads.css", http.FileServerFS(assets))
	looks := &looks{system: s}
	mux.HandleFunc("GET /{$}", looks.serve)
	mux.HandleFunc("POST /trigger", s.triggerForm)
	mux.Handle("GET /api/days/{date}", web.Handler(s.log, s.apiDay))
	mux.Handle("POST /api/days/{date}/batches", web.Handler(s.log, s.apiTrigger))
	return mux
}

// maxDriven is the limit of running batches for triggers.
const maxDriven = 32

func (s *System) trigger(ctx context.Context, date string) (string, error) {
	switch {
	case s.Keeper == nil:
		return "", web.Refuse(http.StatusConflict, "no_poller", "this process does not poll; send the request to the poller")
	case s.Keeper.Driven() >= maxDriven:
		return "", web.Refuse(http.StatusTooManyRequests, "too_many", "%d batches are running; wait for one to end", maxDriven)
	}
	if err := s.Batches.Triggerable(date); err != nil {
		return "", web.Refuse(http.StatusBadRequest, "bad_date", "%v", err)
	}
	return s.Keeper.Trigger(ctx, date)
}

func (s *System) triggerForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	date := r.FormValue("date")
	if _, err := s.trigger(r.Context(), date); err != nil {
		web.Fail(w, r, s.log, err)
		return
	}
	http.Redirect(w, r, "/?date="+date, http.StatusSeeOther)
}

// Started is the reply to a trigger.
type Started struct {
	BatchID string `json:"batch"`
}

func (s *System) apiTrigger(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := s.trigger(r.Context(), r.PathValue("date"))
	if err != nil {
		return nil, err
	}
	return Started{id}, nil
}

func (s *System) apiDay(_ http.ResponseWriter, r *http.Request) (any, error) {
	date := r.PathValue("date")
	if err := ledger.CheckDate(date); err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "bad_date", "%v", err)
	}
	return s.Batches.OfDay(r.Context(), date, "")
}

// look is the content of the page.
type look struct {
	Date, Previous, Next string
	Poller               bool
	Batches              []shown
	Files                []*ledger.Job // some files of the last batches, unfinished first
	More                 int           // number of files that are not shown
}

type shown struct {
	*ledger.Batch
	Counts map[ledger.Status]int
	Done   int // percent
}

// Count returns how many of the batch's files have a status.
func (v shown) Count(s string) int { return v.Counts[ledger.Status(s)] }

const (
	maxBatches = 5   // whose files are counted
	maxShown   = 100 // files
)

// looks reads a day at most once in two seconds, however many pages are open.
type looks struct {
	system *System
	mutex  sync.Mutex
	date   string
	text   []byte
	at     time.Time
}

func (l *looks) serve(w http.ResponseWriter, r *http.Request) {
	date := r.URL.Query().Get("date")
	if date == "" {
		date = l.system.Batches.Now().UTC().Format(time.DateOnly)
	}
	if err := ledger.CheckDate(date); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := l.render(r.Context(), date)
	if err != nil {
		web.Fail(w, r, l.system.log, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(text)
}

func (l *looks) render(ctx context.Context, date string) ([]byte, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.date == date && time.Since(l.at) < 2*time.Second {
		return l.text, nil
	}
	fresh, err := l.system.look(ctx, date)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, fresh); err != nil {
		return nil, fmt.Errorf("render the page: %w", err)
	}
	l.date, l.text, l.at = date, b.Bytes(), time.Now()
	return l.text, nil
}

// look reads a day: a query for its batches, and one for the files of each of the
// last batches.
func (s *System) look(ctx context.Context, date string) (look, error) {
	day, _ := time.Parse(time.DateOnly, date)
	l := look{Date: date, Previous: day.AddDate(0, 0, -1).Format(time.DateOnly), Next: day.AddDate(0, 0, 1).Format(time.DateOnly), Poller: s.Keeper != nil}
	batches, err := s.Batches.OfDay(ctx, date, "")
	if err != nil {
		return l, err
	}
	slices.Reverse(batches)
	for i, b := range batches {
		v := shown{Batch: b, Counts: make(map[ledger.Status]int)}
		if i < maxBatches {
			for j, err := range s.Jobs.OfBatch(ctx, b.BatchID, "") {
				if err != nil {
					return l, err
				}
				v.Counts[j.Status]++
				l.keep(j)
			}
		}
		if b.Over() {
			v.Counts = map[ledger.Status]int{ledger.Completed: len(b.CompletedFiles), ledger.Failed: len(b.FailedFiles)}
		}
		if n := len(b.ExpectedFiles); n > 0 {
			v.Done = min(100, 100*(v.Counts[ledger.Completed]+v.Counts[ledger.Failed]+v.Counts[ledger.Error])/n)
		}
		l.Batches = append(l.Batches, v)
	}
	return l, nil
}

var order = map[ledger.Status]int{ledger.Error: 0, ledger.Failed: 1, ledger.Downloading: 2, ledger.Available: 3, ledger.Completed: 4}

// keep keeps the most relevant files.
func (l *look) keep(j *ledger.Job) {
	at, _ := slices.BinarySearchFunc(l.Files, j, func(a, b *ledger.Job) int { return order[a.Status] - order[b.Status] })
	if at == maxShown {
		l.More++
		return
	}
	if l.Files = slices.Insert(l.Files, at, j); len(l.Files) > maxShown {
		l.Files = l.Files[:maxShown]
		l.More++
	}
}
