package ops

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/protocol/api"
)

// restoreToPointChecks run in the order in which faults are reported.
var restoreToPointChecks = []func(*api.RestoreTableToPointInTime) error{
	func(in *api.RestoreTableToPointInTime) error {
		if (in.SourceTableArn == nil) == (in.SourceTableName == nil) {
			return apierror.InvalidValues("Exactly one of SourceTableArn or SourceTableName must be specified")
		}
		return nil
	},
	func(in *api.RestoreTableToPointInTime) error {
		if orZero(in.UseLatestRestorableTime) == (in.RestoreDateTime != nil) {
			return apierror.InvalidValues("Exactly one of RestoreDateTime or UseLatestRestorableTime must be specified")
		}
		return nil
	},
	func(in *api.RestoreTableToPointInTime) error { return overridesFit(&in.RestoreOverrides) },
}

func (s *Service) restoreTableToPointInTime(ctx context.Context, in *api.RestoreTableToPointInTime) (*api.TableReply, error) {
	if err := firstFault(in, restoreToPointChecks); err != nil {
		return nil, err
	}
	source := orZero(in.SourceTableName)
	if in.SourceTableArn != nil {
		var err error
		if source, err = s.tableOfARN(ctx, in.SourceTableArn); err != nil {
			return nil, err
		}
	}
	d, err := s.DB.Describe(source)
	if err != nil || d.Status == schema.Deleting {
		return nil, apierror.TableNotFound(source)
	}
	if err := s.checkNameUnused(*in.TargetTableName); err != nil {
		return nil, err
	}
	var at time.Time
	if in.RestoreDateTime != nil {
		at = in.RestoreDateTime.Truncate(time.Second)
	}
	made, err := s.DB.RestoreToSecond(ctx, source, at, func(t schema.Table) (schema.Table, error) {
		return s.restored(ctx, t, *in.TargetTableName, &in.RestoreOverrides)
	})
	switch {
	case errors.Is(err, history.ErrNoRecovery):
		return nil, apierror.NoRecovery(source)
	case errors.Is(err, history.ErrNotRestorable):
		runs, err := s.DB.ClockRuns(ctx)
		if err != nil {
			return nil, err
		}
		earliest, latest := runs.Window(d.Recovery, s.DB.Now())
		return nil, apierror.InvalidRestoreTime(at, earliest, latest)
	case err != nil:
		return nil, err
	}
	return &api.TableReply{TableDescription: s.description(ctx, made)}, nil
}

// checkedAtOnce is the size of the largest backup that is verified before the
// request is answered. A larger one is verified in the background; if it is
// damaged, the new table is removed and the log says why.
const checkedAtOnce = 64 << 20

func (s *Service) restoreTableFromBackup(ctx context.Context, in *api.RestoreTableFromBackup) (*api.TableReply, error) {
	if err := overridesFit(&in.RestoreOverrides); err != nil {
		return nil, err
	}
	b, err := s.findBackup(ctx, *in.BackupArn)
	if err != nil {
		return nil, err
	}
	if b.Creating {
		return nil, apierror.BackupInUse(*in.BackupArn)
	}
	if err := s.checkNameUnused(*in.TargetTableName); err != nil {
		return nil, err
	}
	if b.FileBytes <= checkedAtOnce {
		if err := s.backups.Verify(ctx, b.ID); err != nil {
			return nil, backupFailure(err)
		}
	}
	made, err := s.backups.Restore(ctx, b.ID, func(t schema.Table) (schema.Table, error) {
		return s.restored(ctx, t, *in.TargetTableName, &in.RestoreOverrides)
	})
	if err != nil {
		return nil, backupFault(*in.BackupArn, err)
	}
	return &api.TableReply{TableDescription: s.description(ctx, made)}, nil
}

// checkNameUnused checks that a table of this name can be created.
func (s *Service) checkNameUnused(table string) error {
	d, err := s.DB.Describe(table)
	switch {
	case err != nil:
		return nil
	case d.Status == schema.Creating || d.Status == schema.Deleting:
		return apierror.TableInUse(table, string(d.Status))
	}
	return apierror.TableExists(table)
}

// overridesFit checks the settings that replace those of the source table.
func overridesFit(o *api.RestoreOverrides) error {
	if payPerRequest(o.BillingModeOverride) && o.ProvisionedThroughputOverride != nil {
		return unitsOnDemand()
	}
	if err := unitsInBounds(o.ProvisionedThroughputOverride); err != nil {
		return err
	}
	if err := ceilingsInRange(o.OnDemandThroughputOverride, "table", 1); err != nil {
		return err
	}
	for _, x := range o.GlobalSecondaryIndexOverride {
		if x.WarmThroughput != nil {
			return apierror.InvalidValues("WarmThroughput is not supported for index: %s in a restore", *x.IndexName)
		}
	}
	return encryptionFits(o.SSESpecificationOverride)
}

// restored returns the definition of a restored table: it takes over the keys,
// indexes, units and encryption of the source, but not its tags, stream, time
// to live and recovery.
func (s *Service) restored(ctx context.Context, t schema.Table, name string, o *api.RestoreOverrides) (schema.Table, error) {
	def := schema.Table{
		Name: name, Key: t.Key,
		OnDemand: t.OnDemand, Throughput: schema.Throughput{Read: t.Throughput.Read, Write: t.Throughput.Write},
		MaxRequests: t.MaxRequests, Warm: t.Warm, Class: t.Class,
		Encryption: schema.Encryption{Enabled: t.Encryption.Enabled, KeyARN: t.Encryption.KeyARN},
	}
	if o.SSESpecificationOverride != nil {
		def.Encryption = s.encryption(ctx, name, o.SSESpecificationOverride)
	}
	if err := overrideUnits(&def, o); err != nil {
		return schema.Table{}, err
	}
	for _, x := range t.Indexes {
		chosen, err := restoredIndex(x, &def, o)
		if err != nil {
			return schema.Table{}, err
		}
		if chosen != nil {
			def.AddIndex(*chosen)
		}
	}
	if name, ok := unknownIndex(&t, o); ok {
		return schema.Table{}, apierror.InvalidValues("Index %s does not match any index of the source table", name)
	}
	def.Attributes = slices.DeleteFunc(slices.Clone(t.Attributes), func(a schema.Attribute) bool { return !def.Uses(a.Name) })
	return def, s.withinAccount(ctx, &def, nil)
}

// overrideUnits changes the billing mode and the units.
func overrideUnits(def *schema.Table, o *api.RestoreOverrides) error {
	was := def.OnDemand
	if o.BillingModeOverride != nil {
		def.OnDemand = payPerRequest(o.BillingModeOverride)
	}
	switch {
	case def.OnDemand && o.ProvisionedThroughputOverride != nil:
		return unitsOnDemand()
	case def.OnDemand:
		def.Throughput = schema.Throughput{}
		def.MaxRequests = merge(def.MaxRequests, ceilings(o.OnDemandThroughputOverride))
	case anyGiven(ceilings(o.OnDemandThroughputOverride)):
		return apierror.InvalidValues("OnDemandThroughputOverride cannot be specified when table BillingMode is PROVISIONED.")
	case o.ProvisionedThroughputOverride != nil:
		def.Throughput = throughput(o.ProvisionedThroughputOverride)
	case was:
		return apierror.InvalidValues("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	if !def.OnDemand {
		def.MaxRequests = schema.Throughput{}
	}
	if was != def.OnDemand || o.ProvisionedThroughputOverride != nil {
		def.Warm = warmFor(def.OnDemand, unitsOf(def.Throughput), nil)
	}
	return nil
}

// restoredIndex returns an index as the restored table has it; nil if it is left
// out. Without an override all indexes are kept.
func restoredIndex(x schema.Index, def *schema.Table, o *api.RestoreOverrides) (*schema.Index, error) {
	if x.State == schema.Deleting {
		return nil, nil
	}
	x.State, x.Backfilling = "", false // it is complete at once
	x.Insights = schema.Insights{}     // as that of the table
	x.Throughput = schema.Throughput{Read: x.Throughput.Read, Write: x.Throughput.Write}
	if !x.Global {
		if o.LocalSecondaryIndexOverride == nil {
			return &x, nil
		}
		i := slices.IndexFunc(o.LocalSecondaryIndexOverride, func(l api.LocalSecondaryIndex) bool { return *l.IndexName == x.Name })
		if i < 0 {
			return nil, nil
		}
		l := &o.LocalSecondaryIndexOverride[i]
		return &x, sameIndex(&x, l.KeySchema, l.Projection)
	}
	var units *api.ProvisionedThroughput
	if o.GlobalSecondaryIndexOverride != nil {
		i := slices.IndexFunc(o.GlobalSecondaryIndexOverride, func(g api.GlobalSecondaryIndex) bool { return *g.IndexName == x.Name })
		if i < 0 {
			return nil, nil
		}
		g := &o.GlobalSecondaryIndexOverride[i]
		if err := sameIndex(&x, g.KeySchema, g.Projection); err != nil {
			return nil, err
		}
		units = g.ProvisionedThroughput
		x.MaxRequests = merge(x.MaxRequests, ceilings(g.OnDemandThroughput))
	}
	return &x, indexUnits(&x, units, def)
}

// indexUnits sets the units of a global index according to the billing mode.
func indexUnits(x *schema.Index, units *api.ProvisionedThroughput, def *schema.Table) error {
	switch {
	case def.OnDemand && units != nil:
		return apierror.InvalidValues("ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", x.Name)
	case def.OnDemand:
		x.Throughput = schema.Throughput{}
	case units != nil:
		x.Throughput, x.MaxRequests = throughput(units), schema.Throughput{}
	case x.Throughput.Read == 0: // the source was on demand
		x.Throughput, x.MaxRequests = schema.Throughput{Read: def.Throughput.Read, Write: def.Throughput.Write}, schema.Throughput{}
	}
	x.Warm = warmFor(def.OnDemand, unitsOf(x.Throughput), nil)
	return nil
}

// sameIndex checks that an override describes an index as it is: an index can
// be left out, but not changed.
func sameIndex(x *schema.Index, key []api.KeySchemaElement, p *api.Projection) error {
	same := slices.EqualFunc(key, keyReply(x.Key), func(a, b api.KeySchemaElement) bool {
		return *a.AttributeName == *b.AttributeName && *a.KeyType == *b.KeyType
	})
	if err := projectionFits(p); err != nil {
		return err
	}
	names := slices.Sorted(slices.Values(p.NonKeyAttributes))
	if !same || *p.ProjectionType != x.Projection.Kind || !slices.Equal(names, slices.Sorted(slices.Values(x.Projection.Names))) {
		return apierror.InvalidValues("Index %s does not match any index of the source table", x.Name)
	}
	return nil
}

// unknownIndex returns a name in the overrides that is not an index of the
// table.
func unknownIndex(t *schema.Table, o *api.RestoreOverrides) (name string, ok bool) {
	has := func(name string, global bool) bool {
		x, ok := t.Index(name)
		return ok && x.Global == global && x.State != schema.Deleting
	}
	for _, l := range o.LocalSecondaryIndexOverride {
		if !has(*l.IndexName, false) {
			return *l.IndexName, true
		}
	}
	for _, g := range o.GlobalSecondaryIndexOverride {
		if !has(*g.IndexName, true) {
			return *g.IndexName, true
		}
	}
	return "", false
}

// restoreReply describes the source of a restored table.
func (s *Service) restoreReply(ctx context.Context, r schema.Restored) *api.RestoreSummary {
	if r.At.IsZero() {
		return nil
	}
	desc := &api.RestoreSummary{
		RestoreDateTime: api.TimeOf(r.At), RestoreInProgress: &r.Running, SourceTableArn: s.tableARN(ctx, r.Table),
	}
	if r.Backup != "" {
		desc.SourceBackupArn = s.backupARN(ctx, r.Table, r.Backup)
	}
	return desc
}
