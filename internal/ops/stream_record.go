package ops

import (
	"context"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// StreamRecord tells a change as GetRecords does, and the ARN of its stream, to
// one who follows a stream without requests.
func (s *Service) StreamRecord(ctx context.Context, of db.Stream, c *db.Change) (record api.Record, arn string) {
	return recordReply(ctx, of, c), s.streamARN(ctx, of.Table.Name, of.Label)
}
