package server

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/trace"
)

// Trace exports spans of the requests that a tracer samples. It is called before OnlyHosts
// and before the first request.
func (h *Handler) Trace(t *trace.Tracer) {
	h.tracer = t
	h.Expose(t.Metrics)
}

// spanName is the name of the span of an operation: its service, a dot, and its name.
func spanName(target []byte, name string) string {
	service, _, _ := bytes.Cut(target, []byte("."))
	switch string(service) {
	case "DynamoDB_20120810":
		return "DynamoDB." + name
	case "DynamoDBStreams_20120810":
		return "DynamoDBStreams." + name
	case "AnyScaleFrontendService":
		return "ApplicationAutoScaling." + name[strings.LastIndexByte(name, '.')+1:]
	case "AmazonDAXV3":
		return "DAX." + name[strings.LastIndexByte(name, '.')+1:]
	}
	return string(service) + "." + name
}

// tracedRequest is what a span needs to know of its request.
type tracedRequest struct {
	span     *trace.Span
	consumed []string // ConsumedCapacity of each table, as JSON
	failed   string   // the code of the error that it was answered with
}

// startSpan begins the span of a request; nil if it is not traced.
func (h *Handler) startSpan(arrived time.Time, r *door.Request, operation string) *tracedRequest {
	span := h.tracer.Start(arrived, r.Header("Traceparent"), r.Header("Tracestate"))
	if span == nil {
		return nil
	}
	span.Name = spanName(r.Header("X-Amz-Target"), operation)
	return &tracedRequest{span: span}
}

// used records what the request has consumed in one of its tables.
func (t *tracedRequest) used(c *api.ConsumedCapacity) {
	t.consumed = append(t.consumed, string(wire.AppendReply(nil, c)))
}

// endSpan sets the attributes of a span, by the semantic conventions of OpenTelemetry for
// DynamoDB, and ends it.
func (h *Handler) endSpan(of *apiRequest, a *door.Reply) {
	t, s := of.trace, of.trace.span
	s.SetText("db.system.name", "aws.dynamodb")
	s.SetText("db.operation.name", s.Name[strings.LastIndexByte(s.Name, '.')+1:])
	if tables := h.service.Tables(of.request, trace.MaxValues); len(tables) > 0 {
		if len(tables) == 1 {
			s.SetText("db.collection.name", tables[0])
		}
		s.SetTexts("aws.dynamodb.table_names", tables)
	}
	if len(t.consumed) > 0 {
		s.SetTexts("aws.dynamodb.consumed_capacity", t.consumed)
	}
	s.SetText("aws.request_id", string(a.ID[:]))
	switch {
	case a.Status == 0: // nothing is sent
		s.SetText("error.type", "disconnected")
	default:
		s.SetNumber("http.response.status_code", int64(a.Status))
		if t.failed != "" {
			s.SetText("error.type", t.failed)
		}
	}
	if a.Status >= http.StatusInternalServerError {
		s.Fail(t.failed)
	}
	s.End(time.Now())
}
