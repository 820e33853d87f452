package ops

import (
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

func indexesListed(in *api.CreateTable) error {
	switch {
	case in.LocalSecondaryIndexes != nil && len(in.LocalSecondaryIndexes) == 0:
		return apierror.InvalidValues("List of LocalSecondaryIndexes is empty")
	case in.GlobalSecondaryIndexes != nil && len(in.GlobalSecondaryIndexes) == 0:
		return apierror.InvalidValues("List of GlobalSecondaryIndexes is empty")
	case len(in.LocalSecondaryIndexes) > 0 && len(in.KeySchema) < 2:
		return apierror.InvalidValues("Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	}
	return nil
}

func indexKeysDefined(in *api.CreateTable) error {
	for _, key := range indexKeys(in) {
		if err := keyDefined(key, definitionNames(in)); err != nil {
			return err
		}
	}
	return nil
}

// definitionsUsed checks that every defined attribute is part of a key. This is
// reported before other faults of indexes.
func definitionsUsed(in *api.CreateTable) error {
	used := keyNames(in.KeySchema)
	for _, key := range indexKeys(in) {
		used = append(used, keyNames(key)...)
	}
	defined := definitionNames(in)
	for _, name := range defined {
		switch {
		case slices.Contains(used, name):
		case len(indexKeys(in)) == 0:
			return apierror.InvalidValues("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
		default:
			return apierror.InvalidValues("Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]",
				hashSetOrder(defined, bucketsFor(len(defined))), hashSetOrder(used, 16))
		}
	}
	return nil
}

func indexKeys(in *api.CreateTable) (keys [][]api.KeySchemaElement) {
	for _, x := range in.LocalSecondaryIndexes {
		keys = append(keys, x.KeySchema)
	}
	for _, x := range in.GlobalSecondaryIndexes {
		keys = append(keys, x.KeySchema)
	}
	return keys
}

// The maximum number of indexes of a table.
const (
	maxLocalIndexes  = 5
	maxGlobalIndexes = 20
)

func localIndexesFit(in *api.CreateTable) error {
	var names []string
	for _, x := range in.LocalSecondaryIndexes {
		if err := keyInOrder(x.KeySchema); err != nil {
			return err
		}
		if len(x.KeySchema) < 2 {
			return apierror.InvalidValues("Index KeySchema does not have a range key for index: %s", *x.IndexName)
		}
		if of, table := *x.KeySchema[0].AttributeName, *in.KeySchema[0].AttributeName; of != table {
			return apierror.InvalidValues("Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. "+
				"index hash key: %s, table hash key: %s", *x.IndexName, of, table)
		}
		if err := projectionFits(x.Projection); err != nil {
			return err
		}
		if names = append(names, *x.IndexName); lastIsDuplicate(names) {
			return duplicateIndex(*x.IndexName)
		}
	}
	if len(in.LocalSecondaryIndexes) > maxLocalIndexes {
		return apierror.InvalidValues("Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocalIndexes)
	}
	return nil
}

func globalIndexesFit(in *api.CreateTable) error {
	var names []string
	for _, x := range in.LocalSecondaryIndexes {
		names = append(names, *x.IndexName)
	}
	for _, x := range in.GlobalSecondaryIndexes {
		if err := globalIndexFits(&x, payPerRequest(in.BillingMode)); err != nil {
			return err
		}
		if names = append(names, *x.IndexName); lastIsDuplicate(names) {
			return duplicateIndex(*x.IndexName)
		}
	}
	if len(in.GlobalSecondaryIndexes) > maxGlobalIndexes {
		return apierror.InvalidValues("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobalIndexes)
	}
	return nil
}

// globalIndexFits checks an index for a table of the given billing mode.
func globalIndexFits(x *api.GlobalSecondaryIndex, onDemand bool) error {
	if err := globalKeyInOrder(x.KeySchema); err != nil {
		return err
	}
	if err := projectionFits(x.Projection); err != nil {
		return err
	}
	switch {
	case onDemand && x.ProvisionedThroughput != nil:
		return apierror.InvalidValues("ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", *x.IndexName)
	case !onDemand && x.ProvisionedThroughput == nil:
		return apierror.InvalidValues("ProvisionedThroughput is not specified for index: %s", *x.IndexName)
	}
	return unitsInBounds(x.ProvisionedThroughput)
}

// lastIsDuplicate reports whether the last name occurs earlier in the list.
func lastIsDuplicate(names []string) bool {
	last := len(names) - 1
	return slices.Contains(names[:last], names[last])
}

func duplicateIndex(name string) error {
	return apierror.InvalidValues("Duplicate index name: %s", name)
}

func projectionFits(p *api.Projection) error {
	switch {
	case p.ProjectionType == nil:
		return apierror.InvalidValues("Unknown ProjectionType: null")
	case *p.ProjectionType != schema.ProjectInclude && p.NonKeyAttributes != nil:
		return apierror.InvalidValues("ProjectionType is %s, but NonKeyAttributes is specified", *p.ProjectionType)
	case *p.ProjectionType == schema.ProjectInclude && p.NonKeyAttributes == nil:
		return apierror.InvalidValues("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	}
	if name, twice := firstDuplicate(p.NonKeyAttributes); twice {
		return apierror.InvalidValues("Duplicate element in NonKeyAttributes: %s", name)
	}
	return nil
}

// maxProjected is the maximum number of attributes in the projections of all
// indexes of a table together. An attribute in two indexes counts twice.
const maxProjected = 100

func projectedWithinLimit(in *api.CreateTable) error {
	count := 0
	for _, x := range in.LocalSecondaryIndexes {
		count += len(x.Projection.NonKeyAttributes)
	}
	for _, x := range in.GlobalSecondaryIndexes {
		count += len(x.Projection.NonKeyAttributes)
	}
	if count > maxProjected {
		return apierror.InvalidValues("Number of NonKeyAttributes in all indexes exceeds the per-table limit of %d", maxProjected)
	}
	return nil
}

// newGlobalIndex returns the index that a request asks for.
func newGlobalIndex(t *schema.Table, x *api.GlobalSecondaryIndex) schema.Index {
	return schema.Index{
		Name:        *x.IndexName,
		Global:      true,
		Key:         keyOf(x.KeySchema, t.Attributes),
		Projection:  projection(x.Projection),
		Throughput:  throughput(x.ProvisionedThroughput),
		MaxRequests: merge(schema.Throughput{}, ceilings(x.OnDemandThroughput)),
		Warm:        warmFor(t.OnDemand, x.ProvisionedThroughput, x.WarmThroughput),
	}
}

func projection(p *api.Projection) schema.Projection {
	return schema.Projection{Kind: *p.ProjectionType, Names: p.NonKeyAttributes}
}
