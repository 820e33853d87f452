package server

import (
	"context"
	"io"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/standby"
)

// PendingReplies returns the number and the size of the large replies that clients
// have not read yet.
func (h *Handler) PendingReplies() (replies int, bytes int64) { return h.replies.Pending() }

// SetMemory replaces the memory for large requests and their replies.
func (h *Handler) SetMemory(bytes int64) {
	h.slots = admission.NewSlots(admission.LimitsFor(0).Requests, bytes, admission.MaxSlotWait)
	h.replies = admission.NewReplies(h.slots)
}

// Slots are the slots and the memory of requests.
func (h *Handler) Slots() *admission.Slots { return h.slots }

// Execute executes a request of the API.
func (h *Handler) Execute(ctx context.Context, operation, body string, a *door.Reply) error {
	request, err := ops.Read(operation, []byte(body))
	if err != nil {
		return err
	}
	return h.execute(ops.WithCaller(ctx, ops.Caller{Room: &a.Room}), request, a)
}

// StreamSlots are the slots of streams with this target, and how many there are.
func (h *Handler) StreamSlots(target string) (slots *admission.Slots, most int) {
	if target == standby.TargetChanges {
		return h.following, admission.MaxFollowers
	}
	return h.sending, admission.MaxBackups
}

// SetBodies replaces the memory of bodies by that of a process with this many bytes.
func (h *Handler) SetBodies(memory int64) {
	h.bodies = admission.NewBodies(admission.LimitsFor(memory))
}

// HoldBodies takes this much of the memory of large bodies, until release.
func (h *Handler) HoldBodies(ctx context.Context, bytes int64) (release func()) {
	held := h.bodies.Reserve(ctx, new(decodedBody))
	if err := held.Add(bytes); err != nil {
		panic(err)
	}
	return held.Release
}

// HoldDecoding makes the handler decode one large compressed body at once, and takes its slot until
// release.
func (h *Handler) HoldDecoding(ctx context.Context) (release func()) {
	h.decoding = admission.NewLargeBodies(1)
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- h.decoding.Run(ctx, 0, func() {
			close(begun)
			<-end
		})
	}()
	<-begun
	return func() {
		close(end)
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}

// ReadDecoded reads a decoded body.
func ReadDecoded(d io.Reader) error {
	b := new(decodedBody)
	defer b.Drop()
	return b.readLarge(d, buffer.Size(admission.MaxBodyBytes+1))
}

// PanicInReports makes reports, and requests to CloudWatch, panic after their checks.
func (h *Handler) PanicInReports() { h.service, h.cloudWatchService = nil, nil }
