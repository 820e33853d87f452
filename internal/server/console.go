package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/server/door"
)

// WithConsole returns a handler that also serves a console, with the keys and policies of its API.
// bench answers requests about models; nil for none. It is called last.
func (h *Handler) WithConsole(mode console.Mode, version string, bench console.Workbench) *Handler {
	with := *h
	with.newConsole = func(h *Handler) *console.Handler {
		return console.New(console.Options{Endpoint: consoleEndpoint{h}, Mode: mode, AcceptsHost: h.acceptsHost, Version: version, Workbench: bench})
	}
	with.console = with.newConsole(h)
	return &with
}

// serveConsole serves a request of the console; false if it is for something else.
func (h *Handler) serveConsole(w http.ResponseWriter, r *http.Request) bool {
	if h.console == nil || !strings.HasPrefix(r.URL.Path+"/", console.Base) {
		return false
	}
	if door.IsSecure(r) {
		r = r.WithContext(console.MarkSecure(r.Context()))
	}
	serve := h.console
	if named := door.Received("", r.Host, false, r.Header); (h.forks != nil || namesFork(named)) && h.acceptsHost(r.Host) {
		fork, _, err := h.acquire(r.Context(), named)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return true
		}
		if fork != nil {
			defer fork.Release()
			serve = fork.Database().consoleOf(h)
		}
	}
	serve.ServeHTTP(w, r)
	return true
}

// consoleEndpoint answers the requests of the console.
type consoleEndpoint struct{ h *Handler }

// consoleRegion is the region of requests if no policies name one. It is in ARNs only.
const consoleRegion = "us-east-1"

func (e consoleEndpoint) region() string {
	if e.h.access != nil {
		return e.h.access.Region
	}
	return consoleRegion
}

// Asks returns what a person must give to sign in.
func (e consoleEndpoint) Asks() console.SignIn {
	if e.h.verifier == nil {
		return console.NoSignIn
	}
	return console.SignInKey
}

// About returns what the page shows.
func (e consoleEndpoint) About() console.About { return console.About{Region: e.region()} }

// Now returns the time of the database.
func (e consoleEndpoint) Now() time.Time { return e.h.service.DB.Now() }

// Identify returns the owner of a key. It is written down, as what fails is, too.
func (e consoleEndpoint) Identify(ctx context.Context, c console.Credentials, from console.Client) (console.Identity, error) {
	if e.h.verifier == nil {
		return console.Identity{}, nil
	}
	if err := e.h.AwaitAccess(ctx); err != nil {
		return console.Identity{}, err
	}
	key := e.h.Keys().Find([]byte(c.AccessKey))
	given := proofOf(c.Secret, c.SessionToken)
	want := proofOfKey(key)
	known := subtle.ConstantTimeCompare(given[:], want[:]) == 1 && key != nil && !e.h.verifier.Expired(key)
	e.auditSignIn(ctx, key, known, from)
	if !known {
		return console.Identity{}, console.ErrCredentials
	}
	return console.Identity{AccessKey: key.AccessKey, Principal: key.Principal, Proof: given, Expired: func() bool { return e.h.verifier.Expired(key) }}, nil
}

// auditSignIn writes down that somebody has signed in with a key, or has failed to. A key that does not
// exist is nil: what was given in its place may be a secret.
func (e consoleEndpoint) auditSignIn(ctx context.Context, key *keys.Key, known bool, from console.Client) {
	if e.h.auditLog == nil {
		return
	}
	of, a := apiRequest{operation: "ConsoleLogin", arrived: time.Now()}, door.Reply{ID: newID(), Status: http.StatusOK}
	if key != nil {
		of.signer.AccessKey = []byte(key.AccessKey)
	}
	if known {
		of.signer.Principal = key.Principal
	} else {
		a.Status = http.StatusUnauthorized
		of.failed("UnrecognizedClientException", "")
	}
	r := door.Received(from.Remote, from.Host, from.Secure, http.Header{"User-Agent": {from.UserAgent}})
	r.TLS = door.TLSFrom(ctx)
	e.h.auditOther(&of, r, &a, sourceOwn)
}

// proofOf returns a digest of a secret and its session token.
func proofOf(secret, token string) [32]byte {
	a, b := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(token))
	return sha256.Sum256(append(a[:], b[:]...))
}

// proofOfKey returns what proofOf returns for a key. A key that does not exist takes as long.
func proofOfKey(key *keys.Key) [32]byte {
	key = cmp.Or(key, new(keys.Key))
	return proofOf(key.Secret.Reveal(), key.Token.Reveal())
}

// session returns the handler that decides about a request of somebody, which has their signer. release is
// called when it is not needed any more.
func (e consoleEndpoint) session(ctx context.Context, who console.Identity) (as *Handler, release func(), err error) {
	signer := auth.Signer{AccessKey: []byte(cmp.Or(who.AccessKey, "console")), Region: e.region(), Principal: who.Principal}
	if e.h.verifier != nil {
		if err := e.h.AwaitAccess(ctx); err != nil {
			return nil, nil, err
		}
		var key *keys.Key
		key, signer = e.h.verifier.Find(signer.AccessKey, signer.Region)
		if current := proofOfKey(key); key == nil || e.h.verifier.Expired(key) || subtle.ConstantTimeCompare(current[:], who.Proof[:]) != 1 {
			return nil, nil, console.ErrSignedOut
		}
	}
	copied, release := *e.h, func() {}
	if copied.forks != nil { // the database may have been rewound
		fork, err := copied.forks.Acquire(ctx, "")
		if err != nil {
			return nil, nil, err
		}
		if fork != nil {
			release = fork.Release
			copied = *fork.Database().handlerOf(e.h)
		}
	}
	copied.session = &signer
	return &copied, release, nil
}

// received returns a request of the page as one of the API.
func received(r console.Request) *door.Exchange {
	header := http.Header{"X-Amz-Target": {r.Target}, "Content-Type": {typeAmazon}, "User-Agent": {r.UserAgent}}
	if target := []byte(r.Target); ops.IsAutoScaling(target) || ops.IsDAX(target) {
		header["Content-Type"] = []string{typeAmazon11}
	}
	x := door.Receive(r.Remote, r.Host, r.Secure, header, r.Body)
	x.Reply.ID = newID()
	return x
}

// Permit checks that the policies of somebody allow an action. Only requests that are rejected are written
// down: a page sends one whenever something is typed.
func (e consoleEndpoint) Permit(ctx context.Context, who console.Identity, r console.Request, action string) (string, error) {
	of := apiRequest{operation: strings.TrimPrefix(action, "stator:"), arrived: time.Now()}
	as, release, err := e.session(ctx, who)
	if err != nil {
		return "", err
	}
	defer release()
	x := received(r)
	defer x.End()
	x.Request.TLS = door.TLSFrom(ctx)
	id := string(x.Reply.ID[:])
	if action == "" {
		return id, nil
	}
	of.signer = *as.session
	err = as.permit(ctx, &x.Request, &x.Reply, of.signer, action)
	if fault, ok := errors.AsType[*apierror.Error](err); ok && as.auditLog != nil {
		of.failed(fault.Code, fault.Message)
		x.Reply.Status = fault.Status
		as.auditOther(&of, &x.Request, &x.Reply, sourceOwn)
	}
	return id, err
}

// Do answers a request like a signed one of somebody: with the same limits, permissions, throttling,
// counts, traces and audit log.
func (e consoleEndpoint) Do(ctx context.Context, who console.Identity, r console.Request) (console.Reply, error) {
	as, release, err := e.session(ctx, who)
	if err != nil {
		return console.Reply{}, err
	}
	defer release()
	x := received(r)
	defer x.End()
	if isStreamed(x.Request.Header("X-Amz-Target")) {
		return console.Reply{}, apierror.UnknownOperation()
	}
	x.Request.TLS, x.Reply.Pending = door.TLSFrom(ctx), e.h.replies
	as.post(ctx, &x.Request, &x.Reply)
	if x.Reply.Cut {
		return console.Reply{}, ops.ErrNoAnswer
	}
	if x.Reply.Status == 0 {
		return console.Reply{}, ctx.Err()
	}
	return console.Reply{Status: x.Reply.Status, ID: string(x.Reply.ID[:]), Body: bytes.Clone(x.Reply.Body)}, nil
}
