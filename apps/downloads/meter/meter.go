// Package meter counts events of the pipeline, for Prometheus and for live pages.
package meter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Meter counts events. Its methods may be called concurrently.
type Meter struct {
	// Changed is called when pages should reload; it must not block.
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

	mutex sync.Mutex
	last  map[string]time.Time // when a batch of a status last ended
}

// New returns a meter and registers its metrics.
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
		last:      make(map[string]time.Time),
		queued:    counter("queued_total", "Files that were queued."),
		batches:   vector("batches_total", "Batches that ended, by status.", "status"),
		messages:  vector("messages_total", "Messages received from the queue, by result.", "result"),
		jobs:      vector("jobs_total", "Files that ended, by status.", "status"),
		bytes:     counter("bytes_total", "Bytes that were written to the bucket."),
		recovered: vector("recovered_total", "Recoveries by kind: resent, released, given_up, resumed, renewed, lost.", "what"),
		checks: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "downloads_check_seconds", Help: "Duration of checks of a batch, by way: get or query.",
			Buckets: prometheus.ExponentialBuckets(.001, 3, 9)}, []string{"way"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "downloads_file_seconds", Help: "Time from claim to completion of a file.",
			Buckets: prometheus.ExponentialBuckets(.01, 4, 9)}),
		underway: prometheus.NewGauge(prometheus.GaugeOpts{Name: "downloads_underway", Help: "Files that this process is downloading."}),
		ended:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "downloads_batch_ended_timestamp_seconds", Help: "When the last batch of a status ended."}, []string{"status"}),
	}
	to.MustRegister(m.checks, m.seconds, m.underway, m.ended)
	return m
}

// Queued counts a job that was written and its message sent.
func (m *Meter) Queued() { m.queued.Inc(); m.Changed() }

// Batch counts the end of a batch.
func (m *Meter) Batch(status string) {
	m.batches.WithLabelValues(status).Inc()
	m.Earlier(status, time.Now().Format(time.RFC3339Nano))
	m.Changed()
}

// Earlier records when a batch ended before this process started.
func (m *Meter) Earlier(status, at string) {
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		if t.After(m.last[status]) {
			m.last[status] = t
			m.ended.WithLabelValues(status).Set(float64(t.UnixMilli()) / 1000)
		}
	}
}

// Checked records the duration of a check of a batch, and its way.
func (m *Meter) Checked(way string, took time.Duration) {
	m.checks.WithLabelValues(way).Observe(took.Seconds())
}

// Message counts a message by its result: claimed, stale, poisoned, unknown, retried.
func (m *Meter) Message(result string) { m.messages.WithLabelValues(result).Inc() }

// Started counts the start of a download; the returned function counts its end.
func (m *Meter) Started() (over func()) {
	m.underway.Inc()
	m.Changed()
	return m.underway.Dec
}

// Ended counts the end of a file.
func (m *Meter) Ended(status string) { m.jobs.WithLabelValues(status).Inc(); m.Changed() }

// Stored records the duration and size of a completed file.
func (m *Meter) Stored(bytes int64, took time.Duration) {
	m.bytes.Add(float64(bytes))
	m.seconds.Observe(took.Seconds())
}

// Recovered counts a recovery.
func (m *Meter) Recovered(what string) { m.recovered.WithLabelValues(what).Inc(); m.Changed() }
