package api

// UpdateTimeToLive sets whether items expire, and by which attribute.
type UpdateTimeToLive struct {
	TableName               string                   `must:"present,table"`
	TimeToLiveSpecification *TimeToLiveSpecification `must:"present"`
}

// TimeToLiveSpecification is by which attribute items expire.
type TimeToLiveSpecification struct {
	AttributeName *string `must:"present,minlen=1,maxlen=255"`
	Enabled       *bool   `must:"present"`
}

// UpdateTimeToLiveReply answers an UpdateTimeToLive.
type UpdateTimeToLiveReply struct {
	TimeToLiveSpecification *TimeToLiveSpecification
}

// DescribeTimeToLive asks whether items expire.
type DescribeTimeToLive struct {
	TableName string `must:"present,table"`
}

// DescribeTimeToLiveReply answers a DescribeTimeToLive.
type DescribeTimeToLiveReply struct {
	TimeToLiveDescription *TimeToLiveDescription
}

// TimeToLiveDescription is whether items expire.
type TimeToLiveDescription struct {
	AttributeName    string
	TimeToLiveStatus string
}
