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
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/protocol/api"
)

// maxRecords is the largest page of GetRecords, and the default.
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
	src, err := s.stream(ctx, arn)
	if err != nil {
		return nil, err
	}
	f := faultsOf(ctx)
	if f != nil {
		if err := s.beforeRecords(ctx, f, src, it); err != nil {
			return nil, err
		}
	}
	page, err := s.streams().Read(ctx, src, it, limit)
	if err != nil {
		return nil, err
	}
	if f != nil {
		f.holdBack(&page)
	}
	reply := &api.GetRecordsReply{Records: make([]api.Record, len(page.Changes))}
	for i := range page.Changes {
		reply.Records[i] = recordReply(ctx, src, &page.Changes[i])
	}
	returned := 0.0
	for i := range reply.Records {
		returned += float64(reply.Records[i].Dynamodb.SizeBytes)
	}
	if now, err := s.DB.Table(src.Table.Name); err == nil && now.ID == src.Table.ID {
		measured := s.DB.Meter()
		measured.Series(meter.ID{Name: meter.ReturnedRecords, Table: src.Table.Name, Operation: "GetRecords"}).Add(float64(len(reply.Records)))
		measured.Series(meter.ID{Name: meter.ReturnedBytes, Table: src.Table.Name, Operation: "GetRecords"}).Add(returned)
	}
	if !page.Ended {
		reply.NextShardIterator = joinIterator(arn, page.Next)
	}
	return reply, nil
}

// recordReply returns a change as its stream shows it.
func recordReply(ctx context.Context, src db.Stream, c *db.Change) api.Record {
	number := stream.Position{Stamp: c.Stamp, N: c.N}.Sequence()
	sr := &api.StreamRecord{
		ApproximateCreationDateTime: api.TimeOf(c.At.Truncate(time.Second)),
		Keys:                        src.Table.Key.Of(c.Image()),
		SequenceNumber:              number,
		StreamViewType:              src.View,
	}
	switch src.View {
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
		EventID:      eventID(src, number),
		EventName:    c.Kind(),
		EventSource:  "aws:dynamodb",
		EventVersion: "1.1",
	}
	if c.Actor == change.Expiry {
		record.UserIdentity = &api.Identity{PrincipalId: "dynamodb.amazonaws.com", Type: "Service"}
	}
	return record
}

// eventID returns the same id whenever a record is read, so that consumers can
// recognize duplicates.
func eventID(src db.Stream, number string) string {
	digest := sha256.Sum256([]byte(src.Table.UUID + src.Label + number))
	return hex.EncodeToString(digest[:16])
}
