package pipeline

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/documents/table"
)

// Metrics tell operators what the pipeline does.
type Metrics struct {
	Documents *prometheus.CounterVec
	Batches   *prometheus.CounterVec
	Retries   prometheus.Counter
	Reading   prometheus.Histogram
	Jobs      *prometheus.CounterVec
	Due       prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Documents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_settled_total", Help: "Documents that left processing, by status."}, []string{"status"}),
		Batches:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_batches_finished_total", Help: "Batches that got a verdict, by status."}, []string{"status"}),
		Retries:   prometheus.NewCounter(prometheus.CounterOpts{Name: "documents_retries_total", Help: "Documents that are to be tried again."}),
		Reading:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "documents_reading_seconds", Help: "Time to read one document.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		Jobs:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_jobs_total", Help: "Jobs that were done, by kind and outcome."}, []string{"kind", "outcome"}),
		Due:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "documents_jobs_due", Help: "Jobs that waited to be done when it was last looked, at most 80."}),
	}
	r.MustRegister(m.Documents, m.Batches, m.Retries, m.Reading, m.Jobs, m.Due)
	return m
}

func (m *Metrics) settled(s table.Status)  { m.Documents.WithLabelValues(string(s)).Inc() }
func (m *Metrics) finished(s table.Status) { m.Batches.WithLabelValues(string(s)).Inc() }
