// Package server is the HTTP door: target, limits, signature, checksum,
// request id.
//
// It is the one place that turns a failure of ours into an internal error for
// the customer and a line in the log for the operator.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/store"
)

const (
	maxBodyBytes = 16 << 20
	// maxBodies bounds the memory that the bodies of all requests under way
	// may take; others wait.
	maxBodies = 256 << 20

	typeAmazon = "application/x-amz-json-1.0"
	typePlain  = "application/json"
)

// Handler answers the API's requests over HTTP.
type Handler struct {
	service *ops.Service
	log     *slog.Logger
	bodies  *semaphore.Weighted
}

// New makes the handler of a service.
func New(service *ops.Service, log *slog.Logger) *Handler {
	return &Handler{service: service, log: log, bodies: semaphore.NewWeighted(maxBodies)}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := rand.Text() + rand.Text()
	w.Header().Set("x-amzn-RequestId", id)
	defer func() {
		if p := recover(); p != nil {
			if p == any(http.ErrAbortHandler) {
				panic(p)
			}
			h.log.Error("a request ended in a panic", "request", id, "target", r.Header.Get("X-Amz-Target"), "panic", p, "stack", string(debug.Stack()))
			h.fault(w, typeAmazon, internal(""))
		}
	}()
	switch {
	case fromForeignPage(r):
		http.Error(w, "requests from pages of other sites are refused", http.StatusForbidden)
	case r.URL.Path == "/" && r.Method == http.MethodPost:
		h.post(w, r, id)
	case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		plain(w, http.StatusOK, "healthy: dynamodb\n")
	default:
		plain(w, http.StatusNotFound, "<UnknownOperationException/>\n")
	}
}

// post answers one request of the API.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, id string) {
	media, ok := mediaType(r)
	if !ok {
		plain(w, http.StatusNotFound, "<UnknownOperationException/>\n")
		return
	}
	buf := buffers.Get().(*buffer)
	defer buf.release()
	free, err := h.read(r, buf)
	defer free()
	if err != nil {
		if errors.Is(err, errTooLarge) {
			plain(w, http.StatusRequestEntityTooLarge, "<RequestEntityTooLargeException/>\n")
		}
		return // otherwise the customer has gone
	}
	if r.Header.Get("X-Amz-Target") == TargetBackup {
		h.backup(w, r, media, id)
		return
	}
	name, known := ops.Find(r.Header.Get("X-Amz-Target"))
	if !known {
		h.fault(w, media, apierror.UnknownOperation())
		return
	}
	signer, err := auth.Read(r)
	if err != nil {
		h.fail(w, r, media, id, name, err)
		return
	}
	ctx := ops.WithCaller(r.Context(), ops.Caller{Region: signer.Region, Host: r.Host})
	reply, err := h.service.Do(ctx, name, buf.in)
	if err != nil {
		h.fail(w, r, media, id, name, err)
		return
	}
	buf.out = wire.AppendReply(buf.out[:0], reply)
	send(w, media, http.StatusOK, buf.out)
}

// TargetBackup is the X-Amz-Target of a request for all tables as they are at
// one moment. It is guarded like any other, and answered by a stream.
const TargetBackup = "Stator.Backup"

func (h *Handler) backup(w http.ResponseWriter, r *http.Request, media, id string) {
	if _, err := auth.Read(r); err != nil {
		h.fail(w, r, media, id, TargetBackup, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := h.service.WriteAll(r.Context(), w); err != nil {
		if r.Context().Err() == nil {
			h.log.Error("a backup of all tables was not finished", "request", id, "error", err)
		}
		panic(http.ErrAbortHandler) // the customer must see that it is cut short
	}
}

// mediaType is the type to answer in; not ok if the request's is none of the
// API's.
func mediaType(r *http.Request) (string, bool) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch media = strings.ToLower(strings.TrimSpace(media)); media {
	case typeAmazon, typePlain:
		return media, true
	case "":
		return typePlain, r.ContentLength == 0
	}
	return "", false
}

// buffer is the memory of one request.
type buffer struct{ in, out []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// maxKept is the largest buffer that is kept for the next request.
const maxKept = 64 << 10

func (b *buffer) release() {
	if cap(b.in) > maxKept {
		b.in = nil
	}
	if cap(b.out) > maxKept {
		b.out = nil
	}
	buffers.Put(b)
}

var errTooLarge = errors.New("the body is too large")

// read reads the body when there is memory for it. What it took is given back
// by free.
func (h *Handler) read(r *http.Request, buf *buffer) (free func(), err error) {
	free = func() {}
	need := r.ContentLength
	if need > maxBodyBytes {
		return free, errTooLarge
	}
	if need < 0 {
		need = maxBodyBytes
	}
	if err := h.bodies.Acquire(r.Context(), need); err != nil {
		return free, err
	}
	free = func() { h.bodies.Release(need) }
	buf.in = buf.in[:0]
	body := io.LimitReader(r.Body, maxBodyBytes+1)
	for {
		if len(buf.in) == cap(buf.in) {
			grown := make([]byte, len(buf.in), max(4096, int(min(need+1, int64(2*cap(buf.in)+4096)))))
			copy(grown, buf.in)
			buf.in = grown
		}
		n, err := body.Read(buf.in[len(buf.in):cap(buf.in)])
		buf.in = buf.in[:len(buf.in)+n]
		if len(buf.in) > maxBodyBytes {
			return free, errTooLarge
		}
		if err == io.EOF {
			return free, nil
		}
		if err != nil {
			return free, err
		}
	}
}

// fail answers a fault of the customer's, or logs a failure of ours.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, media, id, operation string, err error) {
	var fault *apierror.Error
	switch {
	case errors.As(err, &fault):
	case r.Context().Err() != nil || errors.Is(err, context.Canceled):
		return // nobody listens
	case errors.Is(err, store.ErrFull):
		h.log.Error("a write was refused", "request", id, "operation", operation, "error", err)
		fault = internal("The disk is almost full. Writes are refused until there is space again.")
	default:
		h.log.Error("a request failed", "request", id, "operation", operation, "error", err)
		fault = internal("")
	}
	h.fault(w, media, fault)
}

// internal is the error for a failure of ours. Clients try again after it.
func internal(message string) *apierror.Error {
	if message == "" {
		message = "Internal server error"
	}
	return &apierror.Error{Code: "InternalServerError", Status: http.StatusInternalServerError, Message: message}
}

func (h *Handler) fault(w http.ResponseWriter, media string, e *apierror.Error) {
	send(w, media, e.Status, wire.AppendError(nil, e))
}

func send(w http.ResponseWriter, media string, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", media)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("x-amz-crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	w.WriteHeader(status)
	w.Write(body)
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// fromForeignPage tells whether a browser sends the request for a page that we
// did not serve. Any page can reach this machine's ports, by a name that its
// owner points here if need be; clients that are no browsers send no Origin.
func fromForeignPage(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	_, host, _ := strings.Cut(origin, "://")
	return host != r.Host || !isLocal(host)
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
