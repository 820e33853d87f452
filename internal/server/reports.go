package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/server/door"
)

// shapes answers with the counts of requests since the start or the last reset, by
// shape. A DELETE resets them.
func (h *Handler) shapes(ctx context.Context, r *door.Request, a *door.Reply) {
	h.report(ctx, r, a, "shapes", func() (any, error) {
		if r.Method == http.MethodDelete {
			return h.service.ResetShapes(), nil
		}
		return h.service.Shapes(), nil
	})
}

// backups answers with the backups that the schedule has made, and why the last
// attempt failed.
func (h *Handler) backups(ctx context.Context, r *door.Request, a *door.Reply) {
	h.report(ctx, r, a, "backups", func() (any, error) { return h.service.ScheduleStatus(ctx) })
}

// report answers with JSON. It requires a signature like any request of the API, but is none:
// its errors are not counted.
func (h *Handler) report(ctx context.Context, r *door.Request, a *door.Reply, name string, content func() (any, error)) {
	verb := "Get"
	if r.Method == http.MethodDelete {
		verb = "Delete"
	}
	of := apiRequest{operation: verb + strings.ToUpper(name[:1]) + name[1:], arrived: time.Now()}
	fail := func(err error) { h.failReport(ctx, a, &of, err) }
	defer func() {
		if p := recover(); p != nil { // before it is written down, which has the reply
			h.logPanic(r, a, p)
			fail(internal(""))
		}
		if h.auditLog != nil {
			h.auditOther(&of, r, a, sourceOwn)
		}
	}()
	var signer auth.Signer
	err := h.AwaitAccess(ctx)
	if err == nil {
		signer, err = checkSigner(h.verifier, r)
	}
	if err == nil {
		err = h.permit(ctx, r, a, signer, "stator:"+of.operation)
	}
	of.signer = signer
	if err != nil {
		fail(err)
		return
	}
	found, err := content()
	if errors.Is(err, ops.ErrNoSchedule) {
		plain(a, http.StatusNotFound, "no backups are scheduled: start the server with --backup-every\n")
		return
	}
	if err == nil {
		err = writeJSON(a, found)
	}
	if err != nil {
		fail(err)
	}
}

// failReport answers a request for a report that failed. It counts as no error of the API.
func (h *Handler) failReport(ctx context.Context, a *door.Reply, of *apiRequest, err error) {
	if fault := h.faultOf(ctx, a, of.operation, err); fault != nil {
		of.failed(fault.Code, fault.Message)
		sendFault(a, typePlain, fault)
	}
}
