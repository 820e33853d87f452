package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// lossy is a server that acknowledges one write which it does not do.
type lossy struct {
	db   http.Handler
	text string // in the body of the write
	of   string // operation
	lost atomic.Bool
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if l.of != "" && strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+l.of) && bytes.Contains(body, []byte(l.text)) && l.lost.CompareAndSwap(false, true) {
		io.WriteString(w, "{}")
		return
	}
	l.db.ServeHTTP(w, r)
}

// Each check passes without faults, and fails if one write is lost, of which some are noticed at the
// time limit only.
func TestChecks(t *testing.T) {
	for name, loses := range map[string]struct{ operation, text string }{
		"documents": {"TransactWriteItems", `"november"`},
		"downloads": {"UpdateItem", `"completed"`},
		"goals":     {"BatchWriteItem", `"personId"`},
		"taskqueue": {"BatchWriteItem", `EVENT#`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, l := range []*lossy{{}, {of: loses.operation, text: loses.text}} {
				db, err := stator.Open(t.Context(), stator.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				l.db = db.Handler()
				server := httptest.NewServer(l)
				defer server.Close()
				r := &run{endpoint: server.URL, limit: time.Minute, log: slog.New(slog.DiscardHandler)}
				if l.of != "" {
					r.limit = 2 * time.Second
				}
				err = check(t.Context(), name, r)
				if (err == nil) != (l.of == "") || l.lost.Load() != (l.of != "") {
					t.Errorf("with a lost %q the check returns %v; lost: %v", l.of, err, l.lost.Load())
				}
			}
		})
	}
}
