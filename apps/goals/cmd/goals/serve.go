package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/api"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/demo"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/web"
)

// openServing opens the address and the tables of a command that serves HTTP.
func (p *parts) openServing(ctx context.Context, address *web.Address, log *slog.Logger) (net.Listener, *home.Home, func() error, error) {
	listener, err := address.Open()
	if err != nil {
		return nil, nil, nil, err
	}
	tables, err := p.openTables(ctx, log)
	if err != nil {
		return nil, nil, nil, errors.Join(err, listener.Close())
	}
	closeBoth := func() error {
		_ = listener.Close() // the server has closed it already
		return tables.Close()
	}
	return listener, tables, closeBoth, nil
}

// poll is how often a live page checks for changes of other processes.
const poll = 30 * time.Second

func serveCommand(log *slog.Logger) *cobra.Command {
	p, f := new(parts), new(web.Address)
	var alone bool
	var currency string
	member, nightly := new(membership), new(scheduleFlags)
	o := batch.Options{Log: log, Now: now}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the app's API and page, and consume the stream",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			ctx := c.Context()
			listener, tables, closeBoth, err := p.openServing(ctx, f, log)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closeBoth()) }()
			if tables.Address != "" {
				log.Info("the embedded stator listens", "endpoint", "http://"+tables.Address)
			}
			metrics := web.Registry()
			server := &api.Server{Tables: &goals.Tables{DB: tables.DB, Now: now}, Live: &api.Live{Poll: poll}, Log: log, Currency: currency}
			handler := server.Handler(metrics)
			plan, err := nightly.parse(metrics)
			if err != nil {
				return err
			}
			all, ctx := errgroup.WithContext(ctx)
			source, err := p.openRules(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = source.Close() }()
			kafka, reward, stop, err := p.openServeKafka(alone, plan != nil)
			if err != nil {
				return err
			}
			defer stop()
			o.Reward = reward
			if plan != nil {
				o.Rules, o.DB = source, tables.DB
				closeBuckets, err := p.openRun(ctx, &o)
				if err != nil {
					return err
				}
				defer closeBuckets()
				plan.log, plan.done = log, func(*batch.Report) { server.Live.ChangedAll() }
				plan.loaded = func(ctx context.Context) (string, time.Time, error) { return batch.LoadedDay(ctx, o.DB, o.State) }
				plan.load = func(ctx context.Context, day string) (*batch.Report, error) {
					o.Day = day
					return batch.Run(ctx, o)
				}
				log.Info("loading each day", "at", nightly.at, "zone", nightly.zone)
				all.Go(func() error { return plan.run(ctx) })
			}
			if !alone {
				log.Info("consuming the stream", "kafka", strings.Join(kafka.Brokers, ","))
				consumer := newConsumer(kafka, member, source, server.Tables, stream.NewMetrics(metrics), log)
				consumer.Changed, server.Stream = server.Live.Changed, consumer.Health.State
				all.Go(func() error { return consumer.Run(ctx) })
			}
			log.Info("serving", "url", "http://"+listener.Addr().String())
			all.Go(func() error { return web.Serve(ctx, listener, handler, log) })
			return all.Wait()
		},
	}
	f.Flags(c.Flags(), "127.0.0.1:8080")
	p.tableFlags(c.Flags())
	p.rulesFlag(c.Flags())
	p.kafka.flags(c.Flags(), "; the default is an embedded broker")
	member.flags(c)
	p.loadFlags(c.Flags())
	runFlags(c.Flags(), &o)
	nightly.flags(c.Flags())
	c.Flags().StringVar(&currency, "currency", "USD", "code of the currency of all amounts, such as BRL")
	c.Flags().BoolVar(&alone, "without-stream", false, "leave the stream to `goals consume`")
	return c
}

// openServeKafka returns how Kafka is reached, and where scheduled loads send their
// rewards. They need Kafka also without the stream: a run records its rewards as
// ordered, and no later run sends them.
func (p *parts) openServeKafka(alone, scheduled bool) (kafka stream.Kafka, reward func(context.Context, []goals.Reward) error, stop func(), err error) {
	stop = func() {}
	switch {
	case !alone:
		kafka, stop, err = p.openKafka()
	case !scheduled:
		return kafka, nil, stop, nil
	case p.kafka.addresses == "":
		return kafka, nil, nil, command.Usagef("--load-at with --without-stream needs --kafka: the addresses of the brokers to which rewards are sent")
	default:
		kafka, err = p.kafka.settings()
	}
	if err != nil {
		return kafka, nil, nil, err
	}
	return kafka, rewardsTo(kafka), stop, nil
}

// membership identifies a member of a consumer group.
type membership struct{ group, instance string }

func (m *membership) flags(c *cobra.Command) {
	c.Flags().StringVar(&m.group, "group", "goals", "the consumer group")
	c.Flags().StringVar(&m.instance, "instance", "", "unique name of this member, so that a restart takes over its partitions at once")
}

func newConsumer(kafka stream.Kafka, m *membership, source *rules.Source, tables *goals.Tables, metrics *stream.Metrics, log *slog.Logger) *stream.Consumer {
	known := &rules.Cached{Source: source, Log: log, Now: now}
	return &stream.Consumer{
		Kafka: kafka, Group: m.group, Instance: m.instance, Topics: stream.DefaultTopics,
		Goal: known.Goal, Save: tables.Save, Metrics: metrics, Health: stream.NewHealth(metrics, log, now), Log: log, Now: now,
	}
}

func consumeCommand(log *slog.Logger) *cobra.Command {
	p, f, member := new(parts), new(web.Address), new(membership)
	c := &cobra.Command{
		Use:   "consume",
		Short: "Consume the stream: deposit events become pending balances",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if p.kafka.addresses == "" {
				return command.Usagef("--kafka is missing: the addresses of the brokers; `goals serve` consumes an embedded broker")
			}
			kafka, err := p.kafka.settings()
			if err != nil {
				return err
			}
			ctx := c.Context()
			listener, tables, closeBoth, err := p.openServing(ctx, f, log)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closeBoth()) }()
			source, err := p.openRules(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = source.Close() }()
			metrics := web.Registry()
			consumer := newConsumer(kafka, member, source, &goals.Tables{DB: tables.DB, Now: now}, stream.NewMetrics(metrics), log)
			mux := http.NewServeMux()
			web.Operate(mux, metrics, func(context.Context) error {
				if s := consumer.Health.State(); !s.Available {
					return fmt.Errorf("the broker of Kafka does not respond since %s: %s", s.Since.UTC().Format(time.RFC3339), s.Reason)
				}
				return nil
			})
			log.Info("consuming", "kafka", p.kafka.addresses, "metrics", "http://"+listener.Addr().String()+"/metrics")
			all, ctx := errgroup.WithContext(ctx)
			all.Go(func() error { return consumer.Run(ctx) })
			all.Go(func() error { return web.Serve(ctx, listener, mux, log) })
			return all.Wait()
		},
	}
	f.Flags(c.Flags(), "127.0.0.1:8081")
	p.tableFlags(c.Flags())
	p.rulesFlag(c.Flags())
	p.kafka.flags(c.Flags(), "")
	member.flags(c)
	return c
}

func demoCommand(log *slog.Logger) *cobra.Command {
	f := new(web.Address)
	var customers int
	var perSecond float64
	var dynamo string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a demonstration: generated customers, a broker, tables, deposits, and the app's page",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			listener, err := f.Open()
			if err != nil {
				return err
			}
			defer listener.Close()
			return show(c.Context(), listener, customers, perSecond, dynamo, log)
		},
	}
	f.Flags(c.Flags(), "127.0.0.1:8080")
	c.Flags().IntVar(&customers, "customers", 1000, "number of customers")
	c.Flags().Float64Var(&perSecond, "deposits-per-second", 2, "generated deposits per second, for the first twelve customers; 0 for none")
	c.Flags().StringVar(&dynamo, "dynamodb", "", "address on which the embedded stator listens for DynamoDB requests, such as 127.0.0.1:8000")
	return c
}

// show runs everything in this process, in a temporary folder that is removed.
func show(ctx context.Context, listener net.Listener, customers int, perSecond float64, dynamo string, log *slog.Logger) (err error) {
	folder, err := os.MkdirTemp("", "goals-demo-")
	if err != nil {
		return fmt.Errorf("create a folder for the demonstration: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	p := &parts{}
	p.home.DynamoDB = dynamo
	tables, err := p.openTables(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	if tables.Address != "" {
		log.Info("the embedded stator listens", "endpoint", "http://"+tables.Address)
	}
	p.data = folder
	source, err := p.openRules(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	bucket, err := p.openGold(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = bucket.Close() }()
	state, err := p.openState(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	kafka, stop, err := p.openKafka()
	if err != nil {
		return err
	}
	defer stop()
	producer, err := stream.NewProducer(ctx, kafka, stream.DefaultTopics)
	if err != nil {
		return err
	}
	defer producer.Close()

	metrics := web.Registry()
	server := &api.Server{Tables: &goals.Tables{DB: tables.DB, Now: now}, Live: &api.Live{Poll: poll}, Log: log}
	bank := &demo.Bank{
		Rules: source, Producer: producer, Bucket: bucket, Changed: server.Live.Changed, Log: log, Now: now,
		Plan:  gold.Plan{Customers: customers, Seed: 1, Format: "parquet"},
		Batch: batch.Options{Bucket: bucket, State: state, Rules: source, DB: tables.DB, Work: filepath.Join(folder, "work"), Log: log, Now: now, Readers: runtime.GOMAXPROCS(0), Writers: 8, VanishPercent: 100, Reward: producer.SendRewards},
	}
	if err := bank.Night(ctx); err != nil {
		return err
	}
	for i := range min(12, customers) {
		c, _ := bank.Plan.Made(i)
		server.Samples = append(server.Samples, api.Sample{PersonID: c.PersonID, Name: c.Name, Language: c.Language})
	}
	var people []string
	for _, s := range server.Samples {
		people = append(people, s.PersonID)
	}
	server.Bank, server.Currency = bank, "BRL"
	handler := server.Handler(metrics)
	consumer := newConsumer(kafka, &membership{group: "goals"}, source, server.Tables, stream.NewMetrics(metrics), log)
	consumer.Changed, server.Stream = server.Live.Changed, consumer.Health.State
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return consumer.Run(ctx) })
	all.Go(func() error { return web.Serve(ctx, listener, handler, log) })
	if perSecond > 0 && customers > 0 {
		all.Go(func() error { return bank.Traffic(ctx, people, perSecond) })
	}
	page := "http://" + listener.Addr().String()
	if len(server.Samples) > 0 {
		page += "/people/" + people[0]
	}
	fmt.Fprintln(os.Stdout, "open", page)
	log.Info("serving", "url", "http://"+listener.Addr().String())
	return all.Wait()
}
