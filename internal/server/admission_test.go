package server

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// emptyService returns a service without tables.
func emptyService(t *testing.T) *ops.Service {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), engine, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return ops.New(ops.Parts{DB: d})
}

// A request that finds no free slot is rejected with the error after which
// clients retry, once it has waited for the whole time.
func TestTooManyRequestsAreRejected(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := New(emptyService(t), slog.New(slog.DiscardHandler), 0)
		fill := func() {
			t.Helper()
			began := time.Now()
			for range admission.LimitsFor(0).Requests {
				if err := h.slots.Acquire(t.Context(), 0, 0); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("free slots are acquired after %v", took)
			}
		}
		expectRejection := func() {
			t.Helper()
			const want = `{"__type":"com.amazon.coral.availability#ThrottlingException","message":"Rate of requests exceeds the allowed throughput."}`
			began := time.Now()
			status, text := post(h, "{}")
			if after := time.Since(began); status != 400 || text != want || after != admission.MaxSlotWait {
				t.Errorf("the reply is %d %s after %v", status, text, after)
			}
		}
		fill()
		expectRejection()
		for range admission.LimitsFor(0).Requests {
			h.slots.Release()
		}
		fill() // all slots are free again, and no more than these
		expectRejection()
	})
}

// Large bodies are decoded one after the other; smaller ones do not wait for them.
func TestLargeBodiesWaitForEachOther(t *testing.T) {
	const clients = 8
	for _, c := range []struct {
		name     string
		bytes    int
		answered int32 // while the slot for large bodies is taken
	}{
		{"large", admission.LargeBytes, 0},
		{"small", admission.LargeBytes - 1, clients},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				h := New(emptyService(t), slog.New(slog.DiscardHandler), 0)
				h.large = admission.NewLargeBodies(1)
				release := make(chan struct{})
				var running sync.WaitGroup
				running.Go(func() {
					if err := h.large.Run(t.Context(), 0, func() { <-release }); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				body := strings.Repeat(" ", c.bytes)
				var answered atomic.Int32
				for range clients {
					running.Go(func() {
						if status, text := post(h, body); status != 400 || !strings.Contains(text, "SerializationException") {
							t.Errorf("the reply is %d %s", status, text)
						}
						answered.Add(1)
					})
				}
				synctest.Wait()
				if got := answered.Load(); got != c.answered {
					t.Errorf("%d of %d requests are answered while the slot is taken, want %d", got, clients, c.answered)
				}
				close(release)
				running.Wait()
			})
		})
	}
}

// post sends a request and returns the reply.
func post(h *Handler, body string) (status int, text string) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", typeAmazon)
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
