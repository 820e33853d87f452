package stream

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Metrics are the metrics of a consumer.
type Metrics struct {
	events       *prometheus.CounterVec
	retries      prometheus.Counter
	commitFaults prometheus.Counter
	lag          *prometheus.GaugeVec
	delay        prometheus.Histogram
}

// NewMetrics creates and registers the metrics.
func NewMetrics(to prometheus.Registerer) *Metrics {
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goals_stream_events_total",
			Help: "Events by outcome: written, rejected, older, confirmed, expired, dead.",
		}, []string{"outcome"}),
		retries:      prometheus.NewCounter(prometheus.CounterOpts{Name: "goals_stream_retries_total", Help: "Events that were retried."}),
		commitFaults: prometheus.NewCounter(prometheus.CounterOpts{Name: "goals_stream_commit_faults_total", Help: "Commits of offsets that failed."}),
		lag:          prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "goals_stream_lag", Help: "Events that are not committed yet."}, []string{"partition"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "goals_stream_delay_seconds", Help: "Time from an event's arrival at the broker to its write.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600},
		}),
	}
	to.MustRegister(m.events, m.retries, m.commitFaults, m.lag, m.delay)
	return m
}

const lagEvery = 2 * time.Second

// watchLag polls the group's lag from the broker.
func (m *Metrics) watchLag(ctx context.Context, client *kgo.Client, group string, log *slog.Logger) {
	admin := kadm.NewClient(client)
	ticks := time.NewTicker(lagEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		lags, err := admin.Lag(ctx, group)
		if err == nil {
			err = lags.Error()
		}
		if err != nil {
			if ctx.Err() == nil {
				log.Warn("reading the lag from the broker failed", "error", err)
			}
			continue
		}
		lags.Each(func(l kadm.DescribedGroupLag) {
			for _, p := range l.Lag.Sorted() {
				if p.Lag >= 0 {
					m.lag.WithLabelValues(strconv.Itoa(int(p.Partition))).Set(float64(p.Lag))
				}
			}
		})
	}
}
