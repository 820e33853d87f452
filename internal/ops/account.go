package ops

import (
	"cmp"
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The throughput limits of an account and of a table in units per second, which
// are those of a new AWS account. Reads and writes have the same limits.
const (
	maxAccountUnits = 80_000
	maxTableUnits   = 40_000
)

func (s *Service) describeLimits(context.Context, *api.DescribeLimits) (*api.DescribeLimitsReply, error) {
	return &api.DescribeLimitsReply{
		AccountMaxReadCapacityUnits:  maxAccountUnits,
		AccountMaxWriteCapacityUnits: maxAccountUnits,
		TableMaxReadCapacityUnits:    maxTableUnits,
		TableMaxWriteCapacityUnits:   maxTableUnits,
	}, nil
}

// endpointMinutes is how long a client may cache an address.
const endpointMinutes = 1440

// describeEndpoints returns the address that the caller already uses, so that a
// client with endpoint discovery stays with this server instead of calling AWS.
func (s *Service) describeEndpoints(ctx context.Context, _ *api.DescribeEndpoints) (*api.DescribeEndpointsReply, error) {
	address := cmp.Or(callerOf(ctx).Host, "dynamodb."+callerOf(ctx).Region+".amazonaws.com")
	return &api.DescribeEndpointsReply{Endpoints: []api.Endpoint{{Address: address, CachePeriodInMinutes: endpointMinutes}}}, nil
}

// withinAccount checks that a table and its indexes keep to the per-table
// limits. The limit of the account over all tables is not enforced.
func withinAccount(ctx context.Context, t *schema.Table) error {
	region := callerOf(ctx).Region
	for i, kind := range [2]string{"Read", "Write"} {
		above := func(t schema.Throughput) bool { return [2]int64{t.Read, t.Write}[i] > maxTableUnits }
		units := func(of, what string, t schema.Throughput) error {
			return apierror.LimitExceeded("The requested %sCapacityUnits%s, %d, is above the per %s maximum for the account in %s. "+
				"Per %s maximum: %d. Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits.",
				kind, of, [2]int64{t.Read, t.Write}[i], what, region, what, maxTableUnits)
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
