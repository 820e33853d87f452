package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/buffer"
)

const (
	// MaxReplyBytes is the budget of a server's Replies. It may be exceeded for
	// SlowReplyAfter.
	MaxReplyBytes = 256 << 20
	// SlowReplyAfter is how long a client may take to read a large reply when
	// the budget is exceeded.
	SlowReplyAfter = time.Second
)

// Replies bounds the memory of large replies that clients have yet to read.
// Without a bound each may stay in memory for up to a minute, the write timeout.
// A nil *Replies does not bound anything.
type Replies struct {
	mu      sync.Mutex
	pending map[*PendingReply]struct{}
	bytes   int64 // of pending replies that are not cut
	waiting bool  // cutSlow will run again
}

// NewReplies returns a budget of MaxReplyBytes.
func NewReplies() *Replies { return &Replies{pending: make(map[*PendingReply]struct{})} }

// PendingReply is a reply that is being sent.
type PendingReply struct {
	replies *Replies
	bytes   int64
	since   time.Time
	cut     func()
	wasCut  bool
}

// Add counts a reply until it is Done. When the budget is exceeded, the largest
// replies that have been pending for longer than SlowReplyAfter are cut: cut must
// make their writes fail, and must not block. Small replies are not counted; for
// these Add returns nil.
func (r *Replies) Add(bytes int, cut func()) *PendingReply {
	if r == nil || bytes <= buffer.Small { // a connection may hold as much anyway
		return nil
	}
	p := &PendingReply{replies: r, bytes: int64(bytes), since: time.Now(), cut: cut}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[p] = struct{}{}
	r.bytes += p.bytes
	r.cutSlow()
	return p
}

// Done ends the accounting of a reply and reports whether it was cut.
func (p *PendingReply) Done() (wasCut bool) {
	if p == nil {
		return false
	}
	r := p.replies
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, p)
	if !p.wasCut {
		r.bytes -= p.bytes
	}
	return p.wasCut
}

// Pending returns the number and the size of the replies that are counted.
func (r *Replies) Pending() (replies int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending), r.bytes
}

// cutSlow cuts slow replies until the others fit in the budget, and runs again
// later if there are not enough slow ones. The caller holds mu.
func (r *Replies) cutSlow() {
	if r.bytes <= MaxReplyBytes {
		return
	}
	var slow []*PendingReply
	for p := range r.pending {
		if !p.wasCut && time.Since(p.since) >= SlowReplyAfter {
			slow = append(slow, p)
		}
	}
	slices.SortFunc(slow, func(a, b *PendingReply) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), a.since.Compare(b.since))
	})
	for _, p := range slow {
		if r.bytes <= MaxReplyBytes {
			return
		}
		p.wasCut = true
		r.bytes -= p.bytes
		p.cut()
	}
	if r.bytes > MaxReplyBytes && !r.waiting {
		r.waiting = true
		time.AfterFunc(SlowReplyAfter, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.waiting = false
			r.cutSlow()
		})
	}
}
