package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/console/workbench"
	"github.com/stator-db/stator/internal/process"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/trace"
)

type serveFlags struct {
	addr          string
	data          string
	engine        string
	key           string
	allowPlain    bool
	backups       string
	schedule      scheduleFlags
	buckets       []string
	inMemory      bool
	cacheMB       int64
	log           string
	durability    string
	tableDelay    time.Duration
	ttlInterval   time.Duration
	hideExpired   bool
	throttle      bool
	cacheFlags    cacheFlags
	daxCache      *stator.Cache // of cacheFlags; nil for none
	shardDuration time.Duration
	scrub         int
	access        accessFlags
	dax           daxFlags
	console       string
	model         string
	heat          bool
	forks         forkFlags
	audit         string
	auditMB       int64
	auditKeep     int
	allowHosts    []string
	allowFiles    bool
	shutdownDelay time.Duration
	stopWithStdin bool
	pprof         string
	otlpEndpoint  string
	traceSample   float64
	config        string
	triggers      []stator.Trigger // from the configuration file
	faults        faultFlags
	testClock     testClockFlags
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the DynamoDB API",
		Long: `Serve the DynamoDB API.

Point any AWS SDK or the AWS CLI at the address that it prints, with any
credentials and any region:

  aws dynamodb list-tables --endpoint-url http://127.0.0.1:8000

With --keys, requests must be signed with a key of a file. An address that other
machines can reach requires that, and TLS:

  stator key new --keys keys.yaml
  stator serve --keys keys.yaml --tls-cert cert.pem --tls-key key.pem --addr 0.0.0.0:8000`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.inMemory && cmd.Flags().Changed("data") {
				return usageError{errors.New("--data and --in-memory cannot be combined")}
			}
			if f.config != "" {
				var err error
				if f.triggers, err = readConfig(f.config, cmd); err != nil {
					return err
				}
			}
			if f.engine != "" && (f.inMemory || cmd.Flags().Changed("data")) {
				return usageError{errors.New("--engine keeps data in the cluster and cannot be combined with --data or --in-memory")}
			}
			if f.engine != "" && f.backups == "" {
				return usageError{errors.New("--engine requires --backups: a folder or URL that all servers of the cluster can reach")}
			}
			if f.key != "" && (f.inMemory || f.engine != "") {
				return usageError{errors.New("--encryption-key applies to --data only: nothing of --in-memory is on a disk, and --engine needs the encryption at rest of TiKV")}
			}
			if err := f.checkOperation(cmd); err != nil {
				return err
			}
			if err := checkAllowPlain(f.allowPlain, f.key); err != nil {
				return err
			}
			if err := f.schedule.check(cmd); err != nil {
				return err
			}
			if err := f.faults.read(cmd); err != nil {
				return err
			}
			if err := checkConsole(f.console); err != nil {
				return err
			}
			if err := checkConsoleModel(f.console, f.model); err != nil {
				return err
			}
			if err := f.forks.check(cmd); err != nil {
				return err
			}
			if err := f.dax.check(cmd, &f); err != nil {
				return err
			}
			if err := f.testClock.check(f.inMemory); err != nil {
				return err
			}
			var err error
			if f.daxCache, err = f.cacheFlags.options(cmd, &f.dax); err != nil {
				return err
			}
			ctx := cmd.Context()
			if f.stopWithStdin {
				var cancel context.CancelFunc
				ctx, cancel = untilEOF(ctx, cmd.InOrStdin())
				defer cancel()
			}
			return serve(ctx, &f, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8000", "address to listen on; port 0 chooses a free port")
	flags.StringVar(&f.data, "data", "stator-data", "data folder; created if it does not exist")
	flags.BoolVar(&f.stopWithStdin, "stop-with-stdin", false, "stop when standard input ends: a program that has started the server through a pipe does not leave it behind, even if it is killed; /dev/null ends at once")
	flags.BoolVar(&f.allowFiles, "allow-other-files", false, "create the data in a folder that has other files already")
	flags.StringVar(&f.engine, "engine", "", "URL of a TiKV cluster that holds the data and may be shared by any number of servers: tikv://pd1:2379,pd2:2379,pd3:2379")
	flags.StringVar(&f.backups, "backups", "", "folder or URL (file://, s3://) for backups; defaults to the name of the data folder followed by -backups")
	encryptionKeyVar(cmd, &f.key, "encrypt the data folder and backups with a key")
	allowPlainVar(cmd, &f.allowPlain)
	f.schedule.add(cmd)
	flags.StringArrayVar(&f.buckets, "bucket", nil, "bucket for exports and imports as name=folder or name=URL (file://, s3://); can be repeated")
	flags.BoolVar(&f.inMemory, "in-memory", false, "keep data in memory only")
	flags.Int64Var(&f.cacheMB, "cache", defaultCacheMB(process.AvailableMemory()), "size of the cache in MB; defaults to a sixteenth of the machine's memory, from 64 to 1024")
	flags.StringVar(&f.log, "log", "info", "log level: debug, info, warn or error")
	flags.StringVar(&f.durability, "durability", "strict", "strict acknowledges a write once it is on disk, relaxed before that")
	durationVar(cmd, &f.tableDelay, "table-delay", 0, "how long tables stay CREATING, UPDATING and DELETING, to imitate AWS")
	durationVar(cmd, &f.ttlInterval, "ttl-interval", time.Second, "time between two searches for items whose time to live has passed")
	flags.BoolVar(&f.hideExpired, "hide-expired", false, "omit items whose time to live has passed from reads, even before they are deleted")
	flags.BoolVar(&f.throttle, "throttle", false, "reject requests that exceed the throughput of a table, an index or a partition, as DynamoDB does; see docs/throttling.md")
	f.cacheFlags.add(cmd)
	f.faults.add(cmd)
	durationVar(cmd, &f.shardDuration, "shard-duration", 4*time.Hour, "how long a shard of a stream accepts records before a successor replaces it")
	flags.IntVar(&f.scrub, "scrub", 1000, "stored keys that are verified per second in the background, again and again; 0 disables it")
	f.addOperation(cmd)
	flags.StringVar(&f.config, "config", "", "YAML file with triggers and with flags by their names; the command line takes precedence")
	f.access.add(cmd)
	f.dax.add(cmd)
	f.testClock.add(cmd)
	flags.StringVar(&f.console, "console", "", "serve the console at /console/: read lets people see data, write change it, off is none; --console alone is read")
	flags.Lookup("console").NoOptDefVal = string(stator.ConsoleRead)
	flags.StringVar(&f.model, "model", "", "file of an access-pattern model that the console shows")
	flags.BoolVar(&f.heat, "heat", true, "count what tables consume by hash range, for the heat map of the console; takes up to 40 MB")
	f.forks.add(cmd)
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, "public host name by which clients reach the server, *.name for all names below one, or * for all; can be repeated")
	return cmd
}

// addOperation adds the flags of the operation of a server and of a standby.
func (f *serveFlags) addOperation(cmd *cobra.Command) {
	flags := cmd.Flags()
	durationVar(cmd, &f.shutdownDelay, "shutdown-delay", 0, "how long requests are served after the signal to stop, while GET /readyz fails, so that load balancers notice; a second signal ends it")
	flags.StringVar(&f.audit, "audit", "", "file in which all requests are written down, as JSON lines with the field names of CloudTrail; see docs/access.md")
	flags.Int64Var(&f.auditMB, "audit-size", audit.DefaultBytes>>20, "size in MB at which the file of --audit is replaced")
	flags.IntVar(&f.auditKeep, "audit-keep", audit.DefaultKeep, "how many of the replaced files of --audit are kept")
	flags.StringVar(&f.pprof, "pprof", "", "loopback address for profiles of the process by net/http/pprof, such as 127.0.0.1:6060")
	flags.StringVar(&f.otlpEndpoint, "otlp-endpoint", "", "URL of a receiver of OpenTelemetry traces (OTLP over HTTP), such as http://127.0.0.1:4318")
	flags.Float64Var(&f.traceSample, "trace-sample", 0.01, "share of requests to trace, from 0 to 1; a client with a traceparent header decides itself")
}

// checkOperation checks the flags of addOperation.
func (f *serveFlags) checkOperation(cmd *cobra.Command) error {
	switch {
	case f.audit == "" && (cmd.Flags().Changed("audit-size") || cmd.Flags().Changed("audit-keep")):
		return usageError{errors.New("--audit-size and --audit-keep require --audit, the file that requests are written to")}
	case f.auditMB < 1 || f.auditKeep < 1:
		return usageError{errors.New("--audit-size and --audit-keep must be at least 1")}
	case f.otlpEndpoint == "" && cmd.Flags().Changed("trace-sample"):
		return usageError{errors.New("--trace-sample requires --otlp-endpoint, the URL that traces are sent to")}
	case f.otlpEndpoint != "" && !trace.ValidEndpoint(f.otlpEndpoint):
		return usageError{errors.New("--otlp-endpoint must be a URL such as http://127.0.0.1:4318")}
	case !(f.traceSample >= 0 && f.traceSample <= 1):
		return usageError{fmt.Errorf("--trace-sample is %v, but must be from 0 to 1", f.traceSample)}
	}
	return nil
}

// serve serves until the context ends, and then finishes the requests in flight.
func serve(ctx context.Context, f *serveFlags, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.log)); err != nil {
		return usageError{fmt.Errorf("--log is %q, but must be debug, info, warn or error", f.log)}
	}
	if f.durability != "strict" && f.durability != "relaxed" {
		return usageError{fmt.Errorf("--durability is %q, but must be strict or relaxed", f.durability)}
	}
	if f.cacheMB < 1 {
		return usageError{fmt.Errorf("--cache is %d, but must be at least 1 MB", f.cacheMB)}
	}
	if f.scrub < 0 {
		return usageError{fmt.Errorf("--scrub is %d, but must be a number of keys per second, or 0", f.scrub)}
	}
	memory := process.AvailableMemory()
	if most := maxCacheBytes(memory) >> 20; f.cacheMB > most {
		return usageError{fmt.Errorf("--cache is %d MB, but must be at most %d: three quarters of the machine's memory", f.cacheMB, most)}
	}
	cacheBytes := f.cacheMB << 20
	if f.daxCache != nil {
		cacheBytes += f.daxCache.Bytes
		if most := maxCacheBytes(memory); cacheBytes > most {
			return usageError{fmt.Errorf("--cache and --dax-cache-size are %d MB together, but must be at most %d: three quarters of the machine's memory", cacheBytes>>20, most>>20)}
		}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	listener, access, err := listen(f, log)
	if err != nil {
		return err
	}
	defer access.close()
	defer listener.Close()
	accelerated, err := f.dax.listen(access)
	if err != nil {
		return err
	}
	defer accelerated.close()
	stopProfiles, err := serveProfiles(f.pprof, stderr, log)
	if err != nil {
		return err
	}
	defer stopProfiles()
	starting := &server.Starting{Hosts: allowedHosts(f)}
	web := webServer(starting, log)
	front := door.New(starting, web, log)
	webConns, maxDAX := daxConns(process.DivideFiles().Connections, len(accelerated.listeners) > 0)
	front.LimitConns(webConns)
	process.SpareThreads()
	if !f.inMemory {
		process.LimitHeap(memoryLimit(cacheBytes+f.forks.more(), memory) - pebble.OutsideHeap(f.cacheMB<<20))
	}
	resumeGC := process.DeferGC()
	defer resumeGC()
	opened, served := make(chan struct{}), make(chan error, 1)
	go func() {
		select {
		case <-opened:
		case <-time.After(openPatience):
		}
		served <- front.Serve(listener)
	}()
	db, err := open(ctx, f, access, log)
	if err == nil {
		starting.Open(db.Handler())
	}
	close(opened)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		log.Info("stopped while opening the data", "reason", context.Cause(ctx))
		return front.Close()
	}
	if err != nil {
		return errors.Join(err, front.Close())
	}
	if err := accelerated.serve(db, maxDAX); err != nil {
		return errors.Join(err, front.Close(), db.Close())
	}
	announce(stderr, f, access.scheme(), listener.Addr(), db.EncryptionKeyID())
	f.faults.announce(stderr)
	accelerated.announce(stderr)
	announceConsole(stderr, consoleMode(f.console), access.scheme(), listener.Addr())
	release := time.AfterFunc(startTime, func() { resumeGC(); process.ReleaseProgram() })
	defer release.Stop()
	select {
	case err = <-served:
	case err = <-accelerated.failed():
		err = errors.Join(err, front.Close())
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, errStdinEnded) {
			log.Info("stopping", "reason", cause)
		}
		err = shutDown(starting.Drain, f.shutdownDelay, log, front, accelerated)
	}
	_ = accelerated.Close()
	if closeErr := db.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the data: %w", closeErr))
	}
	return err
}

// webServer returns an HTTP server with the timeouts of all requests.
func webServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// openPatience is how long early connections are held while the data opens, which
// rarely takes longer; after that they get 503.
const openPatience = 100 * time.Millisecond

// startTime is how long after its start a server releases what only the start
// needed: not before the first requests, which would wait for it.
const startTime = 500 * time.Millisecond

// shutdownTime is how long requests in flight may take after the signal to stop.
const shutdownTime = 8 * time.Second

// servedPort is a port whose requests are finished when the server stops.
type servedPort interface {
	Shutdown(ctx context.Context) error // stops accepting connections, and waits for requests in flight
	Close() error                       // cuts them off
}

// shutDown lets load balancers notice that the server is about to stop, and finishes the
// requests in flight of all ports at the same time. A second signal ends the delay, and a third one cuts off the requests.
func shutDown(report func() (serves bool), delay time.Duration, log *slog.Logger, ports ...servedPort) error {
	again := make(chan os.Signal, 2)
	signal.Notify(again, stopSignals...)
	defer signal.Stop(again)
	drain(report, delay, again, log)
	log.Info("stopping: waiting for requests in flight")
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	go func() {
		select {
		case <-again:
			cancel()
		case <-ctx.Done():
		}
	}()
	var stopping sync.WaitGroup
	errs := make([]error, len(ports))
	for i, p := range ports {
		stopping.Go(func() {
			if p.Shutdown(ctx) != nil {
				log.Warn("requests that took too long were cut off")
				errs[i] = p.Close()
			}
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// drain reports that the server is about to stop, and returns after a delay in which it
// still serves requests, or with a signal. A server that serves none, such as a standby, has no delay.
func drain(report func() (serves bool), delay time.Duration, again <-chan os.Signal, log *slog.Logger) {
	if !report() || delay <= 0 {
		return
	}
	log.Info("stopping: requests are served until load balancers have noticed; another signal ends this", "delay", delay)
	select {
	case <-time.After(delay):
	case <-again:
	}
}

// listen reads keys and certificates, and listens. The caller closes both.
func listen(f *serveFlags, log *slog.Logger) (net.Listener, *accessFiles, error) {
	if err := f.access.check(f.addr); err != nil {
		return nil, nil, err
	}
	a, err := f.access.open(log)
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		a.close()
		return nil, nil, fmt.Errorf("cannot listen on %s: %w\n        stop the program that uses it, or choose another address with --addr", f.addr, err)
	}
	return a.listen(listener), a, nil
}

// listenHosts is the name in an address to listen on, by which clients reach it.
func listenHosts(addr string) []string {
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
		return []string{host}
	}
	return nil
}

// allowedHosts are the names of the public DNS by which clients reach the server.
func allowedHosts(f *serveFlags) []string { return append(listenHosts(f.addr), f.allowHosts...) }

// bucketName matches the values that a request may have as S3Bucket.
var bucketName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9A-Z]+[.\-\w]*[a-z0-9A-Z]+$`) })

// buckets parses the --bucket flags.
func buckets(flags []string) (map[string]string, error) {
	found := make(map[string]string)
	for _, flag := range flags {
		name, location, _ := strings.Cut(flag, "=")
		switch {
		case !bucketName().MatchString(name) || location == "":
			return nil, usageError{fmt.Errorf("--bucket is %q, but must be name=folder or name=URL", flag)}
		case found[name] != "":
			return nil, usageError{fmt.Errorf("--bucket is given twice for %s", name)}
		}
		found[name] = location
	}
	return found, nil
}

func open(ctx context.Context, f *serveFlags, a *accessFiles, log *slog.Logger) (*stator.DB, error) {
	locations, err := buckets(f.buckets)
	if err != nil {
		return nil, err
	}
	o := stator.Options{Dir: f.data, Backups: f.backups, BackupEvery: f.schedule.every, BackupKeep: f.schedule.keep, BackupMaxAge: f.schedule.maxAge, Buckets: locations, CacheBytes: f.cacheMB << 20, Relaxed: f.durability == "relaxed", TableDelay: f.tableDelay, ExpiryInterval: f.ttlInterval, HideExpired: f.hideExpired, ShardDuration: f.shardDuration, Throttle: f.throttle, ScrubRate: f.scrub, Triggers: f.triggers, Log: log, AllowOtherFiles: f.allowFiles}
	o.AllowedHosts, o.Access, o.Region = allowedHosts(f), a.access, f.access.region
	o.EncryptionKey, o.AllowPlainBackups, o.Cache = f.key, f.allowPlain, f.daxCache
	o.Console, o.ConsoleModels, o.WithoutHeat = consoleMode(f.console), workbench.New(f.model), !f.heat
	o.AllowFaults, o.Faults = f.faults.allow, f.faults.plan
	f.testClock.use(&o)
	o.Forks = f.forks.options()
	o.TraceEndpoint, o.TraceSample = f.otlpEndpoint, f.traceSample
	o.Audit, o.AuditBytes, o.AuditKeep = f.audit, f.auditMB<<20, f.auditKeep
	if f.engine != "" {
		o.Dir, o.Engine = "", f.engine
		return openCluster(ctx, o, log)
	}
	if f.inMemory {
		o.Dir = ""
	}
	db, err := stator.Open(ctx, o)
	if err != nil && !f.inMemory {
		return nil, cannotOpen(f.data, err)
	}
	return db, err
}

const (
	// firstWait and lastWait bound the backoff between two attempts to open a
	// cluster that does not answer.
	firstWait = time.Second
	lastWait  = 15 * time.Second
)

// openCluster opens a database on a cluster. It retries until the cluster answers.
func openCluster(ctx context.Context, o stator.Options, log *slog.Logger) (*stator.DB, error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		db, err := stator.Open(ctx, o)
		if !errors.Is(err, stator.ErrUnavailable) || ctx.Err() != nil {
			if err != nil {
				err = fmt.Errorf("cannot open the data in %s: %w", withoutQuery(o.Engine), err)
			}
			return db, err
		}
		log.Error("the cluster does not answer; check that it runs and that its addresses are right", "engine", withoutQuery(o.Engine), "after", wait, "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// withoutQuery is a URL without its query, which may hold secrets.
func withoutQuery(url string) string {
	base, _, _ := strings.Cut(url, "?")
	return base
}

// cannotOpen adds to the error of opening a folder what to do about it.
func cannotOpen(data string, err error) error {
	if errors.As(err, new(*stator.LockedError)) {
		return fmt.Errorf("cannot open data in %s: %w\n        stop it, or choose another folder with --data", data, err)
	}
	if errors.As(err, new(*stator.OtherFilesError)) {
		return fmt.Errorf("cannot open data in %s: %w\n        choose another folder with --data, or create the data in it with stator serve --allow-other-files", data, err)
	}
	return fmt.Errorf("cannot open data in %s: %w", data, err)
}

// announce prints the address of the server and the location of its data.
func announce(w io.Writer, f *serveFlags, scheme string, addr net.Addr, key string) {
	fmt.Fprintf(w, "stator listens on %s://%s\n", scheme, addr)
	location, err := filepath.Abs(f.data)
	if err != nil {
		location = f.data
	}
	switch {
	case f.engine != "":
		location = withoutQuery(f.engine) + ", shared with all servers that use it"
	case f.inMemory:
		location = "memory, and is lost when this process ends"
	case f.durability == "relaxed":
		location += " with relaxed durability: a crash can lose the most recent writes"
	}
	fmt.Fprintf(w, "data is in %s\n", location)
	if s := &f.access.keys; s.database {
		fmt.Fprintf(w, "access keys are in %s%s\n", s, precedence(s))
	}
	if s := &f.access.policies; s.database {
		fmt.Fprintf(w, "policies are in %s%s\n", s, precedence(s))
	}
	switch {
	case key != "":
		fmt.Fprintf(w, "data and backups are encrypted with key %s\n", key)
	case !f.inMemory && f.engine == "":
		fmt.Fprintln(w, "data and backups are not encrypted; --encryption-key encrypts them")
	}
}

// precedence says which of several sources counts if both have a key or a principal.
func precedence(s *accessSource) string {
	if s.file == "" {
		return ""
	}
	return ", of which the file takes precedence"
}
