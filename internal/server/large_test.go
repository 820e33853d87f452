package server

import (
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Large bodies are read one after the other; smaller ones do not wait for them.
func TestLargeBodiesWaitForEachOther(t *testing.T) {
	for _, c := range []struct {
		name    string
		bytes   int
		waiting int
	}{
		{"large", largeBytes, 8},
		{"small", largeBytes - 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := New(nil, slog.New(slog.DiscardHandler))
				h.large = newSlots(1, maxLargeWait)
				enter(t, h.large, 1)
				body := strings.Repeat(" ", c.bytes)
				var running sync.WaitGroup
				for range 8 {
					running.Go(func() {
						if status, text := ask(h, body); status != 400 || !strings.Contains(text, "SerializationException") {
							t.Errorf("it is answered %d %s", status, text)
						}
					})
				}
				synctest.Wait()
				if got := len(h.large.waiting); got != c.waiting {
					t.Errorf("%d wait, want %d", got, c.waiting)
				}
				h.large.release()
				running.Wait()
				idle(t, h.large, 1)
			})
		})
	}
}

// Of those that wait, a smaller one passes larger ones that came before it, but
// not for ever.
func TestSmallerBodiesComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, slog.New(slog.DiscardHandler))
		h.large = newSlots(1, maxLargeWait)
		enter(t, h.large, 1)
		var order []string
		var waiting sync.WaitGroup
		come := func(name string, bytes int) {
			waiting.Go(func() {
				if err := h.large.acquire(t.Context(), penalty(bytes)); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				order = append(order, name) // by one at a time
				h.large.release()
			})
			synctest.Wait()
		}
		come("16 MB", 16<<20)
		come("8 MB", 8<<20)
		come("1 MB", 1<<20)
		time.Sleep(time.Second)
		come("1 MB, a second later", 1<<20)
		h.large.release()
		waiting.Wait()
		if want := []string{"1 MB", "8 MB", "16 MB", "1 MB, a second later"}; !slices.Equal(order, want) {
			t.Errorf("they come in the order %q, want %q", order, want)
		}
		idle(t, h.large, 1)
	})
}

// ask sends a request, and tells how it is answered.
func ask(h *Handler, body string) (status int, text string) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", typeAmazon)
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// What panics on a thread of its own is told where it was asked for.
func TestAtLowPriorityTellsPanics(t *testing.T) {
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v, want a bug", p)
		}
	}()
	atLowPriority(func() { panic("a bug") })
	t.Error("it went on")
}
