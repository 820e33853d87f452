// Package server handles the requests of the API: target, limits, signature,
// checksum, request id.
//
// It is the one place that turns a failure of ours into an internal error for
// the customer and a log line for the operator. It leaves reading HTTP to package
// door and to net/http, and treats requests from both alike; package admission
// bounds the requests and their memory.
package server

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/cloudwatch"
	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/overlay"
	"github.com/stator-db/stator/internal/trace"
	"github.com/stator-db/stator/internal/workload"
)

const (
	typeAmazon = "application/x-amz-json-1.0"
	typePlain  = "application/json"

	typeAmazon11 = "application/x-amz-json-1.1"
)

// Handler answers requests of the API over HTTP.
type Handler struct {
	service *ops.Service

	cloudWatchService *cloudwatch.Service
	watching          *admission.Slots // of requests to CloudWatch, whose memory is not reserved

	log     *slog.Logger
	bodies  *admission.Bodies
	slots   *admission.Slots
	large   *admission.LargeBodies
	replies *admission.Replies

	compression compression // of replies

	decoding *admission.LargeBodies // bodies that are decoded from gzip or deflate, so that others do not wait for them

	sending *admission.Slots // of backups of all tables, and of copies for a standby

	following *admission.Slots // of replies with changes for a standby

	verifying *atomic.Bool // a verification is in progress

	checkHost bool     // only hosts and private hosts are accepted
	hosts     []string // in lower case, without ports
	origins   origins  // of other sites, whose pages may send requests

	rejections *rejections

	draining *atomic.Bool // the process is about to end

	tracer   *trace.Tracer // nil if nothing is traced
	auditLog *audit.Log    // nil if nothing is written down

	encryptionKey string // its id; empty if data is not encrypted

	verifier    *auth.Verifier              // nil if signatures are not verified
	access      *Access                     // nil if there are no policies
	awaitAccess func(context.Context) error // nil if keys and policies are in files only

	console    *console.Handler                // nil without a console
	newConsole func(*Handler) *console.Handler // of a fork; nil without a console
	forks      Forks                           // nil if the server makes none
	forkOf     *Handler                        // the handler of the server itself, if this one is of a fork
	fork       string                          // the name of that fork
	session    *auth.Signer                    // the signer of all requests, if they are of a session of the console

	throughCache struct{ http, dax bool } // which requests go through the cache of the service

	started time.Time
	metrics []func() []metrics.Metric // more than the server's own
}

// New returns the handler of a service, in a process that may use this many bytes
// of memory; 0 is unknown.
func New(service *ops.Service, log *slog.Logger, memory int64) *Handler {
	l := admission.LimitsFor(memory)
	slots := admission.NewSlots(l.Requests, l.Memory, admission.MaxSlotWait)
	return &Handler{
		started: time.Now(), service: service, cloudWatchService: cloudwatch.New(service), watching: admission.NewSlots(admission.MaxWatchers, 0, admission.MaxSlotWait), log: log, bodies: admission.NewBodies(l), slots: slots, large: admission.NewLargeBodies(admission.LargeSlots()), replies: admission.NewReplies(slots), compression: newCompression(), decoding: admission.NewLargeBodies(admission.LargeSlots()),
		sending: admission.NewSlots(admission.MaxBackups, 0, admission.MaxSlotWait), following: admission.NewSlots(admission.MaxFollowers, 0, admission.MaxSlotWait), verifying: new(atomic.Bool), rejections: new(rejections), draining: new(atomic.Bool),
	}
}

// ThroughCache makes requests over HTTP, or those of DAX clients, go through the cache of the
// service. Replies over HTTP then say how they used it. It is called before OnlyHosts and
// before the first request.
func (h *Handler) ThroughCache(http, dax bool) { h.throughCache.http, h.throughCache.dax = http, dax }

// cacheHeader says how a request used the cache: hit, miss or pass.
const cacheHeader = "X-Stator-Cache"

// ServeHTTP answers a request that net/http has read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.serveConsole(w, r) {
		return
	}
	x := door.Begin(w, r)
	defer x.End()
	h.Answer(r.Context(), &x.Request, &x.Reply)
	if x.Reply.Cut {
		panic(http.ErrAbortHandler)
	}
	if err := x.Reply.Send(w); err != nil {
		if r.Context().Err() == nil {
			h.log.Error("a stream ended early", "request", string(x.Reply.ID[:]), "error", err)
		}
		panic(http.ErrAbortHandler) // so that the customer sees that the stream is incomplete
	}
}

// Accepts reports whether the door may read a request. Some are answered with a
// stream, which only net/http can send.
func (h *Handler) Accepts(r *door.Request) bool { return !isStreamed(r.Header("X-Amz-Target")) }

// Answer answers a request that the door or net/http has read.
func (h *Handler) Answer(ctx context.Context, r *door.Request, a *door.Reply) {
	a.ID, a.Pending = newID(), h.replies
	defer func() {
		if p := recover(); p != nil {
			h.logPanic(r, a, p)
			h.panicked(r, a)
		}
	}()
	switch {
	case !h.acceptsHostOf(r):
		rejectHost(a)
	case h.origins.preflight(r, a):
	case fromForeignPage(r) && !h.origins.share(r, a):
		rejectForeignPage(a)
	case h.forks != nil || namesFork(r):
		h.answerFork(ctx, r, a)
	default:
		h.answer(ctx, r, a)
	}
}

// answer answers a request for the database of the handler.
func (h *Handler) answer(ctx context.Context, r *door.Request, a *door.Reply) {
	switch {
	case (r.Path == "/" || strings.HasPrefix(r.Path, cloudwatch.Path)) && r.Method == http.MethodPost:
		h.post(ctx, r, a)
		h.compress(ctx, r, a)
	case r.Path == "/" && isRead(r):
		plain(a, http.StatusOK, "healthy: dynamodb\n")
	case r.Path == "/livez" && isRead(r):
		alive(a)
	case r.Path == "/readyz" && isRead(r):
		h.ready(ctx, r, a)
	case r.Path == "/healthz" && isRead(r):
		h.health(ctx, a)
	case r.Path == "/metrics" && r.Method == http.MethodGet:
		h.answerMetrics(ctx, r, a)
	case r.Path == "/shapes" && (r.Method == http.MethodGet || r.Method == http.MethodDelete):
		h.shapes(ctx, r, a)
	case r.Path == "/backups" && r.Method == http.MethodGet:
		h.backups(ctx, r, a)
	default:
		plain(a, http.StatusNotFound, "<UnknownOperationException/>\n")
	}
}

// logPanic logs what a deferred function has recovered.
func (h *Handler) logPanic(r *door.Request, a *door.Reply, p any) {
	h.log.Error("panic while answering a request", "request", string(a.ID[:]), "target", string(r.Header("X-Amz-Target")), "panic", p, "stack", string(debug.Stack()))
}

// panicked answers a request whose handling has panicked before its operation was known.
func (h *Handler) panicked(r *door.Request, a *door.Reply) {
	if protocol, _, ok := metricsRequest(r); ok && r.Method == http.MethodPost {
		h.rejectCloudWatch(a, protocol, internal(""))
		return
	}
	h.fault(a, &apiRequest{media: typeAmazon}, internal(""))
}

// newID returns the id of a request, of letters and digits as DynamoDB's are.
func newID() (id [52]byte) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	for rest := id[:]; len(rest) > 0; {
		n := min(12, len(rest)) // each letter takes five bits
		bits := rand.Uint64()
		for i := range rest[:n] {
			rest[i] = letters[bits%32]
			bits >>= 5
		}
		rest = rest[n:]
	}
	return id
}

// post answers one request of the API.
func (h *Handler) post(ctx context.Context, r *door.Request, a *door.Reply) {
	arrived := time.Now()
	target := r.Header("X-Amz-Target")
	name, known := ops.Find(target)
	if !known || r.Path != "/" {
		if protocol, operation, ok := metricsRequest(r); ok {
			h.cloudWatch(ctx, r, a, protocol, operation)
			return
		}
	}
	media, ok := mediaType(r)
	if !ok {
		plain(a, http.StatusNotFound, "<UnknownOperationException/>\n")
		return
	}
	of := apiRequests.Get().(*apiRequest)
	defer of.end()
	of.operation, of.media, of.arrived = name, media, arrived
	if err := h.readWhole(ctx, r, of); err != nil {
		h.unread(ctx, a, &apiRequest{media: media}, err)
		return
	}
	if isStreamed(target) {
		of.operation, of.streamed, known = string(target), true, true
	}
	if !known || r.Repeats("X-Amz-Target") {
		fault := apierror.UnknownOperation()
		if string(target) == TargetPromote {
			fault = notStandby()
		}
		h.fault(a, &apiRequest{media: media}, fault)
		return
	}
	h.answerKnown(ctx, r, a, of)
}

// readWhole reads the body of a request, unless the door has.
func (h *Handler) readWhole(ctx context.Context, r *door.Request, of *apiRequest) (err error) {
	whole := false
	if of.body, whole = r.Whole(); !whole {
		of.body, of.held, err = h.readBody(ctx, r)
	}
	return err
}

// answerKnown answers a request whose operation is known. It is traced and audited, whatever
// its reply.
func (h *Handler) answerKnown(ctx context.Context, r *door.Request, a *door.Reply, of *apiRequest) {
	if h.tracer != nil && !of.streamed {
		of.trace = h.startSpan(of.arrived, r, of.operation)
	}
	defer func() {
		if p := recover(); p != nil {
			h.logPanic(r, a, p)
			h.fault(a, of, internal(""))
		}
		if of.trace != nil {
			h.endSpan(of, a)
		}
		if h.auditLog != nil {
			h.audit(ctx, of, r, a)
		}
	}()
	if err := h.authenticate(ctx, r, of); err != nil {
		h.fail(ctx, a, of, err)
		return
	}
	if err := h.decodeContent(ctx, r, of); err != nil {
		h.unread(ctx, a, of, err)
		return
	}
	var err error
	if of.streamed {
		err = h.stream(ctx, r, a, of)
	} else {
		err = h.run(ctx, r, a, of)
	}
	if err != nil {
		h.fail(ctx, a, of, err)
	}
}

// authenticate finds the signer of a request.
func (h *Handler) authenticate(ctx context.Context, r *door.Request, of *apiRequest) (err error) {
	if of.signer, err = h.signer(ctx, r, of.body, serviceOf(r.Header("X-Amz-Target"))); err != nil {
		return err
	}
	return h.access.checkRegion(of.signer)
}

// decodeContent decodes a body with a Content-Encoding. It runs after authenticate: the
// signature is of the bytes as they were sent.
func (h *Handler) decodeContent(ctx context.Context, r *door.Request, of *apiRequest) (err error) {
	if encoding := r.ContentEncoding(); len(encoding) > 0 {
		of.body, of.held, err = h.decompress(ctx, encoding, of.body, of.held)
	}
	return err
}

// stream answers a request with a stream.
func (h *Handler) stream(ctx context.Context, r *door.Request, a *door.Reply, of *apiRequest) error {
	if err := h.permit(ctx, r, a, of.signer, "stator:"+strings.TrimPrefix(of.operation, "Stator.")); err != nil {
		return err
	}
	return h.answerStreamed(ctx, of.operation, of.body, a)
}

// run decodes and executes an operation.
func (h *Handler) run(ctx context.Context, r *door.Request, a *door.Reply, of *apiRequest) (err error) {
	caller := &of.caller
	caller.Region, caller.Host, caller.Room, caller.Arrived = of.signer.Region, r.Host, &a.Room, of.arrived
	caller.Principal = of.signer.Principal
	caller.Uncounted = len(r.Header(workload.UncountedHeader)) > 0
	if h.access != nil {
		h.access.identify(caller, r, a, of.signer)
	}
	if of.trace != nil {
		caller.Used = of.trace.used
	}
	ctx = ops.Carry(ctx, caller)
	if h.throughCache.http {
		ctx = ops.ThroughCache(ctx)
		defer func() { a.More = append(a.More, [2]string{cacheHeader, string(ops.CacheUsed(ctx))}) }()
	}
	if of.request, err = h.decode(ctx, of.operation, of.body); err != nil {
		return err
	}
	of.decoded = true
	if err := h.execute(ctx, of.request, a); err != nil {
		return err
	}
	send(a, of.media, http.StatusOK)
	return nil
}

// execute executes a request when there is a slot for it. A request that turns out
// to need more memory than is free has no effect, and is repeated when there is
// enough. The memory of the reply is held until that is sent.
func (h *Handler) execute(ctx context.Context, request ops.Request, a *door.Reply) (err error) {
	defer func() { a.Room.Leave(cap(a.Body)) }()
	for bytes := request.Expected(); ; bytes = a.Room.Needed() {
		if err := a.Room.Acquire(ctx, h.slots, bytes); err != nil {
			return err
		}
		a.Memory.Within(&a.Room)
		a.Body, err = h.service.Do(ctx, request, &a.Memory)
		if !errors.Is(err, buffer.ErrNoRoom) {
			return err
		}
		a.Memory.End() // it may be large
	}
}

// decode decodes the body of a request. Small bodies do not wait for large ones.
func (h *Handler) decode(ctx context.Context, name string, body []byte) (ops.Request, error) {
	if len(body) < admission.LargeBytes {
		return ops.Read(name, body)
	}
	return h.decodeLarge(ctx, name, body)
}

func (h *Handler) decodeLarge(ctx context.Context, name string, body []byte) (request ops.Request, err error) {
	if busy := h.large.Run(ctx, len(body), func() { request, err = ops.Read(name, body) }); busy != nil {
		return ops.Request{}, busy
	}
	return request, err
}

// mediaType is the media type of the reply; not ok if the request does not have a
// media type of the API. Only Application Auto Scaling has version 1.1.
func mediaType(r *door.Request) (string, bool) {
	sent := r.Header("Content-Type")
	if string(sent) == typeAmazon { // as SDKs send it
		return typeAmazon, true
	}
	media, _, _ := bytes.Cut(sent, []byte(";"))
	media = bytes.TrimSpace(media)
	switch {
	case bytes.EqualFold(media, []byte(typeAmazon)):
		return typeAmazon, true
	case bytes.EqualFold(media, []byte(typeAmazon11)) && (ops.IsAutoScaling(r.Header("X-Amz-Target")) || ops.IsDAX(r.Header("X-Amz-Target"))):
		return typeAmazon11, true
	case bytes.EqualFold(media, []byte(typePlain)):
		return typePlain, true
	case len(media) == 0:
		return typePlain, r.Length == 0
	}
	return "", false
}

// apiRequest is a request as far as it is known, for errors, traces and the audit log.
type apiRequest struct {
	operation     string
	streamed      bool   // it is answered with a stream
	media         string // of the reply
	arrived       time.Time
	body          []byte
	held          *admission.Reservation // of the body
	signer        auth.Signer
	request       ops.Request
	decoded       bool           // the request is whole
	trace         *tracedRequest // nil if it is not traced
	code, message string         // of the error that it is answered with

	caller ops.Caller
}

// apiRequests keeps the memory of requests, of which an ops.Caller is the largest part.
var apiRequests = sync.Pool{New: func() any { return new(apiRequest) }}

// end releases the memory of a request.
func (r *apiRequest) end() {
	r.held.Release()
	*r = apiRequest{}
	apiRequests.Put(r)
}

// failed records the error that a request is answered with.
func (r *apiRequest) failed(code, message string) {
	r.code, r.message = code, message
	if r.trace != nil {
		r.trace.failed = code
	}
}

// unread answers a request whose body could not be read.
func (h *Handler) unread(ctx context.Context, a *door.Reply, of *apiRequest, err error) {
	var fault *apierror.Error
	switch {
	case errors.Is(err, door.ErrTooLarge):
		of.failed("RequestEntityTooLargeException", "")
		plain(a, http.StatusRequestEntityTooLarge, "<RequestEntityTooLargeException/>\n")
	case errors.As(err, &fault):
		h.fault(a, of, fault)
	case ctx.Err() != nil: // the client has disconnected
	default:
		of.failed("SerializationException", "")
		plain(a, http.StatusBadRequest, "<SerializationException/>\n")
	}
}

// fail answers a fault of the customer, or logs a failure of ours.
func (h *Handler) fail(ctx context.Context, a *door.Reply, of *apiRequest, err error) {
	if fault := h.faultOf(ctx, a, of.operation, err); fault != nil {
		h.fault(a, of, fault)
	}
}

// faultOf returns an error as the customer gets it, and logs a failure of ours. It is nil
// if the client has disconnected.
func (h *Handler) faultOf(ctx context.Context, a *door.Reply, operation string, err error) *apierror.Error {
	var fault *apierror.Error
	var limit *overlay.LimitError
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &limit):
		return forkIsFull(limit)
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, ops.ErrNoAnswer):
		a.Cut = true
		return nil
	case errors.Is(err, store.ErrFull):
		h.rejected(a, operation, err)
		return internal("The disk is almost full. Writes are rejected until there is space again.")
	case errors.Is(err, store.ErrRemoved):
		h.rejected(a, operation, err)
		return internal("The data folder was removed or replaced. Writes are rejected.")
	case errors.Is(err, store.ErrBehind):
		h.rejected(a, operation, err)
		return apierror.Throttled()
	}
	h.log.Error("a request failed", "request", string(a.ID[:]), "operation", operation, "error", err)
	return internal("")
}

// rejectionLogInterval is the time between two log lines about rejected writes.
const rejectionLogInterval = 10 * time.Second

// rejections limits the log lines about rejected writes, and counts requests that were
// rejected because of overload.
type rejections struct {
	overload atomic.Int64
	unlogged atomic.Int64
	logged   atomic.Int64 // when one was last logged, in Unix nanoseconds
}

// rejected logs a rejected write, unless another was logged recently.
func (h *Handler) rejected(a *door.Reply, operation string, err error) {
	r := h.rejections
	r.unlogged.Add(1)
	now, last := time.Now().UnixNano(), r.logged.Load()
	if now-last >= int64(rejectionLogInterval) && r.logged.CompareAndSwap(last, now) {
		h.log.Error("writes are rejected", "request", string(a.ID[:]), "operation", operation, "error", err, "rejected", r.unlogged.Swap(0))
	}
}

// internal is the error for a failure of ours. Clients retry after it.
func internal(message string) *apierror.Error {
	e := apierror.InternalError()
	if message != "" {
		e.Message = message
	}
	return e
}

// fault answers a request of the API with an error, which it counts.
func (h *Handler) fault(a *door.Reply, of *apiRequest, e *apierror.Error) {
	h.count(e, of)
	of.failed(e.Code, e.Message)
	sendFault(a, of.media, e)
}

// sendFault answers with an error.
func sendFault(a *door.Reply, media string, e *apierror.Error) {
	a.Write(wire.AppendError(a.Memory.Empty(), e))
	a.Room.Leave(cap(a.Body)) // it may have items
	send(a, media, e.Status)
}

// send completes a reply of the API.
func send(a *door.Reply, media string, status int) {
	a.Status, a.ContentType = status, media
	a.Checksum, a.HasChecksum = crc32.ChecksumIEEE(a.Body), true
}

func plain(a *door.Reply, status int, text string) {
	a.Status, a.ContentType = status, "text/plain; charset=utf-8"
	a.Write(append(a.Memory.Empty(), text...))
}

// fromForeignPage reports whether a browser sends the request for a page of another
// site. Any page can reach the ports of the machine that the browser runs on, if
// need be by a name that resolves to it. Clients other than browsers send no Origin.
func fromForeignPage(r *door.Request) bool {
	origin := r.Header("Origin")
	if len(origin) == 0 {
		return false
	}
	_, host, _ := strings.Cut(string(origin), "://")
	return host != r.Host || !isLocal(host)
}

// rejectForeignPage answers a request of a page of another site.
func rejectForeignPage(a *door.Reply) {
	a.More = [][2]string{{"X-Content-Type-Options", "nosniff"}}
	plain(a, http.StatusForbidden, "requests from pages of other sites are rejected\n")
}

func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
