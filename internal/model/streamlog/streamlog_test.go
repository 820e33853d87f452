package streamlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model/streamlog"
	"github.com/stator-db/stator/internal/virtualtime"
)

// shards is a stream whose records are made by a test.
type shards struct {
	mutex     sync.Mutex
	records   map[string][]string // by shard
	closed    map[string]bool
	gone      map[string]bool // shards that are removed after they are listed
	throttled int
	empty     int // pages before the records
}

func (s *shards) send(_ context.Context, operation string, body any) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.throttled > 0 {
		s.throttled--
		return nil, &apierror.Error{Code: "LimitExceededException", Status: 400}
	}
	in := body.(map[string]any)
	switch operation {
	case "DescribeStream":
		var list []string
		for id := range s.records {
			list = append(list, fmt.Sprintf(`{"ShardId": %q}`, id))
		}
		slices.Sort(list)
		return []byte(`{"StreamDescription": {"Shards": [` + strings.Join(list, ",") + `]}}`), nil
	case "GetShardIterator":
		id := in["ShardId"].(string)
		if s.gone[id] {
			return nil, &apierror.Error{Code: "ResourceNotFoundException", Status: 400}
		}
		at := 0
		if in["ShardIteratorType"] == "LATEST" {
			at = len(s.records[id])
		}
		return json.Marshal(map[string]string{"ShardIterator": fmt.Sprintf("%s %d %d", id, at, s.empty)})
	}
	parts := strings.Fields(in["ShardIterator"].(string))
	id := parts[0]
	at, _ := strconv.Atoi(parts[1])
	empty, _ := strconv.Atoi(parts[2])
	if empty > 0 {
		return json.Marshal(map[string]any{"Records": []any{}, "NextShardIterator": fmt.Sprintf("%s %d %d", id, at, empty-1)})
	}
	end := min(at+2, len(s.records[id]))
	next := fmt.Sprintf(`, "NextShardIterator": "%s %d 0"`, id, end)
	if s.closed[id] && end == len(s.records[id]) {
		next = ""
	}
	return []byte(`{"Records": [` + strings.Join(s.records[id][at:end], ",") + `]` + next + `}`), nil
}

func record(event string, second int, key, before, after string) string {
	images := ""
	if before != "" {
		images += `, "OldImage": ` + before
	}
	if after != "" {
		images += `, "NewImage": ` + after
	}
	return fmt.Sprintf(`{"eventName": %q, "dynamodb": {"ApproximateCreationDateTime": %d, "Keys": {"id": {"S": %q}}%s}}`, event, second, key, images)
}

func order(key, note string) string {
	return fmt.Sprintf(`{"id": {"S": %q}, "note": {"S": %q}}`, key, note)
}

var source = streamlog.Source{ARN: "arn", View: "NEW_AND_OLD_IMAGES",
	Table: &schema.Table{Name: "tab", Attributes: []schema.Attribute{{Name: "id", Type: item.S}}, Key: schema.Key{Partition: []schema.Attribute{{Name: "id", Type: item.S}}}}}

func counted(l *streamlog.Log) string {
	var lines []string
	for _, c := range l.Report().Shapes {
		lines = append(lines, fmt.Sprint(c.Operation, " ", c.Partition, " ", c.Changes, " ", c.Requests))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// The records that a stream has are counted by key prefix and by what changes.
func TestRead(t *testing.T) {
	expired := strings.Replace(record("REMOVE", 130, "ORDER#9", order("ORDER#9", "x"), ""), `{"eventName"`, `{"userIdentity": {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}, "eventName"`, 1)
	s := &shards{throttled: 3, empty: 5, closed: map[string]bool{"a": true}, gone: map[string]bool{"c": true}, records: map[string][]string{
		"a": {record("INSERT", 100, "ORDER#1", "", order("ORDER#1", "n")), record("INSERT", 101, "ORDER#2", "", order("ORDER#2", "n")), record("INSERT", 102, "CART#2", "", order("CART#2", "n"))},
		"b": {record("MODIFY", 110, "ORDER#1", order("ORDER#1", "n"), order("ORDER#1", "m")), record("REMOVE", 120, "ORDER#2", order("ORDER#2", "n"), ""), expired},
		"c": {record("INSERT", 1, "ORDER#7", "", order("ORDER#7", "n"))},
	}}
	virtualtime.Test(t, func(t *testing.T) {
		l := streamlog.New()
		images := 0
		l.Image = func(string, item.Item) { images++ }
		if err := l.Read(t.Context(), s.send, []streamlog.Source{source}); err != nil {
			t.Fatal(err)
		}
		if got := counted(l); got != "DeleteItem ORDER#  1; PutItem CART#  1; PutItem ORDER#  2; UpdateItem ORDER# note 1" {
			t.Errorf("the counts are %s", got)
		}
		if l.Records != 6 || l.Expired != 1 || images != 6 || l.To.Sub(l.From) != 30*time.Second {
			t.Errorf("%d records in %s, %d expired, %d images", l.Records, l.To.Sub(l.From), l.Expired, images)
		}
	})
}

// Records that come during a time are counted, also those of shards that begin meanwhile,
// and no earlier ones.
func TestFollow(t *testing.T) {
	put := func(key string) string { return record("INSERT", 1, key, "", order(key, "n")) }
	s := &shards{closed: make(map[string]bool), records: map[string][]string{"a": {put("OLD#1")}}}
	virtualtime.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		group.Go(func() {
			for i := range 100 {
				time.Sleep(time.Second)
				s.mutex.Lock()
				id := "a"
				if i >= 30 {
					id = "b"
					s.closed["a"] = true
				}
				s.records[id] = append(s.records[id], put(fmt.Sprintf("NEW#%d", i)))
				s.mutex.Unlock()
			}
		})
		l := streamlog.New()
		if err := l.Follow(t.Context(), s.send, []streamlog.Source{source}, time.Minute+time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := counted(l); got != "PutItem NEW#  60" || l.To.Sub(l.From) != time.Minute+time.Millisecond {
			t.Errorf("the counts in %s are %s", l.To.Sub(l.From), got)
		}
		group.Wait()
	})
}
