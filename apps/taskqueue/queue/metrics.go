package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator watches.
type metrics struct {
	events    *prometheus.CounterVec
	seen      *prometheus.CounterVec
	conflicts prometheus.Counter
	records   prometheus.Counter
	lag       prometheus.Gauge
	waited    prometheus.Histogram
	took      *prometheus.HistogramVec
}

// measure makes the metrics of a service. Without a registerer they are counted
// and told to nobody.
func measure(r prometheus.Registerer, s *Service) *metrics {
	fine := []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60, 600, 3600}
	m := &metrics{
		events:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskqueue_events_total", Help: "Events that this server wrote."}, []string{"queue", "type"}),
		seen:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "taskqueue_stream_events_total", Help: "Events of all servers that the stream told."}, []string{"type"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Name: "taskqueue_claim_conflicts_total", Help: "Claims that came too late."}),
		records:   prometheus.NewCounter(prometheus.CounterOpts{Name: "taskqueue_stream_records_total", Help: "Records read from the stream."}),
		lag:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "taskqueue_stream_lag_seconds", Help: "Age of the last event when the stream told it."}),
		waited:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "taskqueue_wait_seconds", Help: "From when a task could run to its claim.", Buckets: fine}),
		took:      prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "taskqueue_request_seconds", Help: "Time that a request took, without waiting for tasks.", Buckets: fine}, []string{"request"}),
	}
	if r != nil {
		r.MustRegister(m.events, m.seen, m.conflicts, m.records, m.lag, m.waited, m.took, &depths{s})
	}
	return m
}

// time measures a request: what it returns is called at its end.
func (m *metrics) time(request string) func() {
	began := time.Now()
	return func() { m.took.WithLabelValues(request).Observe(time.Since(began).Seconds()) }
}

// depths tells how many tasks wait and run in each queue when it is asked.
type depths struct{ s *Service }

var (
	depth   = prometheus.NewDesc("taskqueue_tasks", "Tasks of a queue that this server knows, by state.", []string{"queue", "status"}, nil)
	waiting = prometheus.NewDesc("taskqueue_workers_waiting", "Workers that wait at this server.", []string{"queue"}, nil)
)

// Describe is for package prometheus.
func (d *depths) Describe(c chan<- *prometheus.Desc) {
	c <- depth
	c <- waiting
}

// Collect is for package prometheus.
func (d *depths) Collect(c chan<- prometheus.Metric) {
	for _, q := range d.s.Queues() {
		for status, n := range map[string]int{"PENDING": q.Pending, "DELAYED": q.Delayed, "PROCESSING": q.Running} {
			c <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(n), q.Name, status)
		}
		c <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(q.Waiting), q.Name)
	}
}
