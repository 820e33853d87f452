package apierror

// Throttled is a request that admission control rejected. Clients retry after
// a pause.
func Throttled() *Error {
	return fault("ThrottlingException", "Rate of requests exceeds the allowed throughput.")
}

// ProvisionedExceeded is a request that exceeds the provisioned units of a table, or
// what one of its partitions serves.
func ProvisionedExceeded() *Error {
	return fault("ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the table was exceeded. "+
		"Consider increasing your provisioning level with the UpdateTable API.")
}

// ProvisionedIndexExceeded is the same for a global index: a read of it, or a write
// that changes it.
func ProvisionedIndexExceeded() *Error {
	return fault("ProvisionedThroughputExceededException", "The level of configured provisioned throughput for one or more global secondary indexes of the table was exceeded. "+
		"Consider increasing your provisioning level for the under-provisioned global secondary indexes with the UpdateTable API")
}

// OnDemandExceeded is a request that exceeds what an on-demand table, or one of its
// partitions, serves for now.
func OnDemandExceeded() *Error {
	return fault("ThrottlingException", "Throughput exceeds the current capacity of your table or index. "+
		"DynamoDB is automatically scaling your table or index so please try again shortly. If exceptions persist, check if you have a hot key: "+
		"https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html")
}

// OnDemandIndexExceeded is a write that changes a global index of an on-demand table
// which serves no more for now.
func OnDemandIndexExceeded() *Error {
	return fault("ThrottlingException", "Throughput exceeds the current capacity for one or more global secondary indexes. "+
		"DynamoDB is automatically scaling your index so please try again shortly.")
}

// OnDemandMaxExceeded is a request that exceeds the maximum of an on-demand table or
// index.
func OnDemandMaxExceeded() *Error {
	return fault("ThrottlingException", "Throughput exceeds the maximum OnDemandThroughput configured on table or index")
}

// AccountExceeded is a request that exceeds the account's quota for an on-demand table
// or index, which does not scale further.
func AccountExceeded() *Error {
	return fault("RequestLimitExceeded", "Throughput exceeds the current throughput limit for your account. "+
		"To request a limit increase, contact AWS Support at https://aws.amazon.com/support.")
}

// IsThrottling reports whether a request was rejected because there were too many.
func IsThrottling(e *Error) bool {
	switch e.Code {
	case "ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded":
		return true
	}
	return false
}
