package server

import (
	"net/http"
	"runtime"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/server/door"
)

// Expose adds metrics to those of the server. It is called before OnlyHosts and
// before the first request.
func (h *Handler) Expose(source func() []metrics.Metric) { h.metrics = append(h.metrics, source) }

// Busy reports whether the requests in progress can use all processors, so that
// work in the background would delay them.
func (h *Handler) Busy() bool { return h.slots.InUse() >= runtime.GOMAXPROCS(0) }

// writeMetrics answers with the metrics. Like a health check it needs no
// signature, as the programs that collect metrics do not sign; it has no name or
// value that a customer has chosen.
func (h *Handler) writeMetrics(a *door.Reply) {
	damage := h.service.DB.Damage()
	text := metrics.Append(a.Memory.Empty(),
		metrics.Metric{Name: "process_start_time_seconds", Help: "When the server was started.", Type: metrics.Gauge, Samples: metrics.Value(float64(h.started.UnixMilli()) / 1000)},
		metrics.Metric{Name: "go_goroutines", Help: "Goroutines of the process.", Type: metrics.Gauge, Samples: metrics.Value(float64(runtime.NumGoroutine()))},
		metrics.Metric{Name: "stator_requests_in_progress", Help: "Requests that are executed or wait for their turn.", Type: metrics.Gauge, Samples: metrics.Value(float64(h.slots.InUse()))},
		metrics.Metric{Name: "stator_damaged_files", Help: "Files in which damaged data was found since the start.", Type: metrics.Gauge, Samples: metrics.Value(float64(damage.Files))},
		metrics.Metric{Name: "stator_damaged_compactions_total", Help: "Compactions that failed because of damaged data.", Type: metrics.Counter, Samples: metrics.Value(float64(damage.Compactions))},
		metrics.Metric{Name: "stator_clock_step_seconds", Help: "By how much the wall clock was stepped while its time is not used; 0 if it was not.", Type: metrics.Gauge, Samples: metrics.Value(h.service.DB.Clock().Ahead().Seconds())},
	)
	for _, source := range h.metrics {
		text = metrics.Append(text, source()...)
	}
	a.Status, a.ContentType = http.StatusOK, metrics.ContentType
	a.Write(text)
}
