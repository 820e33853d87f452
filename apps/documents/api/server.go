// Package api serves the system over HTTP: a JSON API for programs, and pages for
// people. Both use the same functions.
//
// A request is handled for the tenant of its session. Ids in paths, bodies,
// queries and cursors are only combined with that tenant, so ids of other tenants
// identify nothing.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/hook"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/mail"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/session"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/trial"
	"github.com/stator-db/stator/apps/internal/web"
)

// Server is the HTTP handler.
type Server struct {
	Store    *table.Store
	Bucket   *blob.Bucket
	Results  *pipeline.Results
	Reader   extract.Reader // of previews
	Verifier *session.Verifier
	Methods  []string // the extractors that workflows may choose
	Trials   *trial.Trials
	Issuer   *session.Issuer   // issues sessions; nil if only an identity provider does
	Trusting bool              // whether the issuer trusts every email
	Provider *session.Provider // where people sign in, or nil
	Hooks    *hook.Sender
	Mail     *mail.Sender // nil if no mails are sent
	URL      string       // of the pages, in mails; "" is unknown
	Wake     func()       // called when there is work to process
	Log      *slog.Logger

	// Guests are the users that the sign-in page of the built-in issuer offers.
	Guests []Guest

	lives    lives
	previews previews
}

// Mails reports whether mails can be sent.
func (s *Server) Mails() bool { return s.Mail != nil }

// Guest is a user of the demonstration.
type Guest struct {
	Email, Tenant, Of string
}

// Endpoint is one endpoint of the API.
type Endpoint struct {
	Pattern string // of http.ServeMux
	Access  Access
	answer  func(c *call) (any, error)
}

// Access says which callers may use an endpoint.
type Access int

// The kinds of access.
const (
	Anyone Access = iota // no session is needed
	Members
	Admins
)

// Endpoints lists all endpoints of the API, so that a test can iterate over them.
func (s *Server) Endpoints() []Endpoint {
	const project = "/v1/projects/{project}"
	const batch = project + "/batches/{batch}"
	const document = batch + "/documents/{document}"
	return []Endpoint{
		{"POST /v1/tenants", Anyone, s.createTenant},
		{"POST /v1/sessions", Anyone, s.signIn},
		{"POST /v1/invitations/accept", Anyone, s.acceptInvitation},
		{"GET /v1/session", Members, s.whoAmI},
		{"GET /v1/tenants/{tenant}", Members, s.getTenant},
		{"DELETE /v1/tenants/{tenant}", Admins, s.deleteTenant},
		{"GET /v1/usage", Members, s.usage},
		{"GET /v1/users", Members, s.listUsers},
		{"GET /v1/users/{user}", Members, s.getUser},
		{"DELETE /v1/users/{user}", Admins, s.removeUser},
		{"POST /v1/invitations", Admins, s.invite},
		{"GET /v1/projects", Members, s.listProjects},
		{"POST /v1/projects", Members, s.createProject},
		{"GET " + project, Members, s.getProject},
		{"DELETE " + project, Admins, s.deleteProject},
		{"GET " + project + "/workflows", Members, s.listWorkflows},
		{"POST " + project + "/workflows", Members, s.createWorkflow},
		{"GET " + project + "/workflows/{workflow}", Members, s.getWorkflow},
		{"PUT " + project + "/workflows/{workflow}", Members, s.changeWorkflow},
		{"DELETE " + project + "/workflows/{workflow}", Members, s.deleteWorkflow},
		{"POST " + project + "/trials", Members, s.tryWorkflow},
		{"POST /v1/uploads", Members, s.upload},
		{"GET " + project + "/batches", Members, s.listBatches},
		{"POST " + project + "/batches", Members, s.createBatch},
		{"GET " + batch, Members, s.getBatch},
		{"GET " + batch + "/results", Members, s.exportResults},
		{"PUT " + project + "/reporting", Admins, s.setReporting},
		{"DELETE " + batch, Members, s.deleteBatch},
		{"GET /v1/batches", Members, s.listBatchesByStatus},
		{"GET /v1/batches/{batch}", Members, s.findBatch},
		{"GET " + batch + "/documents", Members, s.listDocuments},
		{"POST " + batch + "/documents", Members, s.addDocuments},
		{"GET " + document, Members, s.getDocument},
		{"DELETE " + document, Members, s.deleteDocument},
		{"GET " + document + "/result", Members, s.getResult},
		{"GET " + document + "/file", Members, s.getFile},
		{"GET " + document + "/preview", Members, s.getPreview},
		{"POST " + document + "/review", Members, s.review},
		{"POST " + document + "/retry", Members, s.retry},
	}
}

// Handle adds the API and the pages.
func (s *Server) Handle(mux *http.ServeMux) {
	for _, e := range s.Endpoints() {
		mux.HandleFunc(e.Pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := s.answer(&call{w: w, r: r}, e)
			switch {
			case err != nil:
				web.Fail(w, r, s.Log, fault(err))
			case v == nil:
				w.WriteHeader(http.StatusNoContent)
			case v != answered{}:
				web.Write(w, http.StatusOK, v)
			}
		})
	}
	if s.Issuer != nil {
		mux.HandleFunc("GET /.well-known/jwks.json", func(w http.ResponseWriter, r *http.Request) {
			web.Write(w, http.StatusOK, s.Issuer.KeySet())
		})
	}
	s.handlePages(mux)
}

// answered is returned by a function that has written a reply that is not JSON.
type answered struct{}

func (s *Server) answer(c *call, e Endpoint) (any, error) {
	if err := s.admit(c, e.Access); err != nil {
		return nil, err
	}
	return e.answer(c)
}

// call is an authorised request.
type call struct {
	w       http.ResponseWriter
	r       *http.Request
	session session.Session
	member  table.Member
}

func (c *call) ctx() context.Context  { return c.r.Context() }
func (c *call) tenant() keys.Tenant   { return c.session.Tenant }
func (c *call) query(n string) string { return c.r.URL.Query().Get(n) }

// cookie holds the session of a browser.
const cookie = "session"

// token returns the token of a request, or "".
func token(r *http.Request) string {
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return t
	}
	if c, err := r.Cookie(cookie); err == nil {
		return c.Value
	}
	return ""
}

// admit authorises a request. A person's rights in a tenant are read from the
// table, not from the token, so that removing a member takes effect at once.
func (s *Server) admit(c *call, access Access) error {
	if access == Anyone {
		return nil
	}
	var err error
	if c.session, err = s.Verifier.Session(c.ctx(), token(c.r)); err != nil {
		s.Log.Debug("a session is rejected", "error", err)
		return web.Refuse(http.StatusUnauthorized, "invalid_session", "the session is missing, expired or invalid: sign in, and send it as a bearer token")
	}
	c.member, err = s.Store.Member(c.ctx(), c.tenant(), c.session.User)
	if errors.Is(err, table.ErrNotFound) {
		return web.Refuse(http.StatusForbidden, "no_member", "the person of the session is not a member of its tenant")
	}
	if err != nil {
		return err
	}
	if access == Admins && c.member.Role != table.RoleAdmin {
		return web.Refuse(http.StatusForbidden, "no_admin", "only admins of the tenant may do that")
	}
	return nil
}

// person authenticates a request that needs no tenant.
func (s *Server) person(c *call) (session.Person, error) {
	p, err := s.Verifier.Person(c.ctx(), token(c.r))
	if err != nil {
		return p, web.Refuse(http.StatusUnauthorized, "invalid_session", "the session is missing, expired or invalid: sign in, and send it as a bearer token")
	}
	return p, nil
}

var notFound = web.Refuse(http.StatusNotFound, "not_found", "it does not exist in this tenant")

// fault turns the errors of the table into replies.
func fault(err error) error {
	var own *web.Fault
	var limit *table.LimitError
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &limit):
		f := web.Refuse(http.StatusForbidden, "plan_limit", "%v", limit)
		f.Detail = map[string]any{"plan": limit.Plan, "of": limit.What, "limit": limit.Limit, "used": limit.Used}
		return f
	case errors.Is(err, table.ErrNotFound):
		return notFound
	case errors.Is(err, table.ErrMoved):
		return web.Refuse(http.StatusConflict, "changed", "it has changed meanwhile, or its status does not allow this: read it again")
	case errors.Is(err, errPreviews):
		return web.Refuse(http.StatusTooManyRequests, "too_many_previews", "%v: try again later", err)
	case errors.Is(err, trial.ErrTooMany):
		return web.Refuse(http.StatusTooManyRequests, "too_many_trials", "%v: try again later", err)
	case errors.Is(err, table.ErrBusy):
		return web.Refuse(http.StatusServiceUnavailable, "busy", "too many concurrent changes: retry later")
	case errors.Is(err, pipeline.ErrNoResult):
		return web.Refuse(http.StatusNotFound, "no_result", "the document has no result yet")
	}
	return err
}

// id parses an id in the path. An invalid id identifies nothing.
func id[T keys.ID[kind], kind any](c *call, name string) (T, error) {
	v, err := keys.ParseID[T, kind](c.r.PathValue(name))
	if err != nil {
		return v, notFound
	}
	return v, nil
}

// lives are the open pages, by tenant.
type lives struct {
	mutex    sync.Mutex
	byTenant map[keys.Tenant]*web.Live
}

func (l *lives) of(t keys.Tenant) *web.Live {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.byTenant == nil {
		l.byTenant = make(map[keys.Tenant]*web.Live)
	}
	if l.byTenant[t] == nil {
		l.byTenant[t] = new(web.Live)
	}
	return l.byTenant[t]
}

// Notify makes the pages of a tenant reload.
func (s *Server) Notify(t keys.Tenant) {
	s.lives.mutex.Lock()
	live := s.lives.byTenant[t]
	s.lives.mutex.Unlock()
	if live != nil {
		live.Broadcast("changed")
	}
}

// NotifyAll makes all pages reload periodically, until the context ends. It is used
// when other processes do the processing.
func (s *Server) NotifyAll(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.lives.mutex.Lock()
		for _, live := range s.lives.byTenant {
			live.Broadcast("look")
		}
		s.lives.mutex.Unlock()
	}
}
