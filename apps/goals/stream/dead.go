package stream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// DeadLetter is an event that could not be handled.
type DeadLetter struct {
	Time      time.Time `json:"time"` // when it was given up
	Reason    string    `json:"reason"`
	Topic     string    `json:"topic"` // where it was, with partition and offset
	Partition int       `json:"partition"`
	Offset    int64     `json:"offset"`
	Size      int       `json:"size"` // bytes; the value may be truncated
	Value     string    `json:"value"`
}

// DeadLetters yields the dead letters since a time that are in the topic now, oldest
// first within a partition. It changes nothing, so that it can be repeated.
func DeadLetters(ctx context.Context, kafka Kafka, topics Topics, since time.Time, use func(DeadLetter) error) error {
	client, err := kafka.open()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, topics.Dead)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("find the end of topic %s: %w", topics.Dead, err)
	}
	starts, err := admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topics.Dead)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("find the letters since %s: %w", since.Format(time.RFC3339), err)
	}
	left := make(map[int32]int64) // partition -> end
	from := make(map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(topics.Dead, end.Partition); ok && start.Offset >= 0 && start.Offset < end.Offset {
			left[end.Partition], from[end.Partition] = end.Offset, kgo.NewOffset().At(start.Offset)
		}
	})
	if len(left) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topics.Dead: from})
	for len(left) > 0 {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("read topic %s: %w", topics.Dead, err)
		}
		for _, r := range fetched.Records() {
			end, open := left[r.Partition]
			if !open {
				continue
			}
			if r.Offset < end {
				if err := use(letter(r)); err != nil {
					return err
				}
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}

func letter(r *kgo.Record) DeadLetter {
	l := DeadLetter{Time: r.Timestamp.UTC(), Value: string(r.Value), Size: len(r.Value)}
	for _, h := range r.Headers {
		// Numbers of another writer may be malformed, and are then zero.
		switch v := string(h.Value); h.Key {
		case "reason":
			l.Reason = v
		case "topic":
			l.Topic = v
		case "partition":
			l.Partition, _ = strconv.Atoi(v)
		case "offset":
			l.Offset, _ = strconv.ParseInt(v, 10, 64)
		case "size":
			l.Size, _ = strconv.Atoi(v)
		}
	}
	return l
}
