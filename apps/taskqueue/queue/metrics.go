package queue

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of a service.
type metrics struct {
	events    *prometheus.CounterVec
	seen      *prometheus.CounterVec
	conflicts prometheus.Counter
	records   prometheus.Counter
	lag       prometheus.Gauge
	waited    prometheus.Histogram
	took      *prometheus.HistogramVec
}

// measure creates the metrics of a service. A nil registerer leaves them
// unregistered.
func measure(r prometheus.Registerer, s *Service) *metrics {
	fine := []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60, 600, 3600}
	m := &metrics{
		events:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskqueue_events_total", Help: "Events that this server wrote."}, []string{"queue", "type"}),
		seen:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskqueue_stream_events_total", Help: "Events of all servers, as read from the stream."}, []string{"type"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Name: "taskqueue_claim_conflicts_total", Help: "Claims that lost against another claim."}),
		records:   prometheus.NewCounter(prometheus.CounterOpts{Name: "taskqueue_stream_records_total", Help: "Records read from the stream."}),
		lag:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "taskqueue_stream_lag_seconds", Help: "Age of the last event when it was read from the stream."}),
		waited:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "taskqueue_wait_seconds", Help: "Time from when a task could run to its claim.", Buckets: fine}),
		took:      prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "taskqueue_request_seconds", Help: "Duration of requests, without waiting for tasks.", Buckets: fine}, []string{"request"}),
	}
	if r != nil {
		r.MustRegister(m.events, m.seen, m.conflicts, m.records, m.lag, m.waited, m.took, &depths{s})
	}
	return m
}

// time starts the timer of a request; the returned function stops it.
func (m *metrics) time(request string) func() {
	began := time.Now()
	return func() { m.took.WithLabelValues(request).Observe(time.Since(began).Seconds()) }
}

// depths collects the numbers of waiting and running tasks of each queue.
type depths struct{ s *Service }

var (
	depth   = prometheus.NewDesc("taskqueue_tasks", "Tasks of a queue by status: PENDING, DELAYED and PROCESSING as this server knows them, DEAD and FAILED as counted in the index, up to 10,000.", []string{"queue", "status"}, nil)
	waiting = prometheus.NewDesc("taskqueue_workers_waiting", "Workers that wait for a task at this server.", []string{"queue"}, nil)
)

// Describe implements prometheus.Collector.
func (d *depths) Describe(c chan<- *prometheus.Desc) {
	c <- depth
	c <- waiting
}

// Collect implements prometheus.Collector.
func (d *depths) Collect(c chan<- prometheus.Metric) {
	for _, q := range d.s.Queues() {
		for status, n := range map[string]int{"PENDING": q.Pending, "DELAYED": q.Delayed, "PROCESSING": q.Running} {
			c <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(n), q.Name, status)
		}
		c <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(q.Waiting), q.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := d.s.Broken(ctx)
	if err != nil {
		d.s.log.Warn("counting dead and failed tasks failed; their metrics are left out", "error", err)
		return
	}
	for _, q := range counts.Queues {
		for status, n := range q.Tasks {
			c <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(n), q.Queue, string(status))
		}
	}
}
