package pipeline

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/documents/table"
)

// Metrics are the metrics of the pipeline.
type Metrics struct {
	Documents *prometheus.CounterVec
	Batches   *prometheus.CounterVec
	Retries   prometheus.Counter
	Reading   prometheus.Histogram
	Jobs      *prometheus.CounterVec
	Due       prometheus.Gauge
	Reports   *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Documents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_settled_total", Help: "Documents that left processing, by status."}, []string{"status"}),
		Batches:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_batches_finished_total", Help: "Batches that were finished, by status."}, []string{"status"}),
		Retries:   prometheus.NewCounter(prometheus.CounterOpts{Name: "documents_retries_total", Help: "Documents that are retried."}),
		Reading:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "documents_reading_seconds", Help: "Time to read one document.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		Jobs:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_jobs_total", Help: "Jobs that were executed, by kind and outcome."}, []string{"kind", "outcome"}),
		Due:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "documents_jobs_due", Help: "Due jobs at the last look, at most 80."}),
	}
	m.Reports = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "documents_reports_total", Help: "Reports of finished batches, by kind and outcome."}, []string{"kind", "outcome"})
	r.MustRegister(m.Reports, m.Documents, m.Batches, m.Retries, m.Reading, m.Jobs, m.Due)
	return m
}

func (m *Metrics) settled(s table.Status)  { m.Documents.WithLabelValues(string(s)).Inc() }
func (m *Metrics) finished(s table.Status) { m.Batches.WithLabelValues(string(s)).Inc() }
