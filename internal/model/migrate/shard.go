package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// followedShard is the position in one shard.
type followedShard struct {
	id        string
	after     string // the last sequence number that was handled, "" for none
	ended     bool   // it was read to its end
	closed    bool   // it gets no more records
	iterator  string
	empty     int  // pages in a row without records
	current   bool // the iterator has reached the end
	saved     time.Time
	unsaved   bool
	inStream  bool
	isParent  bool
	childless time.Time // since when it is closed and has no child
}

// childPatience is how long a shard that is closed may have no child. A stream
// that is enabled goes on in other shards, but AWS may list them later
// (github.com/awslabs/amazon-kinesis-client, issue 164). Other servers may have
// such shards.
const childPatience = time.Minute

// lacksChildren reports whether the list of shards is without those in which this
// one goes on.
func (s *followedShard) lacksChildren() bool {
	switch {
	case !s.inStream || !s.closed || s.isParent:
		s.childless = time.Time{}
		return false
	case s.childless.IsZero():
		s.childless = time.Now()
	}
	return time.Since(s.childless) < childPatience
}

// endedAt is stored as the position of a shard that was read to its end.
const endedAt = "end"

// pageRecords is how many records a request asks for.
const pageRecords = 1000

// newIteratorPages is how many empty pages in a row show that a new iterator has
// reached the end of an open shard. Pages before the end may be empty too: AWS
// says that several requests may be necessary to get to the records, but not how
// many. An iterator that has reached the end stays there from poll to poll.
const newIteratorPages = 100

// readShard reads a shard to its end, an open one at least as far as it was at
// the beginning.
func (f *streamFollower) readShard(ctx context.Context, s *followedShard) error {
	var end roundEnd
	for done := false; !done; {
		read, err := f.page(ctx, s)
		if isFault(err, "ResourceNotFoundException") && f.isRecent() {
			return nil // it was removed after the shards were listed, and had no more records
		}
		if err != nil {
			return err
		}
		if done, err = f.isRead(ctx, s, &end, read); err != nil {
			return err
		}
		if s.unsaved && (done || time.Since(s.saved) > time.Second) {
			if err := f.save(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// isRead reports whether a round is at the end of a shard, after a page with a
// number of records.
func (f *streamFollower) isRead(ctx context.Context, s *followedShard, end *roundEnd, records int) (bool, error) {
	switch {
	case s.ended || s.closed:
		return s.ended, nil
	case records == 0:
		s.empty++
		s.current = s.current || s.empty >= newIteratorPages
		return s.current, nil
	}
	s.empty = 0
	reached, err := end.reachedBy(ctx, f, s)
	s.current = s.current || reached
	return reached, err
}

// roundEnd finds the end of a round in a shard that has new records on each page.
type roundEnd struct {
	pages    int
	iterator string // that began at the end of the shard, during this round
	sequence string // of the first record after it, "" if it is not known
}

// reachedBy reports whether all records are handled that the shard had when the
// round began. It is called after each page that has records.
func (e *roundEnd) reachedBy(ctx context.Context, f *streamFollower, s *followedShard) (bool, error) {
	if e.pages++; e.pages == 1 {
		return false, nil // mostly the next page is empty
	}
	var err error
	if e.iterator == "" && e.sequence == "" {
		e.iterator, err = f.iterator(ctx, s.id, "LATEST", "")
		if err != nil {
			return false, err
		}
	}
	if e.sequence == "" {
		reply, err := f.records(ctx, e.iterator, 1)
		switch {
		case isFault(err, "ExpiredIteratorException"):
			e.iterator = ""
			return false, nil
		case err != nil:
			return false, err
		case len(reply.Records) > 0:
			e.sequence = reply.Records[0].Dynamodb.SequenceNumber
		case reply.NextShardIterator == "":
			s.closed = true
		}
		e.iterator = reply.NextShardIterator
	}
	return e.sequence != "" && reaches(s.after, e.sequence), nil
}

// reaches reports whether a sequence number is not smaller than another.
func reaches(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) > len(b) || len(a) == len(b) && a >= b
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

// page reads and handles one page of a shard. It returns the number of records.
func (f *streamFollower) page(ctx context.Context, s *followedShard) (int, error) {
	reply, err := f.nextPage(ctx, s)
	if err != nil {
		return 0, err
	}
	records := make([]changeRecord, len(reply.Records))
	for i, r := range reply.Records {
		records[i] = changeRecord{keys: r.Dynamodb.Keys.Item, inserted: r.EventName == "INSERT", expired: r.UserIdentity.isExpiry()}
		if r.Dynamodb.OldImage != nil {
			records[i].old = r.Dynamodb.OldImage.Item
		}
		if r.Dynamodb.NewImage != nil {
			records[i].new = r.Dynamodb.NewImage.Item
		}
	}
	if len(written(records)) > 0 {
		f.readRecord()
	}
	if len(records) > 0 {
		if err := f.handle(ctx, records); err != nil {
			return 0, err
		}
		f.counts.records.Add(int64(len(records)))
		s.after, s.unsaved = reply.Records[len(records)-1].Dynamodb.SequenceNumber, true
	}
	s.iterator = reply.NextShardIterator
	if s.iterator == "" {
		s.ended, s.unsaved = true, true
	}
	return len(records), nil
}

// nextPage requests the next page of a shard.
func (f *streamFollower) nextPage(ctx context.Context, s *followedShard) (*recordPage, error) {
	for range maxTries {
		if s.iterator == "" {
			if err := f.iterate(ctx, s); err != nil {
				return nil, err
			}
		}
		reply, err := f.records(ctx, s.iterator, pageRecords)
		switch {
		case isFault(err, "ExpiredIteratorException"):
			s.iterator = ""
		case isFault(err, "TrimmedDataAccessException") && f.isRecent():
			s.iterator = "" // records before the position that is needed were removed
		case isFault(err, "TrimmedDataAccessException"):
			return nil, errTrimmed
		default:
			return reply, err
		}
	}
	return nil, fmt.Errorf("shard %s: %d iterators in a row expired before they were used", s.id, maxTries)
}

// iterate gets an iterator after the last record that was handled.
func (f *streamFollower) iterate(ctx context.Context, s *followedShard) (err error) {
	kind := "TRIM_HORIZON"
	if s.after != "" {
		kind = "AFTER_SEQUENCE_NUMBER"
	}
	s.iterator, err = f.iterator(ctx, s.id, kind, s.after)
	if isFault(err, "TrimmedDataAccessException") && f.isRecent() {
		// The record was the last one, and those after it are younger.
		s.iterator, err = f.iterator(ctx, s.id, "TRIM_HORIZON", "")
	}
	s.empty, s.current = 0, false
	if isFault(err, "TrimmedDataAccessException") {
		return errTrimmed
	}
	return err
}

// iterator requests an iterator of a shard.
func (f *streamFollower) iterator(ctx context.Context, shard, kind, after string) (string, error) {
	body := map[string]any{"StreamArn": f.arn, "ShardId": shard, "ShardIteratorType": kind}
	if after != "" {
		body["SequenceNumber"] = after
	}
	var reply struct{ ShardIterator string }
	err := f.c.askStreams(ctx, "GetShardIterator", body, &reply)
	return reply.ShardIterator, err
}

// recordPage is a reply of GetRecords.
type recordPage struct {
	Records []struct {
		EventName    string
		UserIdentity recordIdentity
		Dynamodb     struct {
			Keys, OldImage, NewImage *itemJSON
			SequenceNumber           string
		}
	}
	NextShardIterator string
}

// recordIdentity is set in records of changes that the service itself made.
type recordIdentity struct{ PrincipalID, Type string }

// isExpiry reports whether a change is the removal of an expired item.
func (u recordIdentity) isExpiry() bool {
	return u.Type == "Service" && u.PrincipalID == "dynamodb.amazonaws.com"
}

func (f *streamFollower) records(ctx context.Context, iterator string, limit int) (*recordPage, error) {
	reply := new(recordPage)
	err := f.c.askStreams(ctx, "GetRecords", map[string]any{"ShardIterator": iterator, "Limit": limit}, reply)
	return reply, err
}
