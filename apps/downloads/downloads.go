// Package downloads is the daily download pipeline: it connects the poller, the
// downloader, the sweep and the page.
package downloads

import (
	"bytes"
	"context"
	"crypto/rsa"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/downloads/downloader"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/downloads/poller"
	"github.com/stator-db/stator/apps/downloads/queue"
	"github.com/stator-db/stator/apps/downloads/seal"
	"github.com/stator-db/stator/apps/downloads/upstream"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/web"
)

// Model is the text of the tables' model, as they are in production.
//
//go:embed downloads.model.yaml
var Model []byte

// Production is the environment whose tables can be recovered to a point in time.
const Production = "prod"

var environments = []string{"dev", "test", "staging", Production}

// ModelOf returns the text of the tables' model in an environment. In all but Production
// the data are synthetic and not worth the price of recovery.
func ModelOf(environment string) []byte {
	if environment == Production {
		return Model
	}
	return bytes.ReplaceAll(Model, []byte("recovery: true"), []byte("recovery: false"))
}

// Options configure a process of the pipeline.
type Options struct {
	Home        home.Options
	Environment string

	Poll     bool // run the poller
	Download bool // run the downloader

	Upstream  string // URL of the API
	TokenFile string // file with the API's bearer token
	KeyFile   string // PEM of the private RSA key
	Topic     string // URL of the queue for sending
	Sub       string // URL of the queue for receiving
	Bucket    string // URL

	Schedule string // time of the day; none if empty
	Zone     string
	DaysBack int
	Resume   int // days

	Every    time.Duration
	Timeout  time.Duration
	Small    int
	Parallel int
	MaxSize  int64
	Lease    time.Duration
	Stall    time.Duration
	Backoff  time.Duration
	Attempts int
	Resend   time.Duration
	MaxTries int

	Now func() time.Time // defaults to time.Now
	Log *slog.Logger
}

// SmallBatch is up to how many open files a batch is checked file by file. The
// README has the measurement.
const SmallBatch = 16

// Defaults returns the default options: everything, in memory.
func Defaults() Options {
	return Options{
		Environment: "dev",
		Poll:        true, Download: true,
		Topic: "mem://files", Sub: "mem://files", Bucket: "mem://",
		Zone: "UTC", Resume: 7,
		Every: 10 * time.Second, Timeout: 2 * time.Hour, Small: SmallBatch,
		Parallel: 8, MaxSize: 10 << 30, Lease: 30 * time.Second, Stall: 30 * time.Second, Backoff: time.Second, Attempts: 6,
		Resend: 2 * time.Minute, MaxTries: 5,
	}
}

// Flags adds the flags of the options.
func (o *Options) Flags(f *pflag.FlagSet) {
	o.Home.Flags(f)
	f.StringVar(&o.Environment, "environment", o.Environment, "dev, test, staging or prod; the tables of prod can be recovered to a point in time")
	f.StringVar(&o.Upstream, "upstream", o.Upstream, "URL of the upstream's API")
	f.StringVar(&o.TokenFile, "upstream-token-file", o.TokenFile, "file with the bearer token of the upstream's API")
	if o.Poll {
		f.StringVar(&o.Topic, "topic", o.Topic, "URL of the queue for sending: mem://, awssqs://, rabbit:// or nats://")
		f.StringVar(&o.Schedule, "schedule", o.Schedule, "time of the day at which the day's batch starts, such as 06:30; without it batches are only triggered")
		f.StringVar(&o.Zone, "timezone", o.Zone, "time zone of the schedule, such as Europe/Berlin")
		f.IntVar(&o.DaysBack, "days-back", o.DaysBack, "days between the date of the files and the run")
		f.IntVar(&o.Resume, "resume-days", o.Resume, "how many days back a poller that starts looks for unfinished batches")
		f.DurationVar(&o.Every, "poll-every", o.Every, "time between two checks of a batch")
		f.DurationVar(&o.Timeout, "timeout", o.Timeout, "time limit of a batch")
		f.DurationVar(&o.Resend, "resend", o.Resend, "how long a job may be available before its message is sent again; each time twice as long")
		f.IntVar(&o.MaxTries, "max-tries", o.MaxTries, "lost claims of a file before it is abandoned")
		f.IntVar(&o.Small, "small-batch", o.Small, "maximum of open files that are checked one by one instead of by BatchIndex")
	}
	if o.Download {
		f.StringVar(&o.KeyFile, "key", o.KeyFile, "PEM file of the private RSA key")
		f.StringVar(&o.Sub, "subscription", o.Sub, "URL of the queue for receiving")
		f.StringVar(&o.Bucket, "bucket", o.Bucket, "URL of the bucket: mem://, file:///folder or s3://name")
		f.IntVar(&o.Parallel, "parallel", o.Parallel, "concurrent files")
		f.Int64Var(&o.MaxSize, "max-size", o.MaxSize, "maximum size of a file in bytes")
		f.DurationVar(&o.Stall, "stall", o.Stall, "how long a download may receive nothing")
		f.DurationVar(&o.Backoff, "backoff", o.Backoff, "delay before the second attempt of a request; it grows with each")
		f.IntVar(&o.Attempts, "attempts", o.Attempts, "consecutive requests without progress, after which a file fails")
	}
	f.DurationVar(&o.Lease, "lease", o.Lease, "how long a claim lasts without a heartbeat")
}

// System is an open pipeline.
type System struct {
	Home    *home.Home
	Jobs    *ledger.Jobs
	Batches *ledger.Batches
	Queue   *queue.Queue
	Bucket  *downloader.Bucket // nil unless it downloads
	Keeper  *poller.Keeper     // nil unless it polls

	downloader *downloader.Downloader
	metrics    *prometheus.Registry
	counts     *counts
	live       web.Live
	lease      time.Duration

	shownRunning atomic.Int64 // when a page last showed a batch that runs, in ns; 0 if the last one showed none
	changedAt    atomic.Int64 // when this process last changed something, in ns
	log          *slog.Logger
}

// Open opens a pipeline. Close releases its resources.
func Open(ctx context.Context, o Options) (*System, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &System{log: o.Log, metrics: web.Registry(), lease: o.Lease}
	s.counts = newCounts(nil, s.running)
	count := meter.New(s.metrics, func() {
		s.changedAt.Store(time.Now().UnixNano())
		s.counts.changed()
		s.live.Broadcast("changed")
	})
	o.Home.Model, o.Home.Log = ModelOf(o.Environment), o.Log
	h, err := home.Open(ctx, o.Home)
	if err != nil {
		return nil, err
	}
	s.Home = h
	s.Jobs = &ledger.Jobs{DB: h.DB, Now: o.Now}
	s.Batches = &ledger.Batches{DB: h.DB, Now: o.Now}
	s.counts.jobs = s.Jobs
	s.metrics.MustRegister(s.counts)
	if err := s.join(ctx, o, count); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (o *Options) check() error {
	if o.Upstream == "" {
		return errors.New("--upstream URL is missing, or try `downloads demo`")
	}
	if !strings.HasPrefix(o.Upstream, "https://") && !strings.HasPrefix(o.Upstream, "http://") {
		return fmt.Errorf("--upstream is %q, but must be a URL such as https://api.example.com", o.Upstream)
	}
	if !slices.Contains(environments, o.Environment) {
		return fmt.Errorf("--environment is %q, but must be one of %s", o.Environment, strings.Join(environments, ", "))
	}
	if o.Download && o.Parallel < 1 || o.Every <= 0 || o.Lease < 100*time.Millisecond || o.Resend <= 0 || o.Timeout <= 0 {
		return errors.New("--parallel, --poll-every, --resend and --timeout must be positive, and --lease at least 100ms")
	}
	return nil
}

// join creates the parts that the process runs.
func (s *System) join(ctx context.Context, o Options, count *meter.Meter) error {
	api := &upstream.Client{URL: strings.TrimRight(o.Upstream, "/"), HTTP: &http.Client{Timeout: 2 * time.Minute}}
	if o.TokenFile != "" {
		token, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return fmt.Errorf("read the upstream's token: %w", err)
		}
		api.Token = strings.TrimSpace(string(token))
	}
	sub := o.Sub
	if !o.Download {
		sub = ""
	}
	var err error
	if s.Queue, err = queue.Open(ctx, o.Topic, sub); err != nil {
		return err
	}
	if o.Poll {
		s.Keeper = &poller.Keeper{
			Poller: &poller.Poller{
				Jobs: s.Jobs, Batches: s.Batches, Upstream: api, Send: s.Queue.Send,
				Sweeper: &poller.Sweeper{
					Jobs: s.Jobs, Send: s.Queue.Send, Log: o.Log, Meter: count,
					Lease: o.Lease, Resend: o.Resend, MaxTries: o.MaxTries, Timeout: o.Timeout, Volatile: s.Queue.Volatile,
				},
				Every: o.Every, Timeout: o.Timeout, Small: o.Small, Log: o.Log, Meter: count,
			},
			Retry: min(o.Every, 5*time.Second), Days: max(0, min(o.Resume, ledger.KeepDays)),
		}
		if o.Schedule != "" {
			schedule, err := poller.ParseSchedule(o.Schedule, o.Zone, o.DaysBack)
			if err != nil {
				return err
			}
			s.Keeper.Schedule = &schedule
		}
	}
	if !o.Download {
		return nil
	}
	key, err := readKey(o.KeyFile)
	if err != nil {
		return err
	}
	if s.Bucket, err = downloader.OpenBucket(ctx, o.Bucket); err != nil {
		return err
	}
	s.downloader = &downloader.Downloader{
		Jobs: s.Jobs, Upstream: api, Queue: s.Queue, Bucket: s.Bucket, Key: key, HTTP: downloader.Client(o.Parallel),
		Parallel: o.Parallel, MaxSize: o.MaxSize, Lease: o.Lease, Stall: o.Stall, Backoff: o.Backoff, Attempts: o.Attempts,
		Log: o.Log, Meter: count,
	}
	return nil
}

func readKey(file string) (*rsa.PrivateKey, error) {
	if file == "" {
		return nil, errors.New("the RSA key is missing: set --key FILE; `downloads key FILE` creates one")
	}
	return seal.ReadKey(file)
}

// Run runs the pipeline until the context ends, and serves its page on the
// listener, which may be nil.
func (s *System) Run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	if s.Keeper != nil {
		group.Go(func() error { return s.Keeper.Run(ctx) })
	}
	if s.downloader != nil {
		group.Go(func() error { return s.downloader.Run(ctx) })
	}
	if listener != nil {
		group.Go(func() error { return web.Serve(ctx, listener, s.Handler(), s.log) })
		group.Go(func() error { return s.tick(ctx) })
	}
	return group.Wait()
}

// How often open pages reload although this process changed nothing, since others may.
const (
	tickRunning = 3 * time.Second
	tickIdle    = time.Minute
)

// tick makes open pages reload periodically.
func (s *System) tick(ctx context.Context) error {
	t := time.NewTicker(tickRunning)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			// Pages reload once more after the last change, which they may not show yet.
			settling := now.Sub(time.Unix(0, s.changedAt.Load())) <= 2*tickRunning
			if settling || s.running() || now.Sub(last) >= tickIdle {
				last = now
				s.live.Broadcast("tick")
			}
		}
	}
}

// shownFor is how long a process that does not poll takes it that a batch runs after a page
// has shown it. Open pages show it every few seconds.
const shownFor = time.Minute

// running reports whether a batch runs, as far as this process knows.
func (s *System) running() bool {
	if s.Keeper != nil {
		return s.Keeper.Driven() > 0
	}
	return time.Since(time.Unix(0, s.shownRunning.Load())) < shownFor
}

// Close releases the resources of Open.
func (s *System) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	if s.Queue != nil {
		errs = append(errs, s.Queue.Close(ctx))
	}
	if s.Bucket != nil {
		errs = append(errs, s.Bucket.Close())
	}
	if s.Home != nil {
		errs = append(errs, s.Home.Close())
	}
	return errors.Join(errs...)
}
