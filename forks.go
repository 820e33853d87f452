package stator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/overlay"
)

// ForkOptions bound the forks that requests make. Fields that are zero have defaults.
type ForkOptions struct {
	Max      int           // forks and snapshots at once; defaults to 1,000
	Bytes    int64         // memory of what is written to one fork; defaults to 256 MiB
	AllBytes int64         // memory of what is written to all forks; defaults to 512 MiB
	Idle     time.Duration // without requests, after which a fork is dropped; defaults to 30 minutes
	Lifetime time.Duration // after which a fork is dropped in any case; defaults to 24 hours
}

func (o *ForkOptions) check() error {
	if o != nil && (o.Max < 0 || o.Bytes < 0 || o.AllBytes < 0 || o.Idle < 0 || o.Lifetime < 0) {
		return errors.New("the numbers, sizes and times of Options.Forks must not be negative")
	}
	return nil
}

func (o ForkOptions) withDefaults() ForkOptions {
	return ForkOptions{
		Max: cmp.Or(o.Max, 1000), Bytes: cmp.Or(o.Bytes, 256<<20), AllBytes: cmp.Or(o.AllBytes, 512<<20),
		Idle: cmp.Or(o.Idle, 30*time.Minute), Lifetime: cmp.Or(o.Lifetime, 24*time.Hour),
	}
}

// Fork returns a fork of the database as it is now: a database of its own that begins with the
// same tables, items, indexes and streams. That takes milliseconds, whatever the size of the
// data. What is written to a fork is kept in memory, is seen in no other database, and is lost
// when the fork is closed; what is written to the database afterwards is not seen in the fork.
// A fork can be forked too.
//
// A fork has the options of its database, without triggers, caches, buckets and scheduled
// backups: nothing that it does is seen outside. A database on a cluster cannot be forked. All
// forks must be closed before the database.
func (d *DB) Fork(ctx context.Context) (*DB, error) {
	engine, err := d.forkEngine(ctx, overlay.Options{Now: d.db.Now})
	if err != nil {
		return nil, forkFailed(err)
	}
	fork, _, err := d.openFork(ctx, engine, nil)
	return fork, err
}

// forkEngine returns a fork of the engine, with all that the database knows.
func (d *DB) forkEngine(ctx context.Context, o overlay.Options) (*overlay.Engine, error) {
	if d.forks != nil {
		return d.forks.main.forkEngine(ctx, o)
	}
	return d.forkOwnEngine(ctx, o)
}

// forkOwnEngine is forkEngine for a database that was not rewound.
func (d *DB) forkOwnEngine(ctx context.Context, o overlay.Options) (*overlay.Engine, error) {
	if err := d.db.SaveCounts(ctx); err != nil {
		return nil, fmt.Errorf("save item counts: %w", err)
	}
	engine := d.engine
	if n, ok := engine.(noBackground); ok {
		engine = n.Engine
	}
	return overlay.Fork(ctx, engine, o)
}

// forkFailed returns the error of a fork that could not be made as a customer gets it.
func forkFailed(err error) error {
	if errors.Is(err, overlay.ErrManyServers) {
		return apierror.Validation("A database on a cluster cannot be forked: the cluster removes old versions of items on a schedule of its own. Restore a backup into a server without --engine, and fork that")
	}
	return err
}

// openFork opens the database of a fork, which closes the engine, and so does openFork when it
// fails.
func (d *DB) openFork(ctx context.Context, engine store.Engine, forks ops.Forks) (*DB, *server.Database, error) {
	o := d.options
	o.Dir, o.Engine, o.Backups, o.BackupEvery, o.Buckets, o.Triggers, o.Cache, o.ScrubRate, o.Forks = "", "", "", 0, nil, nil, nil, 0, nil
	files, err := openPlace(ctx, o.backups(), nil, true)
	if err != nil {
		return nil, nil, errors.Join(err, engine.Close())
	}
	if o.NoBackground {
		engine = withoutBackground(engine)
	}
	own, before := backup.Contents(files), backup.Contents(d.backupFiles)
	opened, err := db.Open(ctx, engine, o.database(o.clock(nil).Apart(), func(ctx context.Context, id string) (*db.Contents, error) {
		found, err := own(ctx, id)
		if err != nil { // of a restore that was in progress
			found, err = before(ctx, id)
		}
		return found, err
	}))
	if err != nil {
		return nil, nil, errors.Join(err, files.Close(), engine.Close())
	}
	f := &DB{options: o, region: d.region, log: d.log, engine: engine, backupFiles: files, db: opened}
	f.backups = backup.Open(ctx, opened, files, backup.Options{Log: o.Log})
	if f.transfers, err = transfer.Open(ctx, opened, nil, o.Log); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	f.scaling = autoscaling.Open(ctx, opened, autoscaling.Options{Log: o.Log, Consumed: opened.Consumed})
	parts := ops.Parts{DB: opened, Forks: forks, Backups: f.backups, Transfers: f.transfers, Scaling: f.scaling, DAX: f.shownDAXPort}
	if forks != nil && forks.Fork() == "" { // the server itself, which was rewound
		parts.Faults, parts.TestClock = d.faults, d.options.settableClock()
	}
	f.service = ops.New(parts)
	database := server.NewDatabase(f.service)
	f.direct, f.handler = database.Handler(d.direct.(*server.Handler)), database.Handler(d.handler.(*server.Handler))
	return f, database, nil
}
