package door

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/virtualtime"
)

// largeReplies answers with the largest body that a reply can have.
type largeReplies struct {
	slots   *admission.Slots
	pending *admission.Replies
}

func newLargeReplies() largeReplies {
	slots := admission.NewSlots(100, maxReplyBytes, time.Second)
	return largeReplies{slots, admission.NewReplies(slots)}
}

const maxReplyBytes = 256 << 20

const largeReplyBytes = 16 << 20

func (largeReplies) Accepts(*Request) bool { return true }

func (h largeReplies) Answer(ctx context.Context, _ *Request, a *Reply) {
	a.Pending, a.Status, a.ContentType = h.pending, 200, "text/plain"
	if a.Room.Acquire(ctx, h.slots, 0) != nil { // the size of the reply is not expected
		panic("no slot is free")
	}
	a.Write(append(a.Memory.Empty(), make([]byte, largeReplyBytes)...))
	a.Room.Leave(cap(a.Body))
}

func (h largeReplies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := Begin(w, r)
	defer x.End()
	h.Answer(r.Context(), &x.Request, &x.Reply)
	_ = x.Reply.Send(w)
}

// Clients that do not read their replies hold no more memory than the budget
// allows, and a client that reads its reply gets all of it. Another server in the
// same process has a budget of its own.
func TestPendingRepliesAreBounded(t *testing.T) {
	for name, first := range map[string]string{"the door": "POST / HTTP/1.1\r\n", "net/http": "POST /? HTTP/1.1\r\n"} {
		t.Run(name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h, other := newLargeReplies(), newLargeReplies()
				_, dial := open(t, h)
				_, dialOther := open(t, other)
				const headers = "Host: a\r\nContent-Length: 0\r\n\r\n"
				const clients = 2 * maxReplyBytes / largeReplyBytes
				_, _ = io.WriteString(dialOther(), first+headers)
				for range clients {
					_, _ = io.WriteString(dial(), first+headers)
				}
				synctest.Wait()
				if n, _ := h.pending.Pending(); n != clients {
					t.Fatalf("%d replies are pending at first, want %d", n, clients)
				}
				time.Sleep(2 * admission.SlowReplyAfter)
				synctest.Wait()
				if n, _ := h.pending.Pending(); n == 0 || n*largeReplyBytes > maxReplyBytes {
					t.Errorf("%d replies of %d MB are pending, the bound is %d MB", n, largeReplyBytes>>20, maxReplyBytes>>20)
				}
				if n, bytes := other.pending.Pending(); n != 1 || bytes != largeReplyBytes {
					t.Errorf("%d replies of %d bytes are pending on the other server, want 1 of %d", n, bytes, largeReplyBytes)
				}
				good := exchange(t, dial(), first+headers)
				if n, err := io.Copy(io.Discard, good.Body); n != largeReplyBytes || err != nil {
					t.Errorf("a client that reads its reply gets %d bytes of it, %v", n, err)
				}
				time.Sleep(2 * defaultWriteTime)
				synctest.Wait()
				for _, budget := range []*admission.Replies{h.pending, other.pending} {
					if n, bytes := budget.Pending(); n != 0 || bytes != 0 {
						t.Errorf("%d replies of %d bytes are counted for ever", n, bytes)
					}
				}
			})
		})
	}
}
