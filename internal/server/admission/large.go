package admission

import (
	"context"
	"runtime"
	"time"
)

const (
	// LargeBytes is what a body has at least to be large. To read one takes a
	// processor a millisecond and more, in which many others are answered.
	LargeBytes = 256 << 10
	// maxLargeWait is how long a large body waits for others.
	maxLargeWait = 3 * time.Second
	// A large body that waits lets those pass that are smaller and come later,
	// by as long as it takes at penaltyBytesPerSecond.
	penaltyBytesPerSecond = 16 << 20
)

// LargeBodies has large bodies wait for each other while others are read and
// carried out.
type LargeBodies struct{ slots *Slots }

// NewLargeBodies makes the slots of large bodies.
func NewLargeBodies(slots int) *LargeBodies {
	return &LargeBodies{NewSlots(slots, maxLargeWait)}
}

// LargeSlots is how many large bodies are read at once. They get fewer than half
// of the threads that run Go (which are more than processors), so that others
// find one free.
func LargeSlots() int { return max(1, (runtime.GOMAXPROCS(0)-1)/2) }

// Run runs fn, which reads a body, when its turn has come.
func (l *LargeBodies) Run(ctx context.Context, bytes int, fn func()) error {
	if err := l.slots.Acquire(ctx, penalty(bytes)); err != nil {
		return err
	}
	defer l.slots.Release()
	atLowPriority(fn)
	return nil
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
