package server

import (
	"context"
	"net/http"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/principals"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
)

// The services that requests are signed for.
const (
	serviceDynamoDB    = "dynamodb" // and its streams
	serviceAutoScaling = "application-autoscaling"
	serviceDAX         = "dax"
	serviceCloudWatch  = "monitoring"
)

// serviceOf returns the service of an operation that is named by X-Amz-Target.
func serviceOf(target []byte) string {
	switch {
	case ops.IsAutoScaling(target):
		return serviceAutoScaling
	case ops.IsDAX(target):
		return serviceDAX
	}
	return serviceDynamoDB
}

// Verified returns a handler that verifies the signatures of all requests but health checks.
// Metrics need a signature, or an access key and its secret as user and password.
func (h *Handler) Verified(v *auth.Verifier) *Handler {
	verified := *h
	verified.verifier = v
	return &verified
}

// AfterAccess returns a handler that authenticates no request before await returns nil: it waits until the
// server has the keys and policies that are stored in its database, if it may have missed a change.
func (h *Handler) AfterAccess(await func(context.Context) error) *Handler {
	after := *h
	after.awaitAccess = await
	return &after
}

// AwaitAccess waits until the keys and policies are those that are stored. A request that arrives after a
// change was answered is then decided by it.
func (h *Handler) AwaitAccess(ctx context.Context) error {
	if h.awaitAccess == nil {
		return nil
	}
	return h.awaitAccess(ctx)
}

// signer returns the signer of a request to a service. If signatures are verified, it hashes the
// body as it was sent; small bodies do not wait for large ones.
func (h *Handler) signer(ctx context.Context, r *door.Request, body []byte, service string) (auth.Signer, error) {
	if h.session != nil {
		return *h.session, nil
	}
	if err := h.AwaitAccess(ctx); err != nil {
		return auth.Signer{}, err
	}
	if h.verifier == nil || len(body) < admission.LargeBytes {
		return readSigner(h.verifier, h.lastSigner(r), r, body, service)
	}
	return h.signerOfLarge(ctx, r, body, service)
}

func (h *Handler) signerOfLarge(ctx context.Context, r *door.Request, body []byte, service string) (s auth.Signer, err error) {
	if busy := h.large.Run(ctx, len(body), func() { s, err = readSigner(h.verifier, h.lastSigner(r), r, body, service) }); busy != nil {
		return auth.Signer{}, busy
	}
	return s, err
}

// readSigner finds the signer of a request, and verifies the signature if there is a verifier. last,
// if it is not nil, is of the connection.
func readSigner(v *auth.Verifier, last *auth.Reader, r *door.Request, body []byte, service string) (auth.Signer, error) {
	switch {
	case r.Repeats("Authorization"):
		return auth.Signer{}, auth.Repeated()
	case v != nil:
		return v.VerifyNext(auth.Request{Method: r.Method, Path: r.EscapedPath, Query: r.Query, Headers: r, Body: body, Service: service}, last)
	case last != nil:
		return last.Read(r.Header, r.Query)
	}
	return auth.Read(r.Header, r.Query)
}

// maxReportBody is the size limit of the body of a request for a report, which needs none.
const maxReportBody = 64 << 10

// checkSigner returns the signer of a request with a small body, or the error of one that is
// not signed.
func checkSigner(v *auth.Verifier, r *door.Request) (auth.Signer, error) {
	if v == nil {
		return readSigner(nil, nil, r, nil, serviceDynamoDB)
	}
	body, err := r.Read(maxReportBody, nil)
	if err != nil {
		return auth.Signer{}, &apierror.Error{Code: "SerializationException", Status: http.StatusBadRequest, Message: "The body of the request could not be read, or is too large."}
	}
	return readSigner(v, nil, r, body, serviceDynamoDB)
}

// checkReader returns who reads the metrics, or the error of a request that may not.
func checkReader(v *auth.Verifier, r *door.Request) (auth.Signer, error) {
	if v == nil {
		return auth.Signer{}, nil
	}
	if !r.Repeats("Authorization") {
		if signer, ok := v.VerifyPassword(r.Header("Authorization")); ok {
			return signer, nil
		}
	}
	return checkSigner(v, r)
}

// Access makes principals do what their policies allow, which the verifier of signatures has.
type Access struct {
	// Region is the one that requests must be signed for: policies name resources with
	// their region, which the client would choose otherwise.
	Region string
}

// Permitted returns a handler that lets each principal do what its policies allow.
// Signatures must be verified.
func (h *Handler) Permitted(access *Access) *Handler {
	permitted := *h
	permitted.access = access
	return &permitted
}

// checkRegion checks that a request is signed for the region of the server.
func (a *Access) checkRegion(signer auth.Signer) error {
	if a == nil || signer.Region == a.Region {
		return nil
	}
	return auth.WrongRegion(signer.Region)
}

// permit checks that the signer of a request that is not an operation may do something.
func (h *Handler) permit(ctx context.Context, r *door.Request, a *door.Reply, signer auth.Signer, action string) error {
	if h.access == nil {
		return nil
	}
	caller, err := h.access.caller(r, a, signer)
	if err != nil {
		return err
	}
	return h.service.Permit(ops.WithCaller(ctx, caller), action)
}

// caller returns who sends a request that is not an operation. A password is for no region.
func (a *Access) caller(r *door.Request, reply *door.Reply, signer auth.Signer) (ops.Caller, error) {
	caller := ops.Caller{Region: a.Region}
	if signer.Region != "" {
		if err := a.checkRegion(signer); err != nil {
			return caller, err
		}
	}
	a.identify(&caller, r, reply, signer)
	return caller, nil
}

// identify says who sends a request, and how.
func (a *Access) identify(c *ops.Caller, r *door.Request, reply *door.Reply, signer auth.Signer) {
	if c.Identity, c.ID = signer.Identity, reply.ID; c.Identity == nil { // without one everything would be allowed
		c.Identity = principals.Nobody(signer.Principal)
	}
	c.SourceIP, c.UserAgent, c.Secure = r.Remote, string(r.Header("User-Agent")), r.Secure
}

// answerMetrics answers with the metrics, if the client may read them. They are read every few
// seconds, so that only requests that are rejected are written down.
func (h *Handler) answerMetrics(ctx context.Context, r *door.Request, a *door.Reply) {
	var signer auth.Signer
	err := h.AwaitAccess(ctx)
	if err == nil {
		signer, err = checkReader(h.verifier, r)
	}
	if err == nil {
		err = h.permit(ctx, r, a, signer, "stator:GetMetrics")
	}
	if err != nil {
		of := apiRequest{operation: "GetMetrics", arrived: time.Now(), signer: signer}
		h.failReport(ctx, a, &of, err)
		if h.auditLog != nil {
			h.auditOther(&of, r, a, sourceOwn)
		}
		return
	}
	h.writeMetrics(a)
}
