package migrate

import (
	"context"
	"time"
)

// followedShard is the position in one shard.
type followedShard struct {
	id       string
	after    string // the last sequence number that was handled, "" for none
	ended    bool
	iterator string
	saved    time.Time
	unsaved  bool
	inStream bool
}

// endedAt is stored as the position of a shard that was read to its end.
const endedAt = "end"

// pageRecords is how many records a request asks for, and pageBytes more than
// half of what a page may have. A page below both ends at the end of the shard.
const (
	pageRecords = 1000
	pageBytes   = 512 << 10
)

// readShard reads a shard to its present end.
func (f *streamFollower) readShard(ctx context.Context, s *followedShard) (n int, err error) {
	for {
		read, full, err := f.page(ctx, s)
		if err != nil {
			return n, err
		}
		n += read
		if s.unsaved && (s.ended || !full || time.Since(s.saved) > time.Second) {
			if err := f.save(ctx, s); err != nil {
				return n, err
			}
		}
		if s.ended || !full {
			return n, nil
		}
	}
}

func (f *streamFollower) save(ctx context.Context, s *followedShard) error {
	at := s.after
	if s.ended {
		at = endedAt
	}
	if err := f.store.setPosition(ctx, f.part(s.id), at); err != nil {
		return err
	}
	s.saved, s.unsaved = time.Now(), false
	return nil
}

// page reads and handles one page of a shard. It reports the number of records,
// and whether more may follow at once.
func (f *streamFollower) page(ctx context.Context, s *followedShard) (n int, full bool, err error) {
	if s.iterator == "" {
		if err := f.iterate(ctx, s); err != nil {
			return 0, false, err
		}
	}
	var reply struct {
		Records []struct {
			EventName string
			Dynamodb  struct {
				Keys, OldImage              *itemJSON
				SequenceNumber              string
				ApproximateCreationDateTime float64
				SizeBytes                   int
			}
		}
		NextShardIterator string
	}
	err = f.c.askStreams(ctx, "GetRecords", map[string]any{"ShardIterator": s.iterator, "Limit": pageRecords}, &reply)
	switch {
	case isFault(err, "ExpiredIteratorException"):
		s.iterator = ""
		return f.page(ctx, s)
	case isFault(err, "TrimmedDataAccessException"):
		return 0, false, errTrimmed
	case err != nil:
		return 0, false, err
	}
	size := 0
	records := make([]changeRecord, len(reply.Records))
	for i, r := range reply.Records {
		size += r.Dynamodb.SizeBytes
		records[i] = changeRecord{keys: r.Dynamodb.Keys.Item, inserted: r.EventName == "INSERT", created: time.Unix(int64(r.Dynamodb.ApproximateCreationDateTime), 0)}
		if r.Dynamodb.OldImage != nil {
			records[i].old = r.Dynamodb.OldImage.Item
		}
	}
	if len(records) > 0 {
		if err := f.handle(ctx, records); err != nil {
			return 0, false, err
		}
		f.counts.records.Add(int64(len(records)))
		s.after, s.unsaved = reply.Records[len(records)-1].Dynamodb.SequenceNumber, true
	}
	s.iterator = reply.NextShardIterator
	if s.iterator == "" {
		s.ended, s.unsaved = true, true
	}
	return len(records), len(records) == pageRecords || size > pageBytes, nil
}

// iterate gets an iterator after the last record that was handled.
func (f *streamFollower) iterate(ctx context.Context, s *followedShard) error {
	body := map[string]any{"StreamArn": f.arn, "ShardId": s.id, "ShardIteratorType": "TRIM_HORIZON"}
	if s.after != "" {
		body["ShardIteratorType"], body["SequenceNumber"] = "AFTER_SEQUENCE_NUMBER", s.after
	}
	var reply struct{ ShardIterator string }
	err := f.c.askStreams(ctx, "GetShardIterator", body, &reply)
	if isFault(err, "TrimmedDataAccessException") {
		return errTrimmed
	}
	s.iterator = reply.ShardIterator
	return err
}
