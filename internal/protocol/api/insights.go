package api

// UpdateContributorInsights enables or disables the rules that find the keys of a table,
// or of a global index, that are accessed or throttled most.
type UpdateContributorInsights struct {
	TableName                 string  `must:"present,table"`
	IndexName                 *string `must:"minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
	ContributorInsightsAction *string `must:"present,oneof=ENABLE|DISABLE"`
	ContributorInsightsMode   *string `must:"oneof=ACCESSED_AND_THROTTLED_KEYS|THROTTLED_KEYS"`
}

// UpdateContributorInsightsReply answers an UpdateContributorInsights.
type UpdateContributorInsightsReply struct {
	TableName                 string
	IndexName                 string
	ContributorInsightsStatus string
	ContributorInsightsMode   string
}

// DescribeContributorInsights asks for the rules of a table or a global index.
type DescribeContributorInsights struct {
	TableName string  `must:"present,table"`
	IndexName *string `must:"minlen=3,maxlen=255,like=[a-zA-Z0-9_.-]+"`
}

// DescribeContributorInsightsReply answers a DescribeContributorInsights.
type DescribeContributorInsightsReply struct {
	TableName                   string
	IndexName                   string
	ContributorInsightsRuleList []string
	ContributorInsightsStatus   string
	LastUpdateDateTime          *Time
	FailureException            *FailureException
	ContributorInsightsMode     string
}

// FailureException is why rules could not be enabled.
type FailureException struct {
	ExceptionName        string
	ExceptionDescription string
}

// ListContributorInsights asks which tables and indexes have rules.
type ListContributorInsights struct {
	TableName  *string `must:"table"`
	NextToken  *string
	MaxResults *int64 `must:"max=100"`
}

// ListContributorInsightsReply answers a ListContributorInsights.
type ListContributorInsightsReply struct {
	ContributorInsightsSummaries []ContributorInsightsSummary
	NextToken                    string
}

// ContributorInsightsSummary is a table or an index that has rules.
type ContributorInsightsSummary struct {
	TableName                 string
	IndexName                 string
	ContributorInsightsStatus string
	ContributorInsightsMode   string
}
