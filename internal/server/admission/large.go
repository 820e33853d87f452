package admission

import (
	"context"
	"runtime"
	"time"
)

const (
	// LargeBytes is the size from which a body is large. Decoding one takes a
	// processor a millisecond or more, enough time to answer many small requests.
	LargeBytes = 256 << 10
	// maxLargeWait is how long a large body waits for other large bodies.
	maxLargeWait = 3 * time.Second
	// penaltyBytesPerSecond converts the size of a large body into its penalty.
	penaltyBytesPerSecond = 16 << 20
)

// LargeBodies bounds the large bodies that are decoded at once, so that small
// requests do not wait for them.
type LargeBodies struct {
	slots    *Slots
	prepared *Slots // of bodies that have, or take, the memory that they need in their slot
}

// NewLargeBodies returns a bound of that many bodies.
func NewLargeBodies(slots int) *LargeBodies {
	return &LargeBodies{slots: NewSlots(slots, 0, maxLargeWait), prepared: NewSlots(slots+1, 0, maxLargeWait)}
}

// LargeSlots is the number of large bodies that a server decodes at once: fewer
// than half of GOMAXPROCS (which is higher than the number of processors), so
// that a thread stays free for small requests.
func LargeSlots() int { return max(1, (runtime.GOMAXPROCS(0)-1)/2) }

// Run waits for a slot and runs fn, which decodes a body, at low priority.
func (l *LargeBodies) Run(ctx context.Context, bytes int, fn func()) error {
	if err := l.slots.Acquire(ctx, penalty(int64(bytes)), 0); err != nil {
		return err
	}
	defer l.slots.Release()
	atLowPriority(fn)
	return nil
}

// RunPrepared is Run for a body that needs much memory in its slot, which prepare takes. It does so
// for no more bodies than have a slot, and one more: others that wait would hold memory for seconds
// that bodies elsewhere need. None waits for memory while it has a slot.
func (l *LargeBodies) RunPrepared(ctx context.Context, bytes int, prepare func() error, fn func()) error {
	if err := l.prepared.Acquire(ctx, penalty(int64(bytes)), 0); err != nil {
		return err
	}
	defer l.prepared.Release()
	if err := prepare(); err != nil {
		return err
	}
	return l.Run(ctx, bytes, fn)
}

// atLowPriority runs fn on a thread with a low scheduling priority, so that the
// system prefers threads with less work. A panic of fn is passed on.
func atLowPriority(fn func()) {
	var bug any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { bug = recover() }()
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		lowerPriority()
		fn()
	}()
	<-done
	if bug != nil {
		panic(bug)
	}
}

// penalty is how much later than its arrival a large body, or a request that needs
// memory, is queued, so that smaller ones pass it.
func penalty(bytes int64) time.Duration {
	return time.Duration(bytes) * time.Second / penaltyBytesPerSecond
}
