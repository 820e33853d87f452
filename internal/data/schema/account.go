package schema

import "github.com/stator-db/stator/internal/apierror"

// The throughput limits of an account and of a table in units per second, which
// are those of a new AWS account. Reads and writes have the same limits.
const (
	MaxAccountUnits = 80_000
	MaxTableUnits   = 40_000
)

// WithinAccount checks that a table and its indexes keep to the limits of a
// table, and with the other tables to those of the account. before is nil if the
// table is new; reserved are the units of all tables.
func (t *Table) WithinAccount(before *Table, reserved Throughput, region string) error {
	if err := t.withinTable(region); err != nil {
		return err
	}
	if before == nil {
		before = new(Table)
	}
	now, was := t.ProvisionedUnits(), before.ProvisionedUnits()
	for _, k := range []struct {
		kind                string
		reserved, requested int64
	}{{"Read", reserved.Read, now.Read - was.Read}, {"Write", reserved.Write, now.Write - was.Write}} {
		if k.requested > 0 && k.reserved+k.requested > MaxAccountUnits {
			return apierror.LimitExceeded("This request would have caused the %[1]sCapacityUnits limit to be exceeded for the account in %[2]s. "+
				"Current %[1]sCapacityUnits reserved by the account: %[3]d. Limit: %[4]d. Requested: %[5]d. "+
				"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
				k.kind, region, k.reserved, MaxAccountUnits, k.requested)
		}
	}
	return nil
}

// withinTable checks that a table and its indexes keep to the limits of a table.
func (t *Table) withinTable(region string) error {
	for i, kind := range [2]string{"Read", "Write"} {
		above := func(t Throughput) bool { return [2]int64{t.Read, t.Write}[i] > MaxTableUnits }
		units := func(of, what string, t Throughput) error {
			return apierror.LimitExceeded("The requested %sCapacityUnits%s, %d, is above the per %s maximum for the account in %s. "+
				"Per %s maximum: %d. Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
				kind, of, [2]int64{t.Read, t.Write}[i], what, region, what, MaxTableUnits)
		}
		other := func(name, place string) error {
			return apierror.LimitExceeded("Subscriber limit exceeded: Requested %s for %s exceeds TableMax%sCapacityUnits of the account in region %s",
				name, place, kind, region)
		}
		ceiling, warm := "Max"+kind+"RequestUnits for OnDemandThroughput", kind+"UnitsPerSecond for WarmThroughput"
		switch {
		case above(t.Throughput):
			return units("", "table", t.Throughput)
		case above(t.MaxRequests):
			return other(ceiling, "table")
		case above(t.Warm):
			return other(warm, "table")
		}
		for i := range t.Indexes {
			x := &t.Indexes[i]
			switch {
			case above(x.Throughput):
				return units(" for index "+x.Name, "index", x.Throughput)
			case above(x.MaxRequests):
				return other(ceiling, "index : "+x.Name)
			case above(x.Warm):
				return other(warm, "index "+x.Name)
			}
		}
	}
	return nil
}
