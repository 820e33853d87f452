package server

import (
	"net/http"
	"runtime"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server/door"
)

// Expose adds metrics to those of the server. It is called before OnlyHosts and
// before the first request.
func (h *Handler) Expose(source func() []metrics.Metric) { h.metrics = append(h.metrics, source) }

// Busy reports whether the requests in progress can use all processors, so that
// work in the background would delay them.
func (h *Handler) Busy() bool { return h.slots.InUse() >= runtime.GOMAXPROCS(0) }

// count counts a fault as CloudWatch does: neither a failed condition nor a throttled
// request is an error of the user.
func (h *Handler) count(e *apierror.Error, of *apiRequest) {
	switch {
	case e.Status >= http.StatusInternalServerError:
		h.service.CountSystemError(of.operation, of.request)
	case apierror.IsThrottling(e) && e.Detail == nil: // by admission control, not because of a table
		h.rejections.overload.Add(1)
	case e.Code == "ConditionalCheckFailedException" || ops.IsThrottled(e):
	default:
		h.service.DB.Meter().Series(meter.ID{Name: meter.UserErrors}).Add(1)
	}
}

// writeMetrics answers with the metrics. Without keys it needs no
// signature, as the programs that collect metrics do not sign. They have names of
// tables, indexes and operations, and nothing else that a customer has chosen.
func (h *Handler) writeMetrics(a *door.Reply) {
	damage := h.service.DB.Damage()
	rejected := 0.0
	if h.service.DB.Writable() != nil {
		rejected = 1
	}
	text := metrics.Append(a.Memory.Empty(),
		metrics.Metric{Name: "process_start_time_seconds", Help: "When the server was started.", Type: metrics.Gauge, Samples: metrics.Value(float64(h.started.UnixMilli()) / 1000)},
		metrics.Metric{Name: "go_goroutines", Help: "Goroutines of the process.", Type: metrics.Gauge, Samples: metrics.Value(float64(runtime.NumGoroutine()))},
		metrics.Metric{Name: "stator_requests_in_progress", Help: "Requests that are executed or wait for their turn.", Type: metrics.Gauge, Samples: metrics.Value(float64(h.slots.InUse()))},
		metrics.Metric{Name: "stator_requests_waiting", Help: "Requests that wait for a slot or for memory.", Type: metrics.Gauge, Samples: metrics.Value(float64(h.slots.Waiting()))},
		metrics.Metric{Name: "stator_rejected_requests_total", Help: "Requests that were rejected because the server was overloaded.", Type: metrics.Counter, Samples: metrics.Value(float64(h.rejections.overload.Load()))},
		metrics.Metric{Name: "stator_writes_rejected", Help: "1 while writes are rejected: the disk is almost full, or the data folder was removed.", Type: metrics.Gauge, Samples: metrics.Value(rejected)},
		metrics.Metric{Name: "stator_damaged_files", Help: "Files in which damaged data was found since the start.", Type: metrics.Gauge, Samples: metrics.Value(float64(damage.Files))},
		metrics.Metric{Name: "stator_damaged_compactions_total", Help: "Compactions that failed because of damaged data.", Type: metrics.Counter, Samples: metrics.Value(float64(damage.Compactions))},
		metrics.Metric{Name: "stator_clock_step_seconds", Help: "By how much the wall clock was stepped while its time is not used; 0 if it was not.", Type: metrics.Gauge, Samples: metrics.Value(h.service.DB.Clock().Ahead().Seconds())},
	)
	text = metrics.Append(text, h.service.DB.EngineMetrics()...)
	text = metrics.Append(text, h.service.DB.Meter().Metrics()...)
	for _, source := range h.metrics {
		text = metrics.Append(text, source()...)
	}
	a.Status, a.ContentType = http.StatusOK, metrics.ContentType
	a.Write(text)
}
