package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// maxRecords is how many records a page has unless fewer are asked for.
const maxRecords = 1000

func (s *Service) getRecords(ctx context.Context, in *api.GetRecords) (*api.GetRecordsReply, error) {
	limit := maxRecords
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if limit > maxRecords {
		return nil, apierror.InvalidValues("Limit should be less than or equal to %d", maxRecords)
	}
	arn, it, err := splitIterator(*in.ShardIterator)
	if err != nil {
		return nil, err
	}
	of, err := s.stream(ctx, arn)
	if err != nil {
		return nil, err
	}
	page, err := s.streams().Read(ctx, of, it, limit)
	if err != nil {
		return nil, err
	}
	reply := &api.GetRecordsReply{Records: make([]api.Record, len(page.Changes))}
	for i := range page.Changes {
		reply.Records[i] = recordReply(ctx, of, &page.Changes[i])
	}
	if !page.Ended {
		reply.NextShardIterator = joinIterator(arn, page.Next)
	}
	return reply, nil
}

// recordReply tells a change as its stream shows it.
func recordReply(ctx context.Context, of db.Stream, c *db.Change) api.Record {
	number := stream.Position{Stamp: c.Stamp, N: c.N}.Sequence()
	sr := &api.StreamRecord{
		ApproximateCreationDateTime: api.TimeOf(c.At.Truncate(time.Second)),
		Keys:                        of.Table.Key.Of(c.Image()),
		SequenceNumber:              number,
		StreamViewType:              of.View,
	}
	switch of.View {
	case "NEW_IMAGE":
		sr.NewImage = c.After
	case "OLD_IMAGE":
		sr.OldImage = c.Before
	case "NEW_AND_OLD_IMAGES":
		sr.NewImage, sr.OldImage = c.After, c.Before
	}
	for _, it := range []item.Item{sr.Keys, sr.NewImage, sr.OldImage} {
		sr.SizeBytes += int64(it.Size())
	}
	record := api.Record{
		AwsRegion:    callerOf(ctx).Region,
		Dynamodb:     sr,
		EventID:      eventID(of, number),
		EventName:    c.Kind(),
		EventSource:  "aws:dynamodb",
		EventVersion: "1.1",
	}
	if c.Actor == change.Expiry {
		record.UserIdentity = &api.Identity{PrincipalId: "dynamodb.amazonaws.com", Type: "Service"}
	}
	return record
}

// eventID is the same whenever a record is read, so that a customer can tell
// that he has had it.
func eventID(of db.Stream, number string) string {
	digest := sha256.Sum256([]byte(of.Table.UUID + of.Label + number))
	return hex.EncodeToString(digest[:16])
}
