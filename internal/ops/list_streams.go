package ops

import (
	"cmp"
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// maxStreamsListed is how many streams a page has, and shards of one stream.
const maxStreamsListed = 100

// listStreams tells streams in order of their tables and labels. The one to
// start after need not be there any more.
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
		after = func(of db.Stream) bool {
			return cmp.Or(cmp.Compare(of.Table.Name, table), cmp.Compare(of.Label, label)) > 0
		}
	}
	reply := &api.ListStreamsReply{Streams: []api.Stream{}}
	for _, of := range s.DB.Streams(orZero(in.TableName)) {
		if !after(of) {
			continue
		}
		if len(reply.Streams) == limit {
			reply.LastEvaluatedStreamArn = reply.Streams[limit-1].StreamArn
			break
		}
		reply.Streams = append(reply.Streams, api.Stream{
			StreamArn:   s.streamARN(ctx, of.Table.Name, of.Label),
			StreamLabel: of.Label,
			TableName:   of.Table.Name,
		})
	}
	return reply, nil
}
