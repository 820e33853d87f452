package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/virtualtime"
)

// fakeShard is a stream of one shard that answers as AWS may: with pages of any
// size, and with empty pages before the records.
type fakeShard struct {
	mutex   sync.Mutex
	records int // that the shard has, with the sequence numbers 1, 2, …
	perPage int
	empty   int // pages without records that an iterator of GetShardIterator gives first
	closed  bool
	removed bool               // the stream does not have the shard any more
	child   bool               // the stream has a child of the shard, which has no records
	gone    bool               // the shard is removed after the shards were listed
	raced   int                // iterators whose position is removed before they are used
	read    func(s *fakeShard) // called for each page
	trimmed int                // the last sequence number that is removed
	expires int                // iterators that expire when they are used
	expiry  bool               // the records are of items that expire
	asked   []string           // the operations
}

func (s *fakeShard) send(_ context.Context, operation string, body any) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asked = append(s.asked, operation)
	in, _ := body.(map[string]any)
	switch operation {
	case "DescribeStream":
		numbers := map[string]string{"StartingSequenceNumber": "1"}
		if s.closed {
			numbers["EndingSequenceNumber"] = strconv.Itoa(s.records)
		}
		shards := []any{map[string]any{"ShardId": "shard", "SequenceNumberRange": numbers}}
		if s.child {
			shards = append(shards, map[string]any{"ShardId": "child", "ParentShardId": "shard", "SequenceNumberRange": map[string]string{"StartingSequenceNumber": "1"}})
		}
		if s.removed {
			shards = nil
		}
		return json.Marshal(map[string]any{"StreamDescription": map[string]any{"StreamStatus": "ENABLED", "Shards": shards}})
	case "GetShardIterator":
		return s.iterate(in)
	case "GetRecords":
		return s.page(in["ShardIterator"].(string))
	}
	return []byte("{}"), nil // of the table of states
}

func (s *fakeShard) iterate(in map[string]any) ([]byte, error) {
	if s.gone {
		return nil, &apierror.Error{Code: "ResourceNotFoundException", Status: 400}
	}
	after := s.trimmed
	switch in["ShardIteratorType"] {
	case "LATEST":
		after = s.records
	case "AFTER_SEQUENCE_NUMBER":
		after, _ = strconv.Atoi(in["SequenceNumber"].(string))
		if after <= s.trimmed {
			return nil, &apierror.Error{Code: "TrimmedDataAccessException", Status: 400}
		}
	}
	return json.Marshal(map[string]any{"ShardIterator": fmt.Sprintf("%d %d", after, s.empty)})
}

func (s *fakeShard) page(iterator string) ([]byte, error) {
	if s.expires > 0 {
		s.expires--
		return nil, &apierror.Error{Code: "ExpiredIteratorException", Status: 400}
	}
	if s.raced > 0 {
		s.raced--
		return nil, &apierror.Error{Code: "TrimmedDataAccessException", Status: 400}
	}
	if s.read != nil {
		s.read(s)
	}
	var after, empty int
	if _, err := fmt.Sscan(iterator, &after, &empty); err != nil {
		return nil, err
	}
	records := []any{}
	if empty--; empty < 0 {
		for empty = 0; len(records) < s.perPage && after < s.records; {
			after++
			record := map[string]any{"eventName": "MODIFY", "dynamodb": map[string]any{
				"SequenceNumber": strconv.Itoa(after), "Keys": map[string]any{"id": map[string]string{"S": strconv.Itoa(after)}}}}
			if s.expiry {
				record["eventName"], record["userIdentity"] = "REMOVE", map[string]string{"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
			}
			records = append(records, record)
		}
	}
	reply := map[string]any{"Records": records}
	if !s.closed || after < s.records || empty > 0 {
		reply["NextShardIterator"] = fmt.Sprintf("%d %d", after, empty)
	}
	return json.Marshal(reply)
}

// follow returns a follower of the shard, and the number of records that it has
// handled.
func (s *fakeShard) follow() (f *streamFollower, handled *int) {
	c := &endpointClient{tables: s.send, streams: s.send}
	f = &streamFollower{c: c, store: &stateStore{c: c}, table: "tab", now: time.Now, followed: time.Now(), counts: new(copyCounts), shards: make(map[string]*followedShard)}
	handled = new(int)
	f.handle = func(_ context.Context, records []changeRecord) error {
		for range records {
			*handled++
		}
		return nil
	}
	return f, handled
}

// A round reads all records that there are when it begins.
func TestFollowerRoundReadsToTheEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		shard *fakeShard
	}{
		{"a record after empty pages", &fakeShard{records: 1, perPage: 1, empty: 40}},
		{"a closed shard after many empty pages", &fakeShard{records: 3, perPage: 1, empty: 1000, closed: true}},
		{"pages of one record, since the items are large", &fakeShard{records: 20, perPage: 1}},
		{"an iterator that expires", &fakeShard{records: 20, perPage: 5, expires: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, handled := c.shard.follow()
			if err := f.round(t.Context()); err != nil || *handled != c.shard.records {
				t.Errorf("a round handled %d of %d records: %v", *handled, c.shard.records, err)
			}
			if f.shards["shard"].ended != c.shard.closed {
				t.Error("the end of the shard is not recorded")
			}
			asked := len(c.shard.asked)
			if err := f.round(t.Context()); err != nil || len(c.shard.asked)-asked > 2 {
				t.Errorf("a round without records asks %s, %v", c.shard.asked[asked:], err)
			}
		})
	}
}

// A round ends although each page has a record that was written after the one
// before, and has read those that were there when it began.
func TestFollowerRoundEndsWhileWritesGoOn(t *testing.T) {
	for _, perPage := range []int{1, 3, pageRecords} {
		s := &fakeShard{records: 50, perPage: perPage, read: func(s *fakeShard) { s.records++ }}
		f, handled := s.follow()
		for range 3 {
			there := s.records
			if err := f.round(t.Context()); err != nil || *handled < there {
				t.Fatalf("%d of %d records, %v", *handled, there, err)
			}
		}
		if requests := strings.Count(strings.Join(s.asked, " "), "GetRecords"); requests > 10_000 {
			t.Errorf("%d requests", requests)
		}
	}
}

// Sequence numbers are compared as numbers.
func TestSequenceOrder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1", "1", true}, {"10", "9", true}, {"9", "10", false}, {"010", "9", true}, {"000", "0", true}, {"", "1", false},
	} {
		if got := reaches(c.a, c.b); got != c.want {
			t.Errorf("reaches(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

// A server whose iterators expire at once ends the run.
func TestFollowerIteratorsThatExpire(t *testing.T) {
	s := &fakeShard{records: 1, perPage: 1, expires: 1000}
	f, _ := s.follow()
	if err := f.round(t.Context()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("the round ends with %v", err)
	}
}

// Items that expire are followed, but are no writes that delay a switch.
func TestFollowerExpiry(t *testing.T) {
	for _, expiry := range []bool{false, true} {
		s := &fakeShard{records: 10, perPage: 3, expiry: expiry}
		f, handled := s.follow()
		if err := f.round(t.Context()); err != nil || *handled != 10 || f.at().record.IsZero() != expiry {
			t.Errorf("expiry %v: %d records are followed, the last write was at %s, %v", expiry, *handled, f.at().record, err)
		}
	}
}

// The last record of a shard that was handled may be removed, and the shard with
// it. No record is lost if the stream was read to its end within 23 hours.
func TestFollowerPositionThatIsRemoved(t *testing.T) {
	for _, c := range []struct {
		name  string
		shard *fakeShard
		ago   time.Duration // when the stream was last read to its end
		want  int           // records, -1 for an error
	}{
		{"the record, in time", &fakeShard{records: 10, perPage: 2, trimmed: 7}, 22 * time.Hour, 3},
		{"the record, too late", &fakeShard{records: 10, perPage: 2, trimmed: 7}, 24 * time.Hour, -1},
		{"the record, after the iterator, in time", &fakeShard{records: 10, perPage: 2, trimmed: 7, raced: 1}, 22 * time.Hour, 3},
		{"the record, after the iterator, too late", &fakeShard{records: 10, perPage: 2, trimmed: 7, raced: 1}, 24 * time.Hour, -1},
		{"the shard, after the list, in time", &fakeShard{gone: true}, 22 * time.Hour, 0},
		{"the shard, in time", &fakeShard{removed: true}, 22 * time.Hour, 0},
		{"the shard, too late", &fakeShard{removed: true}, 24 * time.Hour, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, handled := c.shard.follow()
			f.followed = time.Now().Add(-c.ago)
			f.shards["shard"] = &followedShard{id: "shard", after: "5"}
			err := f.round(t.Context())
			if c.want < 0 && !errors.Is(err, errTrimmed) || c.want >= 0 && (err != nil || *handled != c.want) {
				t.Errorf("%d records, %v", *handled, err)
			}
		})
	}
}

// A limited number of shards is read at the same time.
func TestFollowerReadsSomeShardsAtATime(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var reading, most atomic.Int64
		send := func(_ context.Context, operation string, _ any) ([]byte, error) {
			switch operation {
			case "DescribeStream":
				var shards []any
				for i := range 1000 {
					shards = append(shards, map[string]any{"ShardId": strconv.Itoa(i), "SequenceNumberRange": map[string]any{"EndingSequenceNumber": "1"}})
				}
				return json.Marshal(map[string]any{"StreamDescription": map[string]any{"StreamStatus": "ENABLED", "Shards": shards}})
			case "GetShardIterator":
				return []byte(`{"ShardIterator": "x"}`), nil
			case "GetRecords":
				n := reading.Add(1)
				for is := most.Load(); n > is && !most.CompareAndSwap(is, n); is = most.Load() {
				}
				time.Sleep(time.Millisecond)
				reading.Add(-1)
			}
			return []byte("{}"), nil
		}
		s := new(fakeShard)
		f, _ := s.follow()
		f.c.streams = send
		if err := f.round(t.Context()); err != nil || most.Load() > maxShards || most.Load() < 2 {
			t.Errorf("%d shards are read at the same time, %v", most.Load(), err)
		}
	})
}

// The time up to which a stream was read is the beginning of a round: changes that
// come while it lasts may have no record yet.
func TestFollowedIsTheBeginningOfARound(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := &fakeShard{records: 1, perPage: 1}
		f, _ := s.follow()
		f.poll = time.Hour
		f.handle = func(context.Context, []changeRecord) error { time.Sleep(10 * time.Hour); return nil }
		g := &following{all: []*streamFollower{f, new(streamFollower)}}
		if is := g.followed(); !is.IsZero() {
			t.Errorf("before the first round: %s", is)
		}
		g.all = g.all[:1]
		ctx, cancel := context.WithCancel(t.Context())
		began, done := time.Now(), make(chan error)
		go func() { done <- f.run(ctx) }()
		time.Sleep(10*time.Hour + time.Minute)
		if is := g.followed(); !is.Equal(began) {
			t.Errorf("followed %s after the beginning", is.Sub(began))
		}
		cancel()
		<-done
	})
}

// A process that did not run for a day ends: a shard of which it has no position
// would begin after the records that were removed.
func TestFollowerThatSlept(t *testing.T) {
	for _, c := range []struct {
		name  string
		slept time.Duration
		fails bool
	}{{"for some hours", 20 * time.Hour, false}, {"for a day", 24 * time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				s := &fakeShard{perPage: 1}
				f, _ := s.follow()
				f.poll = time.Minute
				var slept atomic.Int64
				f.now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- f.run(ctx) }()
				time.Sleep(30 * time.Second)
				slept.Store(int64(c.slept))
				time.Sleep(time.Hour)
				cancel()
				if err := <-done; errors.Is(err, errTrimmed) != c.fails {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A shard that is closed goes on in its children. As long as they are not listed,
// the stream is not read to its end.
func TestFollowerWaitsForTheChildrenOfAShard(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := &fakeShard{perPage: 1, closed: true}
		f, _ := s.follow()
		f.poll = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.run(ctx) }()
		time.Sleep(10*time.Second + time.Millisecond)
		if n := f.at().rounds; n != 0 {
			t.Errorf("%d rounds without the child", n)
		}
		s.mutex.Lock()
		s.child, s.closed = true, false // the fake has one state for both
		s.mutex.Unlock()
		time.Sleep(2 * time.Second)
		if n := f.at().rounds; n == 0 {
			t.Error("no round with the child")
		}
		s.mutex.Lock()
		s.child, s.closed = false, true
		s.mutex.Unlock()
		time.Sleep(childPatience + 2*time.Second)
		before := f.at().rounds
		time.Sleep(5 * time.Second)
		if f.at().rounds == before {
			t.Error("a server whose closed shards have no children is waited for")
		}
		cancel()
		<-done
	})
}
