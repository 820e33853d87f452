package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
)

func loadCommand(log *slog.Logger) *cobra.Command {
	p, o := new(parts), batch.Options{Log: log, Now: now}
	var asJSON bool
	var memory int64
	c := &cobra.Command{
		Use:   "load",
		Short: "Run the nightly batch: compute the batch view from a day's gold files",
		Long: `Run the nightly batch: compute the batch view from a day's gold files.

A run that was killed continues when it is started again with the same flags.
Running a day again gives the same table.`,
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if _, err := dayEnd(o.Day, ""); err != nil {
				return err
			}
			ctx := c.Context()
			debug.SetMemoryLimit(memory << 20)
			p.home.CacheBytes = loadCache
			tables, err := p.openTables(ctx, log)
			if err != nil {
				return p.inUse(err, o.Day)
			}
			defer func() { err = errors.Join(err, tables.Close()) }()
			o.DB = tables.DB
			if o.Rules, err = p.openRules(ctx); err != nil {
				return err
			}
			defer func() { _ = o.Rules.Close() }()
			closeBuckets, err := p.openRun(ctx, &o)
			if err != nil {
				return err
			}
			defer closeBuckets()
			if p.kafka.addresses != "" {
				kafka, err := p.kafka.settings()
				if err != nil {
					return err
				}
				o.Reward = rewardsTo(kafka)
			}
			show := startProgress(os.Stderr)
			o.OnProgress = show.update
			done, err := batch.Run(ctx, o)
			show.stop()
			if err != nil {
				return err
			}
			return report(c.OutOrStdout(), done, tables.Stator != nil, asJSON)
		},
	}
	f := c.Flags()
	p.tableFlags(f)
	p.rulesFlag(f)
	p.loadFlags(f)
	p.kafka.flags(f, ", to which rewards are sent; the default is to list them only")
	f.StringVar(&o.Day, "day", today(), "the day to load, such as 2026-05-15; the default is today in UTC")
	runFlags(f, &o)
	f.BoolVar(&o.Rollback, "rollback", false, "allow a day that is older than the one loaded")
	f.BoolVar(&o.TakeOver, "take-over", false, "load although another run is unfinished, if its process has ended")
	f.Int64Var(&memory, "memory", 150, "memory limit of the garbage collector in MiB")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

// loadCache is the cache of the embedded tables during a load, which reads nothing from
// them.
const loadCache = 8 << 20

// runFlags are the flags of a run, by command or on schedule.
func runFlags(f *pflag.FlagSet, o *batch.Options) {
	f.IntVar(&o.Readers, "readers", runtime.GOMAXPROCS(0), "concurrent files of a load")
	f.IntVar(&o.Writers, "writers", 8, "concurrent requests of a load to the table")
	f.Float64Var(&o.PerSec, "items-per-second", 0, "maximum of items that a load writes per second; 0 means no limit")
	f.Int64Var(&o.Rejected, "reject-up-to", 0, "number of invalid rows that are skipped and listed before a load ends")
	f.IntVar(&o.VanishPercent, "vanish-percent", 20, "maximum share of the customers that a load may remove")
}

// openRun opens the buckets of a run.
func (p *parts) openRun(ctx context.Context, o *batch.Options) (closeAll func(), err error) {
	if o.Bucket, err = p.openGold(ctx); err != nil {
		return nil, err
	}
	if o.State, err = p.openState(ctx); err != nil {
		return nil, errors.Join(err, o.Bucket.Close())
	}
	o.Work = p.workFolder()
	return func() { _, _ = o.Bucket.Close(), o.State.Close() }, nil
}

// rewardsTo returns a function that sends rewards to Kafka.
func rewardsTo(kafka stream.Kafka) func(context.Context, []goals.Reward) error {
	return func(ctx context.Context, some []goals.Reward) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		p, err := stream.NewProducer(ctx, kafka, stream.DefaultTopics)
		if err != nil {
			return err
		}
		defer p.Close()
		return p.SendRewards(ctx, some)
	}
}

// inUse explains how to load while a server has the folder open.
func (p *parts) inUse(err error, day string) error {
	var locked *stator.LockedError
	if !errors.As(err, &locked) {
		return err
	}
	where, bad := folderURL(filepath.Join(p.data, "gold"))
	if bad != nil {
		return err
	}
	return fmt.Errorf(`%w
       a server loads each night by itself with: goals serve --data %[2]s --load-at 03:30
       or start it with --dynamodb 127.0.0.1:8000 and load through it:
       goals load --endpoint http://127.0.0.1:8000 --bucket '%[3]s' --rules %[2]s/rules.db --day %[4]s`, err, p.data, where, day)
}

// progress shows the progress of a run, once a second.
type progress struct {
	last  atomic.Pointer[batch.Progress]
	began time.Time
	end   chan struct{}
	ended chan struct{}
}

func startProgress(to io.Writer) *progress {
	p := &progress{began: time.Now(), end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		var before batch.Progress
		for {
			select {
			case <-p.end:
				return
			case <-ticks.C:
			}
			at := p.last.Load()
			if at == nil {
				continue
			}
			perSecond := at.Done
			if at.Stage == before.Stage {
				perSecond -= before.Done
			}
			fmt.Fprintf(to, "%-8s %s of %s  %s/s  %s\n", at.Stage, commas(at.Done), commas(at.Total), commas(perSecond), time.Since(p.began).Round(time.Second))
			before = *at
		}
	}()
	return p
}

func (p *progress) update(at batch.Progress) { p.last.Store(&at) }

func (p *progress) stop() {
	close(p.end)
	<-p.ended
}

func report(to io.Writer, r *batch.Report, embedded, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(to).Encode(struct {
			*batch.Report
			MemoryBytes int64 `json:"peakMemoryBytes"`
		}{r, peakMemory()})
	}
	fmt.Fprintf(to, "day        %s, settled until %s\n", r.Day, r.AsOf.UTC().Format(time.RFC3339))
	fmt.Fprintf(to, "customers  %s (%s written now, %s sent again, %s removed)\n", commas(r.Customers), commas(r.Written), commas(r.Retried), commas(r.Removed))
	fmt.Fprintf(to, "rows       %s (%s rejected, %s of earlier months, %s without a customer)\n", commas(r.Rows), commas(r.Rejected), commas(r.Outside), commas(r.Unowned))
	if r.RejectedList != "" {
		fmt.Fprintf(to, "rejected   listed in %s of the state's bucket\n", r.RejectedList)
	}
	fmt.Fprintf(to, "took       %.1f s, %s customers per second\n", r.Seconds, commas(int64(float64(r.Written)/max(r.Seconds, .001))))
	fmt.Fprintf(to, "rewards    %s goals reached, or with more saved, since the last run\n", commas(r.Rewards))
	if r.RewardList != "" {
		fmt.Fprintf(to, "           listed in %s of the state's bucket\n", r.RewardList)
	}
	tables := ""
	if embedded {
		tables = ", embedded tables included"
	}
	fmt.Fprintf(to, "memory     %s MiB at its peak%s\n", commas(peakMemory()>>20), tables)
	return nil
}

func generateCommand(log *slog.Logger) *cobra.Command {
	p := new(parts)
	plan := gold.Plan{Seed: 1}
	var asOf string
	c := &cobra.Command{
		Use:   "generate",
		Short: "Generate gold files of a day",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if plan.AsOf, err = dayEnd(plan.Day, asOf); err != nil {
				return err
			}
			p.data = p.home.Data
			bucket, err := p.openGold(c.Context())
			if err != nil {
				return err
			}
			defer func() { _ = bucket.Close() }()
			m, err := gold.Generate(c.Context(), bucket, plan)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "day %s: %s rows in %d files, settled until %s\n", m.Day, commas(m.Rows()), len(m.Customers)+len(m.Contributions), m.AsOf.Format(time.RFC3339))
			first, _ := plan.Made(plan.First)
			fmt.Fprintf(c.OutOrStdout(), "the first customer is %s, %s\n", first.Name, first.PersonID)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&p.home.Data, "data", "", "folder for embedded parts; the files are written to gold/ in it")
	p.bucketFlags(f)
	f.StringVar(&plan.Day, "day", today(), "the day")
	f.StringVar(&asOf, "as-of", "", "the time until which contributions are settled (default the first second of the day)")
	f.IntVar(&plan.Customers, "customers", 1000, "number of customers")
	f.IntVar(&plan.First, "first", 0, "number of the first customer; with 10, ten customers have vanished and ten are new")
	f.Uint64Var(&plan.Seed, "seed", 1, "seed of the customers")
	f.IntVar(&plan.PartRows, "customers-per-file", 50_000, "customers per file")
	f.StringVar(&plan.Format, "format", "parquet", "parquet or jsonl")
	f.StringVar(&plan.Compression, "compression", "snappy", "compression of Parquet: none, snappy, gzip or zstd")
	return c
}

// today returns the day in UTC.
func today() string { return now().UTC().Format(time.DateOnly) }

func dayEnd(day, asOf string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return t, command.Usagef("--day is %q, but must be like 2026-05-15", day)
	}
	if asOf == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, asOf); err != nil {
		return t, command.Usagef("--as-of is %q, but must be like 2026-05-15T03:00:00Z", asOf)
	}
	return t.UTC(), nil
}

// commas formats a number with commas.
func commas(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
