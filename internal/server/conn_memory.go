package server

import (
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/server/door"
)

// connMemory is what a handler knows of a connection whose requests the door reads. Most of
// them have the same Host and the same signer.
type connMemory struct {
	of     *Handler
	host   string // the last one that was accepted
	signer auth.Reader
}

// memoryOf returns what the handler knows of the connection of a request; nil if net/http has
// read the request.
func (h *Handler) memoryOf(r *door.Request) *connMemory {
	if r.Kept == nil {
		return nil
	}
	if h.forkOf != nil { // it has the same keys and hosts
		h = h.forkOf
	}
	m, _ := (*r.Kept).(*connMemory)
	if m == nil || m.of != h { // another handler has answered before
		m = &connMemory{of: h}
		*r.Kept = m
	}
	return m
}

// acceptsHostOf reports whether the Host of a request is accepted.
func (h *Handler) acceptsHostOf(r *door.Request) bool {
	if !h.checkHost {
		return true
	}
	m := h.memoryOf(r)
	if m != nil && m.host != "" && m.host == r.Host {
		return true
	}
	accepted := h.acceptsHost(r.Host)
	if accepted && m != nil {
		m.host = r.Host
	}
	return accepted
}

// lastSigner returns the last signer of the connection of a request; nil if net/http has read the
// request.
func (h *Handler) lastSigner(r *door.Request) *auth.Reader {
	if m := h.memoryOf(r); m != nil {
		return &m.signer
	}
	return nil
}
