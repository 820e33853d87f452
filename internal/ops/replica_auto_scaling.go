package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The operations on the auto scaling of replicas are for global tables, of which
// there are none. Other tables are scaled by Application Auto Scaling.

func (s *Service) describeTableReplicaAutoScaling(_ context.Context, in *api.DescribeTableReplicaAutoScaling) (*api.Nothing, error) {
	return nil, notGlobal(in.TableName)
}

func (s *Service) updateTableReplicaAutoScaling(_ context.Context, in *api.UpdateTableReplicaAutoScaling) (*api.Nothing, error) {
	return nil, notGlobal(in.TableName)
}

func notGlobal(table string) error {
	return apierror.NotFound("Global table with name: ‘%s’ does not exist.", table)
}
