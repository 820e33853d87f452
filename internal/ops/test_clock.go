package ops

import (
	"context"
	"math"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The modes of a clock in replies.
const (
	clockSystem  = "system"  // it cannot be set
	clockRunning = "running" // its time passes
	clockFrozen  = "frozen"
)

func (s *Service) getClock(context.Context, *api.GetClock) (*api.ClockReply, error) {
	return s.clockReply(), nil
}

func (s *Service) clockReply() *api.ClockReply {
	mode := clockSystem
	switch m := s.DB.Clock().Manual(); {
	case m == nil:
	case m.Running():
		mode = clockRunning
	default:
		mode = clockFrozen
	}
	return &api.ClockReply{Time: api.Time{Time: s.DB.Now()}, Mode: mode}
}

func (s *Service) setClock(ctx context.Context, in *api.SetClock) (*api.ClockReply, error) {
	return s.changeClock(ctx, func(m *clock.Manual) error { return m.Set(ctx, in.Time.Time) })
}

func (s *Service) advanceClock(ctx context.Context, in *api.AdvanceClock) (*api.ClockReply, error) {
	return s.changeClock(ctx, func(m *clock.Manual) error {
		by := min(max(*in.Seconds*float64(time.Second), math.MinInt64), math.MaxInt64/2)
		return m.Advance(ctx, time.Duration(by))
	})
}

func (s *Service) freezeClock(ctx context.Context, _ *api.FreezeClock) (*api.ClockReply, error) {
	return s.changeClock(ctx, func(m *clock.Manual) error { m.Freeze(); return nil })
}

func (s *Service) runClock(ctx context.Context, _ *api.RunClock) (*api.ClockReply, error) {
	return s.changeClock(ctx, func(m *clock.Manual) error { m.Run(); return nil })
}

func (s *Service) changeClock(ctx context.Context, change func(*clock.Manual) error) (*api.ClockReply, error) {
	if s.Fork() != "" {
		return nil, apierror.Validation("A fork has the clock of its server: send the request to the server itself")
	}
	if s.testClock == nil {
		return nil, apierror.Validation("The clock of this server cannot be changed: start it with --in-memory and --test-clock")
	}
	err := change(s.testClock)
	switch {
	case err == nil:
		return s.clockReply(), nil
	case ctx.Err() != nil: // the client is gone
		return nil, err
	}
	// Not wrapped: an error of the work in the background, such as throttling, is not one of this request,
	// which clients would send again.
	return nil, apierror.Validation("T%s", err.Error()[1:])
}
