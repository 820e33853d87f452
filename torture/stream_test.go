package torture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// record is a record of the stream.
type record struct {
	EventID  string `json:"eventID"`
	Dynamodb struct{ Keys, NewImage, OldImage image }
}

func (i image) String() string {
	if i == nil {
		return ""
	}
	text, err := json.Marshal(i)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// streamOf returns all records of the workers' stream, each shard after its
// parent.
func streamOf(t testing.TB, d door) (all []record) {
	t.Helper()
	const streams = "DynamoDBStreams_20120810."
	var list struct{ Streams []struct{ StreamArn string } }
	d.must(t, streams+"ListStreams", object{"TableName": "Work"}, &list)
	arn := list.Streams[0].StreamArn
	ask := object{"StreamArn": arn}
	for {
		var reply struct {
			StreamDescription struct {
				Shards               []struct{ ShardId string }
				LastEvaluatedShardId string
			}
		}
		d.must(t, streams+"DescribeStream", ask, &reply)
		for _, shard := range reply.StreamDescription.Shards {
			var at struct{ ShardIterator string }
			d.must(t, streams+"GetShardIterator", object{"StreamArn": arn, "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &at)
			for at.ShardIterator != "" {
				var page struct {
					Records           []record
					NextShardIterator string
				}
				d.must(t, streams+"GetRecords", object{"ShardIterator": at.ShardIterator}, &page)
				all = append(all, page.Records...)
				if at.ShardIterator = page.NextShardIterator; len(page.Records) == 0 {
					break
				}
			}
		}
		last := reply.StreamDescription.LastEvaluatedShardId
		if last == "" {
			return all
		}
		ask["ExclusiveStartShardId"] = last
	}
}

// present returns all items of the workers, by their keys.
func present(t testing.TB, d door) map[string]string {
	t.Helper()
	items := make(map[string]string)
	for _, it := range scanWork(t, d) {
		items[image{"p": it["p"], "k": it["k"]}.String()] = it.String()
	}
	return items
}

// scanWork returns all items of the workers.
func scanWork(t testing.TB, d door) (all []image) {
	t.Helper()
	ask := object{"TableName": "Work", "ConsistentRead": true}
	for {
		var page struct {
			Items            []image
			LastEvaluatedKey any
		}
		d.must(t, "Scan", ask, &page)
		all = append(all, page.Items...)
		if page.LastEvaluatedKey == nil {
			return all
		}
		ask["ExclusiveStartKey"] = page.LastEvaluatedKey
	}
}

// replay replays the records of each item. Each begins where the one before it
// ended, and the last ends with the present item.
func replay(stream []record, present map[string]string) (faults []string) {
	items, seen := map[string]string{}, map[string]bool{}
	for _, r := range stream {
		if seen[r.EventID] {
			faults = append(faults, r.EventID+" is there twice")
		}
		seen[r.EventID] = true
		key, before, after := r.Dynamodb.Keys.String(), r.Dynamodb.OldImage.String(), r.Dynamodb.NewImage.String()
		if before != items[key] {
			faults = append(faults, fmt.Sprintf("%s: a change of %q begins with %q", key, items[key], before))
		}
		if items[key] = after; after == "" {
			delete(items, key)
		}
	}
	for key, now := range present {
		if items[key] != now {
			faults = append(faults, fmt.Sprintf("%s is %q, and its last change made it %q", key, now, items[key]))
		}
	}
	for key, last := range items {
		if present[key] == "" {
			faults = append(faults, fmt.Sprintf("%s does not exist, and its last change made it %q", key, last))
		}
	}
	return faults
}

// checkStream replays the stream against the table. Without any one of its
// records the check must fail, or it proves nothing.
func checkStream(t testing.TB, d door, pick int) (records int) {
	t.Helper()
	stream, items := streamOf(t, d), present(t, d)
	reportFaults(t, replay(stream, items))
	if len(stream) == 0 {
		t.Error("the stream is empty")
		return 0
	}
	without := slices.Delete(slices.Clone(stream), pick%len(stream), pick%len(stream)+1)
	if len(replay(without, items)) == 0 {
		t.Error("the replay does not notice that a record is missing")
	}
	return len(stream)
}

// reportFaults reports the first faults.
func reportFaults(t testing.TB, faults []string) {
	t.Helper()
	if len(faults) > 0 {
		t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults[:min(len(faults), 10)], "\n"))
	}
}
