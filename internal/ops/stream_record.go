package ops

import (
	"context"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// StreamRecord returns a change as GetRecords does, and the ARN of its stream,
// for a caller that follows a stream without requests.
func (s *Service) StreamRecord(ctx context.Context, src db.Stream, c *db.Change) (record api.Record, arn string) {
	return recordReply(ctx, src, c), s.streamARN(ctx, src.Table.Name, src.Label)
}
