// Package trace samples requests and exports them as spans of OpenTelemetry, with the
// OTLP protocol over HTTP in its JSON encoding.
//
// It does not know what a request is. A span that cannot be exported is dropped and
// counted: no request waits for the receiver.
package trace

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/metrics"
)

// Options configure a Tracer.
type Options struct {
	// Endpoint is the URL of the receiver. Spans are posted to the path /v1/traces below
	// it.
	Endpoint string
	// Sample is the share of requests to trace, from 0 to 1, of those whose client has not
	// decided that.
	Sample  float64
	Version string // of the program
	Log     *slog.Logger

	Transport http.RoundTripper // defaults to one of its own
}

// Bounds of what a Tracer keeps in memory.
const (
	maxQueued = 2048 // spans that wait to be exported
	maxBatch  = 512  // spans of an export
	MaxValues = 32   // of an attribute that is a list
)

// Tracer exports spans. Its methods are safe for concurrent use.
type Tracer struct {
	o        Options
	url      string
	resource []byte // JSON of the attributes of the process
	client   http.Client

	queue   chan *Span
	ctx     context.Context // ends when Close gives up
	cancel  context.CancelFunc
	closing chan struct{}
	close   sync.Once
	ended   chan struct{}

	exported, full, failed atomic.Int64 // spans
	logged                 time.Time    // when a failed export was logged; used by run
}

// New returns a tracer, which Close ends.
func New(o Options) (*Tracer, error) {
	if !ValidEndpoint(o.Endpoint) {
		return nil, fmt.Errorf("the endpoint of traces is %s, but must be a URL such as http://127.0.0.1:4318", redacted(o.Endpoint))
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if !(o.Sample >= 0 && o.Sample <= 1) {
		return nil, fmt.Errorf("the share of traced requests is %v, but must be from 0 to 1", o.Sample)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		// Not http.DefaultTransport: its connections are those of the rest of the program.
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: exportTimeout, ForceAttemptHTTP2: true}
	}
	t := &Tracer{o: o, url: u.JoinPath("v1", "traces").String(), resource: resourceJSON(o.Version),
		queue: make(chan *Span, maxQueued), closing: make(chan struct{}), ended: make(chan struct{})}
	t.client = http.Client{Transport: o.Transport, Timeout: exportTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// ValidEndpoint reports whether a text is a URL that spans can be posted to.
func ValidEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// redacted returns a URL without the password and the query that it may have: both may be
// secret.
func redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "not a URL"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// Span is a request that is traced. It has one user until End.
type Span struct {
	Name string

	tracer     *Tracer
	trace      [16]byte
	id, parent [8]byte // parent is zero without one
	state      string  // tracestate of the client
	begun      time.Time
	ended      time.Time
	attributes []spanAttribute
	failure    string // with status ERROR; empty without
}

// spanAttribute is a member of a span. Its value is a string, an int64 or a []string.
type spanAttribute struct {
	key   string
	value any
}

// Start returns the span of a request that began at a time; nil if it is not traced.
// parent and state are the headers traceparent and tracestate of the client, which decides
// whether the request is traced; they may be empty.
func (t *Tracer) Start(begun time.Time, parent, state []byte) *Span {
	trace, id, sampled, ok := parseParent(parent)
	if !ok {
		if t.o.Sample == 0 || rand.Float64() >= t.o.Sample {
			return nil
		}
		s := &Span{tracer: t, begun: begun}
		random(s.trace[:])
		random(s.id[:])
		return s
	}
	if !sampled {
		return nil
	}
	s := &Span{tracer: t, begun: begun, trace: trace, parent: id}
	if len(state) <= maxState {
		s.state = string(state)
	}
	random(s.id[:])
	return s
}

// maxState is how long a tracestate may be. A longer one is left out: a part of it may not
// be valid.
const maxState = 512

// random fills an id with random bytes, of which not all are zero.
func random(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1
}

// parseParent parses a traceparent of the W3C recommendation Trace Context. It is not ok if there is
// none, or it is not valid.
func parseParent(text []byte) (trace [16]byte, id [8]byte, sampled, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return trace, id, false, false
	}
	var version, flags [1]byte
	for _, part := range []struct{ to, from []byte }{{version[:], text[:2]}, {trace[:], text[3:35]}, {id[:], text[36:52]}, {flags[:], text[53:55]}} {
		for _, c := range part.from {
			if 'A' <= c && c <= 'F' {
				return trace, id, false, false
			}
		}
		if _, err := hex.Decode(part.to, part.from); err != nil {
			return trace, id, false, false
		}
	}
	later := len(text) > length // a later version may have more parts
	if version[0] == 0xff || later && (version[0] == 0 || text[length] != '-') || trace == [16]byte{} || id == [8]byte{} {
		return trace, id, false, false
	}
	return trace, id, flags[0]&1 == 1, true
}

// SetText sets an attribute. It keeps a copy of the first bytes: the value may be a part of a
// request, of any length, which would stay in memory with the span.
func (s *Span) SetText(key, value string) {
	s.attributes = append(s.attributes, spanAttribute{key, short(value)})
}

// maxText is how long a text is at most. Consumed capacity with an index has about 200 bytes.
const maxText = 1024

func short(text string) string {
	return strings.ToValidUTF8(strings.Clone(text[:min(len(text), maxText)]), "")
}

// SetNumber sets an attribute.
func (s *Span) SetNumber(key string, value int64) {
	s.attributes = append(s.attributes, spanAttribute{key, value})
}

// SetTexts sets an attribute that is a list. It keeps no more than 32 values, as SetText does.
func (s *Span) SetTexts(key string, values []string) {
	kept := make([]string, min(len(values), MaxValues))
	for i := range kept {
		kept[i] = short(values[i])
	}
	s.attributes = append(s.attributes, spanAttribute{key, kept})
}

// Fail sets the status of the span to an error.
func (s *Span) Fail(message string) { s.failure = message }

// End ends the span and queues it for export. It does not wait.
func (s *Span) End(at time.Time) {
	s.ended = at
	t := s.tracer
	select {
	case t.queue <- s:
	default:
		t.full.Add(1)
	}
}

// Metrics returns how many spans were exported and dropped.
func (t *Tracer) Metrics() []metrics.Metric {
	return []metrics.Metric{
		{Name: "stator_trace_spans_exported_total", Help: "Spans that the receiver of traces has accepted.", Type: metrics.Counter, Samples: metrics.Value(float64(t.exported.Load()))},
		{Name: "stator_trace_spans_dropped_total", Help: "Spans that were not exported: the queue was full, or the receiver did not accept them.", Type: metrics.Counter,
			Samples: []metrics.Sample{metrics.By("reason", "queue", float64(t.full.Load())), metrics.By("reason", "export", float64(t.failed.Load()))}},
	}
}

// Close exports the spans that wait, until the context ends, and ends the tracer. No span
// may end afterwards.
func (t *Tracer) Close(ctx context.Context) {
	t.close.Do(func() { close(t.closing) })
	select {
	case <-t.ended:
	case <-ctx.Done():
		t.cancel()
		<-t.ended
	}
	t.cancel()
	t.client.CloseIdleConnections()
}
