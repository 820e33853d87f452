package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// createTableChecks run in the order in which DynamoDB reports faults.
var createTableChecks = []func(*api.CreateTable) error{
	func(in *api.CreateTable) error { return tableNamed(in.TableName) },
	createWithUnitsOfMode,
	func(in *api.CreateTable) error { return unitsInBounds(in.ProvisionedThroughput) },
	attributesDefinedOnce,
	tableKeyDefined,
	func(in *api.CreateTable) error { return keyInOrder(in.KeySchema) },
	indexesListed,
	indexKeysDefined,
	definitionsUsed,
	localIndexesFit,
	globalIndexesFit,
	projectedWithinLimit,
	createWithCeilings,
	createWithWarmth,
	createWithStream,
	func(in *api.CreateTable) error { return encryptionFits(in.SSESpecification) },
	func(in *api.CreateTable) error { return knownClass(in.TableClass) },
	func(in *api.CreateTable) error { return tagsFit(in.Tags) },
	createSupported,
}

func (s *Service) createTable(ctx context.Context, in *api.CreateTable) (*api.TableReply, error) {
	if err := firstFault(in, createTableChecks); err != nil {
		return nil, err
	}
	def := s.definition(ctx, in)
	if in.ResourcePolicy != nil {
		document, err := s.policyOfNewTable(ctx, in)
		if err != nil {
			return nil, err
		}
		def.Policies = map[string]schema.ResourcePolicy{"": {Document: document, Changed: s.DB.Now()}}
	}
	if err := s.withinAccount(ctx, &def, nil); err != nil {
		return nil, err
	}
	made, err := s.DB.CreateTable(ctx, def)
	if err != nil {
		return nil, err
	}
	desc := s.description(ctx, made)
	if desc.BillingModeSummary != nil {
		desc.BillingModeSummary.LastUpdateToPayPerRequestDateTime = nil
		desc.TableThroughputModeSummary.LastUpdateToPayPerRequestDateTime = nil
	}
	// WarmThroughput is in the reply only if the request has it, and never for
	// indexes.
	if anyGiven(warmth(in.WarmThroughput)) {
		desc.WarmThroughput.Status = string(schema.Updating)
	} else {
		desc.WarmThroughput = nil
	}
	for i := range desc.GlobalSecondaryIndexes {
		desc.GlobalSecondaryIndexes[i].WarmThroughput = nil
	}
	return &api.TableReply{TableDescription: desc}, nil
}

// tableNamed checks that there is a table name. Operations on tables have a
// message of their own for it.
func tableNamed(name string) error {
	if name == "" {
		return apierror.Validation("The parameter 'TableName' is required but was not present in the request")
	}
	return nil
}

// notSupported rejects a member that would otherwise be silently ignored.
func notSupported(member string) error {
	return apierror.InvalidValues("%s is not supported yet", member)
}

func createSupported(in *api.CreateTable) error {
	switch {
	case in.GlobalTableSourceArn != nil:
		return notSupported("GlobalTableSourceArn")
	case in.GlobalTableSettingsReplicationMode != nil:
		return notSupported("GlobalTableSettingsReplicationMode")
	case in.VectorIndexes != nil:
		return notSupported("VectorIndexes")
	}
	return nil
}

func createWithUnitsOfMode(in *api.CreateTable) error {
	switch {
	case payPerRequest(in.BillingMode) && in.ProvisionedThroughput != nil:
		return unitsOnDemand()
	case !payPerRequest(in.BillingMode) && in.ProvisionedThroughput == nil:
		return apierror.InvalidValues("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	return nil
}

// createWithCeilings checks the on-demand maximums of a table and its indexes.
// A maximum on a provisioned table is reported before a bad value.
func createWithCeilings(in *api.CreateTable) error {
	onDemand := payPerRequest(in.BillingMode)
	check := func(t *api.OnDemandThroughput, forbidden, place string) error {
		for _, u := range ceilings(t) {
			if u.value != nil && !onDemand {
				return apierror.InvalidValues("%s for OnDemandThroughput%s cannot be specified when table BillingMode is PROVISIONED.", u.name, forbidden)
			}
		}
		return ceilingsInRange(t, place, 1)
	}
	if err := check(in.OnDemandThroughput, "", "table"); err != nil {
		return err
	}
	for _, x := range in.GlobalSecondaryIndexes {
		if err := check(x.OnDemandThroughput, " for index: "+*x.IndexName, "index : "+*x.IndexName); err != nil {
			return err
		}
	}
	return nil
}

const initialWarmthPage = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html#on-demand-capacity-mode-initial"

func createWithWarmth(in *api.CreateTable) error {
	check := func(t *api.WarmThroughput, p *api.ProvisionedThroughput, place string) error {
		least := throughput(p)
		floors := [2]string{"ReadCapacityUnits of ProvisionedThroughput", "WriteCapacityUnits of ProvisionedThroughput"}
		if payPerRequest(in.BillingMode) {
			least = initialWarmth
			floors[0] = "initial throughput for OnDemand. See: " + initialWarmthPage
			floors[1] = floors[0]
		}
		for i, u := range warmth(t) {
			if u.value != nil && *u.value < [2]int64{least.Read, least.Write}[i] {
				return apierror.InvalidValues("Requested %s for WarmThroughput for %s is lower than %s", u.name, place, floors[i])
			}
		}
		return nil
	}
	if err := check(in.WarmThroughput, in.ProvisionedThroughput, "table"); err != nil {
		return err
	}
	for _, x := range in.GlobalSecondaryIndexes {
		if err := check(x.WarmThroughput, x.ProvisionedThroughput, "index "+*x.IndexName); err != nil {
			return err
		}
	}
	return nil
}

func createWithStream(in *api.CreateTable) error {
	s := in.StreamSpecification
	switch {
	case s == nil:
	case *s.StreamEnabled && s.StreamViewType == nil:
		return apierror.InvalidValues("Table is being created with a stream enabled, UpdateViewType is required")
	case !*s.StreamEnabled && s.StreamViewType != nil:
		return apierror.InvalidValues("Table is being created with a stream disabled, UpdateViewType should not be specified")
	}
	return nil
}

// definition returns the table that a checked request asks for.
func (s *Service) definition(ctx context.Context, in *api.CreateTable) schema.Table {
	def := schema.Table{
		Name:               in.TableName,
		OnDemand:           payPerRequest(in.BillingMode),
		Throughput:         throughput(in.ProvisionedThroughput),
		MaxRequests:        merge(schema.Throughput{}, ceilings(in.OnDemandThroughput)),
		Class:              orZero(in.TableClass),
		DeletionProtection: orZero(in.DeletionProtectionEnabled),
		Encryption:         s.encryption(ctx, in.TableName, in.SSESpecification),
		Tags:               withTags(nil, in.Tags),
	}
	def.Warm = warmFor(def.OnDemand, in.ProvisionedThroughput, in.WarmThroughput)
	def.Attributes = attributesOf(in.AttributeDefinitions)
	def.Key = keyOf(in.KeySchema, def.Attributes)
	for _, x := range in.LocalSecondaryIndexes {
		def.AddIndex(schema.Index{
			Name:       *x.IndexName,
			Key:        keyOf(x.KeySchema, def.Attributes),
			Projection: projection(x.Projection),
		})
	}
	for _, x := range in.GlobalSecondaryIndexes {
		def.AddIndex(newGlobalIndex(&def, &x))
	}
	if in.StreamSpecification != nil && *in.StreamSpecification.StreamEnabled {
		def.EnableStream(*in.StreamSpecification.StreamViewType, s.DB.Now())
	}
	return def
}

func orZero[T any](member *T) (value T) {
	if member != nil {
		value = *member
	}
	return value
}
