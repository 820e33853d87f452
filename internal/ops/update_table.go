package ops

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// updateTableChecks run in the order in which DynamoDB reports faults.
var updateTableChecks = []func(*api.UpdateTable) error{
	func(in *api.UpdateTable) error { return tableNamed(in.TableName) },
	somethingChanges,
	indexUpdatesListed,
	oneConcern,
	updateWithUnitsOfMode,
	func(in *api.UpdateTable) error { return unitsInBounds(in.ProvisionedThroughput) },
	indexUpdatesFit,
	updateWithStream,
	func(in *api.UpdateTable) error { return encryptionFits(in.SSESpecification) },
	func(in *api.UpdateTable) error { return knownClass(in.TableClass) },
	updateSupported,
}

// updateTable changes a table. Its reply shows units, warm throughput and class
// as they were: DynamoDB shows the new ones once the table is active again.
func (s *Service) updateTable(ctx context.Context, in *api.UpdateTable) (*api.TableReply, error) {
	if err := firstFault(in, updateTableChecks); err != nil {
		return nil, err
	}
	u := &tableUpdate{UpdateTable: in, now: s.DB.Now()}
	if in.SSESpecification != nil {
		u.encryption = s.encryption(ctx, in.TableName, in.SSESpecification)
	}
	made, err := s.DB.UpdateTable(ctx, in.TableName, func(t *schema.Table) error {
		u.before = *t
		u.before.Indexes = slices.Clone(t.Indexes)
		if err := u.apply(t); err != nil {
			return err
		}
		return s.withinAccount(ctx, t, &u.before)
	})
	if err != nil {
		return nil, err
	}
	desc := s.description(ctx, made)
	u.showBefore(s, desc)
	return &api.TableReply{TableDescription: desc}, nil
}

// somethingChanges checks that the request changes the table. Attribute
// definitions alone do not, nor do empty lists and structures.
func somethingChanges(in *api.UpdateTable) error {
	switch {
	case concerns(in) != 0:
		return nil
	case in.OnDemandThroughput != nil && in.WarmThroughput == nil:
		return apierror.InternalFailure() // measured
	}
	return apierror.Validation("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, " +
		"SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, " +
		"DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required")
}

// concern is a kind of change in a request.
type concern uint

const (
	concernUnits concern = 1 << iota
	concernMode
	concernIndexes
	concernStream
	concernEncryption
	concernReplicas
	concernClass
	concernProtection
	concernCeilings
	concernWarmth
)

func concerns(in *api.UpdateTable) (all concern) {
	for c, given := range map[concern]bool{
		concernUnits:      in.ProvisionedThroughput != nil,
		concernMode:       in.BillingMode != nil,
		concernIndexes:    len(in.GlobalSecondaryIndexUpdates) > 0,
		concernStream:     in.StreamSpecification != nil,
		concernEncryption: in.SSESpecification != nil,
		concernReplicas:   in.ReplicaUpdates != nil || in.GlobalTableWitnessUpdates != nil || in.MultiRegionConsistency != nil || in.GlobalTableSettingsReplicationMode != nil || in.VectorIndexUpdates != nil || in.DisassociationProtectionEnabled != nil,
		concernClass:      in.TableClass != nil,
		concernProtection: in.DeletionProtectionEnabled != nil,
		concernCeilings:   anyGiven(ceilings(in.OnDemandThroughput)),
		concernWarmth:     anyGiven(warmth(in.WarmThroughput)),
	} {
		if given {
			all |= c
		}
	}
	return all
}

// oneConcern rejects changes that DynamoDB does not allow in one request.
func oneConcern(in *api.UpdateTable) error {
	all := concerns(in)
	for _, rule := range []struct {
		change, with concern
		message      string
	}{
		{concernReplicas, 0, "Replica modification must be the only operation in the request"},
		{concernEncryption, 0, "Server-Side Encryption modification must be the only operation in the request"},
		{concernClass, 0, "TableClass modification must be the only operation in the request"},
		{concernProtection, 0, "DeletionProtection modification must be the only operation in the request"},
		{concernCeilings, concernMode | concernIndexes, "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"},
		{concernWarmth, concernIndexes, "WarmThroughput must be the only operation in the request"},
	} {
		if all&rule.change != 0 && all&^(rule.change|rule.with) != 0 {
			return apierror.InvalidValues("%s", rule.message)
		}
	}
	provisioned := concernUnits
	if isSet(in.BillingMode, "PROVISIONED") {
		provisioned |= concernMode
	}
	switch moves := createsOrDeletesIndex(in.GlobalSecondaryIndexUpdates); {
	case all&provisioned != 0 && all&concernStream != 0:
		return apierror.InvalidValues("You cannot modify stream status while updating table IOPS")
	case all&concernUnits != 0 && moves:
		return apierror.InvalidValues("You cannot create or delete index while updating table IOPS")
	case all&concernStream != 0 && moves:
		return apierror.InvalidValues("You cannot create or delete index while changing stream status")
	case all&concernWarmth != 0 && slices.ContainsFunc(in.GlobalSecondaryIndexUpdates, createsIndex):
		return apierror.InvalidValues("Create global secondary index cannot be specified when updating WarmThroughput")
	}
	return nil
}

func updateWithUnitsOfMode(in *api.UpdateTable) error {
	switch {
	case isSet(in.BillingMode, "PROVISIONED") && in.ProvisionedThroughput == nil:
		return apierror.InvalidValues("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
	case payPerRequest(in.BillingMode) && in.ProvisionedThroughput != nil:
		return apierror.InvalidValues("ProvisionedThroughput cannot be specified when BillingMode is PAY_PER_REQUEST")
	}
	return nil
}

func updateWithStream(in *api.UpdateTable) error {
	s := in.StreamSpecification
	switch {
	case s == nil:
	case *s.StreamEnabled && s.StreamViewType == nil:
		return apierror.InvalidValues("If stream is being enabled then UpdateViewType is required")
	case !*s.StreamEnabled && s.StreamViewType != nil:
		return apierror.InvalidValues("If stream is being disabled, then UpdateViewType must not be specified")
	}
	return nil
}

func updateSupported(in *api.UpdateTable) error {
	switch {
	case in.ReplicaUpdates != nil:
		return notSupported("ReplicaUpdates")
	case in.GlobalTableWitnessUpdates != nil:
		return notSupported("GlobalTableWitnessUpdates")
	case in.MultiRegionConsistency != nil:
		return notSupported("MultiRegionConsistency")
	case in.GlobalTableSettingsReplicationMode != nil:
		return notSupported("GlobalTableSettingsReplicationMode")
	case in.VectorIndexUpdates != nil:
		return notSupported("VectorIndexUpdates")
	case in.DisassociationProtectionEnabled != nil:
		return notSupported("DisassociationProtectionEnabled")
	}
	return nil
}

// tableUpdate applies an UpdateTable to a table.
type tableUpdate struct {
	*api.UpdateTable
	now        time.Time
	encryption schema.Encryption
	before     schema.Table
}

// apply changes a table in steps, in the order in which their faults are
// reported.
func (u *tableUpdate) apply(t *schema.Table) error {
	for _, step := range []func(*schema.Table) error{
		u.setStream, u.setMode, u.setUnits, u.setCeilings, u.setIndexes, u.setWarmth, u.setEncryption, u.setClass,
	} {
		if err := step(t); err != nil {
			return err
		}
	}
	if u.DeletionProtectionEnabled != nil {
		t.DeletionProtection = *u.DeletionProtectionEnabled
	}
	if concerns(u.UpdateTable)&(concernUnits|concernMode|concernClass|concernStream) == 0 && !createsOrDeletesIndex(u.GlobalSecondaryIndexUpdates) {
		t.State = schema.Active // other changes do not make the table UPDATING
	}
	return nil
}

// setStream enables or disables the table's stream. An enabled stream cannot be
// changed: it must be disabled first, and the next one is a new stream.
func (u *tableUpdate) setStream(t *schema.Table) error {
	if u.StreamSpecification == nil {
		return nil
	}
	_, has := t.Stream()
	switch enable := *u.StreamSpecification.StreamEnabled; {
	case enable && has:
		return apierror.Validation("Table already has an enabled stream: TableName: %s", t.Name)
	case !enable && !has:
		return apierror.Validation("Table has no stream to disable: TableName: %s", t.Name)
	case enable:
		t.EnableStream(*u.StreamSpecification.StreamViewType, u.now)
	default:
		t.DisableStream(u.now)
	}
	return nil
}

// setMode switches between provisioned and on-demand mode.
func (u *tableUpdate) setMode(t *schema.Table) error {
	onDemand := t.OnDemand
	if u.BillingMode != nil {
		onDemand = payPerRequest(u.BillingMode)
	}
	switch {
	case onDemand && u.ProvisionedThroughput != nil:
		return unitsOnDemand()
	case onDemand && !t.OnDemand:
		u.toOnDemand(t)
	case !onDemand && t.OnDemand:
		return u.toProvisioned(t)
	}
	return nil
}

func (u *tableUpdate) toOnDemand(t *schema.Table) {
	t.OnDemand, t.OnDemandSince = true, u.now
	t.Throughput.Read, t.Throughput.Write = 0, 0
	t.Warm = schema.Warmest(t.Warm, initialWarmth)
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Global {
			x.Throughput = x.Throughput.Changed(schema.Throughput{}, u.now)
			x.Warm = schema.Warmest(x.Warm, initialWarmth)
		}
	}
}

// toProvisioned requires units for the table and for every index. The on-demand
// maximums are removed.
func (u *tableUpdate) toProvisioned(t *schema.Table) error {
	var missing []string
	for i := range t.Indexes {
		x := &t.Indexes[i]
		x.MaxRequests = schema.Throughput{}
		if action, ok := u.indexUpdate(x.Name); x.Global && (!ok || action.ProvisionedThroughput == nil) {
			missing = append(missing, x.Name)
		}
	}
	if len(missing) > 0 {
		return apierror.InvalidValues("ProvisionedThroughput must be specified for index: %s", strings.Join(missing, ","))
	}
	if t.OnDemandSince.IsZero() {
		t.OnDemandSince = t.Created
	}
	t.OnDemand, t.MaxRequests = false, schema.Throughput{}
	return nil
}

// switched reports whether the billing mode changes.
func (u *tableUpdate) switched(t *schema.Table) bool { return t.OnDemand != u.before.OnDemand }

func (u *tableUpdate) setUnits(t *schema.Table) error {
	if u.ProvisionedThroughput == nil {
		return nil
	}
	to := throughput(u.ProvisionedThroughput)
	if !u.switched(t) && t.Throughput.SameUnits(to) {
		return unchanged("the table", "the table", t.Throughput)
	}
	if u.switched(t) {
		switchUnits(&t.Throughput, &t.Warm, to)
		return nil
	}
	return t.ChangeUnits(to, u.now)
}

// switchUnits sets the units of a table or an index that was on demand, which
// does not count as an increase.
func switchUnits(units, warm *schema.Throughput, to schema.Throughput) {
	units.Read, units.Write = to.Read, to.Write
	*warm = schema.Warmest(*warm, to)
}

func (u *tableUpdate) setCeilings(t *schema.Table) (err error) {
	t.MaxRequests, err = withCeilings(t, t.MaxRequests, u.OnDemandThroughput, "", "table")
	return err
}

func (u *tableUpdate) setWarmth(t *schema.Table) (err error) {
	t.Warm, err = withWarmth(t.Warm, u.WarmThroughput, "table")
	return err
}

func (u *tableUpdate) setEncryption(t *schema.Table) (err error) {
	switch {
	case u.SSESpecification == nil:
		return nil
	case !u.encryption.Enabled && !t.Encryption.Enabled:
		return apierror.InvalidValues("Table is already encrypted by default")
	case u.encryption.Enabled && isSet(u.SSESpecification.KMSMasterKeyId, t.Encryption.KeyARN):
		return apierror.InvalidValues("Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you want to change Master Key")
	}
	t.Encryption, err = t.Encryption.Change(u.encryption.Enabled, u.encryption.KeyARN, u.now)
	return err
}

func (u *tableUpdate) setClass(t *schema.Table) error {
	if u.TableClass == nil {
		return nil
	}
	return t.ChangeClass(*u.TableClass, cmp.Or(t.Class, classStandard), u.now)
}

// showBefore makes the reply of an update from the new description: changes
// that take time are shown as they were, with the status UPDATING.
func (u *tableUpdate) showBefore(s *Service, desc *api.TableDescription) {
	was := &u.before
	switched := u.BillingMode != nil && payPerRequest(u.BillingMode) != was.OnDemand
	switch {
	case switched && payPerRequest(u.BillingMode):
		desc.BillingModeSummary.LastUpdateToPayPerRequestDateTime = nil
		desc.TableThroughputModeSummary.LastUpdateToPayPerRequestDateTime = nil
		desc.ProvisionedThroughput.LastDecreaseDateTime = api.TimeOf(u.now)
	case u.ProvisionedThroughput != nil && !switched:
		unitsAsBefore(desc.ProvisionedThroughput, s.unitsReply(was.Throughput))
	}
	if u.OnDemandThroughput != nil {
		desc.OnDemandThroughput = ceilingsReply(merge(was.MaxRequests, ceilings(u.OnDemandThroughput)))
	}
	desc.WarmThroughput = warmthAsBefore(was.Warm, u.WarmThroughput)
	desc.TableClassSummary = classReply(was)
	if u.SSESpecification != nil {
		desc.SSEDescription = cmp.Or(encryptionReply(was.Encryption), new(api.SSEDescription))
		desc.SSEDescription.Status = string(schema.Updating)
	}
	for i := range desc.GlobalSecondaryIndexes {
		u.showIndexBefore(s, &desc.GlobalSecondaryIndexes[i], switched)
	}
}

// unitsAsBefore resets the units, but not the times of their change.
func unitsAsBefore(desc, was *api.ProvisionedThroughputDescription) {
	desc.ReadCapacityUnits, desc.WriteCapacityUnits = was.ReadCapacityUnits, was.WriteCapacityUnits
	desc.NumberOfDecreasesToday = was.NumberOfDecreasesToday
}

func warmthAsBefore(was schema.Throughput, to *api.WarmThroughput) *api.WarmThroughputDescription {
	desc := warmthReply(was)
	if anyGiven(warmth(to)) {
		desc.Status = string(schema.Updating)
	}
	return desc
}
