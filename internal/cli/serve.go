package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/process"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store/pebble"
)

type serveFlags struct {
	addr          string
	data          string
	engine        string
	backups       string
	buckets       []string
	inMemory      bool
	cacheMB       int64
	log           string
	durability    string
	tableDelay    time.Duration
	ttlInterval   time.Duration
	hideExpired   bool
	shardDuration time.Duration
	allowAnyone   bool
	config        string
	triggers      []stator.Trigger // of the configuration file
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the DynamoDB API",
		Long: `Serve the DynamoDB API.

Point any AWS SDK or the AWS CLI at the address it prints; any credentials
and any region will do:

  aws dynamodb list-tables --endpoint-url http://127.0.0.1:8000`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.inMemory && cmd.Flags().Changed("data") {
				return usageError{errors.New("--data and --in-memory exclude each other")}
			}
			if f.config != "" {
				var err error
				if f.triggers, err = readConfig(f.config, cmd); err != nil {
					return err
				}
			}
			if f.engine != "" && (f.inMemory || cmd.Flags().Changed("data")) {
				return usageError{errors.New("--engine has its data in the cluster: --data and --in-memory have no place beside it")}
			}
			if f.engine != "" && f.backups == "" {
				return usageError{errors.New("--engine needs --backups: a folder or URL that all servers of the cluster reach")}
			}
			return serve(cmd.Context(), &f, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8000", "address to listen on; port 0 takes any free one")
	flags.StringVar(&f.data, "data", "stator-data", "folder to keep data in; made if it does not exist")
	flags.StringVar(&f.engine, "engine", "", "URL of a TiKV cluster to keep data in, with any number of other servers: tikv://pd1:2379,pd2:2379,pd3:2379")
	flags.StringVar(&f.backups, "backups", "", "folder or URL (file://, s3://) to keep backups in; the data folder's name and -backups unless set")
	flags.StringArrayVar(&f.buckets, "bucket", nil, "name=place of a bucket for exports and imports, a folder or URL (file://, s3://); may be given several times")
	flags.BoolVar(&f.inMemory, "in-memory", false, "keep data in memory only")
	flags.Int64Var(&f.cacheMB, "cache", defaultCacheMB(process.AvailableMemory()), "MB of memory for what was read lately; a sixteenth of the machine's, from 64 to 1024, unless set")
	flags.StringVar(&f.log, "log", "info", "what to log: debug, info, warn or error")
	flags.StringVar(&f.durability, "durability", "strict", "strict: a write is answered when it is on disk; relaxed: before")
	flags.DurationVar(&f.tableDelay, "table-delay", 0, "how long tables stay CREATING, UPDATING and DELETING, as they do on AWS")
	flags.DurationVar(&f.ttlInterval, "ttl-interval", time.Second, "how often items whose time to live is over are looked for")
	flags.BoolVar(&f.hideExpired, "hide-expired", false, "leave items whose time to live is over out of reads even before they are removed")
	flags.DurationVar(&f.shardDuration, "shard-duration", 4*time.Hour, "how long a shard of a stream takes records before another follows it")
	flags.StringVar(&f.config, "config", "", "file of YAML with triggers, and flags by their names; the command line wins")
	flags.BoolVar(&f.allowAnyone, "allow-anyone", false, "listen beyond this machine although signatures are not verified")
	return cmd
}

// serve serves until the context ends, and then finishes what it has begun.
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
	memory := process.AvailableMemory()
	if most := maxCacheBytes(memory) >> 20; f.cacheMB > most {
		return usageError{fmt.Errorf("--cache is %d MB, but must be at most %d: three quarters of the machine's memory", f.cacheMB, most)}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	listener, err := listen(f)
	if err != nil {
		return err
	}
	defer listener.Close()
	starting := new(server.Starting)
	web := &http.Server{
		Handler:           starting,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	entrance := door.New(starting, web, log)
	process.SpareThreads()
	if !f.inMemory {
		process.LimitHeap(memoryLimit(f.cacheMB<<20, memory) - pebble.OutsideHeap(f.cacheMB<<20))
	}
	resumeGC := process.DeferGC()
	defer resumeGC()
	opened, served := make(chan struct{}), make(chan error, 1)
	go func() {
		select {
		case <-opened:
		case <-time.After(openPatience):
		}
		served <- entrance.Serve(listener)
	}()
	s, err := open(ctx, f, log)
	if err == nil {
		starting.Open(s.Handler())
	}
	close(opened)
	if err != nil {
		return errors.Join(err, entrance.Close())
	}
	announce(stderr, f, listener.Addr())
	over := time.AfterFunc(startTime, func() { resumeGC(); process.ReleaseProgram() })
	defer over.Stop()
	select {
	case err = <-served:
	case <-ctx.Done():
		err = shutDown(entrance, log)
	}
	if closeErr := s.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the data: %w", closeErr))
	}
	return err
}

// openPatience is how long who connects while the data is opened waits for it,
// before he is told to try again: mostly it does not take as long.
const openPatience = 100 * time.Millisecond

// startTime is how long after its start a server releases what only the start
// needed: not before the first requests, which would wait for it.
const startTime = 500 * time.Millisecond

// shutdownTime is how long requests under way may take when we are asked to
// stop.
const shutdownTime = 8 * time.Second

func shutDown(entrance *door.Server, log *slog.Logger) error {
	log.Info("stopping: requests under way are finished")
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := entrance.Shutdown(ctx); err != nil {
		log.Warn("some requests took too long and were cut off")
		return entrance.Close()
	}
	return nil
}

func listen(f *serveFlags) (net.Listener, error) {
	host, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return nil, usageError{fmt.Errorf("--addr is %q, but must be host:port", f.addr)}
	}
	if addr, err := netip.ParseAddr(host); !f.allowAnyone && host != "localhost" && (err != nil || !addr.IsLoopback()) {
		return nil, fmt.Errorf("will not listen on %s: any machine that reaches it could read and change everything,\n"+
			"        since signatures are not verified yet; add --allow-anyone if that is what you want", f.addr)
	}
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w\n        stop the program that does, or choose another address with --addr", f.addr, err)
	}
	return listener, nil
}

// bucketName is what a request may have as an S3Bucket.
var bucketName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9A-Z]+[.\-\w]*[a-z0-9A-Z]+$`) })

// buckets are the places that the flags name.
func buckets(flags []string) (map[string]string, error) {
	places := make(map[string]string)
	for _, flag := range flags {
		name, where, _ := strings.Cut(flag, "=")
		switch {
		case !bucketName().MatchString(name) || where == "":
			return nil, usageError{fmt.Errorf("--bucket is %q, but must be name=folder or name=URL", flag)}
		case places[name] != "":
			return nil, usageError{fmt.Errorf("--bucket names %s twice", name)}
		}
		places[name] = where
	}
	return places, nil
}

func open(ctx context.Context, f *serveFlags, log *slog.Logger) (*stator.DB, error) {
	places, err := buckets(f.buckets)
	if err != nil {
		return nil, err
	}
	o := stator.Options{Dir: f.data, Backups: f.backups, Buckets: places, CacheBytes: f.cacheMB << 20, Relaxed: f.durability == "relaxed", TableDelay: f.tableDelay, ExpiryInterval: f.ttlInterval, HideExpired: f.hideExpired, ShardDuration: f.shardDuration, Triggers: f.triggers, Log: log}
	if f.engine != "" {
		o.Dir, o.Engine = "", f.engine
		return openCluster(ctx, o, log)
	}
	if f.inMemory {
		o.Dir = ""
	}
	s, err := stator.Open(ctx, o)
	if err != nil && !f.inMemory {
		return nil, cannotOpen(f.data, err)
	}
	return s, err
}

const (
	firstWait = time.Second // before a cluster that did not answer is tried again
	lastWait  = 15 * time.Second
)

// openCluster opens a database on a cluster, as soon as that answers.
func openCluster(ctx context.Context, o stator.Options, log *slog.Logger) (*stator.DB, error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		s, err := stator.Open(ctx, o)
		if !errors.Is(err, stator.ErrUnavailable) || ctx.Err() != nil {
			if err != nil {
				err = fmt.Errorf("cannot open the data in %s: %w", withoutQuery(o.Engine), err)
			}
			return s, err
		}
		log.Error("the cluster does not answer: are its addresses right, and is it up? Trying again", "engine", withoutQuery(o.Engine), "in", wait, "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// withoutQuery is a URL without what may be nobody's business.
func withoutQuery(url string) string {
	base, _, _ := strings.Cut(url, "?")
	return base
}

// cannotOpen words an error of opening a folder, and what to do about it.
func cannotOpen(data string, err error) error {
	if errors.As(err, new(*stator.LockedError)) {
		return fmt.Errorf("cannot open data in %s: %w\n        stop it, or choose another folder with --data", data, err)
	}
	return fmt.Errorf("cannot open data in %s: %w", data, err)
}

// announce says where we listen and where data lies.
func announce(w io.Writer, f *serveFlags, addr net.Addr) {
	fmt.Fprintf(w, "stator listens on http://%s\n", addr)
	where, err := filepath.Abs(f.data)
	if err != nil {
		where = f.data
	}
	switch {
	case f.engine != "":
		where = withoutQuery(f.engine) + ", shared with all servers that use it"
	case f.inMemory:
		where = "memory: it is gone when this process ends"
	case f.durability == "relaxed":
		where += ", relaxed: a crash can lose the writes of the last moments"
	}
	fmt.Fprintf(w, "data lies in %s\n", where)
}
