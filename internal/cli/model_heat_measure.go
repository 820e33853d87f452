package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/heat"
	"github.com/stator-db/stator/internal/model/prove"
)

// heatStart is the time of a private server at which its load begins. Limits change at
// the end of a minute, so it is the beginning of one.
var heatStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// measureHeat compares the forecast of a model with a private server, whose time is
// virtual: it passes only from one run to the next.
func measureHeat(ctx context.Context, m *model.Model, o heat.Options, p *progressLine) (c *heat.Comparison, err error) {
	var now atomic.Int64
	now.Store(heatStart.Add(-time.Hour).UnixNano()) // the items are stored before
	db, err := stator.Open(ctx, stator.Options{Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	endpoint := &apply.Endpoint{URL: "http://localhost", Client: &http.Client{Transport: handlerTransport{db.Handler()}}, Sign: signFor("us-east-1")}
	waiting := apply.Waiting{Every: 10 * time.Millisecond, Progress: func(*apply.Change, string) {}}
	if err := prove.Create(ctx, endpoint.Send, m, true, waiting); err != nil {
		return nil, err
	}
	return heat.Measure(ctx, &heat.Server{
		Send: endpoint.Send,
		StartThrottling: func(ctx context.Context, table string) error {
			_, err := endpoint.SendOwn(ctx, "SetThrottling", map[string]string{"TableName": table, "Throttling": "on"})
			return err
		},
		SetTime:  func(since time.Duration) { now.Store(heatStart.Add(since).UnixNano()) },
		Counters: func(ctx context.Context) (map[heat.Counter]float64, error) { return heatCounters(ctx, endpoint) },
	}, m, o, func(what string, done, all int) { p.update("%s: %d of %d", what, done, all) })
}

// heatMetrics are the metrics of units and throttled requests, without their prefix and
// suffix.
var heatMetrics = map[string]heat.Counter{
	"consumed_read_capacity_units":                   {},
	"consumed_write_capacity_units":                  {Write: true},
	"read_provisioned_throughput_throttle_events":    {Limit: throttle.Provisioned},
	"write_provisioned_throughput_throttle_events":   {Limit: throttle.Provisioned, Write: true},
	"read_key_range_throughput_throttle_events":      {Limit: throttle.KeyRange},
	"write_key_range_throughput_throttle_events":     {Limit: throttle.KeyRange, Write: true},
	"read_max_on_demand_throughput_throttle_events":  {Limit: throttle.OnDemandMax},
	"write_max_on_demand_throughput_throttle_events": {Limit: throttle.OnDemandMax, Write: true},
	"read_account_limit_throttle_events":             {Limit: throttle.Account},
	"write_account_limit_throttle_events":            {Limit: throttle.Account, Write: true},
}

// heatCounters reads the metrics of a server.
func heatCounters(ctx context.Context, server *apply.Endpoint) (map[heat.Counter]float64, error) {
	read, err := scrape(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	counters := make(map[heat.Counter]float64)
	for name, c := range heatMetrics {
		for s, value := range read.values {
			if s.name == "dynamodb_"+name+"_total" {
				c.Table, c.Index = s.table, s.index
				counters[c] = value
			}
		}
	}
	return counters, nil
}

// handlerTransport calls a handler in place of a network.
type handlerTransport struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	reply := &handlerReply{header: make(http.Header), status: http.StatusOK}
	t.ServeHTTP(reply, r)
	return &http.Response{StatusCode: reply.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: reply.header,
		Body: io.NopCloser(&reply.body), ContentLength: int64(reply.body.Len()), Request: r}, nil
}

// handlerReply is the reply of a handler.
type handlerReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *handlerReply) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *handlerReply) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *handlerReply) Write(b []byte) (int, error) { return r.body.Write(b) }
