package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
)

// Call is a request to items that arrived by another protocol than HTTP.
type Call struct {
	Operation string
	Bytes     int // of the request as it was sent
	Arrived   time.Time
	From      *door.Request // the client: its address, connection and headers
	Signer    auth.Signer
	Cluster   string // the ARN of the DAX cluster that is called

	// Rejected is the error of a request that is not decoded, such as one that is not
	// authenticated.
	Rejected error
	// Decode returns the request as a pointer to a struct of package api.
	Decode func() (any, error)
	// Encode returns the reply as bytes.
	Encode func(reply any) ([]byte, error)
}

// AnswerCall executes a call like a request over HTTP: with the same admission control,
// permissions, counts, traces and audit log. It sets the body of the reply, or returns the
// error to answer with; both are nil if the server is closing. The caller releases a.Room when
// the reply is sent.
func (h *Handler) AnswerCall(ctx context.Context, c *Call, a *door.Reply) (fault *apierror.Error) {
	a.ID = newID()
	of := apiRequests.Get().(*apiRequest)
	defer of.end()
	of.operation, of.arrived, of.signer = c.Operation, c.Arrived, c.Signer
	if h.tracer != nil {
		of.trace = h.startSpan(c.Arrived, c.From, c.Operation)
	}
	defer func() {
		if p := recover(); p != nil {
			h.logPanic(c.From, a, p)
			fault = internal("")
		}
		if fault != nil {
			h.count(fault, of)
			of.failed(fault.Code, fault.Message)
			a.Status, a.Body = fault.Status, nil
		}
		if of.trace != nil {
			h.endSpan(of, a)
		}
		if h.auditLog != nil {
			h.audit(ctx, of, c.From, a)
		}
	}()
	if err := h.call(ctx, c, of, a); err != nil {
		return h.faultOf(ctx, a, c.Operation, err)
	}
	a.Status = http.StatusOK
	return nil
}

func (h *Handler) call(ctx context.Context, c *Call, of *apiRequest, a *door.Reply) error {
	if c.Rejected != nil {
		return c.Rejected
	}
	caller := &of.caller
	caller.Region, caller.Host, caller.Room, caller.Arrived = c.Signer.Region, c.From.Host, &a.Room, c.Arrived
	caller.Cluster, caller.Principal = c.Cluster, c.Signer.Principal
	if h.access != nil {
		h.access.identify(caller, c.From, a, c.Signer)
	}
	if of.trace != nil {
		caller.Used = of.trace.used
	}
	ctx = ops.Carry(ctx, caller)
	if err := h.service.PermitCluster(ctx, c.Cluster, c.Operation); err != nil { // before it says which tables exist
		return err
	}
	if h.throughCache.dax {
		ctx = ops.ThroughCache(ctx)
	}
	in, err := h.decodeCall(ctx, c)
	if err != nil {
		return ops.Enveloped(c.Operation, err)
	}
	request, err := ops.NewRequest(c.Operation, in)
	of.request, of.decoded = request, true
	if err != nil {
		return err
	}
	defer func() { a.Room.Leave(cap(a.Body)) }()
	for bytes := request.Expected(); ; bytes = a.Room.Needed() {
		if err := a.Room.Acquire(ctx, h.slots, bytes); err != nil {
			return err
		}
		reply, err := h.service.Answer(ctx, request)
		if err == nil {
			a.Body, err = c.Encode(reply)
		}
		if !errors.Is(err, buffer.ErrNoRoom) {
			return err
		}
	}
}

// decodeCall decodes a call. Small requests do not wait for large ones.
func (h *Handler) decodeCall(ctx context.Context, c *Call) (any, error) {
	if c.Bytes < admission.LargeBytes {
		return c.Decode()
	}
	return h.decodeLargeCall(ctx, c)
}

func (h *Handler) decodeLargeCall(ctx context.Context, c *Call) (in any, err error) {
	if busy := h.large.Run(ctx, c.Bytes, func() { in, err = c.Decode() }); busy != nil {
		return nil, busy
	}
	return in, err
}

// Authenticate verifies the signature of a connection to a DAX cluster. Without keys any
// credentials are accepted.
func (h *Handler) Authenticate(c *auth.Connection) (auth.Signer, error) {
	if h.verifier == nil {
		return auth.ReadConnection(c), nil
	}
	signer, err := h.verifier.VerifyConnection(c)
	if err == nil {
		err = h.access.checkRegion(signer)
	}
	return signer, err
}

// Keys returns the keys that connections are authenticated with: another set after they were
// replaced, and nil if any credentials are accepted.
func (h *Handler) Keys() *keys.Set {
	if h.verifier == nil {
		return nil
	}
	return h.verifier.Keys()
}

// Expired reports whether a key may not be used any more.
func (h *Handler) Expired(key *keys.Key) bool { return h.verifier != nil && h.verifier.Expired(key) }

// PermitCluster checks that the client of a connection may do something with the items behind a
// DAX cluster.
func (h *Handler) PermitCluster(ctx context.Context, from *door.Request, a *door.Reply, signer auth.Signer, cluster, operation string) error {
	if h.access == nil {
		return nil
	}
	a.ID = newID()
	caller, err := h.access.caller(from, a, signer)
	if err != nil {
		return err
	}
	return h.service.PermitCluster(ops.WithCaller(ctx, caller), cluster, operation)
}

// ConnectionRejected counts an authentication of a connection that failed, and writes it down.
func (h *Handler) ConnectionRejected(ctx context.Context, from *door.Request, arrived time.Time, err error) {
	a := door.Reply{ID: newID()}
	of := apiRequest{operation: "AuthorizeConnection", arrived: arrived}
	fault := h.faultOf(ctx, &a, of.operation, err)
	if fault == nil { // the server is closing
		return
	}
	h.count(fault, &of)
	of.failed(fault.Code, fault.Message)
	if a.Status = fault.Status; h.auditLog != nil {
		h.auditOther(&of, from, &a, sourceDAX)
	}
}

// Authenticates reports whether connections must be authenticated.
func (h *Handler) Authenticates() bool { return h.verifier != nil }

// Service returns the service that answers requests.
func (h *Handler) Service() *ops.Service { return h.service }

// Bodies returns the bound of the memory of requests that are being read.
func (h *Handler) Bodies() *admission.Bodies { return h.bodies }

// Pending returns the replies that clients have yet to read.
func (h *Handler) Pending() *admission.Replies { return h.replies }
