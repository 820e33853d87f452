package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/inject"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store/pebble"
)

// A request whose connection is to be closed without an answer has none, whichever handler gets it; the console
// says so.
func TestConnectionClosed(t *testing.T) {
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), engine, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	faults := inject.New(func() time.Duration { return 0 })
	faults.Set(inject.Plan{Rules: []inject.Rule{{Fault: inject.InternalError, Operations: []string{"ListTables"}, As: inject.AsConnectionClosed}}})
	h := server.New(ops.New(ops.Parts{DB: d, Faults: faults}), slog.New(slog.DiscardHandler), 0)
	bySigner := &server.BySigner{Hosts: []string{"example.com"}, Handler: func(context.Context, string, string) (http.Handler, error) { return h, nil }, Log: slog.New(slog.DiscardHandler)}
	for name, handler := range map[string]http.Handler{"the handler": h, "the handler by signer": bySigner} {
		func() {
			defer func() {
				if r := recover(); r != http.ErrAbortHandler {
					t.Errorf("%s panics with %v, want http.ErrAbortHandler", name, r)
				}
			}()
			got := send(handler, http.MethodPost, "/", signed(listTables), strings.NewReader("{}"))
			t.Errorf("%s answers %d %s", name, got.Code, got.Body)
		}()
	}

	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8000"+console.Base+"api", strings.NewReader("{}"))
	r.Header.Set("X-Amz-Target", listTables)
	r.Header.Set(console.Header, "read")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	h.WithConsole(console.ReadWrite, "", nil).ServeHTTP(w, r)
	if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "closed without an answer, by an injected fault") {
		t.Errorf("the console answers %d %s", w.Code, w.Body)
	}
}
