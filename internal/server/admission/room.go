package admission

import (
	"context"

	"github.com/stator-db/stator/internal/buffer"
)

// Room is the slot of one request, and the memory that it holds of a server's
// Slots. Small requests hold none. The zero Room has no bound.
type Room struct {
	slots     *Slots
	acquired  int64 // with the slot
	held      int64 // taken from slots
	used      int64 // by the request, at the moment
	needed    int64 // when a reservation failed
	hasSlot   bool
	committed bool // reservations do not fail
}

// Acquire waits for a slot, and for memory of which the size is expected. It gives
// back what an earlier attempt of the same request holds.
func (r *Room) Acquire(ctx context.Context, s *Slots, bytes int64) error {
	r.Release()
	bytes = min(bytes, s.memory)
	if err := s.Acquire(ctx, penalty(bytes), bytes); err != nil {
		return err
	}
	*r = Room{slots: s, acquired: bytes, held: bytes, hasSlot: true}
	return nil
}

// Reserve adds memory to what the request uses. It reports false if that is more
// than the request holds and the rest is not free. The request may then be repeated
// once it has acquired Needed bytes.
func (r *Room) Reserve(bytes int) bool {
	if !r.grow(int64(bytes), r.committed) {
		r.needed = r.used + int64(bytes)
		return false
	}
	return true
}

// Force is Reserve for a request that cannot be repeated: it takes memory that is
// not free.
func (r *Room) Force(bytes int) { r.grow(int64(bytes), true) }

func (r *Room) grow(bytes int64, force bool) bool {
	if r.slots == nil {
		return true
	}
	if more := r.used + bytes - r.held; more > 0 && r.acquired < r.slots.memory {
		if !r.slots.take(more, force) {
			return false
		}
		r.held += more
	}
	r.used += bytes
	return true
}

// Return ends a reservation of bytes that are not part of the reply.
func (r *Room) Return(bytes int) { r.used = max(0, r.used-int64(bytes)) }

// Free ends a reservation, and gives back what it has added to the memory that was
// acquired with the slot.
func (r *Room) Free(bytes int) {
	r.Return(bytes)
	if kept := max(r.used, r.acquired); r.slots != nil && r.held > kept {
		r.slots.release(false, r.held-kept)
		r.held = kept
	}
}

// Commit makes Reserve take memory that is not free.
func (r *Room) Commit() { r.committed = true }

// Needed is the memory that the request lacked when a reservation failed.
func (r *Room) Needed() int64 { return r.needed }

// Leave gives the slot back, and all memory but that of the reply. It may be called
// again for another reply.
func (r *Room) Leave(replyBytes int) {
	if r.slots == nil {
		return
	}
	kept := int64(replyBytes)
	if kept <= buffer.Small {
		kept = 0
	}
	r.slots.release(r.hasSlot, r.held-kept)
	r.held, r.hasSlot = kept, false
}

// Release gives everything back.
func (r *Room) Release() {
	r.Leave(0)
	*r = Room{}
}
