package door

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// generous answers with as much as a reply can be.
type generous struct{}

const generousBytes = 16 << 20

func (generous) Takes(*Request) bool { return true }

func (generous) Answer(_ context.Context, _ *Request, a *Reply) {
	a.Status, a.ContentType = 200, "text/plain"
	a.Write(append(a.Memory.Empty(), make([]byte, generousBytes)...))
}

func (h generous) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := Begin(w, r)
	defer x.End()
	h.Answer(r.Context(), &x.Request, &x.Reply)
	_ = x.Reply.Send(w)
}

// Those who do not take their replies hold no more memory than there is for them, and
// who does take his has it whole.
func TestUnsentRepliesAreBounded(t *testing.T) {
	for name, first := range map[string]string{"the door": "POST / HTTP/1.1\r\n", "net/http": "POST /? HTTP/1.1\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, dial := open(t, generous{})
				const ask = "Host: a\r\nContent-Length: 0\r\n\r\n"
				const clients = 2 * maxUnsent / generousBytes
				for range clients {
					_, _ = io.WriteString(dial(), first+ask)
				}
				synctest.Wait()
				held := func() int {
					unsent.mu.Lock()
					defer unsent.mu.Unlock()
					return len(unsent.replies)
				}
				if n := held(); n != clients {
					t.Fatalf("%d replies wait at first, want %d", n, clients)
				}
				time.Sleep(2 * sendGrace)
				synctest.Wait()
				if n := held(); n == 0 || n*generousBytes > maxUnsent {
					t.Errorf("%d replies of %d MB wait, the bound is %d MB", n, generousBytes>>20, maxUnsent>>20)
				}
				good := exchange(t, dial(), first+ask)
				if n, err := io.Copy(io.Discard, good.Body); n != generousBytes || err != nil {
					t.Errorf("who takes his reply gets %d bytes of it, %v", n, err)
				}
				time.Sleep(2 * defaultWriteTime)
				synctest.Wait()
				unsent.mu.Lock()
				defer unsent.mu.Unlock()
				if len(unsent.replies) != 0 || unsent.bytes != 0 {
					t.Errorf("%d replies of %d bytes count for ever", len(unsent.replies), unsent.bytes)
				}
			})
		})
	}
}
