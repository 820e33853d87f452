package ops

import (
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The throughput settings of tables and indexes: provisioned units, on-demand
// maximums ("ceilings"), and warm throughput ("warmth").

func payPerRequest(mode *string) bool { return isSet(mode, "PAY_PER_REQUEST") }

func unitsOnDemand() error {
	return apierror.InvalidValues("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
}

// maxUnits is more than any table may have; the limits of the account are
// checked later.
const maxUnits = 1_000_000_000_000

func unitsInBounds(t *api.ProvisionedThroughput) error {
	if t == nil {
		return nil
	}
	if *t.ReadCapacityUnits > maxUnits {
		return apierror.Validation("Given value %d for ReadCapacityUnits is out of bounds", *t.ReadCapacityUnits)
	}
	if *t.WriteCapacityUnits > maxUnits {
		return apierror.Validation("Given value %d for WriteCapacityUnits is out of bounds", *t.WriteCapacityUnits)
	}
	return nil
}

// units is one member of a read and write pair; value is nil if it is absent.
type units struct {
	name  string
	value *int64
}

func ceilings(t *api.OnDemandThroughput) []units {
	if t == nil {
		return nil
	}
	return []units{{"MaxReadRequestUnits", t.MaxReadRequestUnits}, {"MaxWriteRequestUnits", t.MaxWriteRequestUnits}}
}

func warmth(t *api.WarmThroughput) []units {
	if t == nil {
		return nil
	}
	return []units{{"ReadUnitsPerSecond", t.ReadUnitsPerSecond}, {"WriteUnitsPerSecond", t.WriteUnitsPerSecond}}
}

// anyGiven reports whether a member is set; an empty structure counts as
// absent.
func anyGiven(pair []units) bool {
	return slices.ContainsFunc(pair, func(u units) bool { return u.value != nil })
}

// ceilingsInRange checks that each member is at least least, or -1, which
// removes a maximum.
func ceilingsInRange(t *api.OnDemandThroughput, place string, least int64) error {
	for _, u := range ceilings(t) {
		if u.value != nil && (*u.value < least || *u.value == 0) {
			return apierror.InvalidValues("Requested %s for OnDemandThroughput for %s is outside of valid range", u.name, place)
		}
	}
	return nil
}

// initialWarmth is the warm throughput of a new on-demand table.
var initialWarmth = schema.Throughput{Read: partition.InitialRead, Write: partition.InitialWrite}

func throughput(t *api.ProvisionedThroughput) schema.Throughput {
	if t == nil {
		return schema.Throughput{}
	}
	return schema.Throughput{Read: *t.ReadCapacityUnits, Write: *t.WriteCapacityUnits}
}

// merge replaces the members that are given.
func merge(current schema.Throughput, pair []units) schema.Throughput {
	if len(pair) == 0 {
		return current
	}
	if read := pair[0].value; read != nil {
		current.Read = *read
	}
	if write := pair[1].value; write != nil {
		current.Write = *write
	}
	return current
}

// warmFor returns the warm throughput of a new table or index.
func warmFor(onDemand bool, p *api.ProvisionedThroughput, t *api.WarmThroughput) schema.Throughput {
	if onDemand {
		return merge(initialWarmth, warmth(t))
	}
	return merge(throughput(p), warmth(t))
}

// unchanged is the fault of an update to the current units.
func unchanged(what, place string, t schema.Throughput) error {
	return apierror.Validation("The provisioned throughput for %s will not change. The requested value equals the current value. "+
		"Current ReadCapacityUnits provisioned for %s: %d. Requested ReadCapacityUnits: %d. "+
		"Current WriteCapacityUnits provisioned for %s: %d. Requested WriteCapacityUnits: %d. "+
		"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
		what, place, t.Read, t.Read, place, t.Write, t.Write)
}

// withCeilings replaces the maximums that are given; -1 removes one.
func withCeilings(t *schema.Table, current schema.Throughput, to *api.OnDemandThroughput, forbidden, place string) (schema.Throughput, error) {
	for _, m := range ceilings(to) {
		if m.value != nil && !t.OnDemand {
			return current, apierror.InvalidValues("%s for OnDemandThroughput%s cannot be specified when the table BillingMode is PROVISIONED", m.name, forbidden)
		}
	}
	if err := ceilingsInRange(to, place, -1); err != nil {
		return current, err
	}
	current = merge(current, ceilings(to))
	return schema.Throughput{Read: max(current.Read, 0), Write: max(current.Write, 0)}, nil
}

func withWarmth(current schema.Throughput, to *api.WarmThroughput, place string) (schema.Throughput, error) {
	for i, m := range warmth(to) {
		if m.value != nil && *m.value < [2]int64{current.Read, current.Write}[i] {
			return current, apierror.InvalidValues("Requested %s for WarmThroughput for %s is lower than current WarmThroughput, "+
				"decreasing WarmThroughput is not supported", m.name, place)
		}
	}
	return merge(current, warmth(to)), nil
}
