package api

import "github.com/stator-db/stator/internal/data/item"

// The requests of the second service, DynamoDB Streams.

// ListStreams asks for the streams, of one table or of all.
type ListStreams struct {
	TableName               *string `must:"like=[a-zA-Z0-9_.-]+,minlen=3,maxlen=255"`
	Limit                   *int32  `must:"min=1"`
	ExclusiveStartStreamArn *string `must:"minlen=37,maxlen=1024"`
}

// ListStreamsReply answers a ListStreams.
type ListStreamsReply struct {
	LastEvaluatedStreamArn string
	Streams                []Stream `reply:"always"`
}

// Stream names one stream.
type Stream struct {
	StreamArn   string
	StreamLabel string
	TableName   string
}

// DescribeStream asks for a stream's shards.
type DescribeStream struct {
	StreamArn             *string `must:"present,minlen=37,maxlen=1024"`
	Limit                 *int32  `must:"min=1"`
	ExclusiveStartShardId *string `must:"minlen=28,maxlen=65"`
	ShardFilter           *ShardFilter
}

// ShardFilter selects the child shards of a shard.
type ShardFilter struct {
	Type    *string `must:"oneof=CHILD_SHARDS"`
	ShardId *string `must:"minlen=28,maxlen=65"`
}

// DescribeStreamReply answers a DescribeStream.
type DescribeStreamReply struct {
	StreamDescription *StreamDescription
}

// StreamDescription describes a stream and its shards.
type StreamDescription struct {
	CreationRequestDateTime *Time
	KeySchema               []KeySchemaElement
	LastEvaluatedShardId    string
	Shards                  []Shard `reply:"always"`
	StreamArn               string
	StreamLabel             string
	StreamStatus            string
	StreamViewType          string
	TableName               string
}

// Shard is a part of a stream.
type Shard struct {
	ParentShardId       string
	SequenceNumberRange *SequenceNumberRange
	ShardId             string
}

// SequenceNumberRange bounds the records of a shard. An open shard has no
// end.
type SequenceNumberRange struct {
	EndingSequenceNumber   string
	StartingSequenceNumber string
}

// GetShardIterator asks for a position in a shard to read from.
type GetShardIterator struct {
	StreamArn         *string `must:"present,minlen=37,maxlen=1024"`
	ShardId           *string `must:"present,minlen=28,maxlen=65"`
	ShardIteratorType *string `must:"present,oneof=AFTER_SEQUENCE_NUMBER|LATEST|AT_TIMESTAMP|AT_SEQUENCE_NUMBER|TRIM_HORIZON"`
	SequenceNumber    *string `must:"minlen=21,maxlen=40"`
	Timestamp         *Time
}

// GetShardIteratorReply answers a GetShardIterator.
type GetShardIteratorReply struct {
	ShardIterator string
}

// GetRecords reads from a shard.
type GetRecords struct {
	ShardIterator *string `must:"present,minlen=1,maxlen=2048"`
	Limit         *int32  `must:"min=1"`
}

// GetRecordsReply answers a GetRecords.
type GetRecordsReply struct {
	NextShardIterator string
	Records           []Record `reply:"always"`
}

// Record is one change of an item.
type Record struct {
	AwsRegion    string        `name:"awsRegion"`
	Dynamodb     *StreamRecord `name:"dynamodb"`
	EventID      string        `name:"eventID"`
	EventName    string        `name:"eventName"`
	EventSource  string        `name:"eventSource"`
	EventVersion string        `name:"eventVersion"`
	UserIdentity *Identity     `name:"userIdentity"`
}

// StreamRecord is what a change did to an item, as far as the stream shows it.
type StreamRecord struct {
	ApproximateCreationDateTime *Time
	Keys                        item.Item
	NewImage                    item.Item
	OldImage                    item.Item
	SequenceNumber              string
	SizeBytes                   int64
	StreamViewType              string
}

// Identity names the service that made a change, if it was not a customer.
type Identity struct {
	PrincipalId string
	Type        string
}
