package stream

import (
	"log/slog"
	"sync"
	"time"
)

// State is the state of a consumer's connection to Kafka.
type State struct {
	Available bool
	Since     time.Time // since when it is available, or not
	Reason    string    // why it is not
	Behind    int64     // events that are not handled yet, if it is available
}

// Health is the health of a consumer: whether Kafka responds. The batch view is served
// in any case.
type Health struct {
	log     *slog.Logger
	now     func() time.Time
	metrics *Metrics

	mutex sync.Mutex
	state State
	known bool
}

// NewHealth returns the health of a consumer that has not connected yet.
func NewHealth(metrics *Metrics, log *slog.Logger, now func() time.Time) *Health {
	return &Health{log: log, now: now, metrics: metrics, state: State{Since: now(), Reason: "connecting to Kafka"}}
}

// State returns the current state.
func (h *Health) State() State {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.state
}

// lost records that Kafka does not respond, and logs it once.
func (h *Health) lost(err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.metrics.connected.Set(0)
	h.state.Reason = err.Error()
	if h.known && !h.state.Available {
		return
	}
	h.known, h.state = true, State{Since: h.now(), Reason: err.Error()}
	h.log.Warn("Kafka does not respond: recent deposits are not shown until it does; retrying", "error", err)
}

// found records that Kafka responds, and how many events are not handled.
func (h *Health) found(behind int64) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.metrics.connected.Set(1)
	if !h.state.Available {
		h.log.Info("Kafka responds", "behind", behind, "after", h.now().Sub(h.state.Since).Round(time.Millisecond).String())
		h.state.Since = h.now()
	}
	h.known, h.state = true, State{Available: true, Since: h.state.Since, Behind: behind}
}
