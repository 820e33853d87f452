package ops

import (
	"cmp"
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// maxStreamsListed is the largest page of ListStreams, and of the shards in
// DescribeStream.
const maxStreamsListed = 100

// listStreams lists streams ordered by table and label. ExclusiveStartStreamArn
// may name a stream that no longer exists.
func (s *Service) listStreams(ctx context.Context, in *api.ListStreams) (*api.ListStreamsReply, error) {
	limit := maxStreamsListed
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if limit > maxStreamsListed {
		return nil, apierror.InvalidValues("Limit cannot be greater than the maximum allowed size: %d", maxStreamsListed)
	}
	after := func(db.Stream) bool { return true }
	if in.ExclusiveStartStreamArn != nil {
		table, label, err := splitStreamARN(*in.ExclusiveStartStreamArn)
		if err != nil {
			return nil, err
		}
		after = func(src db.Stream) bool {
			return cmp.Or(cmp.Compare(src.Table.Name, table), cmp.Compare(src.Label, label)) > 0
		}
	}
	reply := &api.ListStreamsReply{Streams: []api.Stream{}}
	for _, src := range s.DB.Streams(orZero(in.TableName)) {
		if !after(src) {
			continue
		}
		if len(reply.Streams) == limit {
			reply.LastEvaluatedStreamArn = reply.Streams[limit-1].StreamArn
			break
		}
		reply.Streams = append(reply.Streams, api.Stream{
			StreamArn:   s.streamARN(ctx, src.Table.Name, src.Label),
			StreamLabel: src.Label,
			TableName:   src.Table.Name,
		})
	}
	return reply, nil
}
