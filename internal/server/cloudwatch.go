package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/cloudwatch"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
)

// metricsRequest returns the protocol and the operation of a request to CloudWatch; not
// ok if it is to another service. A form has its operation in the body.
func metricsRequest(r *door.Request) (p cloudwatch.Protocol, operation string, ok bool) {
	if operation, ok = strings.CutPrefix(r.Path, cloudwatch.Path); ok {
		return cloudwatch.CBOR, operation, true
	}
	if target, ok := bytes.CutPrefix(r.Header("X-Amz-Target"), []byte(cloudwatch.Target)); ok {
		return cloudwatch.JSON, string(target), true
	}
	media, _, _ := bytes.Cut(r.Header("Content-Type"), []byte(";"))
	if len(r.Header("X-Amz-Target")) == 0 && bytes.EqualFold(bytes.TrimSpace(media), []byte("application/x-www-form-urlencoded")) {
		return cloudwatch.Query, "", true
	}
	return 0, "", false
}

// cloudWatch answers a request to CloudWatch.
func (h *Handler) cloudWatch(ctx context.Context, r *door.Request, a *door.Reply, p cloudwatch.Protocol, operation string) {
	arrived := time.Now()
	body, whole := r.Whole()
	var held *admission.Reservation
	defer func() { held.Release() }()
	if !whole {
		var err error
		if body, held, err = h.readBody(ctx, r); err != nil {
			h.rejectCloudWatch(a, p, unreadFault(ctx, err))
			return
		}
	}
	large := len(body) > cloudwatch.MaxBody
	of := apiRequest{arrived: arrived}
	fail := func(fault *apierror.Error) {
		if fault != nil {
			of.failed(fault.Code, fault.Message)
		}
		h.rejectCloudWatch(a, p, fault)
	}
	audited := false
	if h.auditLog != nil && !large {
		of.operation = p.Operation(operation, body)
		audited = cloudwatch.IsOperation(of.operation)
	}
	defer func() {
		if panicked := recover(); panicked != nil { // before it is written down, which has the reply
			h.logPanic(r, a, panicked)
			fail(internal(""))
		}
		if audited {
			h.auditOther(&of, r, a, sourceCloudWatch)
		}
	}()
	signer, err := h.signer(ctx, r, body, serviceCloudWatch)
	if err == nil && h.access != nil && !large {
		err = h.permit(ctx, r, a, signer, "cloudwatch:"+p.Operation(operation, body))
	}
	of.signer = signer
	if err != nil {
		fail(h.faultOf(ctx, a, "CloudWatch", err))
		return
	}
	if large {
		fail(unreadFault(ctx, door.ErrTooLarge))
		return
	}
	if err := h.watching.Acquire(ctx, 0, 0); err != nil {
		fail(h.faultOf(ctx, a, "CloudWatch", err))
		return
	}
	defer h.watching.Release()
	reply := h.cloudWatchService.Do(p, operation, body, string(a.ID[:]))
	of.code = reply.ErrorCode
	h.sendCloudWatch(a, p, reply)
}

// unreadFault returns the fault of a body that could not be read; nil if the client has
// disconnected.
func unreadFault(ctx context.Context, err error) *apierror.Error {
	var fault *apierror.Error
	switch {
	case errors.Is(err, door.ErrTooLarge):
		return &apierror.Error{Code: "RequestEntityTooLargeException", Status: http.StatusRequestEntityTooLarge, Message: "The body of the request is too large."}
	case errors.As(err, &fault):
		return fault
	case ctx.Err() != nil:
		return nil
	}
	return &apierror.Error{Code: "SerializationException", Status: http.StatusBadRequest, Message: "The body of the request could not be read."}
}

// rejectCloudWatch answers a request to CloudWatch with a fault that has nothing to do
// with its operation; nil if the client has disconnected. It is no error of a request to DynamoDB.
func (h *Handler) rejectCloudWatch(a *door.Reply, p cloudwatch.Protocol, fault *apierror.Error) {
	if fault == nil {
		return
	}
	if apierror.IsThrottling(fault) {
		h.rejections.overload.Add(1)
	}
	h.sendCloudWatch(a, p, p.Reject(fault, string(a.ID[:])))
}

func (h *Handler) sendCloudWatch(a *door.Reply, p cloudwatch.Protocol, reply cloudwatch.Reply) {
	a.Status, a.ContentType = reply.Status, reply.ContentType
	if p == cloudwatch.CBOR {
		a.More = append(a.More, [2]string{"Smithy-Protocol", "rpc-v2-cbor"})
	}
	if reply.QueryError != "" {
		a.More = append(a.More, [2]string{"X-Amzn-Query-Error", reply.QueryError})
	}
	a.Write(append(a.Memory.Empty(), reply.Body...))
}
