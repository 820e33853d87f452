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
	// maxLargeWait is how long a large body waits for others.
	maxLargeWait = 3 * time.Second
	// A large body that waits lets those pass that are smaller and come later,
	// by as long as it takes at penaltyBytesPerSecond, in bytes a second.
	penaltyBytesPerSecond = 16 << 20
)

// newLarge makes the turns of large bodies. They get fewer than half of the
// threads that run Go (which are more than processors), so that others find
// one free.
func newLarge() *slots { return newSlots(max(1, (runtime.GOMAXPROCS(0)-1)/2), maxLargeWait) }

// read reads the body of a request. While large ones wait for each other,
// others are read and carried out.
func (h *Handler) read(ctx context.Context, name string, body []byte) (request ops.Request, err error) {
	if len(body) < largeBytes {
		return ops.Read(name, body)
	}
	if err := h.large.acquire(ctx, penalty(len(body))); err != nil {
		return ops.Request{}, err
	}
	defer h.large.release()
	atLowPriority(func() { request, err = ops.Read(name, body) })
	return request, err
}

// atLowPriority runs fn on a thread that the system gives less of the processors than
// others, so that those who have less to do go first.
func atLowPriority(fn func()) {
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

// penalty is by how much a large body comes later than it did.
func penalty(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / penaltyBytesPerSecond
}
