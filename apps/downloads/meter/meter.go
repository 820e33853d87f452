// Package meter counts what the pipeline does, for Prometheus and for live pages.
package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Meter is told what happens. Its methods may be called at any time.
type Meter struct {
	// Changed is called when a page should look again; it must not block.
	Changed func()

	queued    prometheus.Counter
	batches   *prometheus.CounterVec
	checks    *prometheus.HistogramVec
	messages  *prometheus.CounterVec
	jobs      *prometheus.CounterVec
	bytes     prometheus.Counter
	seconds   prometheus.Histogram
	underway  prometheus.Gauge
	recovered *prometheus.CounterVec
	ended     *prometheus.GaugeVec
}

// New makes a meter and registers it.
func New(to prometheus.Registerer, changed func()) *Meter {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "downloads_" + name, Help: help})
		to.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "downloads_" + name, Help: help}, []string{label})
		to.MustRegister(v)
		return v
	}
	m := &Meter{
		Changed:   changed,
		queued:    counter("queued_total", "Files that were queued."),
		batches:   vector("batches_total", "Batches that ended, by status.", "status"),
		messages:  vector("messages_total", "Messages that were taken from the queue, by what came of them.", "result"),
		jobs:      vector("jobs_total", "Files that ended, by status.", "status"),
		bytes:     counter("bytes_total", "Bytes that were written to the bucket."),
		recovered: vector("recovered_total", "What was set right: resent, released, given_up, resumed, renewed, lost.", "what"),
		checks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "downloads_check_seconds", Help: "Looks at how a batch stands, by way: get or query.",
			Buckets: prometheus.ExponentialBuckets(.001, 3, 9)}, []string{"way"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "downloads_file_seconds", Help: "From claim to completion of a file.",
			Buckets: prometheus.ExponentialBuckets(.01, 4, 9)}),
		underway: prometheus.NewGauge(prometheus.GaugeOpts{Name: "downloads_underway", Help: "Files that this process is downloading."}),
		ended:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "downloads_batch_ended_timestamp_seconds", Help: "When the last batch of a status ended."}, []string{"status"}),
	}
	to.MustRegister(m.checks, m.seconds, m.underway, m.ended)
	return m
}

// Queued says that a job was written and its message sent.
func (m *Meter) Queued() { m.queued.Inc(); m.Changed() }

// Batch says how a batch ended.
func (m *Meter) Batch(status string) {
	m.batches.WithLabelValues(status).Inc()
	m.ended.WithLabelValues(status).SetToCurrentTime()
	m.Changed()
}

// Checked says how long a look at a batch took, and how it was done.
func (m *Meter) Checked(way string, took time.Duration) {
	m.checks.WithLabelValues(way).Observe(took.Seconds())
}

// Message says what came of a message: claimed, stale, poisoned, unknown, retried.
func (m *Meter) Message(result string) { m.messages.WithLabelValues(result).Inc() }

// Started says that a download begins; what comes back is to be called when it
// is over.
func (m *Meter) Started() (over func()) {
	m.underway.Inc()
	m.Changed()
	return m.underway.Dec
}

// Ended says how a file ended.
func (m *Meter) Ended(status string) { m.jobs.WithLabelValues(status).Inc(); m.Changed() }

// Stored says what a completed file took.
func (m *Meter) Stored(bytes int64, took time.Duration) {
	m.bytes.Add(float64(bytes))
	m.seconds.Observe(took.Seconds())
}

// Recovered says that something was set right.
func (m *Meter) Recovered(what string) { m.recovered.WithLabelValues(what).Inc(); m.Changed() }
