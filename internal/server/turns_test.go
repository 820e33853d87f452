package server

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is too much is refused with the error after which clients try again, when
// it has waited: in the line, or behind it when that is long.
func TestTooManyRequestsAreToldToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, slog.New(slog.DiscardHandler))
		ask := func() (status int, body string, after time.Duration) {
			r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
			r.Header.Set("Content-Type", typeAmazon)
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
			r.Header.Set("X-Amz-Date", "20260101T000000Z")
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any")
			w := httptest.NewRecorder()
			began := time.Now()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String(), time.Since(began)
		}
		const want = `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"Rate of requests exceeds the allowed throughput."}`
		for range maxUnderWay {
			h.turns.enter(t.Context())
		}
		if status, body, after := ask(); status != 400 || body != want || after != turnPatience {
			t.Errorf("one more is answered %d %s after %v", status, body, after)
		}
		var waiting sync.WaitGroup
		var given atomic.Int64
		for range maxWaiting {
			waiting.Go(func() {
				if h.turns.enter(t.Context()) == nil {
					given.Add(1)
				}
			})
		}
		synctest.Wait()
		waiting.Go(func() {
			if status, body, after := ask(); status != 400 || body != want || after != turnPatience {
				t.Errorf("one behind a long line is answered %d %s after %v", status, body, after)
			}
		})
		synctest.Wait()
		for range maxUnderWay {
			h.turns.leave()
		}
		waiting.Wait()
		if given.Load() != maxUnderWay {
			t.Errorf("%d of those who waited got their turn, want %d", given.Load(), maxUnderWay)
		}
		for range maxUnderWay {
			h.turns.leave()
		}
		if h.turns.waiting.Load() != 0 || len(h.turns.taken) != 0 {
			t.Errorf("%d wait and %d are under way at the end", h.turns.waiting.Load(), len(h.turns.taken))
		}
	})
}

func BenchmarkTurn(b *testing.B) {
	turns := newTurns()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if turns.enter(b.Context()) == nil {
				turns.leave()
			}
		}
	})
}
