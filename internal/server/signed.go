package server

import (
	"context"
	"net/http"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
)

// The services that requests are signed for.
const (
	serviceDynamoDB    = "dynamodb" // and its streams
	serviceAutoScaling = "application-autoscaling"
	serviceCloudWatch  = "monitoring"
)

// serviceOf returns the service of an operation that is named by X-Amz-Target.
func serviceOf(target []byte) string {
	if ops.IsAutoScaling(target) {
		return serviceAutoScaling
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

// signer returns the signer of a request to a service. If signatures are verified, it hashes the
// body as it was sent; small bodies do not wait for large ones.
func (h *Handler) signer(ctx context.Context, r *door.Request, body []byte, service string) (auth.Signer, error) {
	if h.verifier == nil || len(body) < admission.LargeBytes {
		return readSigner(h.verifier, r, body, service)
	}
	return h.signerOfLarge(ctx, r, body, service)
}

func (h *Handler) signerOfLarge(ctx context.Context, r *door.Request, body []byte, service string) (s auth.Signer, err error) {
	if busy := h.large.Run(ctx, len(body), func() { s, err = readSigner(h.verifier, r, body, service) }); busy != nil {
		return auth.Signer{}, busy
	}
	return s, err
}

// readSigner finds the signer of a request, and verifies the signature if there is a verifier.
func readSigner(v *auth.Verifier, r *door.Request, body []byte, service string) (auth.Signer, error) {
	switch {
	case r.Repeats("Authorization"):
		return auth.Signer{}, auth.Repeated()
	case v == nil:
		return auth.Read(r.Header, r.Query)
	}
	return v.Verify(auth.Request{Method: r.Method, Path: r.EscapedPath, Query: r.Query, Headers: r, Body: body, Service: service})
}

// maxReportBody is the size limit of the body of a request for a report, which needs none.
const maxReportBody = 64 << 10

// checkSigner returns the error of a request with a small body that is not signed.
func checkSigner(v *auth.Verifier, r *door.Request) error {
	if v == nil {
		_, err := readSigner(nil, r, nil, serviceDynamoDB)
		return err
	}
	body, err := r.Read(maxReportBody, nil)
	if err != nil {
		return &apierror.Error{Code: "SerializationException", Status: http.StatusBadRequest, Message: "The body of the request could not be read, or is too large."}
	}
	_, err = readSigner(v, r, body, serviceDynamoDB)
	return err
}

// checkReader returns the error of a request that may not read the metrics.
func checkReader(v *auth.Verifier, r *door.Request) error {
	if v == nil || !r.Repeats("Authorization") && v.VerifyPassword(r.Header("Authorization")) {
		return nil
	}
	return checkSigner(v, r)
}

// answerMetrics answers with the metrics, if the client may read them.
func (h *Handler) answerMetrics(ctx context.Context, r *door.Request, a *door.Reply) {
	if err := checkReader(h.verifier, r); err != nil {
		h.fail(ctx, a, typePlain, &apiRequest{operation: "metrics"}, err)
		return
	}
	h.writeMetrics(a)
}
