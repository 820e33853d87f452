package api

// Tag is one tag of a resource. Its constraints have messages of their own,
// so the operations check them.
type Tag struct {
	Key   *string
	Value *string
}

// TagResource puts tags on a table.
type TagResource struct {
	ResourceArn *string
	Tags        []Tag
}

// UntagResource takes tags off a table.
type UntagResource struct {
	ResourceArn *string
	TagKeys     []string
}

// ListTagsOfResource asks for a table's tags.
type ListTagsOfResource struct {
	ResourceArn *string
	NextToken   *string
}

// ListTagsOfResourceReply answers a ListTagsOfResource.
type ListTagsOfResourceReply struct {
	NextToken string
	Tags      []Tag `reply:"always"`
}

// Nothing is a reply without a body.
type Nothing struct{}

// DescribeLimits asks for the account's limits.
type DescribeLimits struct{}

// DescribeLimitsReply answers a DescribeLimits.
type DescribeLimitsReply struct {
	AccountMaxReadCapacityUnits  int64
	AccountMaxWriteCapacityUnits int64
	TableMaxReadCapacityUnits    int64
	TableMaxWriteCapacityUnits   int64
}

// DescribeEndpoints asks where the service is.
type DescribeEndpoints struct{}

// DescribeEndpointsReply answers a DescribeEndpoints.
type DescribeEndpointsReply struct {
	Endpoints []Endpoint
}

// Endpoint is one address of the service.
type Endpoint struct {
	Address              string
	CachePeriodInMinutes int64
}
