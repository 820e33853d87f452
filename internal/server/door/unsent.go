package door

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/buffer"
)

// unsent are the large replies that clients have yet to take. They hold memory, and
// a client has a minute for its own.
var unsent = outgoing{replies: make(map[*sending]struct{})}

const (
	// maxUnsent is how many bytes there may be for longer than sendGrace.
	maxUnsent = 256 << 20
	sendGrace = time.Second
)

type outgoing struct {
	mu       sync.Mutex
	replies  map[*sending]struct{}
	bytes    int64 // of those that are not cut
	pressing bool
}

type sending struct {
	bytes int64
	since time.Time
	cut   func()
	gone  bool
}

// begin counts a reply until end is called, which tells whether it was cut. When there
// are too many, those who take theirs for long are, the largest first.
func (o *outgoing) begin(bytes int, cut func()) (end func() (wasCut bool)) {
	if bytes <= buffer.Small { // as much as a connection may hold anyway
		return func() bool { return false }
	}
	s := &sending{bytes: int64(bytes), since: time.Now(), cut: cut}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replies[s] = struct{}{}
	o.bytes += s.bytes
	o.press()
	return func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.replies, s)
		if !s.gone {
			o.bytes -= s.bytes
		}
		return s.gone
	}
}

// press cuts who can be cut, and looks again later if that is not enough.
func (o *outgoing) press() {
	if o.bytes <= maxUnsent {
		return
	}
	var slow []*sending
	for s := range o.replies {
		if !s.gone && time.Since(s.since) >= sendGrace {
			slow = append(slow, s)
		}
	}
	slices.SortFunc(slow, func(a, b *sending) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), a.since.Compare(b.since))
	})
	for _, s := range slow {
		if o.bytes <= maxUnsent {
			return
		}
		s.gone = true
		o.bytes -= s.bytes
		s.cut()
	}
	if o.bytes > maxUnsent && !o.pressing {
		o.pressing = true
		time.AfterFunc(sendGrace, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.pressing = false
			o.press()
		})
	}
}
