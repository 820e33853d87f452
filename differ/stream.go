package main

import "context"

// readStream is a step that reads all records of a table's stream. Its body has
// the name of the table.
const readStream = "ReadStream"

// readStream reads the records of all shards of a table's newest stream, in no
// order between shards.
func (s *server) readStream(ctx context.Context, st step) (answer, error) {
	described, err := s.send(ctx, "DescribeTable", st.Body)
	if err != nil || !described.ok() {
		return described, err
	}
	table, _ := described.Body["Table"].(object)
	arn, _ := table["LatestStreamArn"].(string)
	if arn == "" {
		return answer{Status: 200, Body: object{"Records": nil}}, nil
	}
	a, err := s.send(ctx, "DescribeStream", object{"StreamArn": arn})
	if err != nil || !a.ok() {
		return a, err
	}
	description, _ := a.Body["StreamDescription"].(object)
	shards, _ := description["Shards"].([]any)
	records := []any{}
	for _, shard := range shards {
		id := shard.(object)["ShardId"]
		part, err := s.readShard(ctx, arn, id)
		if err != nil {
			return answer{}, err
		}
		records = append(records, part...)
	}
	return answer{Status: 200, Body: object{"Records": records}}, nil
}

func (s *server) readShard(ctx context.Context, arn string, id any) (records []any, err error) {
	a, err := s.send(ctx, "GetShardIterator", object{"StreamArn": arn, "ShardId": id, "ShardIteratorType": "TRIM_HORIZON"})
	if err != nil {
		return nil, err
	}
	iterator := a.Body["ShardIterator"]
	for range 20 {
		if iterator == nil {
			break
		}
		if a, err = s.send(ctx, "GetRecords", object{"ShardIterator": iterator}); err != nil {
			return nil, err
		}
		page, _ := a.Body["Records"].([]any)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			records = append(records, recordFacts(r))
		}
		iterator = a.Body["NextShardIterator"]
	}
	return records, nil
}

// recordFacts returns the members of a record that all servers must agree on.
func recordFacts(r any) any {
	record, _ := r.(object)
	change, _ := record["dynamodb"].(object)
	facts := object{"eventName": record["eventName"], "userIdentity": record["userIdentity"]}
	for _, member := range []string{"Keys", "NewImage", "OldImage", "StreamViewType", "SizeBytes"} {
		if v, ok := change[member]; ok {
			facts[member] = v
		}
	}
	return facts
}
