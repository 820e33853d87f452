// Package api serves the mobile app: one view merged from two tables, the choice of
// a goal, and a page that looks like the app.
package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/web"
)

// Server is the HTTP handler.
type Server struct {
	Tables  *goals.Tables
	Live    *Live
	Log     *slog.Logger
	Samples []Sample // people that the first page lists
	Bank    Bank     // of a demonstration; nil otherwise

	// Currency is the code of the currency of all amounts; it defaults to USD.
	Currency string

	// Stream returns the state of the stream; nil if another process consumes it.
	Stream func() stream.State

	read  *prometheus.CounterVec
	units prometheus.Counter
	took  prometheus.Histogram
}

// Sample is a person on the first page.
type Sample struct{ PersonID, Name, Language string }

// Bank simulates, in a demonstration, the systems that the app does not access.
type Bank interface {
	Deposit(ctx context.Context, personID, goalID string, amount goals.Money) error
	Fail(ctx context.Context, personID, goalID string) error
	Night(ctx context.Context) error
}

// Handler returns the handler. It registers metrics, and serves them at /metrics.
func (s *Server) Handler(metrics *prometheus.Registry) http.Handler {
	s.read = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "goals_api_reads_total", Help: "Requests for a person's goals by reply: fresh, unchanged, unknown, failed."}, []string{"answer"})
	s.units = prometheus.NewCounter(prometheus.CounterOpts{Name: "goals_api_read_units_total", Help: "Read units of requests for a person's goals."})
	s.took = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "goals_api_read_seconds", Help: "Time of the two reads and their merge.", Buckets: prometheus.ExponentialBuckets(.0005, 2, 14)})
	metrics.MustRegister(s.read, s.units, s.took)

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.health)
	web.Static(mux)
	mux.HandleFunc("GET /api/people/{person}/goals", s.goals)
	mux.HandleFunc("PUT /api/people/{person}/choice", web.Handler(s.Log, s.choose))
	mux.HandleFunc("GET /api/people/{person}/live", s.live)
	s.pages(mux)
	return mux
}

// health replies with 503 if nothing can be served. Without the stream the batch view is
// served, so that is only reported.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if err := s.healthy(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
	if s.Stream == nil {
		return
	}
	switch now := s.Stream(); {
	case !now.Available:
		fmt.Fprintf(w, "stream: Kafka does not respond since %s, recent deposits are missing: %s\n", now.Since.UTC().Format(time.RFC3339), now.Reason)
	default:
		fmt.Fprintf(w, "stream: %d events behind\n", now.Behind)
	}
}

// streamGrace is how long the stream may be away before replies say so.
const streamGrace = 5 * time.Second

// streamDownSince returns since when recent deposits may be missing, or "".
func (s *Server) streamDownSince() string {
	if s.Stream == nil {
		return ""
	}
	now := s.Stream()
	if now.Available || s.Tables.Now().Sub(now.Since) < streamGrace {
		return ""
	}
	return now.Since.UTC().Format(time.RFC3339)
}

func (s *Server) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, _, err := s.Tables.Person(ctx, "00000000-0000-0000-0000-000000000000")
	if err != nil && !errors.Is(err, goals.ErrNoPerson) {
		return errors.New("the tables cannot be read")
	}
	return nil
}

// goals replies with a person's current goals.
func (s *Server) goals(w http.ResponseWriter, r *http.Request) {
	answer, err := s.person(r.Context(), r.PathValue("person"))
	if err != nil {
		web.Fail(w, r, s.Log, err)
		return
	}
	h := w.Header()
	h.Set("ETag", answer.tag)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Read-Units", strconv.FormatFloat(answer.units, 'f', -1, 64))
	if matches(r.Header.Get("If-None-Match"), answer.tag) {
		s.read.WithLabelValues("unchanged").Inc()
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.read.WithLabelValues("fresh").Inc()
	h.Set("Content-Type", "application/json")
	w.Write(answer.body)
}

// answer is the encoded form of a view.
type answer struct {
	view  goals.View
	body  []byte
	tag   string
	units float64
}

func (s *Server) person(ctx context.Context, person string) (*answer, error) {
	id, err := goals.ParsePerson(person)
	if err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "bad_person", "%v", err)
	}
	began := time.Now()
	view, units, err := s.Tables.Person(ctx, id.String())
	s.units.Add(units)
	if errors.Is(err, goals.ErrNoPerson) {
		s.read.WithLabelValues("unknown").Inc()
		return nil, unknownPerson(id.String())
	}
	if err != nil {
		s.read.WithLabelValues("failed").Inc()
		return nil, err
	}
	s.took.Observe(time.Since(began).Seconds())
	view.StreamDownSince, view.Currency = s.streamDownSince(), cmp.Or(s.Currency, "USD")
	body, err := json.Marshal(view)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return &answer{view: view, body: append(body, '\n'), tag: `"` + hex.EncodeToString(sum[:12]) + `"`, units: units}, nil
}

func unknownPerson(id string) error {
	return web.Refuse(http.StatusNotFound, "unknown_person", "person %s has no goals; new customers get them with the next nightly run", id)
}

// matches reports whether a client already has the reply.
func matches(header, tag string) bool {
	for _, one := range strings.Split(header, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == tag || one == "*" {
			return true
		}
	}
	return false
}

// choose stores a choice. It is the app's only write.
func (s *Server) choose(w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		GoalID string `json:"goalId"`
	}
	if err := web.Read(w, r, 4<<10, &in); err != nil {
		return nil, err
	}
	return nil, s.choice(r.Context(), r.PathValue("person"), in.GoalID)
}

func (s *Server) choice(ctx context.Context, person, goalID string) error {
	id, err := goals.ParsePerson(person)
	if err != nil {
		return web.Refuse(http.StatusBadRequest, "bad_person", "%v", err)
	}
	err = s.Tables.Choose(ctx, id.String(), goalID)
	switch {
	case errors.Is(err, goals.ErrNoPerson):
		return unknownPerson(id.String())
	case errors.Is(err, goals.ErrNoGoal):
		return web.Refuse(http.StatusUnprocessableEntity, "unknown_goal", "person %s has no goal %.60q to choose", id, goalID)
	case err == nil:
		s.Live.Changed(id.String())
	}
	return err
}
