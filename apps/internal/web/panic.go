package web

import (
	"log/slog"
	"net/http"
	"runtime/debug"
)

// recovered logs the panics of a handler and sends an internal error. net/http recovers
// from them too, but logs them among the broken connections of clients, which are not
// logged by default. A reply that has begun is cut off, so that the client does not take it
// for complete.
func recovered(handler http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := &begun{ResponseWriter: w}
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			//nolint:errorlint // net/http compares this value too: a handler panics with it, not with a wrapped one
			if p == http.ErrAbortHandler {
				panic(p)
			}
			log.Error("a handler panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			if reply.begun {
				panic(http.ErrAbortHandler)
			}
			Write(reply, http.StatusInternalServerError, map[string]*Fault{"error": internalError()})
		}()
		handler.ServeHTTP(reply, r)
	})
}

// begun is a reply that knows whether it has begun.
type begun struct {
	http.ResponseWriter
	begun bool
}

func (b *begun) WriteHeader(status int) {
	b.begun = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Write(p []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush the reply.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }
