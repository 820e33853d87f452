package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/server/door"
)

// BySigner answers each request with the handler of its signer's access key and region, as
// DynamoDB Local does: each has tables of its own.
type BySigner struct {
	// Hosts and Origins are as in OnlyHosts and AllowOrigins, for requests that no handler gets.
	Hosts, Origins []string

	// Handler returns the handler of an access key and a region, which is a *Handler. An
	// *apierror.Error is the reply.
	Handler func(ctx context.Context, accessKey, region string) (http.Handler, error)

	// Shared says that Handler returns the same handler for all, which answers requests without a
	// signer, too, such as those for its metrics.
	Shared bool

	// All returns the handlers that exist, for health checks.
	All func() []http.Handler

	Log *slog.Logger
}

// ServeHTTP answers a request that net/http has read.
func (s *BySigner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := door.Begin(w, r)
	defer x.End()
	s.Answer(r.Context(), &x.Request, &x.Reply)
	if x.Reply.Cut || x.Reply.Send(w) != nil {
		panic(http.ErrAbortHandler) // so that the customer sees that a stream is incomplete
	}
}

// Accepts reports whether the door may read a request.
func (s *BySigner) Accepts(r *door.Request) bool { return !isStreamed(r.Header("X-Amz-Target")) }

// Answer answers a request that the door or net/http has read.
func (s *BySigner) Answer(ctx context.Context, r *door.Request, a *door.Reply) {
	front := (&Handler{}).OnlyHosts(s.Hosts)
	signer, err := auth.Read(r.Header, r.Query)
	switch {
	case !front.acceptsHost(r.Host):
		rejectHost(a)
	case origins(s.Origins).preflight(r, a):
	case fromForeignPage(r) && !origins(s.Origins).allows(string(r.Header("Origin"))):
		a.ID = newID()
		rejectForeignPage(a)
	case namesFork(r):
		_, _, err := front.acquire(ctx, r)
		s.fault(r, a, err)
	case err != nil && r.Path == "/": // GET, too: what waits for DynamoDB Local waits for this status
		s.fault(r, a, err)
		a.Last = r.Method != http.MethodPost // some of them do not read the reply
	case s.Shared && r.Method != http.MethodPost:
		s.handle(ctx, r, a, auth.Signer{})
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.read(ctx, r, a)
	case err != nil:
		s.fault(r, a, err)
	default:
		s.handle(ctx, r, a, signer)
	}
}

// handle answers a request with the handler of a signer.
func (s *BySigner) handle(ctx context.Context, r *door.Request, a *door.Reply, signer auth.Signer) {
	handler, err := s.Handler(ctx, string(signer.AccessKey), signer.Region)
	if err != nil {
		s.fault(r, a, err)
		return
	}
	handler.(*Handler).Answer(ctx, r, a)
}

// read answers a request without a body: health checks are those of all handlers. Anything else is of
// one of them, and which one is not known.
func (s *BySigner) read(ctx context.Context, r *door.Request, a *door.Reply) {
	switch r.Path {
	case "/":
		plain(a, http.StatusOK, "healthy: dynamodb\n")
	case "/livez":
		alive(a)
	case "/readyz", "/healthz":
		plain(a, http.StatusOK, "healthy\n")
		for _, h := range s.All() {
			if h.(*Handler).Answer(ctx, r, a); a.Status != http.StatusOK {
				return
			}
		}
	default:
		plain(a, http.StatusNotFound, "each access key and region has a database of its own; with -sharedDb there is one, with "+strings.TrimPrefix(r.Path, "/")+"\n")
	}
	a.ID = newID()
}

// fault answers a request that no handler gets.
func (s *BySigner) fault(r *door.Request, a *door.Reply, err error) {
	a.ID = newID()
	origins(s.Origins).share(r, a)
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		s.Log.Error("a request failed", "request", string(a.ID[:]), "error", err)
		fault = internal("")
	}
	sendFault(a, typeAmazon, fault)
}
