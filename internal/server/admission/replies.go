package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/buffer"
)

// SlowReplyAfter is how long a client may take to read a large reply while other
// requests wait for its memory.
const SlowReplyAfter = time.Second

// Replies are the large replies that are being sent. When requests wait for memory,
// the largest replies that clients have not read for SlowReplyAfter are cut: without
// that each may stay in memory for up to a minute, the write timeout.
// A nil *Replies cuts nothing.
type Replies struct {
	slots *Slots

	mu      sync.Mutex
	pending map[*PendingReply]struct{}
	waiting bool // cutSlow will run again
}

// NewReplies returns the replies that use the memory of slots.
func NewReplies(slots *Slots) *Replies {
	slots.replies = &Replies{slots: slots, pending: make(map[*PendingReply]struct{})}
	return slots.replies
}

// PendingReply is a reply that is being sent.
type PendingReply struct {
	replies *Replies
	bytes   int64
	since   time.Time
	cut     func()
	wasCut  bool
}

// Add lists a reply until it is Done. cut must make its writes fail, and must not
// block. Small replies are not listed; for these Add returns nil.
func (r *Replies) Add(bytes int, cut func()) *PendingReply {
	if r == nil || bytes <= buffer.Small { // a connection may hold as much anyway
		return nil
	}
	p := &PendingReply{replies: r, bytes: int64(bytes), since: time.Now(), cut: cut}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[p] = struct{}{}
	return p
}

// Done reports whether a reply was cut.
func (p *PendingReply) Done() (wasCut bool) {
	if p == nil {
		return false
	}
	r := p.replies
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, p)
	return p.wasCut
}

// Pending returns the number and the size of the replies that are being sent.
func (r *Replies) Pending() (replies int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pending {
		bytes += p.bytes
	}
	return len(r.pending), bytes
}

// cutSlow cuts slow replies until there is memory for the requests that wait for
// it, and runs again until none waits.
func (r *Replies) cutSlow() {
	if r == nil {
		return
	}
	missing := r.slots.missing()
	if missing == 0 {
		return
	}
	missing = max(missing, r.slots.memory/8) // so that the next request finds memory, too
	r.mu.Lock()
	defer r.mu.Unlock()
	var slow []*PendingReply
	for p := range r.pending {
		if p.wasCut {
			missing -= p.bytes // it ends soon
		} else if time.Since(p.since) >= SlowReplyAfter {
			slow = append(slow, p)
		}
	}
	slices.SortFunc(slow, func(a, b *PendingReply) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), a.since.Compare(b.since))
	})
	for _, p := range slow {
		if missing <= 0 {
			break
		}
		p.wasCut = true
		missing -= p.bytes
		p.cut()
	}
	if !r.waiting {
		r.waiting = true
		time.AfterFunc(evictionInterval, func() {
			r.mu.Lock()
			r.waiting = false
			r.mu.Unlock()
			r.cutSlow()
		})
	}
}
