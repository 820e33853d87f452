package ops

import (
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Units that a table and its indexes may take: provisioned, at most on demand,
// and at once.

func payPerRequest(mode *string) bool { return isSet(mode, "PAY_PER_REQUEST") }

func unitsOnDemand() error {
	return apierror.InvalidValues("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
}

// mostUnits is more than any table may have; the limits of the account are
// told later.
const mostUnits = 1_000_000_000_000

func unitsInBounds(t *api.ProvisionedThroughput) error {
	if t == nil {
		return nil
	}
	if *t.ReadCapacityUnits > mostUnits {
		return apierror.Validation("Given value %d for ReadCapacityUnits is out of bounds", *t.ReadCapacityUnits)
	}
	if *t.WriteCapacityUnits > mostUnits {
		return apierror.Validation("Given value %d for WriteCapacityUnits is out of bounds", *t.WriteCapacityUnits)
	}
	return nil
}

// units is one member of a pair of reads and writes, nil when it was absent.
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

// anyGiven tells whether a pair says anything; an empty one counts as absent.
func anyGiven(pair []units) bool {
	return slices.ContainsFunc(pair, func(u units) bool { return u.value != nil })
}

// ceilingsInRange wants at least so much of each member. -1 is let pass where
// it removes a ceiling.
func ceilingsInRange(t *api.OnDemandThroughput, place string, least int64) error {
	for _, u := range ceilings(t) {
		if u.value != nil && (*u.value < least || *u.value == 0) {
			return apierror.InvalidValues("Requested %s for OnDemandThroughput for %s is outside of valid range", u.name, place)
		}
	}
	return nil
}

// initialWarmth is what an on-demand table can take from the start.
var initialWarmth = schema.Throughput{Read: 12_000, Write: 4_000}

func throughput(t *api.ProvisionedThroughput) schema.Throughput {
	if t == nil {
		return schema.Throughput{}
	}
	return schema.Throughput{Read: *t.ReadCapacityUnits, Write: *t.WriteCapacityUnits}
}

// merge puts the members given in place of those that are.
func merge(is schema.Throughput, pair []units) schema.Throughput {
	if len(pair) == 0 {
		return is
	}
	if read := pair[0].value; read != nil {
		is.Read = *read
	}
	if write := pair[1].value; write != nil {
		is.Write = *write
	}
	return is
}

// warmFor is what a table or an index can take at once when it is new.
func warmFor(onDemand bool, p *api.ProvisionedThroughput, t *api.WarmThroughput) schema.Throughput {
	if onDemand {
		return merge(initialWarmth, warmth(t))
	}
	return merge(throughput(p), warmth(t))
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

func withWarmth(is schema.Throughput, to *api.WarmThroughput, place string) (schema.Throughput, error) {
	for i, m := range warmth(to) {
		if m.value != nil && *m.value < [2]int64{is.Read, is.Write}[i] {
			return is, apierror.InvalidValues("Requested %s for WarmThroughput for %s is lower than current WarmThroughput, "+
				"decreasing WarmThroughput is not supported", m.name, place)
		}
	}
	return merge(is, warmth(to)), nil
}
