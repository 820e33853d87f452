package server

import (
	"context"
	"runtime"
	"time"

	"github.com/stator-db/stator/internal/ops"
)

const (
	// largeBytes is what a body has at least to be large. To read one takes a
	// processor a millisecond and more, in which many others are answered.
	largeBytes = 256 << 10
	// largePatience is how long a large body waits for others.
	largePatience = 3 * time.Second
	// A large body that waits lets those pass that are smaller and come later,
	// by as long as it takes at largePace, in bytes a second.
	largePace = 16 << 20
)

// newLarge makes the turns of large bodies. They get fewer than half of the
// threads that run Go (which are more than processors), so that others find
// one free.
func newLarge() *turns { return newTurns(max(1, (runtime.GOMAXPROCS(0)-1)/2), largePatience) }

// read reads the body of a request. While large ones wait for each other,
// others are read and carried out.
func (h *Handler) read(ctx context.Context, name string, body []byte) (ops.Request, error) {
	if len(body) >= largeBytes {
		if err := h.large.enter(ctx, handicap(len(body))); err != nil {
			return ops.Request{}, err
		}
		defer h.large.leave()
	}
	return ops.Read(name, body)
}

// handicap is by how much a large body comes later than it did.
func handicap(bytes int) time.Duration { return time.Duration(bytes) * time.Second / largePace }
