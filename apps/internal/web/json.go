package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// Fault is an error that the client caused: a status, a code for programs, and a
// message for people.
type Fault struct {
	Status  int            `json:"-"`
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Detail  map[string]any `json:"detail,omitempty"`
}

func (f *Fault) Error() string { return f.Message }

// Refuse returns a fault.
func Refuse(status int, code, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Read reads a request's body, which must be one JSON value of at most limit
// bytes without members that the type does not have.
func Read(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	body.DisallowUnknownFields()
	err := body.Decode(into)
	if err == nil {
		if _, more := body.Token(); more == io.EOF {
			return nil
		}
		err = errors.New("something follows the JSON value")
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return Refuse(http.StatusRequestEntityTooLarge, "too_large", "the body has more than the limit of %d bytes", limit)
	}
	return Refuse(http.StatusBadRequest, "bad_json", "the body is not valid: %v", err)
}

// Write sends a value as JSON.
func Write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // the client may have disconnected
}

// Handler sends what a function returns: a value as JSON, a Fault with its status
// and message, and any other error as an internal error, whose text is logged and
// not sent.
func Handler(log *slog.Logger, answer func(w http.ResponseWriter, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(w, r)
		switch {
		case err != nil:
			Fail(w, r, log, err)
		case v == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			Write(w, http.StatusOK, v)
		}
	}
}

// Fail sends an error as JSON.
func Fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	fault := FaultOf(r, log, err)
	Write(w, fault.Status, map[string]*Fault{"error": fault})
}

// FaultOf returns what a client receives of an error: a Fault as it is, and of any other
// error that it is internal, after it was logged.
func FaultOf(r *http.Request, log *slog.Logger, err error) *Fault {
	var fault *Fault
	if errors.As(err, &fault) {
		return fault
	}
	if r.Context().Err() != nil {
		return Refuse(http.StatusServiceUnavailable, "stopping", "the request was cancelled")
	}
	log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	return internalError()
}

// internalError is what a client receives of an error or a panic that is in the log.
func internalError() *Fault {
	return Refuse(http.StatusInternalServerError, "internal", "internal error; see the server's log")
}
