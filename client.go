package stator

import (
	"bytes"
	"io"
	"net/http"
)

// Client returns an HTTP client that calls the database directly, without a
// network. Any AWS SDK client can use it; the endpoint's address does not matter.
// It needs no access key: neither signatures nor policies are evaluated.
func (d *DB) Client() *http.Client { return HandlerClient(d.direct) }

// HandlerClient returns an HTTP client that calls a handler directly, without a network. With
// DB.Handler, requests are verified as those over a network are.
func HandlerClient(h http.Handler) *http.Client {
	return &http.Client{Transport: handlerTransport{h}}
}

// handlerTransport is a transport that calls a handler.
type handlerTransport struct{ handler http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	r.RequestURI = r.URL.RequestURI()
	defer r.Body.Close()
	w := &response{header: make(http.Header), status: http.StatusOK}
	if aborted(t.handler, w, r) && r.Context().Err() == nil {
		return nil, io.ErrUnexpectedEOF // as from a connection that was closed
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode:    w.status,
		Status:        http.StatusText(w.status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}, nil
}

// aborted calls a handler, and reports whether it has aborted its reply.
func aborted(h http.Handler, w http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
			aborted = true
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return false
}

// response records the reply of a handler.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) WriteHeader(status int)      { w.status = status }
func (w *response) Write(b []byte) (int, error) { return w.body.Write(b) }
