package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// describeStream tells a stream and its shards, in order of their ids. The
// shard to start after need not be there any more.
func (s *Service) describeStream(ctx context.Context, in *api.DescribeStream) (*api.DescribeStreamReply, error) {
	limit := maxStreamsListed
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if limit > maxStreamsListed {
		return nil, apierror.InvalidValues("Limit cannot be greater than the maximum: %d", maxStreamsListed)
	}
	of, err := s.stream(ctx, *in.StreamArn)
	if err != nil {
		return nil, err
	}
	shards, err := s.streams().Shards(ctx, of)
	if err != nil {
		return nil, err
	}
	desc := &api.StreamDescription{
		CreationRequestDateTime: api.TimeOf(of.Created),
		KeySchema:               keyReply(of.Table.Key),
		Shards:                  []api.Shard{},
		StreamArn:               *in.StreamArn,
		StreamLabel:             of.Label,
		StreamStatus:            of.Status,
		StreamViewType:          of.View,
		TableName:               of.Table.Name,
	}
	for shard := range shards {
		if shard.ID <= orZero(in.ExclusiveStartShardId) || !picks(in.ShardFilter, shard) {
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

// picks tells whether a filter lets a shard pass.
func picks(f *api.ShardFilter, shard stream.Shard) bool {
	return f == nil || f.ShardId == nil || shard.Parent == *f.ShardId
}

func shardReply(shard stream.Shard) api.Shard {
	numbers := &api.SequenceNumberRange{StartingSequenceNumber: shard.First().Sequence()}
	if shard.Closed {
		numbers.EndingSequenceNumber = shard.Last().Sequence()
	}
	return api.Shard{ParentShardId: shard.Parent, SequenceNumberRange: numbers, ShardId: shard.ID}
}
