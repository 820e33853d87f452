package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store"
)

// isRead reports whether a request has a method that changes nothing.
func isRead(r *door.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// alive reports that the process answers, whatever the state of its storage.
func alive(a *door.Reply) { plain(a, http.StatusOK, "ok\n") }

// Drain makes ready fail from now on, while requests are still served.
func (h *Handler) Drain() { h.draining.Store(true) }

// healthTimeout is how long the storage may take to answer a health check.
const healthTimeout = 2 * time.Second

// health reports whether the storage answers, for load balancers.
func (h *Handler) health(ctx context.Context, a *door.Reply) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := h.service.DB.Healthy(ctx); err != nil {
		h.unhealthy(a, err)
		return
	}
	text := "ok\n"
	if why := h.service.DB.Clock().Distrusted(); why != "" {
		text += why + "\n"
	}
	if n := h.service.DB.Damage().Files; n > 0 {
		text += fmt.Sprintf("stored data is corrupt, found in %d files: restore it from a backup\n", n)
	}
	plain(a, http.StatusOK, text)
}

// ready reports whether requests can be served, for Kubernetes. A server on a full disk is ready:
// without it nobody could read, nor delete what fills the disk. With the query "writes" it is not.
func (h *Handler) ready(ctx context.Context, r *door.Request, a *door.Reply) {
	if h.draining.Load() {
		plain(a, http.StatusServiceUnavailable, "the server is shutting down\n")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	full := h.service.DB.Writable()
	if full != nil && !errors.Is(full, store.ErrFull) {
		h.unhealthy(a, full)
		return
	}
	if err := h.service.DB.Healthy(ctx); err != nil {
		h.unhealthy(a, err)
		return
	}
	status, text := http.StatusOK, "ready\n"
	switch {
	case errors.Is(full, store.ErrNoSpaceToDelete):
		text += "the disk is almost full: writes and deletes are rejected, reads are served\n"
	case full != nil:
		text += "the disk is almost full: writes are rejected, reads and deletes are served\n"
	}
	if full != nil && r.Query == "writes" {
		status, text = http.StatusServiceUnavailable, strings.TrimPrefix(text, "ready\n")
	}
	plain(a, status, text)
}

// unhealthy answers a check that failed.
func (h *Handler) unhealthy(a *door.Reply, err error) {
	text := "the storage does not answer\n"
	if errors.Is(err, store.ErrRemoved) {
		text = "the data folder was removed or replaced\n"
	}
	plain(a, http.StatusServiceUnavailable, text)
	h.log.Warn("health check failed", "error", err)
}
