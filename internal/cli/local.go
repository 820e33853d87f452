package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/process"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/door"
)

// localFlags are the options of DynamoDB Local, with its names, and those of stator.
type localFlags struct {
	port          int
	dbPath        string
	inMemory      bool
	sharedDB      bool
	delayStatuses bool
	cors          string
	optimize      bool
	noTelemetry   bool
	version       bool
	bind          string
	allowAnyone   bool
	log           string
}

// localIndexDelay is how long -delayTransientStatuses keeps an index in CREATING and DELETING.
const localIndexDelay = 5 * time.Second

const localHelp = `Serve the DynamoDB API with the options of DynamoDB Local.

  stator local [options]

  -port N                  port to listen on (8000)
  -inMemory                keep data in memory only
  -dbPath DIR              folder of the data (the current folder)
  -sharedDb                one set of tables for all access keys and regions; without it, each
                           access key and region has tables of its own
  -delayTransientStatuses  keep new and deleted indexes in CREATING and DELETING for 5 seconds
  -cors ORIGINS            web sites whose pages may send requests, separated by commas; * for all
  -optimizeDbBeforeStartup accepted with -dbPath; the data needs no optimization
  -disableTelemetry        accepted; there is no telemetry
  -version                 print the version
  -help                    print this help

and of stator:

  -bind ADDRESS            address to listen on (127.0.0.1); DynamoDB Local listens on all
  -allowAnyone             allow an address that other machines can reach, without signatures
  -log LEVEL               debug, info, warn or error (warn)

Options of Java and -jar FILE are skipped, so that the command of a container can stay as it
is. stator import-local reads the data of DynamoDB Local. See docs/local.md.
`

func localCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "local [options of DynamoDB Local]",
		Short:              "Serve the DynamoDB API with the options of DynamoDB Local",
		Long:               localHelp,
		DisableFlagParsing: true, // they have one dash
		Args:               cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := parseLocal(args)
			switch {
			case errors.Is(err, flag.ErrHelp):
				_, err := io.WriteString(cmd.OutOrStdout(), localHelp)
				return err
			case err != nil:
				return usageError{fmt.Errorf("%w\n        stator local -help lists the options", err)}
			case f.version:
				return version().print(cmd.OutOrStdout())
			}
			return f.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// parseLocal parses the options.
func parseLocal(args []string) (*localFlags, error) {
	var f localFlags
	set := flag.NewFlagSet("local", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.IntVar(&f.port, "port", 8000, "")
	set.StringVar(&f.dbPath, "dbPath", "", "")
	set.BoolVar(&f.inMemory, "inMemory", false, "")
	set.BoolVar(&f.sharedDB, "sharedDb", false, "")
	set.BoolVar(&f.delayStatuses, "delayTransientStatuses", false, "")
	set.StringVar(&f.cors, "cors", "", "")
	set.BoolVar(&f.optimize, "optimizeDbBeforeStartup", false, "")
	set.BoolVar(&f.noTelemetry, "disableTelemetry", false, "")
	set.BoolVar(&f.version, "version", false, "")
	set.StringVar(&f.bind, "bind", "127.0.0.1", "")
	set.BoolVar(&f.allowAnyone, "allowAnyone", false, "")
	set.StringVar(&f.log, "log", "warn", "")
	if err := set.Parse(withoutJava(args)); err != nil {
		return nil, err
	}
	switch {
	case set.NArg() > 0:
		return nil, fmt.Errorf("%q is not an option", set.Arg(0))
	case f.port < 0 || f.port > 65535:
		return nil, fmt.Errorf("-port is %d, but must be from 1 to 65535, or 0 for a free port", f.port)
	case f.inMemory && f.dbPath != "":
		return nil, errors.New("-dbPath and -inMemory cannot be combined")
	case f.optimize && f.dbPath == "":
		return nil, errors.New("-optimizeDbBeforeStartup requires -dbPath, the folder of the data")
	}
	for _, site := range f.origins() {
		if err := server.CheckOrigin(site); err != nil {
			return nil, fmt.Errorf("-cors: %w", err)
		}
	}
	if f.dbPath == "" {
		f.dbPath = "."
	}
	return &f, nil
}

// withoutJava removes options of Java: -jar FILE, -Dname=value and -X….
func withoutJava(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-jar":
			i++ // the file
		case strings.HasPrefix(args[i], "-D") || strings.HasPrefix(args[i], "-X"):
		default:
			kept = append(kept, args[i])
		}
	}
	return kept
}

// origins are the web sites of -cors.
func (f *localFlags) origins() []string {
	if f.cors == "" {
		return nil
	}
	sites := strings.Split(f.cors, ",")
	for i := range sites {
		sites[i] = strings.TrimSpace(sites[i])
	}
	return sites
}

// serve serves until the context ends, and then finishes the requests in flight.
func (f *localFlags) serve(ctx context.Context, stdout, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.log)); err != nil {
		return usageError{fmt.Errorf("-log is %q, but must be debug, info, warn or error", f.log)}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	address := net.JoinHostPort(f.bind, strconv.Itoa(f.port))
	if !isLoopbackName(f.bind) && !f.allowAnyone {
		return usageError{fmt.Errorf("-bind %s can be reached by other machines, and anybody could read and change all data\n        add -allowAnyone if that is intended, such as in a container", f.bind)}
	}
	if !f.inMemory {
		if info, err := os.Stat(f.dbPath); err != nil || !info.IsDir() {
			return fmt.Errorf("cannot use -dbPath %s: it is not a folder that exists", f.dbPath)
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w\n        stop the program that uses it, or choose another port with -port", address, err)
	}
	defer listener.Close()
	databases := &localDatabases{flags: f, log: log, max: maxLocalDatabases, open: make(map[string]*localDatabase)}
	if files := process.DivideFiles().Databases; !f.inMemory && files > 0 {
		databases.max = min(databases.max, files)
	}
	handler := &server.BySigner{Origins: f.origins(), Handler: databases.handler, Shared: f.sharedDB, All: databases.all, Log: log}
	web := webServer(handler, log)
	front := door.New(handler, web, log)
	front.LimitConns(process.DivideFiles().Connections)
	process.SpareThreads()
	f.announce(stdout, listener.Addr())
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }()
	if f.sharedDB { // so that its errors end the process, and the first request does not wait
		if _, err := databases.database(ctx, sharedDatabase); err != nil && ctx.Err() == nil {
			return errors.Join(err, front.Close())
		}
	}
	select {
	case err = <-served:
	case <-ctx.Done():
		err = shutDown(func() bool { return false }, 0, log, front)
	}
	return errors.Join(err, databases.close())
}

// announce prints the configuration in the form of DynamoDB Local, for which programs that start it wait.
func (f *localFlags) announce(w io.Writer, addr net.Addr) {
	orNull := func(s string, null bool) string {
		if null {
			return "null"
		}
		return s
	}
	_, port, _ := net.SplitHostPort(addr.String())
	fmt.Fprintf(w, "Initializing DynamoDB Local with the following configuration:\nPort:\t%s\nInMemory:\t%v\nVersion:\tstator %s\nDbPath:\t%s\nSharedDb:\t%v\nshouldDelayTransientStatuses:\t%v\nCorsParams:\t%s\n\n",
		port, f.inMemory, version().Version, orNull(f.dbPath, f.inMemory), f.sharedDB, f.delayStatuses, orNull(f.cors, f.cors == ""))
}

// sharedDatabase is the name of the only database with -sharedDb, as that of the file of DynamoDB Local.
const sharedDatabase = "shared-local-instance"

// maxLocalDatabases is how many databases a server without -sharedDb has. Each takes about 1.1 MB: test suites have
// an access key for each of some hundred tests.
const maxLocalDatabases = 1000

// localDatabases are the databases of access keys and regions, which are opened with their first request.
type localDatabases struct {
	flags *localFlags
	log   *slog.Logger
	max   int

	mu     sync.Mutex
	open   map[string]*localDatabase
	closed bool // no more are opened
}

type localDatabase struct {
	name string
	once sync.Once
	db   *stator.DB
	err  error
}

// handler returns the handler of the database of an access key and a region.
func (d *localDatabases) handler(_ context.Context, accessKey, region string) (http.Handler, error) {
	name := sharedDatabase
	if !d.flags.sharedDB {
		if !isAlphanumeric(accessKey) {
			return nil, &apierror.Error{Code: "UnrecognizedClientException", Status: http.StatusBadRequest, Message: "The Access Key ID or security token is invalid."}
		}
		name = accessKey + "_" + region
	}
	// Not the context of the request: the database outlives it.
	return d.database(context.Background(), name)
}

func isAlphanumeric(s string) bool {
	for _, c := range s {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// database opens the database of a name, unless it is open.
func (d *localDatabases) database(ctx context.Context, name string) (http.Handler, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errLocalClosed
	}
	one := d.open[name]
	if one == nil {
		if one = d.sameFolder(name); one != nil {
			name = one.name
		}
	}
	if one == nil {
		if len(d.open) >= d.max {
			d.mu.Unlock()
			return nil, &apierror.Error{Code: "LimitExceededException", Status: http.StatusBadRequest, Message: fmt.Sprintf("This server has %d databases, one for each access key and region; start it with -sharedDb to have one for all.", d.max)}
		}
		one = &localDatabase{name: name}
		d.open[name] = one
	}
	d.mu.Unlock()
	one.once.Do(func() {
		db, err := d.openDatabase(ctx, name)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err == nil && d.closed { // close did not see it
			db, err = nil, errors.Join(errLocalClosed, db.Close())
		}
		one.db, one.err = db, err
	})
	if one.err != nil {
		d.mu.Lock()
		if d.open[name] == one {
			delete(d.open, name) // so that the next request tries again
		}
		d.mu.Unlock()
		return nil, one.err
	}
	return one.db.Handler(), nil
}

// sameFolder returns the open database in the folder of a name, if that folder is another one's too: on many
// systems names that differ in case are names of one file. The caller holds the lock.
func (d *localDatabases) sameFolder(name string) *localDatabase {
	if d.flags.inMemory {
		return nil
	}
	folder, err := os.Stat(d.folder(name))
	if err != nil {
		return nil // there is none yet
	}
	for other, one := range d.open {
		if strings.EqualFold(other, name) {
			if is, err := os.Stat(d.folder(other)); err == nil && os.SameFile(is, folder) {
				return one
			}
		}
	}
	return nil
}

// folder returns the folder of a database.
func (d *localDatabases) folder(name string) string {
	return filepath.Join(d.flags.dbPath, name+".stator")
}

var errLocalClosed = errors.New("the server is stopping")

// openDatabase opens a database.
func (d *localDatabases) openDatabase(ctx context.Context, name string) (*stator.DB, error) {
	o := stator.Options{Log: d.log, AllowedOrigins: d.flags.origins(), CacheBytes: 16 << 20, NoPreallocation: true}
	if d.flags.delayStatuses {
		o.TableDelay, o.DelayUpdatesOnly = localIndexDelay, true
	}
	if !d.flags.inMemory {
		o.Dir = d.folder(name)
		d.warnOfFile(filepath.Join(d.flags.dbPath, name+".db"), o.Dir)
	}
	db, err := stator.Open(ctx, o)
	if err != nil && o.Dir != "" {
		return nil, cannotOpen(o.Dir, err)
	}
	return db, err
}

// warnOfFile logs that there is a file of DynamoDB Local whose tables are not served.
func (d *localDatabases) warnOfFile(file, dir string) {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if _, err := os.Stat(file); err == nil {
		d.log.Warn("the tables in the file of DynamoDB Local are not served: stop this server and run stator import-local "+file+" --data "+dir, "file", file)
	}
}

// all returns the handlers of the open databases.
func (d *localDatabases) all() (handlers []http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.open {
		if one.db != nil {
			handlers = append(handlers, one.db.Handler())
		}
	}
	return handlers
}

// close closes all databases, those too that are being opened. No requests are in flight in others.
func (d *localDatabases) close() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for name, one := range d.open {
		if one.db != nil {
			if closeErr := one.db.Close(); closeErr != nil {
				err = errors.Join(err, fmt.Errorf("close the data of %s: %w", name, closeErr))
			}
		}
	}
	return err
}
