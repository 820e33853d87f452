package stream

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Metrics are the metrics of a consumer.
type Metrics struct {
	events       *prometheus.CounterVec
	retries      prometheus.Counter
	commitFaults prometheus.Counter
	lag          *prometheus.GaugeVec
	connected    prometheus.Gauge
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
		connected:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "goals_stream_connected", Help: "Whether Kafka responds: 1 or 0."}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "goals_stream_delay_seconds", Help: "Time from an event's arrival at the broker to its write.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600},
		}),
	}
	to.MustRegister(m.events, m.retries, m.commitFaults, m.lag, m.connected, m.delay)
	return m
}

const lagEvery = 2 * time.Second

// watch polls the group's lag from the broker, which also shows whether it responds.
func (c *Consumer) watch(ctx context.Context, client *kgo.Client) {
	admin := kadm.NewClient(client)
	ticks := time.NewTicker(lagEvery)
	defer ticks.Stop()
	for {
		c.look(ctx, admin)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// look polls once.
func (c *Consumer) look(ctx context.Context, admin *kadm.Client) {
	behind, err := c.lag(ctx, admin)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, kerr.GroupIDNotFound): // no member has joined yet
	case err != nil:
		c.Health.lost(err)
	default:
		c.Health.found(behind)
	}
}

// lag returns how many events of the topic the group has not handled.
func (c *Consumer) lag(ctx context.Context, admin *kadm.Client) (behind int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	lags, err := admin.Lag(ctx, c.Group)
	if err != nil {
		return 0, err
	}
	if err := lags.Error(); err != nil {
		return 0, err
	}
	lags.Each(func(l kadm.DescribedGroupLag) {
		for _, p := range l.Lag.Sorted() {
			if p.Lag >= 0 {
				behind += p.Lag
				c.Metrics.lag.WithLabelValues(strconv.Itoa(int(p.Partition))).Set(float64(p.Lag))
			}
		}
	})
	return behind, nil
}

const lagTimeout = 5 * time.Second
