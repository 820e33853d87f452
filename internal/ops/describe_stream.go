package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// describeStream returns a stream and its shards, ordered by id.
// ExclusiveStartShardId may name a shard that no longer exists.
func (s *Service) describeStream(ctx context.Context, in *api.DescribeStream) (*api.DescribeStreamReply, error) {
	limit := maxStreamsListed
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if limit > maxStreamsListed {
		return nil, apierror.InvalidValues("Limit cannot be greater than the maximum: %d", maxStreamsListed)
	}
	if f := in.ShardFilter; f != nil {
		if err := filterIsComplete(f); err != nil {
			return nil, err
		}
	}
	src, err := s.stream(ctx, *in.StreamArn)
	if err != nil {
		return nil, err
	}
	shards, err := s.streams().Shards(ctx, src, orZero(in.ExclusiveStartShardId))
	if err != nil {
		return nil, err
	}
	desc := &api.StreamDescription{
		CreationRequestDateTime: api.TimeOf(src.Created),
		KeySchema:               keyReply(src.Table.Key),
		Shards:                  []api.Shard{},
		StreamArn:               *in.StreamArn,
		StreamLabel:             src.Label,
		StreamStatus:            src.Status,
		StreamViewType:          src.View,
		TableName:               src.Table.Name,
	}
	for shard := range shards {
		if !matchesFilter(in.ShardFilter, shard) {
			continue
		}
		if len(desc.Shards) == limit {
			desc.LastEvaluatedShardId = desc.Shards[limit-1].ShardId
			break
		}
		desc.Shards = append(desc.Shards, shardReply(shard))
	}
	return &api.DescribeStreamReply{StreamDescription: desc}, nil
}

// filterIsComplete checks that a filter has all of its members. The service's
// message is not documented.
func filterIsComplete(f *api.ShardFilter) error {
	if f.Type == nil || f.ShardId == nil {
		return apierror.InvalidValues("ShardFilter must have a Type and a ShardId")
	}
	return nil
}

// matchesFilter reports whether a filter matches a shard.
func matchesFilter(f *api.ShardFilter, shard stream.Shard) bool {
	return f == nil || shard.Parent == *f.ShardId
}

func shardReply(shard stream.Shard) api.Shard {
	numbers := &api.SequenceNumberRange{StartingSequenceNumber: shard.First().Sequence()}
	if shard.Closed {
		numbers.EndingSequenceNumber = shard.Last().Sequence()
	}
	return api.Shard{ParentShardId: shard.Parent, SequenceNumberRange: numbers, ShardId: shard.ID}
}
