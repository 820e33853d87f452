package api

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/internal/web"
)

//go:embed page
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "page/*.html"))

func (s *Server) pages(mux *http.ServeMux) {
	style, err := files.ReadFile("page/goals.css")
	if err != nil {
		panic(err) // the file is embedded
	}
	mux.HandleFunc("GET /goals.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		w.Write(style)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		s.show(w, "first.html", map[string]any{"L": accepted(r.Header.Get("Accept-Language")), "Samples": s.Samples})
	})
	mux.HandleFunc("GET /people", func(w http.ResponseWriter, r *http.Request) {
		id, err := goals.ParsePerson(r.FormValue("person"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, "/people/"+id.String(), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /people/{person}", s.phone)
	mux.HandleFunc("POST /people/{person}/choice", s.form(func(r *http.Request) error {
		return s.choice(r.Context(), r.PathValue("person"), r.FormValue("goal"))
	}))
	if s.Bank == nil {
		return
	}
	mux.HandleFunc("POST /demo/{person}/deposit", s.form(func(r *http.Request) error {
		money, err := goals.ParseMoney(r.FormValue("amount"))
		if err != nil {
			return web.Refuse(http.StatusBadRequest, "bad_amount", "%v", err)
		}
		return s.Bank.Deposit(r.Context(), r.PathValue("person"), r.FormValue("goal"), money)
	}))
	mux.HandleFunc("POST /demo/{person}/fail", s.form(func(r *http.Request) error {
		return s.Bank.Fail(r.Context(), r.PathValue("person"), r.FormValue("goal"))
	}))
	mux.HandleFunc("POST /demo/{person}/night", s.form(func(r *http.Request) error {
		return s.Bank.Night(r.Context())
	}))
}

// phone serves the page of one person.
func (s *Server) phone(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	now, err := s.person(r.Context(), r.PathValue("person"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var total goals.Money
	pending, titles := false, make(map[string]string)
	for _, a := range now.view.Accomplished {
		titles[a.GoalID] = a.GoalID // unless the goal still exists
	}
	for _, g := range now.view.Goals {
		titles[g.GoalID] = g.Title
		total += g.SavedAmount
		pending = pending || g.Status == goals.PendingConfirmation
	}
	initial, _ := utf8.DecodeRuneInString(now.view.Name)
	s.show(w, "phone.html", map[string]any{
		"L": languageOf(now.view.Preferences.Language), "Currency": now.view.Currency, "View": now.view, "Titles": titles, "Initial": string(initial),
		"Total": total, "Pending": pending, "Bank": s.Bank != nil, "Tag": strings.Trim(now.tag, `"`), "At": at.UnixMicro(),
	})
}

// form handles a form and redirects to the person's page.
func (s *Server) form(act func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		if err := act(r); err != nil {
			s.fail(w, r, err)
			return
		}
		id, err := goals.ParsePerson(r.PathValue("person"))
		if err != nil {
			s.fail(w, r, web.Refuse(http.StatusBadRequest, "bad_person", "%v", err))
			return
		}
		http.Redirect(w, r, "/people/"+id.String(), http.StatusSeeOther)
	}
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var fault *web.Fault
	if !errors.As(err, &fault) {
		s.Log.Error("rendering a page failed", "path", r.URL.Path, "error", err)
		fault = web.Refuse(http.StatusInternalServerError, "internal", "internal error; see the server's log")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(fault.Status)
	s.show(w, "error.html", map[string]any{"L": accepted(r.Header.Get("Accept-Language")), "Message": fault.Message})
}

func (s *Server) show(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := pages.ExecuteTemplate(w, name, data); err != nil {
		s.Log.Error("writing a page failed", "page", name, "error", err)
	}
}
