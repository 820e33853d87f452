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
func (h *Handler) read(ctx context.Context, name string, body []byte) (request ops.Request, err error) {
	if len(body) < largeBytes {
		return ops.Read(name, body)
	}
	if err := h.large.enter(ctx, handicap(len(body))); err != nil {
		return ops.Request{}, err
	}
	defer h.large.leave()
	patiently(func() { request, err = ops.Read(name, body) })
	return request, err
}

// patiently runs fn on a thread that the system gives less of the processors than
// others, so that those who have less to do go first.
func patiently(fn func()) {
	var bug any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { bug = recover() }()
		runtime.LockOSThread() // without the opposite: the thread ends with the goroutine
		lowerPriority()
		fn()
	}()
	<-done
	if bug != nil {
		panic(bug)
	}
}

// handicap is by how much a large body comes later than it did.
func handicap(bytes int) time.Duration { return time.Duration(bytes) * time.Second / largePace }
