package ops

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// updateTableChecks stand in the order in which DynamoDB reports the faults.
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
	updateOnlyWhatIsBuilt,
}

// updateTable changes a table. Its reply tells units, warmth and class as they
// were: what was asked for is told once the table is active again.
func (s *Service) updateTable(ctx context.Context, in *api.UpdateTable) (*api.TableReply, error) {
	if err := firstFault(in, updateTableChecks); err != nil {
		return nil, err
	}
	u := &tableUpdate{UpdateTable: in, now: s.DB.Now()}
	if in.SSESpecification != nil {
		u.encryption = s.encryption(ctx, in.SSESpecification)
	}
	made, err := s.DB.UpdateTable(ctx, in.TableName, func(t *schema.Table) error {
		u.before = *t
		u.before.Indexes = slices.Clone(t.Indexes)
		if err := u.apply(t); err != nil {
			return err
		}
		return withinAccount(ctx, t)
	})
	if err != nil {
		return nil, err
	}
	told := s.description(ctx, made)
	u.tellAsBefore(s, told)
	return &api.TableReply{TableDescription: told}, nil
}

// somethingChanges wants a member that changes the table. Definitions of
// attributes do not, nor do lists and structures with nothing in them.
func somethingChanges(in *api.UpdateTable) error {
	if concerns(in) != 0 {
		return nil
	}
	return apierror.Validation("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, " +
		"SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, " +
		"DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required")
}

func indexUpdatesListed(in *api.UpdateTable) error {
	if in.GlobalSecondaryIndexUpdates != nil && len(in.GlobalSecondaryIndexUpdates) == 0 {
		return apierror.InvalidValues("List of GlobalSecondaryIndexUpdates is empty")
	}
	return nil
}

// concern is something that a request changes.
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
	for of, is := range map[concern]bool{
		concernUnits:      in.ProvisionedThroughput != nil,
		concernMode:       in.BillingMode != nil,
		concernIndexes:    len(in.GlobalSecondaryIndexUpdates) > 0,
		concernStream:     in.StreamSpecification != nil,
		concernEncryption: in.SSESpecification != nil,
		concernReplicas:   in.ReplicaUpdates != nil || in.GlobalTableWitnessUpdates != nil || in.MultiRegionConsistency != nil || in.GlobalTableSettingsReplicationMode != nil,
		concernClass:      in.TableClass != nil,
		concernProtection: in.DeletionProtectionEnabled != nil,
		concernCeilings:   anyGiven(ceilings(in.OnDemandThroughput)),
		concernWarmth:     anyGiven(warmth(in.WarmThroughput)),
	} {
		if is {
			all |= of
		}
	}
	return all
}

// oneConcern refuses what DynamoDB does only one at a time.
func oneConcern(in *api.UpdateTable) error {
	all := concerns(in)
	for _, rule := range []struct {
		of, with concern
		words    string
	}{
		{concernReplicas, 0, "Replica modification must be the only operation in the request"},
		{concernEncryption, 0, "Server-Side Encryption modification must be the only operation in the request"},
		{concernClass, 0, "TableClass modification must be the only operation in the request"},
		{concernProtection, 0, "DeletionProtection modification must be the only operation in the request"},
		{concernCeilings, concernMode | concernIndexes, "OnDemandThroughput can only be combined with BillingMode in an UpdateTable request"},
		{concernWarmth, concernIndexes, "WarmThroughput must be the only operation in the request"},
	} {
		if all&rule.of != 0 && all&^(rule.of|rule.with) != 0 {
			return apierror.InvalidValues("%s", rule.words)
		}
	}
	provisioned := concernUnits
	if isSet(in.BillingMode, "PROVISIONED") {
		provisioned |= concernMode
	}
	switch moves := movesIndexes(in.GlobalSecondaryIndexUpdates); {
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

func createsIndex(u api.GlobalSecondaryIndexUpdate) bool { return u.Create != nil }

// movesIndexes tells whether indexes come or go.
func movesIndexes(updates []api.GlobalSecondaryIndexUpdate) bool {
	return slices.ContainsFunc(updates, func(u api.GlobalSecondaryIndexUpdate) bool { return u.Create != nil || u.Delete != nil })
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

func indexUpdatesFit(in *api.UpdateTable) error {
	var names []string
	for _, u := range in.GlobalSecondaryIndexUpdates {
		name, actions := "", 0
		if u.Update != nil {
			name, actions = *u.Update.IndexName, actions+1
		}
		if u.Create != nil {
			name, actions = *u.Create.IndexName, actions+1
		}
		if u.Delete != nil {
			name, actions = *u.Delete.IndexName, actions+1
		}
		switch {
		case actions == 0:
			return apierror.InvalidValues("One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, " +
				"GlobalSecondaryIndexUpdate.Delete must not be null")
		case actions > 1:
			return apierror.InvalidValues("Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object")
		}
		if names = append(names, name); namedTwice(names) {
			return apierror.InvalidValues("Only one global secondary index update per index is allowed simultaneously. Index: %s", name)
		}
		switch {
		case u.Create != nil && len(in.AttributeDefinitions) == 0:
			return apierror.InvalidValues("AttributeDefinitions is not specified for index: %s", name)
		case u.Update != nil && u.Update.WarmThroughput != nil && !anyGiven(warmth(u.Update.WarmThroughput)):
			return apierror.InvalidValues("WarmThroughput must have at least one of ReadUnitsPerSecond or WriteUnitsPerSecond specified for index: %s", name)
		case u.Update != nil && u.Update.ProvisionedThroughput != nil && payPerRequest(in.BillingMode):
			return apierror.InvalidValues("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: %s when BillingMode is PAY_PER_REQUEST", name)
		}
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

func updateOnlyWhatIsBuilt(in *api.UpdateTable) error {
	switch {
	case in.StreamSpecification != nil && *in.StreamSpecification.StreamEnabled:
		return notBuilt("StreamSpecification")
	case in.ReplicaUpdates != nil:
		return notBuilt("ReplicaUpdates")
	case in.GlobalTableWitnessUpdates != nil:
		return notBuilt("GlobalTableWitnessUpdates")
	case in.MultiRegionConsistency != nil:
		return notBuilt("MultiRegionConsistency")
	case in.GlobalTableSettingsReplicationMode != nil:
		return notBuilt("GlobalTableSettingsReplicationMode")
	}
	return nil
}

// tableUpdate is what an UpdateTable makes of a table.
type tableUpdate struct {
	*api.UpdateTable
	now        time.Time
	encryption schema.Encryption
	before     schema.Table
}

// apply changes a table, step by step. The steps stand in the order in which
// their faults are told.
func (u *tableUpdate) apply(t *schema.Table) error {
	for _, step := range []func(*schema.Table) error{
		u.setStream, u.setMode, u.setUnits, u.setCeilings, u.setIndexes, u.setWarmth, u.setEncryption,
	} {
		if err := step(t); err != nil {
			return err
		}
	}
	if u.TableClass != nil && *u.TableClass != cmp.Or(t.Class, classStandard) {
		t.Class, t.ClassChanged = *u.TableClass, u.now
	}
	if u.DeletionProtectionEnabled != nil {
		t.DeletionProtection = *u.DeletionProtectionEnabled
	}
	if concerns(u.UpdateTable)&(concernUnits|concernMode|concernClass) == 0 && !movesIndexes(u.GlobalSecondaryIndexUpdates) {
		t.State = schema.Active // nothing else keeps a table from being used
	}
	return nil
}

// setStream is reached only to disable a stream, and there are none.
func (u *tableUpdate) setStream(t *schema.Table) error {
	if u.StreamSpecification != nil {
		return apierror.Validation("Table has no stream to disable: TableName: %s", t.Name)
	}
	return nil
}

// setMode switches between units that are provisioned and units on demand.
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
	t.Warm = warmest(t.Warm, initialWarmth)
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Global {
			x.Throughput = changed(x.Throughput, schema.Throughput{}, u.now)
			x.Warm = warmest(x.Warm, initialWarmth)
		}
	}
}

// toProvisioned wants units for the table and for every index; none are
// guessed. The ceilings go.
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

// switched tells whether the mode is another than before.
func (u *tableUpdate) switched(t *schema.Table) bool { return t.OnDemand != u.before.OnDemand }

func (u *tableUpdate) setUnits(t *schema.Table) error {
	if u.ProvisionedThroughput == nil {
		return nil
	}
	to := throughput(u.ProvisionedThroughput)
	if !u.switched(t) && same(t.Throughput, to) {
		return unchanged("the table", "the table", t.Throughput)
	}
	t.Throughput = u.change(t, t.Throughput, to)
	t.Warm = warmest(t.Warm, to)
	return nil
}

// change puts units in the place of others. With the first ones after a time
// on demand, none become more.
func (u *tableUpdate) change(t *schema.Table, is, to schema.Throughput) schema.Throughput {
	if u.switched(t) {
		is.Read, is.Write = to.Read, to.Write
		return is
	}
	return changed(is, to, u.now)
}

func same(a, b schema.Throughput) bool { return a.Read == b.Read && a.Write == b.Write }

// unchanged words units that are what they were.
func unchanged(what, place string, t schema.Throughput) error {
	return apierror.Validation("The provisioned throughput for %s will not change. The requested value equals the current value. "+
		"Current ReadCapacityUnits provisioned for %s: %d. Requested ReadCapacityUnits: %d. "+
		"Current WriteCapacityUnits provisioned for %s: %d. Requested WriteCapacityUnits: %d. "+
		"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
		what, place, t.Read, t.Read, place, t.Write, t.Write)
}

// changed notes when units become more and when they become less.
func changed(is, to schema.Throughput, now time.Time) schema.Throughput {
	if to.Read > is.Read || to.Write > is.Write {
		is.Increased = now
	}
	if to.Read < is.Read || to.Write < is.Write {
		is.Decreases = decreasesOn(now, is) + 1
		is.Decreased = now
	}
	is.Read, is.Write = to.Read, to.Write
	return is
}

// warmest is the more of each: what a table was once warm for, it stays.
func warmest(a, b schema.Throughput) schema.Throughput {
	return schema.Throughput{Read: max(a.Read, b.Read), Write: max(a.Write, b.Write)}
}

func (u *tableUpdate) setCeilings(t *schema.Table) (err error) {
	t.MaxRequests, err = withCeilings(t, t.MaxRequests, u.OnDemandThroughput, "", "table")
	return err
}

// withCeilings puts the ceilings given in the place of those there are; -1
// takes one away.
func withCeilings(t *schema.Table, is schema.Throughput, to *api.OnDemandThroughput, forbidden, place string) (schema.Throughput, error) {
	for _, m := range ceilings(to) {
		if m.value != nil && !t.OnDemand {
			return is, apierror.InvalidValues("%s for OnDemandThroughput%s cannot be specified when the table BillingMode is PROVISIONED", m.name, forbidden)
		}
	}
	if err := ceilingsInRange(to, place, -1); err != nil {
		return is, err
	}
	is = merge(is, ceilings(to))
	return schema.Throughput{Read: max(is.Read, 0), Write: max(is.Write, 0)}, nil
}

func (u *tableUpdate) setWarmth(t *schema.Table) (err error) {
	t.Warm, err = withWarmth(t.Warm, u.WarmThroughput, "table")
	return err
}

func withWarmth(is schema.Throughput, to *api.WarmThroughput, place string) (schema.Throughput, error) {
	for i, m := range warmth(to) {
		if m.value != nil && *m.value < [2]int64{is.Read, is.Write}[i] {
			return is, apierror.InvalidValues("Requested %s for WarmThroughput for %s is lower than current WarmThroughput, "+
				"decreasing WarmThroughput is not supported", m.name, place)
		}
	}
	return merge(is, warmth(to)), nil
}

// indexUpdate is what is asked for an index.
func (u *tableUpdate) indexUpdate(name string) (*api.UpdateGlobalSecondaryIndexAction, bool) {
	for _, of := range u.GlobalSecondaryIndexUpdates {
		if of.Update != nil && *of.Update.IndexName == name {
			return of.Update, true
		}
	}
	return nil, false
}

// setIndexes changes the settings of indexes, and lets one come or go.
func (u *tableUpdate) setIndexes(t *schema.Table) error {
	moved := 0
	for _, of := range u.GlobalSecondaryIndexUpdates {
		if of.Update == nil {
			moved++
		}
	}
	if moving := slices.ContainsFunc(t.Indexes, func(x schema.Index) bool { return x.State != "" }); moved > 1 || moved == 1 && moving {
		return apierror.LimitExceeded("Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	for _, of := range u.GlobalSecondaryIndexUpdates {
		var err error
		switch {
		case of.Create != nil:
			err = u.createIndex(t, of.Create)
		case of.Delete != nil:
			var x *schema.Index
			if x, err = globalIndex(t, *of.Delete.IndexName, "delete"); err == nil {
				x.State = schema.Deleting
			}
		default:
			err = u.setIndex(t, of.Update)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createIndex adds an index, which is built beside requests. The attributes
// of its key must be defined in the request; one that the table knows already
// keeps its type.
func (u *tableUpdate) createIndex(t *schema.Table, x *api.GlobalSecondaryIndex) error {
	if _, is := t.Index(*x.IndexName); is {
		return apierror.Validation("Attempting to create an index which already exists")
	}
	defined := attributesOf(u.AttributeDefinitions)
	for _, name := range keyNames(x.KeySchema) {
		if !slices.ContainsFunc(defined, func(a schema.Attribute) bool { return a.Name == name }) {
			return apierror.InvalidValues("Some index key attributes are not defined in AttributeDefinitions. keys: [%s], AttributeDefinitions: [%s]",
				strings.Join(keyNames(x.KeySchema), ", "), strings.Join(attributeNames(defined), ", "))
		}
	}
	if err := globalIndexFits(x, t.OnDemand); err != nil {
		return err
	}
	if count := len(slices.Collect(globalIndexes(t))); count >= maxGlobalIndexes {
		return apierror.LimitExceeded("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobalIndexes)
	}
	t.Attributes = slices.Clone(t.Attributes)
	for _, a := range defined {
		known := slices.ContainsFunc(t.Attributes, func(b schema.Attribute) bool { return a.Name == b.Name })
		if !known && slices.Contains(keyNames(x.KeySchema), a.Name) {
			t.Attributes = append(t.Attributes, a)
		}
	}
	made := newGlobalIndex(t, x)
	made.State = schema.Creating
	t.AddIndex(made)
	return nil
}

func attributeNames(attributes []schema.Attribute) (names []string) {
	for _, a := range attributes {
		names = append(names, a.Name)
	}
	return names
}

func globalIndexes(t *schema.Table) iter.Seq[*schema.Index] {
	return func(yield func(*schema.Index) bool) {
		for i := range t.Indexes {
			if t.Indexes[i].Global && !yield(&t.Indexes[i]) {
				return
			}
		}
	}
}

// globalIndex finds an index to do something with.
func globalIndex(t *schema.Table, name, do string) (*schema.Index, error) {
	x, ok := t.Index(name)
	switch {
	case !ok:
		return nil, apierror.NotFound("Requested resource not found: Index %s for table %s", name, t.Name)
	case !x.Global:
		return nil, apierror.Validation("Cannot %s an index that is not a GlobalSecondaryIndex: %s", do, name)
	}
	return x, nil
}

func (u *tableUpdate) setIndex(t *schema.Table, to *api.UpdateGlobalSecondaryIndexAction) error {
	x, err := globalIndex(t, *to.IndexName, "update")
	if err != nil {
		return err
	}
	other := anyGiven(ceilings(to.OnDemandThroughput)) || anyGiven(warmth(to.WarmThroughput))
	switch {
	case t.OnDemand && (to.ProvisionedThroughput != nil || !other):
		return apierror.InvalidValues("The only Updates for index: %s when TableThroughputMode is PAY_PER_REQUEST can be to OnDemandThroughput, WarmThroughput", x.Name)
	case to.ProvisionedThroughput == nil && !other:
		return apierror.InvalidValues("Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: %s", x.Name)
	}
	if to.ProvisionedThroughput != nil {
		units := throughput(to.ProvisionedThroughput)
		if !u.switched(t) && same(x.Throughput, units) {
			return unchanged("the index "+x.Name, "index "+x.Name, units)
		}
		x.Throughput = u.change(t, x.Throughput, units)
		x.Warm = warmest(x.Warm, units)
	}
	if x.MaxRequests, err = withCeilings(t, x.MaxRequests, to.OnDemandThroughput, " for index : "+x.Name, "index : "+x.Name); err != nil {
		return err
	}
	x.Warm, err = withWarmth(x.Warm, to.WarmThroughput, "index "+x.Name)
	return err
}

func (u *tableUpdate) setEncryption(t *schema.Table) error {
	switch {
	case u.SSESpecification == nil:
		return nil
	case !u.encryption.Enabled && !t.Encryption.Enabled:
		return apierror.InvalidValues("Table is already encrypted by default")
	case u.encryption.Enabled && isSet(u.SSESpecification.KMSMasterKeyId, t.Encryption.KeyARN):
		return apierror.InvalidValues("Table is already encrypted with given KMSMasterKeyId. Use KMSMasterKeyId parameter if you want to change Master Key")
	}
	t.Encryption = u.encryption
	return nil
}

// tellAsBefore makes the reply of a description: what takes its time is told
// as it was, and that it is being updated.
func (u *tableUpdate) tellAsBefore(s *Service, told *api.TableDescription) {
	was := &u.before
	switched := u.BillingMode != nil && payPerRequest(u.BillingMode) != was.OnDemand
	switch {
	case switched && payPerRequest(u.BillingMode):
		told.BillingModeSummary.LastUpdateToPayPerRequestDateTime = nil
		told.TableThroughputModeSummary.LastUpdateToPayPerRequestDateTime = nil
		told.ProvisionedThroughput.LastDecreaseDateTime = api.TimeOf(u.now)
	case u.ProvisionedThroughput != nil && !switched:
		unitsAsBefore(told.ProvisionedThroughput, s.toldUnits(was.Throughput))
	}
	if u.OnDemandThroughput != nil {
		told.OnDemandThroughput = toldCeilings(merge(was.MaxRequests, ceilings(u.OnDemandThroughput)))
	}
	told.WarmThroughput = warmthAsBefore(was.Warm, u.WarmThroughput)
	told.TableClassSummary = toldClass(was)
	if u.SSESpecification != nil {
		told.SSEDescription = cmp.Or(toldEncryption(was.Encryption), new(api.SSEDescription))
		told.SSEDescription.Status = string(schema.Updating)
	}
	for i := range told.GlobalSecondaryIndexes {
		u.tellIndexAsBefore(s, &told.GlobalSecondaryIndexes[i], switched)
	}
}

func (u *tableUpdate) tellIndexAsBefore(s *Service, told *api.GlobalSecondaryIndexDescription, switched bool) {
	was, ok := u.before.Index(told.IndexName)
	if !ok {
		return // it is new
	}
	to, ok := u.indexUpdate(told.IndexName)
	if !ok {
		to = new(api.UpdateGlobalSecondaryIndexAction)
	}
	switch {
	case switched && payPerRequest(u.BillingMode):
		told.ProvisionedThroughput = &api.ProvisionedThroughputDescription{NumberOfDecreasesToday: decreasesOn(u.now, was.Throughput)}
	case to.ProvisionedThroughput != nil && !switched:
		unitsAsBefore(told.ProvisionedThroughput, s.toldUnits(was.Throughput))
	}
	if to.OnDemandThroughput != nil {
		told.OnDemandThroughput = toldCeilings(merge(was.MaxRequests, ceilings(to.OnDemandThroughput)))
	}
	told.WarmThroughput = warmthAsBefore(was.Warm, to.WarmThroughput)
	if switched || to.ProvisionedThroughput != nil || to.OnDemandThroughput != nil {
		told.IndexStatus = string(schema.Updating)
	}
}

// unitsAsBefore takes back the numbers, but not when they changed.
func unitsAsBefore(told, was *api.ProvisionedThroughputDescription) {
	told.ReadCapacityUnits, told.WriteCapacityUnits = was.ReadCapacityUnits, was.WriteCapacityUnits
	told.NumberOfDecreasesToday = was.NumberOfDecreasesToday
}

func warmthAsBefore(was schema.Throughput, to *api.WarmThroughput) *api.WarmThroughputDescription {
	told := toldWarmth(was)
	if anyGiven(warmth(to)) {
		told.Status = string(schema.Updating)
	}
	return told
}
