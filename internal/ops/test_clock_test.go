package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/store/pebble"
)

// The reply to a move during which background work fails says so, also if the error of the work has
// another meaning for a client. If the client is gone, there is no reply.
func TestClockReportsWorkThatFailed(t *testing.T) {
	m := clock.NewManual(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	on := clock.Controlled(m)
	storage := pebble.InMemory()
	storage.Now = m.Now
	e, err := pebble.Open(storage)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	d, err := db.Open(t.Context(), e, db.Options{Clock: on})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := &Service{DB: d, testClock: m}
	hour := 3600.0
	for _, why := range []error{errors.New("a full disk"), fmt.Errorf("work: %w", apierror.Throttled()), context.Canceled} {
		on.Begin()
		go func() {
			defer on.End()
			on.Wait(t.Context(), clock.Waiting{For: time.Minute})
			on.Fail(why)
		}()
		_, err := s.advanceClock(t.Context(), &api.AdvanceClock{Seconds: &hour})
		var fault *apierror.Error
		if !errors.As(err, &fault) || fault.Code != "ValidationException" || !strings.HasPrefix(fault.Message, "The clock shows 2026-11-01T") || !strings.HasSuffix(fault.Message, why.Error()) {
			t.Errorf("work that failed with %v gives %v", why, err)
		}
		if errors.Is(err, why) {
			t.Errorf("%v is wrapped", why)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.advanceClock(gone, &api.AdvanceClock{Seconds: &hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("without a client: %v", err)
	}
}
