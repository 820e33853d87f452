package downloads

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/web"
)

// Handler serves the pages, the API of the command line, /metrics and /healthz.
func (s *System) Handler() http.Handler {
	mux := http.NewServeMux()
	web.Static(mux)
	web.Operate(mux, s.metrics, s.healthy)
	mux.Handle("GET /events", &s.live)
	mux.HandleFunc("GET /downloads.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, assets, "pages/downloads.css")
	})
	looks := &looks{system: s}
	mux.HandleFunc("GET /{$}", looks.serve)
	mux.HandleFunc("GET /months/{month}", s.showMonth)
	mux.HandleFunc("GET /files/{file}", s.showFile)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, web.Refuse(http.StatusNotFound, "no_page", "there is no page %.200s", r.URL.Path))
	})
	mux.HandleFunc("POST /trigger", s.triggerForm)
	mux.HandleFunc("POST /requeue", s.requeueForm)
	mux.Handle("GET /api/days/{date}", web.Handler(s.log, s.apiDay))
	mux.Handle("GET /api/months/{month}", http.HandlerFunc(s.apiMonth))
	mux.Handle("GET /api/counts", web.Handler(s.log, s.apiCounts))
	mux.Handle("POST /api/days/{date}/batches", web.Handler(s.log, s.apiTrigger))
	mux.Handle("POST /api/requeue", web.Handler(s.log, s.apiRequeue))
	return mux
}

// healthy checks that the tables answer, with a request that costs no units.
func (s *System) healthy(ctx context.Context) error {
	for _, table := range []string{ledger.JobsTable, ledger.BatchesTable} {
		answer, err := s.Home.DB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
		if err != nil {
			return err
		}
		if answer.Table.TableStatus != "ACTIVE" && answer.Table.TableStatus != "UPDATING" {
			return fmt.Errorf("table %s is %s", table, answer.Table.TableStatus)
		}
	}
	return nil
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
		s.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/?date="+date, http.StatusSeeOther)
}

// requeueForm queues a file again, or the failed files of a batch.
func (s *System) requeueForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	file, batch, date := r.FormValue("file"), r.FormValue("batch"), r.FormValue("date")
	if err := ledger.CheckDate(date); err != nil {
		s.fail(w, r, web.Refuse(http.StatusBadRequest, "bad_date", "%v", err))
		return
	}
	var requests []Requeue
	if batch != "" {
		requests = append(requests, Requeue{Batch: batch, Status: ledger.Failed}, Requeue{Batch: batch, Status: ledger.Error})
	} else {
		requests = append(requests, Requeue{Files: []string{file}})
	}
	for _, q := range requests {
		out, err := s.Requeue(r.Context(), q)
		if err == nil && file != "" && len(out.Refused) > 0 {
			err = web.Refuse(http.StatusConflict, "refused", "%s", strings.Join(out.Refused, "; "))
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
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

func (s *System) apiRequeue(w http.ResponseWriter, r *http.Request) (any, error) {
	var in Requeue
	if err := web.Read(w, r, 4<<20, &in); err != nil {
		return nil, err
	}
	return s.Requeue(r.Context(), in)
}

func (s *System) apiDay(_ http.ResponseWriter, r *http.Request) (any, error) {
	date := r.PathValue("date")
	if err := ledger.CheckDate(date); err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "bad_date", "%v", err)
	}
	q := r.URL.Query()
	return Day(r.Context(), s.Jobs, s.Batches, date, ledger.Status(q.Get("status")), q.Has("files"))
}

func (s *System) apiCounts(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.counts.get(r.Context())
}

// apiMonth serves the audit of a month: /api/months/2026-03, or 2026-03.csv.
func (s *System) apiMonth(w http.ResponseWriter, r *http.Request) {
	month, asCSV := strings.CutSuffix(r.PathValue("month"), ".csv")
	if _, err := time.Parse("2006-01", month); err != nil {
		web.Fail(w, r, s.log, web.Refuse(http.StatusBadRequest, "bad_month", "%.40q is not a month such as 2026-03", month))
		return
	}
	days, err := s.Batches.Audit(r.Context(), s.Jobs, month, s.today())
	switch {
	case err != nil:
		web.Fail(w, r, s.log, err)
	case !asCSV:
		web.Write(w, http.StatusOK, days)
	default:
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="audit-`+month+`.csv"`)
		if err := WriteCSV(w, days); err != nil {
			s.log.Warn("writing an audit failed", "error", err)
		}
	}
}

// WriteCSV writes an audit as CSV: a line for each expected file, and one for each day
// without any.
func WriteCSV(w io.Writer, days []ledger.Day) error {
	c := csv.NewWriter(w)
	lines := [][]string{{"date", "verdict", "file", "received", "late", "batch"}}
	for _, d := range days {
		if len(d.Files) == 0 {
			lines = append(lines, []string{d.Date, string(d.Verdict), "", "", "", ""})
		}
		for _, f := range d.Files {
			lines = append(lines, []string{d.Date, string(d.Verdict), f.FileID, strconv.FormatBool(f.Received), strconv.FormatBool(f.Late), f.BatchID})
		}
	}
	return c.WriteAll(lines)
}

func (s *System) today() string { return s.Batches.Now().UTC().Format(time.DateOnly) }

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
		date = l.system.today()
	}
	if err := ledger.CheckDate(date); err != nil {
		l.system.fail(w, r, web.Refuse(http.StatusBadRequest, "bad_date", "%v", err))
		return
	}
	text, err := l.render(r.Context(), date)
	if err != nil {
		l.system.fail(w, r, err)
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
	text, err := render("day.html", fresh)
	if err != nil {
		return nil, err
	}
	l.date, l.text, l.at = date, text, time.Now()
	return l.text, nil
}

func (s *System) showMonth(w http.ResponseWriter, r *http.Request) {
	month := r.PathValue("month")
	first, err := time.Parse("2006-01", month)
	if err != nil {
		s.fail(w, r, web.Refuse(http.StatusBadRequest, "bad_month", "%.40q is not a month such as 2026-03", month))
		return
	}
	days, err := s.Batches.Audit(r.Context(), s.Jobs, month, s.today())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, r, "month.html", s.month(first, days))
}

func (s *System) showFile(w http.ResponseWriter, r *http.Request) {
	j, err := s.Jobs.Get(r.Context(), r.PathValue("file"))
	if errors.Is(err, ledger.ErrUnknown) {
		s.fail(w, r, web.Refuse(http.StatusNotFound, "no_file", "the file has no record; records are kept for 30 days"))
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, r, "file.html", s.file(j))
}

// fail shows an error as a page.
func (s *System) fail(w http.ResponseWriter, r *http.Request, err error) {
	fault := web.FaultOf(r, s.log, err)
	text, err := render("error.html", struct {
		frame
		Message string
	}{s.frame("Downloads", s.today()), fault.Message})
	if err != nil {
		web.Fail(w, r, s.log, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(fault.Status)
	w.Write(text)
}

func (s *System) write(w http.ResponseWriter, r *http.Request, name string, content any) {
	text, err := render(name, content)
	if err != nil {
		web.Fail(w, r, s.log, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(text)
}
