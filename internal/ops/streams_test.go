package ops

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
)

// streamReply holds the members that these tests read.
type streamReply struct {
	Table             struct{ LatestStreamArn string }
	ShardIterator     string
	NextShardIterator *string
	StreamDescription struct {
		LastEvaluatedShardId string
		Shards               []struct {
			ShardId, ParentShardId string
			SequenceNumberRange    struct{ StartingSequenceNumber, EndingSequenceNumber string }
		}
	}
	LastEvaluatedStreamArn string
	Streams                []struct{ StreamArn string }
	Records                []streamRecord
}

type streamRecord struct {
	EventID   string `json:"eventID"`
	EventName string `json:"eventName"`
	Dynamodb  struct {
		Keys           map[string]map[string]string
		SequenceNumber string
		SizeBytes      int
	} `json:"dynamodb"`
}

// get sends a request that must succeed.
func (t *tableTest) get(operation, body string) (r streamReply) {
	t.Helper()
	text := t.ask(operation, body)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%s %s: %s", operation, body, text)
	}
	return r
}

// streamed creates a table with a stream and returns the stream's ARN.
func (t *tableTest) streamed(name, view string) string {
	t.Helper()
	t.make(plainTable(name, fmt.Sprintf(`"StreamSpecification":{"StreamEnabled":true,"StreamViewType":%q}`, view)))
	return t.get("DescribeTable", fmt.Sprintf(`{"TableName":%q}`, name)).Table.LatestStreamArn
}

// consume reads a stream as the Kinesis adapter does: it describes it page by
// page, and reads each shard when its parent has been read to the end.
func (t *tableTest) consume(arn string) (records []streamRecord) {
	t.Helper()
	done, parents := map[string]bool{}, map[string]string{}
	after := ""
	for {
		d := t.get("DescribeStream", fmt.Sprintf(`{"StreamArn":%q,"Limit":3%s}`, arn, after)).StreamDescription
		for _, shard := range d.Shards {
			parents[shard.ShardId] = shard.ParentShardId
			if shard.ParentShardId != "" && !done[shard.ParentShardId] {
				t.Errorf("shard %s is listed before its parent has ended", shard.ShardId)
			}
			next := new(t.get("GetShardIterator", fmt.Sprintf(`{"StreamArn":%q,"ShardId":%q,"ShardIteratorType":"AT_SEQUENCE_NUMBER","SequenceNumber":%q}`,
				arn, shard.ShardId, shard.SequenceNumberRange.StartingSequenceNumber)).ShardIterator)
			for next != nil {
				page := t.get("GetRecords", fmt.Sprintf(`{"ShardIterator":%q,"Limit":2}`, *next))
				records = append(records, page.Records...)
				if next = page.NextShardIterator; len(page.Records) == 0 && next != nil {
					break // the shard is open
				}
			}
			done[shard.ShardId] = next == nil
			if closed := shard.SequenceNumberRange.EndingSequenceNumber != ""; closed != done[shard.ShardId] {
				t.Errorf("shard %s: closed is %v, read to the end is %v", shard.ShardId, closed, done[shard.ShardId])
			}
		}
		if d.LastEvaluatedShardId == "" {
			return records
		}
		after = fmt.Sprintf(`,"ExclusiveStartShardId":%q`, d.LastEvaluatedShardId)
	}
}

var numbersOfRecords = regexp.MustCompile(`"(eventID":"[0-9a-f]{32}|SequenceNumber":"[0-9]{21})"`)

// Each view type shows its images of an item that is inserted, modified and
// removed.
func TestStreamViews(t *testing.T) {
	const (
		before = `{"a":{"S":"k"},"n":{"N":"12345"}}`
		after  = `{"a":{"S":"k"},"n":{"N":"1"}}`
	)
	for _, c := range []struct {
		view    string
		records [3]string
	}{
		{"KEYS_ONLY", [3]string{`"SizeBytes":2`, `"SizeBytes":2`, `"SizeBytes":2`}},
		{"NEW_IMAGE", [3]string{`"NewImage":` + before + `,…,"SizeBytes":9`, `"NewImage":` + after + `,…,"SizeBytes":7`, `"SizeBytes":2`}},
		{"OLD_IMAGE", [3]string{`"SizeBytes":2`, `"OldImage":` + before + `,…,"SizeBytes":9`, `"OldImage":` + after + `,…,"SizeBytes":7`}},
		{"NEW_AND_OLD_IMAGES", [3]string{`"NewImage":` + before + `,…,"SizeBytes":9`,
			`"NewImage":` + after + `,"OldImage":` + before + `,…,"SizeBytes":14`, `"OldImage":` + after + `,…,"SizeBytes":7`}},
	} {
		t.Run(c.view, func(inner *testing.T) {
			t := newTableTest(inner, 0)
			arn := t.streamed("abc", c.view)
			t.ask("PutItem", `{"TableName":"abc","Item":`+before+`}`)
			t.ask("PutItem", `{"TableName":"abc","Item":`+before+`}`) // no change
			t.ask("UpdateItem", `{"TableName":"abc","Key":{"a":{"S":"k"}},"UpdateExpression":"SET n = :n","ExpressionAttributeValues":{":n":{"N":"1"}}}`)
			t.ask("DeleteItem", `{"TableName":"abc","Key":{"a":{"S":"k"}}}`)
			t.ask("DeleteItem", `{"TableName":"abc","Key":{"a":{"S":"k"}}}`)
			var got []string
			for _, shard := range t.get("DescribeStream", fmt.Sprintf(`{"StreamArn":%q}`, arn)).StreamDescription.Shards {
				it := t.get("GetShardIterator", fmt.Sprintf(`{"StreamArn":%q,"ShardId":%q,"ShardIteratorType":"TRIM_HORIZON"}`, arn, shard.ShardId)).ShardIterator
				_, records, _ := strings.Cut(numbersOfRecords.ReplaceAllString(t.ask("GetRecords", fmt.Sprintf(`{"ShardIterator":%q}`, it)), "…"), `"Records":[`)
				if records = strings.TrimSuffix(records, "]}"); records != "" {
					got = append(got, records)
				}
			}
			var want []string
			for i, kind := range []string{"INSERT", "MODIFY", "REMOVE"} {
				image := c.records[i]
				if !strings.Contains(image, "…") {
					image = "…," + image
				}
				want = append(want, `{"awsRegion":"us-east-1","dynamodb":{"ApproximateCreationDateTime":1700000000.000,"Keys":{"a":{"S":"k"}},`+
					image+`,"StreamViewType":"`+c.view+`"},…,"eventName":"`+kind+`","eventSource":"aws:dynamodb","eventVersion":"1.1"}`)
			}
			if strings.Join(got, ",") != strings.Join(want, ",") {
				t.Errorf("the records are\n%s\nwant\n%s", strings.Join(got, ","), strings.Join(want, ","))
			}
		})
	}
}

// A consumer that follows the shards to their end gets each change once.
func TestConsumerFollowsLineage(t *testing.T) {
	tt := newClockTest(t, time.Hour)
	arn := tt.streamed("abc", "KEYS_ONLY")
	for i := range 40 {
		tt.ask("PutItem", fmt.Sprintf(`{"TableName":"abc","Item":{"a":{"S":"%02d"}}}`, i))
		tt.advance(10 * time.Minute)
	}
	tt.ask("TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"abc","Key":{"a":{"S":"00"}}}},{"Put":{"TableName":"abc","Item":{"a":{"S":"40"}}}}]}`)
	tt.ask("UpdateTable", `{"TableName":"abc","StreamSpecification":{"StreamEnabled":false}}`)
	tt.ask("DeleteItem", `{"TableName":"abc","Key":{"a":{"S":"01"}}}`) // not in the stream
	var got []string
	ids := map[string]bool{}
	for _, r := range tt.consume(arn) {
		got = append(got, r.EventName+r.Dynamodb.Keys["a"]["S"])
		ids[r.EventID] = true
	}
	want := []string{"REMOVE00"}
	for i := range 41 {
		want = append(want, fmt.Sprintf("INSERT%02d", i))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(ids) != len(want) {
		t.Errorf("the consumer has %q, %d ids", got, len(ids))
	}
}

// newClockTest is newTableTest with an engine that has the same clock, and with
// shards that roll over.
func newClockTest(t *testing.T, roll time.Duration) *tableTest {
	t.Helper()
	return newTableTestWith(t, db.Options{ShardDuration: roll}, true)
}

func TestStreamFaults(t *testing.T) {
	tt := newTableTest(t, 0)
	arn := tt.streamed("abc", "KEYS_ONLY")
	shard := tt.get("DescribeStream", fmt.Sprintf(`{"StreamArn":%q}`, arn)).StreamDescription.Shards[0]
	in := fmt.Sprintf(`"StreamArn":%q,"ShardId":%q,`, arn, shard.ShardId)
	iterator := tt.get("GetShardIterator", "{"+in+`"ShardIteratorType":"LATEST"}`).ShardIterator
	const (
		bad     = "ValidationException: 1 validation error detected: Value "
		noShard = "ResourceNotFoundException: Requested resource not found: Shard does not exist"
		noARN   = "ValidationException: Invalid StreamArn"
	)
	other := strings.Replace(arn, "us-east-1", "us-east-2", 1)
	missing := arn[:len(arn)-1] + "x"
	for _, c := range []struct{ name, operation, body, want string }{
		{"no streams", "ListStreams", `{"Limit":0}`, bad + "'0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"many streams", "ListStreams", `{"Limit":101}`, invalidValues + "Limit cannot be greater than the maximum allowed size: 100"},
		{"start after an invalid ARN", "ListStreams", `{"ExclusiveStartStreamArn":"` + strings.Repeat("x", 40) + `"}`, noARN},
		{"of a missing table", "ListStreams", `{"TableName":"missing"}`, `{"Streams":[]}`},
		{"a stream is needed", "DescribeStream", `{}`, bad + "null at 'streamArn' failed to satisfy constraint: Member must not be null"},
		{"an invalid ARN", "DescribeStream", `{"StreamArn":"` + strings.Repeat("x", 40) + `"}`, noARN},
		{"many shards", "DescribeStream", fmt.Sprintf(`{"StreamArn":%q,"Limit":101}`, arn), invalidValues + "Limit cannot be greater than the maximum: 100"},
		{"no such stream", "DescribeStream", fmt.Sprintf(`{"StreamArn":%q}`, missing), "ResourceNotFoundException: Requested resource not found: Stream: " + missing + " not found"},
		{"of another region", "DescribeStream", fmt.Sprintf(`{"StreamArn":%q}`, other), "ResourceNotFoundException: Requested resource not found: Stream: " + other + " not found"},
		{"no such shard", "GetShardIterator", fmt.Sprintf(`{"StreamArn":%q,"ShardId":"shardId-00000000000000000000-00000000","ShardIteratorType":"LATEST"}`, arn), noShard},
		{"an invalid shard id", "GetShardIterator", fmt.Sprintf(`{"StreamArn":%q,"ShardId":%q,"ShardIteratorType":"LATEST"}`, arn, strings.Repeat("x", 37)), noShard},
		{"no such type", "GetShardIterator", "{" + in + `"ShardIteratorType":"FIRST"}`,
			bad + "'FIRST' at 'shardIteratorType' failed to satisfy constraint: Member must satisfy enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON]"},
		{"a number is needed", "GetShardIterator", "{" + in + `"ShardIteratorType":"AT_SEQUENCE_NUMBER"}`, invalidValues + "SequenceNumber cannot be null"},
		{"a number that is not needed", "GetShardIterator", "{" + in + `"ShardIteratorType":"LATEST","SequenceNumber":"000000000000000000001"}`, invalidValues + "SequenceNumber should not be passed for this iterator type"},
		{"an invalid number", "GetShardIterator", "{" + in + `"ShardIteratorType":"AT_SEQUENCE_NUMBER","SequenceNumber":"xxxxxxxxxxxxxxxxxxxxxxxxx"}`, invalidValues + "Invalid SequenceNumber"},
		{"a future number", "GetShardIterator", "{" + in + `"ShardIteratorType":"AT_SEQUENCE_NUMBER","SequenceNumber":"999999999999999999999"}`, invalidValues + "Invalid SequenceNumber"},
		{"a trimmed number", "GetShardIterator", "{" + in + `"ShardIteratorType":"AT_SEQUENCE_NUMBER","SequenceNumber":"000000000000000000001"}`, "TrimmedDataAccessException: The data you are trying to access has been trimmed"},
		{"a time is needed", "GetShardIterator", "{" + in + `"ShardIteratorType":"AT_TIMESTAMP"}`, invalidValues + "Timestamp cannot be null"},
		{"a future time", "GetShardIterator", "{" + in + `"ShardIteratorType":"AT_TIMESTAMP","Timestamp":1700000001.5}`, invalidValues + "Timestamp cannot be in the future"},
		{"an iterator is needed", "GetRecords", `{}`, bad + "null at 'shardIterator' failed to satisfy constraint: Member must not be null"},
		{"an invalid iterator", "GetRecords", `{"ShardIterator":"x"}`, "ValidationException: Invalid ShardIterator"},
		{"an iterator cut short", "GetRecords", fmt.Sprintf(`{"ShardIterator":%q}`, iterator[:len(iterator)-2]), "ValidationException: Invalid ShardIterator"},
		{"an iterator of another stream", "GetRecords", fmt.Sprintf(`{"ShardIterator":%q}`, strings.Replace(iterator, "us-east-1", "us-east-2", 1)), "ValidationException: Invalid ShardIterator"},
		{"many records", "GetRecords", fmt.Sprintf(`{"ShardIterator":%q,"Limit":1001}`, iterator), invalidValues + "Limit should be less than or equal to 1000"},
		{"enabled already", "UpdateTable", `{"TableName":"abc","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}`, "ValidationException: Table already has an enabled stream: TableName: abc"},
	} {
		t.Run(c.name, func(inner *testing.T) { tt.in(inner).want(c.operation, c.body, c.want) })
	}
	if got := tt.get("GetShardIterator", "{"+in+`"ShardIteratorType":"AT_TIMESTAMP","Timestamp":1600000000}`).ShardIterator; got == "" {
		t.Error("AT_TIMESTAMP returns no iterator")
	}
	tt.advance(15*time.Minute + time.Second)
	tt.want("GetRecords", fmt.Sprintf(`{"ShardIterator":%q}`, iterator), "ExpiredIteratorException: The provided iterator exceeds the maximum age allowed")
}

func TestListStreamsInPages(t *testing.T) {
	tt := newTableTest(t, 0)
	want := []string{tt.streamed("bbb", "KEYS_ONLY"), tt.streamed("ccc", "KEYS_ONLY")}
	tt.make(plainTable("plain"))
	want = append([]string{tt.streamed("aaa", "KEYS_ONLY")}, want...)
	var got []string
	for after := ""; ; {
		page := tt.get("ListStreams", `{"Limit":2`+after+`}`)
		for _, s := range page.Streams {
			got = append(got, s.StreamArn)
		}
		if page.LastEvaluatedStreamArn == "" {
			break
		}
		after = fmt.Sprintf(`,"ExclusiveStartStreamArn":%q`, page.LastEvaluatedStreamArn)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the streams are %q, want %q", got, want)
	}
	if page := tt.get("ListStreams", `{"TableName":"bbb"}`); len(page.Streams) != 1 || page.Streams[0].StreamArn != want[1] {
		t.Errorf("the streams of one table are %v", page.Streams)
	}
}

// DescribeTable shows the stream, and the label and ARN of a disabled one.
func TestDescribeTableShowsStream(t *testing.T) {
	tt := newTableTest(t, 0)
	arn := tt.streamed("abc", "NEW_IMAGE")
	const label = "2023-11-14T22:13:20.000"
	if want := "arn:aws:dynamodb:us-east-1:000000000000:table/abc/stream/" + label; arn != want {
		t.Errorf("the stream is %s, want %s", arn, want)
	}
	on := `"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_IMAGE"}`
	named := `"LatestStreamArn":"` + arn + `","LatestStreamLabel":"` + label + `"`
	if got := tt.ask("DescribeTable", `{"TableName":"abc"}`); !strings.Contains(got, on) || !strings.Contains(got, named) {
		t.Errorf("the table is %s", got)
	}
	if got := tt.ask("UpdateTable", `{"TableName":"abc","StreamSpecification":{"StreamEnabled":false}}`); strings.Contains(got, "StreamSpecification") || !strings.Contains(got, named) || !strings.Contains(got, `"TableStatus":"UPDATING"`) {
		t.Errorf("with the stream disabled, the table is %s", got)
	}
	tt.want("DescribeStream", fmt.Sprintf(`{"StreamArn":%q,"ExclusiveStartShardId":%q}`, arn, strings.Repeat("z", 40)),
		`{"StreamDescription":{"CreationRequestDateTime":1700000000.000,"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}],"Shards":[],`+
			`"StreamArn":"`+arn+`","StreamLabel":"`+label+`","StreamStatus":"DISABLED","StreamViewType":"NEW_IMAGE","TableName":"abc"}}`)
	tt.ask("UpdateTable", `{"TableName":"abc","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}`)
	if next := tt.get("DescribeTable", `{"TableName":"abc"}`).Table.LatestStreamArn; next == arn {
		t.Error("a stream that is enabled again has the same label")
	}
}

// The record of an expired item has the identity of the service.
func TestRecordOfExpiry(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.streamed("abc", "KEYS_ONLY")
	key := item.Make(map[string]item.Value{"a": item.String("k")})
	for _, w := range []db.Write{{Effect: db.Replace(key)}, {Effect: db.Remove, Actor: change.Expiry}} {
		w.Table, w.Key = "abc", key
		if _, err := tt.s.DB.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	src := tt.s.DB.Streams("abc")[0]
	for slot := range 4 {
		found, err := tt.s.DB.Changes(t.Context(), db.ChangeRange{Table: src.Table.ID, Slot: slot, To: 1 << 63})
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			identity := recordReply(t.Context(), src, &found[i]).UserIdentity
			if expired := found[i].Actor == change.Expiry; expired != (identity != nil) || expired && (identity.PrincipalId != "dynamodb.amazonaws.com" || identity.Type != "Service") {
				t.Errorf("the identity of a %s is %+v", found[i].Kind(), identity)
			}
		}
	}
}
