package ops

import (
	"cmp"
	"context"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) describeLimits(context.Context, *api.DescribeLimits) (*api.DescribeLimitsReply, error) {
	return &api.DescribeLimitsReply{
		AccountMaxReadCapacityUnits:  schema.MaxAccountUnits,
		AccountMaxWriteCapacityUnits: schema.MaxAccountUnits,
		TableMaxReadCapacityUnits:    schema.MaxTableUnits,
		TableMaxWriteCapacityUnits:   schema.MaxTableUnits,
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

// withinAccount checks that a table and its indexes keep to the limits of a
// table, and with the other tables to those of the account. before is nil if the
// table is new.
func (s *Service) withinAccount(ctx context.Context, t, before *schema.Table) error {
	return t.WithinAccount(before, s.DB.ProvisionedUnits(), callerOf(ctx).Region)
}
