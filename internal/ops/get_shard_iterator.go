package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// getShardIteratorChecks run in the order in which DynamoDB reports faults.
var getShardIteratorChecks = []func(*api.GetShardIterator) error{
	iteratorWithSequence,
	iteratorWithTime,
}

func (s *Service) getShardIterator(ctx context.Context, in *api.GetShardIterator) (*api.GetShardIteratorReply, error) {
	if err := firstFault(in, getShardIteratorChecks); err != nil {
		return nil, err
	}
	src, err := s.stream(ctx, *in.StreamArn)
	if err != nil {
		return nil, err
	}
	reader := s.streams()
	shard, err := reader.Shard(ctx, src, *in.ShardId)
	if err != nil {
		return nil, err
	}
	var it stream.Iterator
	switch *in.ShardIteratorType {
	case "TRIM_HORIZON":
		it = reader.AtOldest(shard)
	case "LATEST":
		it = reader.AtLatest(shard)
	case "AT_TIMESTAMP":
		if in.Timestamp.After(s.DB.Now()) {
			return nil, apierror.InvalidValues("Timestamp cannot be in the future")
		}
		it = reader.AtTime(shard, in.Timestamp.Time)
	default:
		it, err = reader.AtSequence(shard, *in.SequenceNumber, *in.ShardIteratorType == "AFTER_SEQUENCE_NUMBER")
	}
	if err != nil {
		return nil, err
	}
	return &api.GetShardIteratorReply{ShardIterator: joinIterator(*in.StreamArn, it)}, nil
}

func iteratorWithSequence(in *api.GetShardIterator) error {
	switch *in.ShardIteratorType {
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		if in.SequenceNumber == nil {
			return apierror.InvalidValues("SequenceNumber cannot be null")
		}
	default:
		if in.SequenceNumber != nil {
			return apierror.InvalidValues("SequenceNumber should not be passed for this iterator type")
		}
	}
	return nil
}

func iteratorWithTime(in *api.GetShardIterator) error {
	timed := *in.ShardIteratorType == "AT_TIMESTAMP"
	switch {
	case timed && in.Timestamp == nil:
		return apierror.InvalidValues("Timestamp cannot be null")
	case !timed && in.Timestamp != nil:
		return apierror.InvalidValues("Timestamp should not be passed for this iterator type")
	}
	return nil
}
