package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/api"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
)

func benchCommand(log *slog.Logger) *cobra.Command {
	var folder string
	var events, customers int
	var asJSON bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the time until an event is visible in the API, with everything embedded and on disk",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if folder == "" {
				return command.Usagef("--data is missing: an empty folder")
			}
			took, units, err := measure(c.Context(), folder, customers, events, log)
			if err != nil {
				return err
			}
			slices.Sort(took)
			at := func(part float64) time.Duration {
				return took[int(part*float64(len(took)-1))].Round(10 * time.Microsecond)
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{
					"events": events, "p50Ms": at(.5).Seconds() * 1000, "p99Ms": at(.99).Seconds() * 1000, "maxMs": at(1).Seconds() * 1000, "unitsPerRequest": units,
				})
			}
			fmt.Fprintf(c.OutOrStdout(), "time until an event is visible in the API: %s (median), %s (p99), %s (maximum of %d)\n", at(.5), at(.99), at(1), events)
			fmt.Fprintf(c.OutOrStdout(), "a request costs %.2f read units\n", units)
			return nil
		},
	}
	c.Flags().StringVar(&folder, "data", "", "an empty folder")
	c.Flags().IntVar(&events, "events", 500, "number of events, sent one after the other")
	c.Flags().IntVar(&customers, "customers", 1000, "number of customers")
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	return c
}

// measure sends events and polls the API, over a network connection, until each is
// visible.
func measure(ctx context.Context, folder string, customers, events int, log *slog.Logger) (took []time.Duration, units float64, err error) {
	p := &parts{}
	p.home.Data = folder
	tables, err := p.openTables(ctx, log)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	return p.measure(ctx, tables.DB, customers, events, log)
}

// measure is measure with open tables.
func (p *parts) measure(ctx context.Context, db *dynamodb.Client, customers, events int, log *slog.Logger) (took []time.Duration, units float64, err error) {
	source, err := p.openRules(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = source.Close() }()
	bucket, err := p.openGold(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = bucket.Close() }()
	state, err := p.openState(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = state.Close() }()
	kafka, stop, err := p.openKafka()
	if err != nil {
		return nil, 0, err
	}
	defer stop()
	plan := gold.Plan{Day: now().UTC().Format(time.DateOnly), AsOf: now().UTC(), Customers: customers, Seed: 1, Format: "parquet"}
	if _, err := gold.Generate(ctx, bucket, plan); err != nil {
		return nil, 0, err
	}
	_, err = batch.Run(ctx, batch.Options{Day: plan.Day, Bucket: bucket, State: state, Rules: source, DB: db, Work: filepath.Join(p.data, "work"), Log: log, Now: now, Readers: 2, Writers: 8, VanishPercent: 100})
	if err != nil {
		return nil, 0, err
	}
	server := &api.Server{Tables: &goals.Tables{DB: db, Now: now}, Live: &api.Live{Poll: poll}, Log: log}
	metrics := prometheus.NewRegistry()
	front := httptest.NewUnstartedServer(server.Handler(metrics))
	if front.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, 0, err
	}
	front.Start()
	defer front.Close()
	consuming, quit := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- newConsumer(kafka, &membership{group: "bench"}, source, server.Tables, stream.NewMetrics(metrics), log).Run(consuming)
	}()
	defer func() { quit(); err = errors.Join(err, <-ended) }()
	producer, err := stream.NewProducer(ctx, kafka, stream.DefaultTopics)
	if err != nil {
		return nil, 0, err
	}
	defer producer.Close()
	var requests int
	for i := range events + 1 {
		person := gold.Person(plan.Seed, i%customers).String()
		balance := goals.Money(100_000 + i)
		began := time.Now()
		err := producer.Send(ctx, goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: person, Product: "SAV", OccurredAt: began.UTC(), Balance: &balance})
		if err != nil {
			return nil, 0, err
		}
		for {
			seen, cost, err := ask(ctx, front.URL+"/api/people/"+person+"/goals", `"savedAmount":`+balance.String()+`,"status":"PENDING_CONFIRMATION"`)
			if err != nil {
				return nil, 0, err
			}
			requests++
			units += cost
			if seen {
				break
			}
		}
		if i > 0 { // the first one includes joining the group
			took = append(took, time.Since(began))
		}
	}
	return took, units / float64(requests), nil
}

func ask(ctx context.Context, url, want string) (seen bool, units float64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, 0, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return false, 0, fmt.Errorf("get %s: status %d, %w", url, answer.StatusCode, err)
	}
	_, err = fmt.Sscan(answer.Header.Get("X-Read-Units"), &units)
	return strings.Contains(string(body), want), units, err
}
