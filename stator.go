// Package stator embeds a DynamoDB-compatible database in a Go program.
//
//	db, err := stator.Open(ctx, stator.Options{Dir: "data"})
//	…
//	defer db.Close()
//	http.ListenAndServe("127.0.0.1:8000", db.Handler())
//
// It opens the parts under internal/, connects them and closes them.
package stator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/access"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/db/scrub"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/inject"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/process"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/dax"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/trace"
	"github.com/stator-db/stator/internal/trigger"
)

// Options configure a database. The zero value is a database in memory, which
// is lost when it is closed.
type Options struct {
	// Dir is the data folder. Without one, the data is in memory.
	Dir string

	// AllowOtherFiles creates a database in a Dir that has other files already.
	// Without it, Open returns an *OtherFilesError. A Dir that has a database is
	// opened in any case.
	AllowOtherFiles bool

	// Engine is the URL of a TiKV cluster that holds the data instead of a
	// folder: tikv://pd1:2379,pd2:2379?prefix=prod. Any number of servers can
	// open the same cluster. Engine requires Backups, and package stator/tikv in
	// the program; see docs/scale-out.md.
	Engine string

	// Backups is where backups of tables are stored: a folder, or a file:// or
	// s3:// URL; programs that import package stator/s3 can use the latter. It
	// defaults to Dir with the suffix "-backups", or to memory when there is no Dir.
	Backups string

	// BackupEvery is how often all tables are backed up to Backups, each time as
	// of one moment; 0 disables that. Each backup is verified by restoring it.
	// The newest BackupKeep of them are kept, which defaults to 24; those older
	// than BackupMaxAge are removed too, except the newest.
	BackupEvery  time.Duration
	BackupKeep   int
	BackupMaxAge time.Duration

	// EncryptionKey encrypts the data folder and backups: the name of a file with a key,
	// or "command:" and a command line that prints one. A Dir that was created with a key
	// is opened with that key only; one that was created without needs stator encryption
	// enable. See docs/encryption.md.
	EncryptionKey string

	// AllowPlainBackups allows to read backups that are not encrypted although there is an
	// EncryptionKey, such as those from before there was one. Everybody who can write to
	// Backups can make such a backup.
	AllowPlainBackups bool

	// Buckets maps each S3Bucket name that exports and imports may use to a
	// folder or URL. Other buckets are refused.
	Buckets map[string]string

	// NoPreallocation allocates no space in the folder before it is written, which is more than
	// 100 MiB otherwise: for many databases on one disk. A write may then be slower, and a disk
	// that other programs fill has less space left for deletes.
	NoPreallocation bool

	// CacheBytes is the size of the cache of data in a folder or in memory; it
	// defaults to 64 MiB. It is allocated as it fills, and the garbage
	// collector may need as much again.
	CacheBytes int64

	// Cache is a cache in front of the tables with the rules of DAX, unlike CacheBytes, which
	// no reader can tell from none; nil is none. See docs/cache.md.
	Cache *Cache

	// Relaxed acknowledges a write before it is on disk. A crash can lose the
	// most recent writes.
	Relaxed bool

	// TableDelay is how long a table stays CREATING, UPDATING and DELETING. It
	// defaults to 0: the change is complete when the request returns.
	TableDelay time.Duration

	// DelayUpdatesOnly leaves the creation and deletion of tables without the TableDelay: then it
	// applies to their updates, among them new and deleted indexes.
	DelayUpdatesOnly bool

	// ExpiryInterval is the time between two searches for items whose time to
	// live has passed; it defaults to 1 s. HideExpired omits such items from
	// reads even before they are deleted.
	ExpiryInterval time.Duration
	HideExpired    bool

	// ShardDuration is how long a shard of a stream accepts records before a
	// successor replaces it; it defaults to 4 h. It applies to streams that are
	// enabled from now on.
	ShardDuration time.Duration

	// Throttle rejects requests that exceed the throughput of a table, a global
	// secondary index or a partition, as DynamoDB does; see docs/throttling.md.
	Throttle bool

	// AllowFaults lets DB.SetFaults and requests inject faults into other requests, for tests; Faults does
	// that from the start. Then changes of all tables are recorded for some minutes. See docs/faults.md.
	AllowFaults bool
	Faults      *FaultPlan

	// AllowedHosts are the names of the public DNS by which Handler is reached:
	// a name, all names below one (*.example.org), or all names (*). Requests
	// for other names of the public DNS are rejected, because a web page could
	// send them (DNS rebinding). Addresses and private names, such as localhost
	// and dynamodb, are always accepted.
	AllowedHosts []string

	// AllowedOrigins are web sites whose pages may send requests to Handler (CORS), such as
	// http://localhost:3000, all below a domain (https://*.example.org), or all (*). Each page
	// of them can read and change everything that Access allows to anyone.
	AllowedOrigins []string

	// Access has the access keys with which requests to Handler must be signed, and the policies
	// that say what their principals may do; requests for GET /, /livez, /readyz and /healthz need
	// no signature. Without keys, Handler accepts any credentials. An Access is for one database.
	Access *Access

	// Console makes Handler serve the console below /console/, with the keys and policies of Access:
	// ConsoleRead lets people see data, ConsoleWrite change it. Empty is no console.
	Console ConsoleMode

	// ConsoleModels is what the console shows of access-pattern models, as tablemodel.Console
	// makes it; nil is nothing.
	ConsoleModels ConsoleModels

	// WithoutHeat does not count what tables consume by hash range, which the heat map of the
	// console shows. Counting takes up to 40 MB.
	WithoutHeat bool

	// Forks lets requests to Handler make forks of the database and send requests to them; nil
	// makes none. See docs/forks.md, and DB.Fork for forks without a server.
	Forks *ForkOptions

	// Region is the region that requests must be signed for if Access has policies, which
	// name resources with their region; it defaults to DefaultRegion. Without policies all
	// regions are accepted.
	Region string

	// Audit is the path of a file in which all requests to the API are written down, as
	// JSON lines with the field names of AWS CloudTrail; see docs/access.md. The file is replaced
	// when it has AuditBytes (100 MiB), and AuditKeep (10) of its predecessors are kept.
	Audit      string
	AuditBytes int64
	AuditKeep  int

	// TraceEndpoint is the URL of a receiver of OpenTelemetry traces, such as
	// http://127.0.0.1:4318, to which spans of requests are exported; without it nothing
	// is traced. TraceSample is the share of requests, from 0 to 1, of those whose client does not
	// decide that by a traceparent header. See docs/metrics.md.
	TraceEndpoint string
	TraceSample   float64

	// Triggers post the changes of streams to HTTP endpoints.
	Triggers []Trigger

	// ScrubRate is how many stored keys per second are verified in the
	// background, again and again; see Verify. A finding is logged. With 0 none
	// are.
	ScrubRate int

	// NoBackground disables background work such as exports, restores and the
	// deletion of expired items. It resumes when the data is next opened
	// without this option.
	NoBackground bool

	Log *slog.Logger // defaults to a logger that discards everything

	// Now is the wall clock; it defaults to the system's. It is checked against
	// Elapsed, a clock that is never set: a step of Now is reported and has no
	// effect until it has persisted for 15 minutes. With Now and without Elapsed,
	// Now is used as it is. On a cluster they default to the time of the cluster
	// and to the system's monotonic clock.
	Now     func() time.Time
	Elapsed func() time.Duration

	// TestClock is the time in place of Now, in a database in memory: a clock that a test
	// sets and advances. Clients may do that too, if TestClockRequests is set: with the
	// operations Stator.AdvanceClock and others. Dates of signatures are still compared with
	// the system's time, by which SDKs sign, unless TestClockSignatures is set. See
	// docs/testing.md.
	TestClock           *TestClock
	TestClockRequests   bool
	TestClockSignatures bool

	key *encryption.MasterKey // of EncryptionKey; nil without one
}

// Trigger configures which changes of a stream are posted to which endpoint.
type Trigger = trigger.Config

// TriggerPattern is one of a trigger's filters.
type TriggerPattern = trigger.Pattern

// TriggerFault is the error that reports an invalid trigger.
type TriggerFault = trigger.Fault

// DB is an open database.
type DB struct {
	engine      store.Engine
	db          *db.DB
	backups     *backup.Store
	backupFiles blob.Place
	buckets     map[string]blob.Place
	transfers   *transfer.Store
	scaling     *autoscaling.Store
	service     *ops.Service     // nil until it is made
	faults      *inject.Injector // nil if none are injected
	handler     http.Handler
	direct      http.Handler // accepts any host
	region      string       // in ARNs of DAX clusters
	log         *slog.Logger
	dax         atomic.Pointer[dax.Node]
	daxPort     atomic.Pointer[ops.DAXPort] // without its cache
	daxCache    *Cache                      // nil without one

	options Options  // for forks
	forks   *forkSet // nil if requests make none

	triggers *trigger.Set
	scrub    *scrub.Scrub  // nil without one
	tracer   *trace.Tracer // nil without one
	audit    *audit.Log    // nil without one
}

// ErrUnavailable is returned when the cluster does not answer. The call may be
// retried.
var ErrUnavailable = store.ErrUnavailable

// LockedError is returned when another process has the data folder open.
type LockedError = pebble.LockedError

// OtherFilesError is returned when the data folder has files, but no database.
type OtherFilesError = pebble.OtherFilesError

// WrongKeyError is returned when the data folder or a backup is encrypted with
// another key than EncryptionKey.
type WrongKeyError = encryption.WrongKeyError

// NeedsKeyError is returned when the data folder or a backup is encrypted, and there is
// no EncryptionKey.
type NeedsKeyError = encryption.NeedsKeyError

// NotEncryptedError is returned when a backup is not encrypted, and there is an
// EncryptionKey, but not AllowPlainBackups.
type NotEncryptedError = encryption.NotEncryptedError

// Open opens a database. The caller closes it with Close.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.loadKey(ctx); err != nil {
		return nil, err
	}
	engine, now, err := openEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.NoBackground {
		engine = withoutBackground(engine)
	}
	return openOn(ctx, engine, o, now)
}

// check returns the error of an option that has no meaning.
func (o *Options) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"TableDelay", o.TableDelay}, {"ExpiryInterval", o.ExpiryInterval}, {"ShardDuration", o.ShardDuration},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s is %v, but must not be negative", d.name, d.value)
		}
	}
	for _, site := range o.AllowedOrigins {
		if err := server.CheckOrigin(site); err != nil {
			return fmt.Errorf("AllowedOrigins: %w", err)
		}
	}
	switch {
	case o.EncryptionKey == "":
	case o.Engine != "":
		return errors.New("a database on a cluster cannot have an encryption key: TiKV has an encryption at rest of its own, which is configured there")
	case o.Dir == "":
		return errors.New("a database in memory cannot have an encryption key: nothing of it is on a disk")
	}
	return errors.Join(o.checkFaults(), o.checkTestClock(), o.checkCache(), o.Forks.check())
}

// unencrypted returns what is called when a table asks for encryption; nil if that needs no
// warning. On a cluster it is unknown whether data is encrypted.
func (o *Options) unencrypted() func(table string) {
	if o.Dir == "" || o.key != nil {
		return nil
	}
	return func(table string) {
		o.Log.Warn("a table asks for encryption with a KMS key, and DescribeTable shows that, but the data folder is not encrypted: see docs/encryption.md", "table", table)
	}
}

// warnUnencrypted logs which tables ask for encryption on a server that does not encrypt, such as after
// stator encryption disable: DescribeTable shows what they ask for.
func (o *Options) warnUnencrypted(d *db.DB) {
	warn := o.unencrypted()
	if warn == nil {
		return
	}
	names, _ := d.Tables("", math.MaxInt)
	for _, name := range names {
		if t, err := d.Describe(name); err == nil && t.Encryption.Enabled {
			warn(name)
		}
	}
}

// loadKey reads the encryption key, if there is one.
func (o *Options) loadKey(ctx context.Context) (err error) {
	o.key, err = loadKey(ctx, o.EncryptionKey)
	return err
}

// loadKey reads an encryption key; it is nil if none is named.
func loadKey(ctx context.Context, source string) (*encryption.MasterKey, error) {
	if source == "" {
		return nil, nil
	}
	return encryption.LoadKey(ctx, source)
}

// openPlace opens a location of backups.
func openPlace(ctx context.Context, location string, key *encryption.MasterKey, allowPlain bool) (blob.Place, error) {
	place, err := blob.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return blob.Encrypted(place, key, allowPlain), nil
}

// noBackground is an engine that never leads, so that no background work starts
// on it.
type noBackground struct{ store.Engine }

func (noBackground) Leads() bool { return false }

// noBackgroundFleet is such an engine on a cluster, whose writes are announced to the caches of
// other servers.
type noBackgroundFleet struct {
	noBackground
	store.Fleet
}

func withoutBackground(engine store.Engine) store.Engine {
	if fleet, ok := engine.(store.Fleet); ok {
		return noBackgroundFleet{noBackground{engine}, fleet}
	}
	return noBackground{engine}
}

// Check checks the engine if it can be checked.
func (n noBackground) Check(ctx context.Context) error {
	if c, ok := n.Engine.(store.Checker); ok {
		return c.Check(ctx)
	}
	return nil
}

// openOn opens a database on an engine. DB.Close closes the engine, and so does
// openOn when it fails.
func openOn(ctx context.Context, engine store.Engine, o Options, now *clock.Clock) (*DB, error) {
	if err := o.Console.check(); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	schedule, err := o.schedule()
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	backupFiles, err := openPlace(ctx, o.backups(), o.key, o.AllowPlainBackups)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	cached := o.newCache(now)
	settings := o.database(now, backup.Contents(backupFiles))
	shareCache(cached, &settings)
	d, err := db.Open(ctx, engine, settings)
	if err != nil {
		return nil, errors.Join(err, backupFiles.Close(), engine.Close())
	}
	if _, shared := engine.(store.Fleet); shared {
		followWrites(cached, d)
	}
	s := &DB{options: o, daxCache: o.Cache, region: cmp.Or(o.Region, DefaultRegion), log: o.Log, engine: engine, backupFiles: backupFiles, db: d, backups: backup.Open(ctx, d, backupFiles, backup.Options{Log: o.Log, Schedule: schedule})}
	if err := s.openBuckets(ctx, o.Buckets); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.transfers, err = transfer.Open(ctx, d, s.buckets, o.Log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	o.warnUnencrypted(d)
	s.scaling = autoscaling.Open(ctx, d, autoscaling.Options{Log: o.Log, Consumed: d.Consumed})
	from := source(engine, d)
	if o.Access != nil {
		if o.TestClock != nil {
			o.Access.store.Follow(now.Now, o.TestClockSignatures)
		}
		if err := o.Access.store.Attach(ctx, d); err != nil {
			return nil, errors.Join(fmt.Errorf("read the access keys and policies of the database: %w", err), s.Close())
		}
	}
	s.forks = newForkSet(s)
	s.faults = o.injector(now)
	service := ops.New(ops.Parts{
		Access: o.accessStore(), DB: d, Backups: s.backups, Transfers: s.transfers, Scaling: s.scaling, Source: from, Cache: cached, DAX: s.shownDAXPort,
		Unencrypted: o.unencrypted(), Triggers: s.runningTriggers, Scrub: func() *scrub.Scrub { return s.scrub },
		Faults: s.faults, Forks: s.forks.ofServer(), TestClock: o.settableClock(),
	})
	s.service = service
	direct := server.New(service, o.Log, process.AvailableMemory())
	direct.EncryptedWith(s.EncryptionKeyID())
	if cached != nil {
		direct.Expose(cached.Metrics)
		direct.ThroughCache(o.Cache.HTTP, o.Cache.DAX)
	}
	direct.Expose(s.daxMetrics)
	direct.Expose(d.CacheMetrics)
	if from != nil {
		direct.Expose(from.Metrics)
	}
	if o.ScrubRate > 0 {
		s.scrub = scrub.Start(ctx, d, scrub.Options{Rate: o.ScrubRate, Busy: direct.Busy, Log: o.Log})
		direct.Expose(s.scrub.Metrics)
	}
	if schedule.Every > 0 {
		direct.Expose(s.backups.Metrics)
	}
	if o.TraceEndpoint != "" {
		if s.tracer, err = trace.New(trace.Options{Endpoint: o.TraceEndpoint, Sample: o.TraceSample, Version: programVersion(), Log: o.Log}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		direct.Trace(s.tracer)
	}
	if o.Audit != "" {
		if s.audit, err = audit.Open(audit.Options{Path: o.Audit, MaxBytes: o.AuditBytes, Keep: o.AuditKeep, Log: o.Log}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		direct.Audit(s.audit)
	}
	if s.forks != nil {
		direct.Expose(s.forks.metrics)
		direct = direct.WithForks(s.forks)
	}
	public := direct.OnlyHosts(o.AllowedHosts).AllowOrigins(o.AllowedOrigins).Verified(o.verifier())
	if permitted := o.permitted(); permitted != nil {
		public = public.Permitted(permitted)
	}
	if o.Access != nil && o.Access.inDatabase {
		public = public.AfterAccess(d.AwaitLease)
	}
	if o.Console != "" {
		public = public.WithConsole(console.Mode(o.Console), programVersion(), o.ConsoleModels)
	}
	s.direct, s.handler = direct, public
	s.triggers, err = trigger.Start(ctx, trigger.Options{Service: service, Log: o.Log}, o.Triggers...)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// runningTriggers returns the triggers, for requests; nil before they are started.
func (d *DB) runningTriggers() ops.Triggers {
	if d.triggers == nil {
		return nil
	}
	return d.triggers
}

// database returns the options of the database itself.
func (o *Options) database(now *clock.Clock, openBackup func(context.Context, string) (*db.Contents, error)) db.Options {
	return db.Options{
		Clock: now, Log: o.Log, TableDelay: o.TableDelay, DelayUpdatesOnly: o.DelayUpdatesOnly, ExpiryInterval: o.ExpiryInterval, HideExpired: o.HideExpired,
		ShardDuration: o.ShardDuration, Throttle: o.Throttle, OpenBackup: openBackup, KeepChanges: o.allowsFaults(), WithoutHeat: o.WithoutHeat,
	}
}

// verifier returns the verifier of signatures; nil without one.
func (o *Options) verifier() *auth.Verifier {
	if o.Access == nil {
		return nil
	}
	return o.Access.store.Verifier()
}

// accessStore returns the access keys and policies; nil without them.
func (o *Options) accessStore() *access.Store {
	if o.Access == nil {
		return nil
	}
	return o.Access.store
}

// permitted returns what makes policies count; nil without policies.
func (o *Options) permitted() *server.Access {
	if o.Access == nil || !o.Access.store.HasPolicies() {
		return nil
	}
	return &server.Access{Region: cmp.Or(o.Region, DefaultRegion)}
}

// DefaultRegion is the region of a server with policies that does not have another.
const DefaultRegion = "us-east-1"

// programVersion is the version of the program that stator is a part of.
func programVersion() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		return build.Main.Version
	}
	return ""
}

// openEngine opens the engine, and returns it with the clock of the database.
func openEngine(ctx context.Context, o Options) (store.Engine, *clock.Clock, error) {
	if o.Engine != "" {
		if o.Dir != "" || o.Backups == "" {
			return nil, nil, errors.New("a database on a cluster cannot have a data folder, and requires a location for backups that all its servers can reach")
		}
		engine, err := store.OpenCluster(ctx, o.Engine, o.Log)
		if err != nil {
			return nil, nil, err
		}
		return engine, o.clock(engine), nil
	}
	now := o.clock(nil)
	engine, err := openLocal(o, now)
	return engine, now, err
}

// openLocal opens the engine in a folder or in memory. It must not be a standby's.
func openLocal(o Options, now *clock.Clock) (store.Engine, error) {
	e, err := pebble.Open(o.storage(now))
	if err != nil {
		return nil, err
	}
	if err := standby.CheckNotStandby(e); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// storage returns the options of the engine in a folder or in memory.
func (o *Options) storage(now *clock.Clock) pebble.Options {
	storage := pebble.InMemory()
	if o.Dir != "" {
		storage = pebble.Options{Dir: o.Dir, AllowOtherFiles: o.AllowOtherFiles, Key: o.key, NoPreallocation: o.NoPreallocation}
	}
	if o.Relaxed {
		storage.Durability = pebble.Relaxed
	}
	storage.CacheBytes, storage.Log, storage.Now = o.CacheBytes, o.Log, now.Now
	storage.PrefixBytes, storage.OpenTables = keyspace.PartitionBytes, process.DivideFiles().Tables
	return storage
}

// clock returns the clock of a database: that of the engine if it has one, which is
// nil on one machine.
func (o *Options) clock(engine store.Engine) *clock.Clock {
	if o.TestClock != nil {
		return clock.Controlled(o.TestClock)
	}
	c := clock.Options{Now: o.Now, Elapsed: o.Elapsed, Log: o.Log}
	if cluster, ok := engine.(store.SharedClock); ok {
		c.Shared = true
		if c.Now == nil {
			c.Now = cluster.SharedTime
		}
	}
	return clock.New(c)
}

func (d *DB) openBuckets(ctx context.Context, buckets map[string]string) error {
	d.buckets = make(map[string]blob.Place)
	for name, location := range buckets {
		bucket, err := blob.Open(ctx, location)
		if err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
		d.buckets[name] = bucket
	}
	return nil
}

// backups is the location of backups.
func (o *Options) backups() string {
	switch {
	case o.Backups != "":
		return o.Backups
	case o.Dir != "":
		return filepath.Clean(o.Dir) + "-backups"
	}
	return "mem://"
}

// schedule is the schedule of backups.
func (o *Options) schedule() (backup.Schedule, error) {
	s := backup.Schedule{Every: o.BackupEvery, Keep: cmp.Or(o.BackupKeep, 24), MaxAge: o.BackupMaxAge}
	if s.Every < 0 || s.Keep < 0 || s.MaxAge < 0 {
		return s, errors.New("BackupEvery, BackupKeep and BackupMaxAge must not be negative")
	}
	return s, nil
}

// Handler serves the DynamoDB API over HTTP, for AWS SDKs and the AWS CLI.
func (d *DB) Handler() http.Handler { return d.handler }

// EncryptionKeyID returns the id of the key that the data folder is encrypted with;
// empty if it is not encrypted. The id says nothing about the key.
func (d *DB) EncryptionKeyID() string {
	engine := d.engine
	if n, ok := engine.(noBackground); ok {
		engine = n.Engine
	}
	if e, ok := engine.(*pebble.Engine); ok {
		return e.EncryptionKey()
	}
	return ""
}

// traceFlush is how long Close waits for the receiver of traces.
const traceFlush = 2 * time.Second

// Close waits for background work to stop and closes the database. The handler
// must no longer be in use.
func (d *DB) Close() error {
	var triggersErr, auditErr error
	if d.forks != nil {
		d.forks.close()
	}
	if d.triggers != nil {
		triggersErr = d.triggers.Close()
	}
	if d.scrub != nil {
		d.scrub.Close()
	}
	if d.audit != nil {
		auditErr = d.audit.Close()
	}
	if d.tracer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
		d.tracer.Close(ctx)
		cancel()
	}
	if d.service != nil {
		d.service.Close()
	}
	d.backups.Close()
	if d.transfers != nil {
		d.transfers.Close()
	}
	if d.scaling != nil {
		d.scaling.Close()
	}
	var bucketsErr error
	for _, bucket := range d.buckets {
		bucketsErr = errors.Join(bucketsErr, bucket.Close())
	}
	return errors.Join(triggersErr, auditErr, bucketsErr, d.db.Close(), d.backupFiles.Close(), d.engine.Close())
}
