package db

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
)

// Open reads the catalog of an engine and starts the background work. The caller
// closes the engine, after Close.
func Open(ctx context.Context, engine store.Engine, o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.New(clock.Options{Log: o.Log})
	}
	lifeDelay := o.TableDelay
	if o.DelayUpdatesOnly {
		lifeDelay = 0
	}
	d := &DB{
		engine: engine, clock: o.Clock, log: o.Log, delay: o.TableDelay, lifeDelay: lifeDelay,
		sharedStamps:    o.Clock.Shared(),
		collectionLimit: cmp.Or(o.MaxCollectionBytes, maxCollection),
		expiryInterval:  cmp.Or(o.ExpiryInterval, time.Second),
		hideExpired:     o.HideExpired,
		writing:         o.Writing,
		shardDuration:   cmp.Or(o.ShardDuration, shardDuration),
		past:            history.NewRecent(),
		keepChanges:     o.KeepChanges,
		drop:            o.Clock.NewWake(),
		build:           o.Clock.NewWake(),
		restores:        newRestoreQueue(o.Clock.NewWake(), o.OpenBackup),
		catalog:         catalog{unsettled: make(map[string]*unsettled)},
		listeners:       make(map[string]func(context.Context, string) error),
		saving:          make(chan struct{}, 1),
		meter:           meter.NewRegistry(o.Clock.Now()),
		elsewhere:       meter.NewRegistry(o.Clock.Now()),
	}
	if fleet, ok := engine.(store.Fleet); ok {
		d.announcer = newAnnouncer(d, fleet, o.SharedCache)
	}
	if d.sharedStamps {
		d.units = newUnitsExchange()
	}
	d.meter.Sample, d.meter.WithoutHeat = d.sample, o.WithoutHeat
	for _, name := range []string{meter.UserErrors, meter.SystemErrors, meter.ConditionsFailed, meter.Conflicts} {
		d.meter.Series(meter.ID{Name: name}) // so that they are 0 before the first
	}
	d.catalog.detach = func(table string) {
		d.meter.Forget(table)
		d.elsewhere.Forget(table)
		d.decoded.Delete(table)
	}
	d.catalog.attach = func(t *table) {
		if t.series != nil && len(t.Indexes) < t.series.indexes {
			has := func(index string) bool { _, has := t.Index(index); return has }
			d.meter.ForgetIndexes(t.Name, has)
			d.elsewhere.ForgetIndexes(t.Name, has)
		}
		t.series, t.rules = newTableSeries(d.meter, t.Table, t.series, d.Now()), rulesOf(t.Table, t.rules)
		if t.Throttling == schema.ThrottlingOn || o.Throttle && t.Throttling == schema.ThrottlingDefault {
			d.setLimits(t)
		} else {
			t.limits = nil
		}
	}
	engine.Subscribe(d.onMessage) // before reading the catalog, to miss no change of it
	if err := d.load(ctx); err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	if err := d.readCounts(ctx); err != nil {
		return nil, fmt.Errorf("read item counts: %w", err)
	}
	if err := d.resumeClock(ctx); err != nil {
		return nil, fmt.Errorf("compare the clock with the newest data: %w", err)
	}
	if d.keepChanges {
		d.past.Running, d.past.LogBytes = laggingReads, 1<<30
		if err := d.dropKeptChanges(ctx); err != nil {
			return nil, fmt.Errorf("remove recorded changes: %w", err)
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.work.Go(func() {
		lead.Run(background, nil, nil,
			lead.Every(clockInterval, d.followClock, d.warn("a step of the clock could not be recorded; retrying")),
			lead.Every(saveInterval, d.saveCounts, d.warn("item counts could not be saved")),
			lead.Every(readInterval, d.readCounts, d.warn("item counts could not be read")))
	})
	d.clock.Begin()
	d.work.Go(func() {
		defer d.clock.End()
		lead.Run(background, d.clock, nil, d.endMinutes())
	})
	if d.units != nil {
		d.work.Go(func() {
			lead.Run(background, nil, nil, lead.Every(exchangeInterval, d.exchangeUnits, d.warn("what this server consumes could not be exchanged with the other servers; retrying")))
		})
	}
	if d.announcer != nil {
		d.announcer.start()
	}
	d.leader.Start(ctx, d.clock, nil, d.lead)
	return d, nil
}

// lead does the background work of the leader, until this server may have missed
// that another one leads. A lapse of leadership without that interrupts nothing: a
// restore would begin again.
func (d *DB) lead(ctx context.Context, begun func()) {
	begun()
	defer d.restores.releaseOffered() // another server may fill those tables
	lead.Run(ctx, d.clock, d.engine.Leads,
		lead.Loop{Step: d.dropStep, Wake: d.drop, Retry: 5 * time.Second, Failed: d.fail("deleted tables could not be removed; retrying")},
		lead.Loop{Step: d.buildStep, Wake: d.build, Failed: d.fail("an index could not be built; retrying")},
		lead.Loop{Step: d.restoreStep, Wake: d.restores.wake, Workers: restoreWorkers, Delay: d.restoreDelay()},
		d.tokenLoop(),
		d.heatLoop(),
		lead.Every(trimInterval, d.Trim, d.warn("old change records could not be removed")), // not quiet: readers of changes move on, or would be before those that are kept
		d.expiryLoop())
}

// quiet returns a loop whose work no other loop looks for.
func quiet(l lead.Loop) lead.Loop {
	l.Quiet = true
	return l
}

// restoreDelay is how long restores wait when this server begins to lead again:
// updates that a cancelled attempt has sent may still commit for a while.
func (d *DB) restoreDelay() time.Duration {
	if d.terms.Add(1) == 1 {
		return 0
	}
	return restoreRetry
}

// fail returns a function that logs an error of background work that a customer waits for.
func (d *DB) fail(message string) func(error) {
	return func(err error) { d.log.Error(message, "error", err) }
}

// warn returns a function that logs an error of background work.
func (d *DB) warn(message string) func(error) {
	return func(err error) { d.log.Warn(message, "error", err) }
}

// Now returns the time of the database's clock.
func (d *DB) Now() time.Time { return d.clock.Now() }

// Clock returns the database's clock.
func (d *DB) Clock() *clock.Clock { return d.clock }

// Log returns the log of the database.
func (d *DB) Log() *slog.Logger { return d.log }

// ID returns the id of the database. It is made when it is first needed, and a
// database that is restored from a backup gets another one. So does a promoted standby:
// the branch of its data is added to the id of the server that it followed.
func (d *DB) ID(ctx context.Context) (string, error) {
	id, err := d.storedID(ctx)
	if err != nil {
		return "", err
	}
	if e, ok := d.engine.(store.BranchReporter); ok {
		branch, err := e.Branch()
		if err != nil {
			return "", err
		}
		if branch != "" {
			id += "." + branch
		}
	}
	return id, nil
}

// storedID returns the part of the id that a standby copies.
func (d *DB) storedID(ctx context.Context) (id string, err error) {
	key, made := keyspace.Meta("database id"), NewUUID()
	stored, err := d.engine.Get(ctx, store.Strong, key)
	if err != nil {
		return "", err
	}
	if stored[0] != nil {
		return string(stored[0]), nil
	}
	err = d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		if stored, ok := tx.Get(key); ok {
			id = string(stored)
			return nil
		}
		id = made
		tx.Set(key, []byte(made))
		return nil
	})
	return id, err
}

// NextSetNumber returns the number of the next backup set. It is larger than all that it has
// returned before, and than after. The first time it is at least first.
func (d *DB) NextSetNumber(ctx context.Context, after, first int64) (number int64, err error) {
	key := keyspace.Meta("backup sets")
	err = d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		number = max(after+1, first)
		if last, ok := tx.Get(key); ok && len(last) == 8 {
			number = max(after, int64(binary.BigEndian.Uint64(last))) + 1
		}
		tx.Set(key, binary.BigEndian.AppendUint64(nil, uint64(number)))
		return nil
	})
	return number, err
}

// Healthy returns an error if the engine cannot be read, or cannot store data.
func (d *DB) Healthy(ctx context.Context) error {
	if err := d.engine.Healthy(ctx); err != nil {
		return err
	}
	_, err := d.engine.Get(ctx, store.Strong, keyspace.Meta("last table id"))
	return err
}

// Writable returns an error if writes are rejected, such as store.ErrFull.
func (d *DB) Writable() error {
	if e, ok := d.engine.(store.WritableReporter); ok {
		return e.Writable()
	}
	return nil
}

// EngineMetrics returns the metrics of the engine, if it has any.
func (d *DB) EngineMetrics() []metrics.Metric {
	if e, ok := d.engine.(store.MetricsReporter); ok {
		return e.Metrics()
	}
	return nil
}

// Damage returns what the engine has found of damaged data since it was opened.
func (d *DB) Damage() store.Damage {
	if e, ok := d.engine.(store.DamageReporter); ok {
		return e.Damage()
	}
	return store.Damage{}
}

// Close stops the background work and saves the item counts. No other method may
// be in progress.
func (d *DB) Close() error {
	d.stop()
	d.work.Wait()
	d.leader.Close()
	if d.announcer != nil {
		d.announcer.close()
	}
	if d.runHasEnd || len(d.newRuns) > 0 {
		if err := d.recordRuns(context.Background()); err != nil {
			d.log.Warn("a run of the clock could not be recorded", "error", err)
		}
	}
	if d.keepChanges {
		if err := d.dropKeptChanges(context.Background()); err != nil {
			d.log.Warn("changes that were recorded for injected faults could not be removed", "error", err)
		}
	}
	return d.saveCounts(context.Background())
}
