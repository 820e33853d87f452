package console

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// People sign in while strangers send credentials as slowly as they can, more at a time than requests are
// answered.
func TestSlowStrangers(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h, stop := newRig(SignInKey, ReadOnly), make(chan struct{})
		request := func(ctx context.Context, method, path string, body io.Reader) int {
			r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8000/console"+path, body)
			r.Header.Set("Origin", "http://127.0.0.1:8000")
			r.Header.Set(Header, "read")
			r.RemoteAddr = "127.0.0.1:50000"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		defer close(stop)
		for _, path := range []string{"/api/session", "/api"} {
			for range maxInFlight + 1 {
				body, send := io.Pipe()
				go request(context.WithoutCancel(t.Context()), http.MethodPost, path, body)
				go func() { <-stop; send.Close() }()
			}
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, c := range []struct {
			method, body string
			want         int
		}{{http.MethodGet, "", 200}, {http.MethodPost, `{"accessKey":"ada","secret":"secret"}`, 200}, {http.MethodPost, `{"accessKey":"ada","secret":"wrong"}`, 401}, {http.MethodDelete, "", 200}} {
			if got := request(ctx, c.method, "/api/session", strings.NewReader(c.body)); got != c.want || ctx.Err() != nil {
				t.Errorf("%s %s: %d, %v, want %d", c.method, c.body, got, ctx.Err(), c.want)
			}
		}
	})
}
