package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/standby"
)

// TargetPromote is the X-Amz-Target of a request to promote a standby.
const TargetPromote = "Stator.Promote"

// CodeNotStandby is the code of the error with which a server that is not a standby answers a
// request to promote it.
const CodeNotStandby = "NotAStandby"

func notStandby() *apierror.Error {
	return &apierror.Error{Code: CodeNotStandby, Status: http.StatusConflict, Message: "This server is not a standby: it serves requests."}
}

// Standby answers requests over HTTP to a server that is a standby: its status, its
// metrics, and the request to promote it. It rejects all others.
type Standby struct {
	Status  func() standby.Status
	Metrics func() []metrics.Metric
	Promote func(context.Context) (standby.Status, error) // returns the status when the following ended
	Hosts   []string                                      // as in OnlyHosts
	Log     *slog.Logger

	Verifier *auth.Verifier // as in Handler.Verified; nil if signatures are not verified
	Access   *Access        // as in Handler.Permitted; nil if there are no policies
}

// ServeHTTP answers a request.
func (h *Standby) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := door.Begin(w, r)
	defer x.End()
	x.Reply.ID = newID()
	h.answer(r.Context(), &x.Request, &x.Reply)
	_ = x.Reply.Send(w) // the client has disconnected
}

func (h *Standby) answer(ctx context.Context, r *door.Request, a *door.Reply) {
	switch s := h.Status(); {
	case !(&Handler{}).OnlyHosts(h.Hosts).acceptsHost(r.Host):
		rejectHost(a)
	case fromForeignPage(r):
		plain(a, http.StatusForbidden, "requests from pages of other sites are rejected\n")
	case r.Path == "/livez" && isRead(r):
		alive(a)
	case (r.Path == "/healthz" || r.Path == "/readyz") && isRead(r):
		text := fmt.Sprintf("standby of %s: %s", s.Of, s.State)
		switch {
		case s.State == standby.Copying:
		case s.LagUnknown:
			text += ", behind by an unknown time"
		default:
			text += fmt.Sprintf(", %.1f seconds behind", s.LagSeconds)
		}
		plain(a, http.StatusServiceUnavailable, text+"\n") // load balancers must not send it requests
	case r.Path == "/metrics" && r.Method == http.MethodGet:
		signer, err := checkReader(h.Verifier, r)
		if err == nil {
			err = h.permit(r, a, signer, "stator:GetMetrics")
		}
		if err != nil {
			h.reject(a, err)
			return
		}
		a.Status, a.ContentType = http.StatusOK, metrics.ContentType
		a.Write(metrics.Append(a.Memory.Empty(), h.Metrics()...))
	case r.Path == "/standby" && isRead(r):
		h.signed(r, a, "stator:GetStandby", func(auth.Signer) error { return writeJSON(a, s) })
	case string(r.Header("X-Amz-Target")) == TargetPromote && r.Method == http.MethodPost && !r.Repeats("X-Amz-Target"):
		h.signed(r, a, "stator:Promote", func(by auth.Signer) error {
			h.Log.Info("a request to promote this standby was received", "request", string(a.ID[:]), "accessKey", string(by.AccessKey[:min(len(by.AccessKey), maxAccessKey)]), "principal", by.Principal, "from", r.Remote)
			return h.promote(ctx, a)
		})
	default:
		standbyFault(a, http.StatusServiceUnavailable, "ServiceUnavailable", fmt.Sprintf("This server is a standby of %s. It serves no requests until it is promoted.", s.Of))
	}
}

// permit checks that the signer of a request may do something. A standby has no tables yet,
// so that only policies of identities count.
func (h *Standby) permit(r *door.Request, a *door.Reply, signer auth.Signer, action string) error {
	if h.Access == nil {
		return nil
	}
	caller, err := h.Access.caller(r, a, signer)
	if err != nil {
		return err
	}
	return ops.Permitted(&caller, ops.DefaultAccount, action, time.Now())
}

// signed calls answer if the request has a signature, and its signer may do that.
func (h *Standby) signed(r *door.Request, a *door.Reply, action string, answer func(by auth.Signer) error) {
	signer, err := checkSigner(h.Verifier, r)
	if err == nil {
		err = h.permit(r, a, signer, action)
	}
	if err != nil {
		h.reject(a, err)
		return
	}
	if err := answer(signer); err != nil {
		h.Log.Error("a request failed", "error", err)
		standbyFault(a, http.StatusInternalServerError, "InternalServerError", err.Error())
	}
}

// reject answers a request that is not signed.
func (h *Standby) reject(a *door.Reply, err error) {
	var fault *apierror.Error
	if errors.As(err, &fault) {
		standbyFault(a, fault.Status, fault.Code, fault.Message)
		return
	}
	standbyFault(a, http.StatusBadRequest, "AccessDeniedException", err.Error())
}

// promote promotes the standby, and answers with its status when the following ended.
func (h *Standby) promote(ctx context.Context, a *door.Reply) error {
	s, err := h.Promote(context.WithoutCancel(ctx))
	if errors.Is(err, standby.ErrNoCopy) {
		standbyFault(a, http.StatusConflict, "NoCopy", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return writeJSON(a, s)
}

func writeJSON(a *door.Reply, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	a.Status, a.ContentType = http.StatusOK, typePlain
	a.Write(append(a.Memory.Empty(), text...))
	return nil
}

func standbyFault(a *door.Reply, status int, code, message string) {
	a.Write(wire.AppendError(a.Memory.Empty(), &apierror.Error{Code: code, Status: status, Message: message}))
	send(a, typeAmazon, status)
}
