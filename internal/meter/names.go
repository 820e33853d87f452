package meter

// Definition describes the measurements of one name.
type Definition struct {
	Name string
	Unit Unit
	Help string

	// Gauge is set if it has one value at any time, which Registry.Sample adds.
	Gauge bool
	// Histogram is set if its values are counted by Bounds.
	Histogram bool
	// DAX is set if it is of the cache: CloudWatch has it in another namespace.
	DAX bool
}

// Unit is a unit of CloudWatch.
type Unit string

// The units of measurements.
const (
	Count        Unit = "Count"
	Milliseconds Unit = "Milliseconds"
	Bytes        Unit = "Bytes"
)

// The names of measurements, as CloudWatch has them in the namespace AWS/DynamoDB.
const (
	ConsumedRead      = "ConsumedReadCapacityUnits"
	ConsumedWrite     = "ConsumedWriteCapacityUnits"
	ProvisionedRead   = "ProvisionedReadCapacityUnits"
	ProvisionedWrite  = "ProvisionedWriteCapacityUnits"
	OnDemandMaxRead   = "OnDemandMaxReadRequestUnits"
	OnDemandMaxWrite  = "OnDemandMaxWriteRequestUnits"
	ReadThrottles     = "ReadThrottleEvents"
	WriteThrottles    = "WriteThrottleEvents"
	ReadProvisioned   = "ReadProvisionedThroughputThrottleEvents"
	WriteProvisioned  = "WriteProvisionedThroughputThrottleEvents"
	ReadKeyRange      = "ReadKeyRangeThroughputThrottleEvents"
	WriteKeyRange     = "WriteKeyRangeThroughputThrottleEvents"
	ReadOnDemandMax   = "ReadMaxOnDemandThroughputThrottleEvents"
	WriteOnDemandMax  = "WriteMaxOnDemandThroughputThrottleEvents"
	ReadAccount       = "ReadAccountLimitThrottleEvents"
	WriteAccount      = "WriteAccountLimitThrottleEvents"
	ThrottledRequests = "ThrottledRequests"
	Latency           = "SuccessfulRequestLatency"
	ReturnedItems     = "ReturnedItemCount"
	ReturnedBytes     = "ReturnedBytes"
	ReturnedRecords   = "ReturnedRecordsCount"
	ConditionsFailed  = "ConditionalCheckFailedRequests"
	Conflicts         = "TransactionConflict"
	ExpiredItems      = "TimeToLiveDeletedItemCount"
	BuildProgress     = "OnlineIndexPercentageProgress"
	BuildConsumed     = "OnlineIndexConsumedWriteCapacity"
	BuildThrottles    = "OnlineIndexThrottleEvents"
	UserErrors        = "UserErrors"
	SystemErrors      = "SystemErrors"
)

// The names of measurements of the cache, as CloudWatch has them in the namespace AWS/DAX.
// ServedAge is not one of CloudWatch.
const (
	ItemCacheHits    = "ItemCacheHits"
	ItemCacheMisses  = "ItemCacheMisses"
	QueryCacheHits   = "QueryCacheHits"
	QueryCacheMisses = "QueryCacheMisses"
	TotalRequests    = "TotalRequestCount"
	ErrorRequests    = "ErrorRequestCount"
	FaultRequests    = "FaultRequestCount"
	EvictedSize      = "EvictedSize"
	ServedAge        = "ServedAge"
)

// definitions holds all names.
var definitions = func() map[string]Definition {
	all := make(map[string]Definition)
	for _, d := range []Definition{
		{Name: ConsumedRead, Unit: Count, Help: "Read units that requests have consumed."},
		{Name: ConsumedWrite, Unit: Count, Help: "Write units that requests have consumed."},
		{Name: ProvisionedRead, Unit: Count, Gauge: true, Help: "Read units per second that are provisioned."},
		{Name: ProvisionedWrite, Unit: Count, Gauge: true, Help: "Write units per second that are provisioned."},
		{Name: OnDemandMaxRead, Unit: Count, Gauge: true, Help: "Maximum of read units per second of an on-demand table or index."},
		{Name: OnDemandMaxWrite, Unit: Count, Gauge: true, Help: "Maximum of write units per second of an on-demand table or index."},
		{Name: ReadThrottles, Unit: Count, Help: "Reads that exceeded a limit of throughput."},
		{Name: WriteThrottles, Unit: Count, Help: "Writes that exceeded a limit of throughput."},
		{Name: ReadProvisioned, Unit: Count, Help: "Reads that exceeded the provisioned throughput."},
		{Name: WriteProvisioned, Unit: Count, Help: "Writes that exceeded the provisioned throughput."},
		{Name: ReadKeyRange, Unit: Count, Help: "Reads that exceeded the throughput of a partition."},
		{Name: WriteKeyRange, Unit: Count, Help: "Writes that exceeded the throughput of a partition."},
		{Name: ReadOnDemandMax, Unit: Count, Help: "Reads that exceeded the maximum of an on-demand table or index."},
		{Name: WriteOnDemandMax, Unit: Count, Help: "Writes that exceeded the maximum of an on-demand table or index."},
		{Name: ReadAccount, Unit: Count, Help: "Reads that exceeded the account's quota for an on-demand table or index."},
		{Name: WriteAccount, Unit: Count, Help: "Writes that exceeded the account's quota for an on-demand table or index."},
		{Name: ThrottledRequests, Unit: Count, Help: "Requests that were rejected because of a limit of throughput."},
		{Name: Latency, Unit: Milliseconds, Histogram: true, Help: "Time that successful requests took in the server."},
		{Name: ReturnedItems, Unit: Count, Help: "Items that queries and scans have returned."},
		{Name: ReturnedBytes, Unit: Bytes, Help: "Bytes of records that GetRecords has returned."},
		{Name: ReturnedRecords, Unit: Count, Help: "Records that GetRecords has returned."},
		{Name: ConditionsFailed, Unit: Count, Help: "Writes whose condition did not hold."},
		{Name: Conflicts, Unit: Count, Help: "Requests to items that a transaction was changing at the same time."},
		{Name: ExpiredItems, Unit: Count, Help: "Items that were deleted because their time to live had passed."},
		{Name: BuildProgress, Unit: Count, Gauge: true, Help: "Percentage of the items that an index which is being built contains."},
		{Name: BuildConsumed, Unit: Count, Help: "Write units that building an index has consumed."},
		{Name: BuildThrottles, Unit: Count, Help: "Writes that exceeded the throughput of an index while it was built."},
		{Name: UserErrors, Unit: Count, Help: "Requests that were answered with status 400, except failed conditions and throttled requests."},
		{Name: SystemErrors, Unit: Count, Help: "Requests that were answered with status 500 or 503."},
		{Name: ItemCacheHits, Unit: Count, DAX: true, Help: "Reads of items that were answered from the cache of DAX."},
		{Name: ItemCacheMisses, Unit: Count, DAX: true, Help: "Reads of items that were not in the cache of DAX."},
		{Name: QueryCacheHits, Unit: Count, DAX: true, Help: "Queries and scans that were answered from the cache of DAX."},
		{Name: QueryCacheMisses, Unit: Count, DAX: true, Help: "Queries and scans that were not in the cache of DAX."},
		{Name: TotalRequests, Unit: Count, DAX: true, Help: "Requests that went through the cache of DAX."},
		{Name: ErrorRequests, Unit: Count, DAX: true, Help: "Requests through the cache of DAX that were rejected because of a fault of the client."},
		{Name: FaultRequests, Unit: Count, DAX: true, Help: "Requests through the cache of DAX that failed because of a fault of the server."},
		{Name: EvictedSize, Unit: Bytes, DAX: true, Help: "Bytes that were removed from the cache of DAX to make room."},
		{Name: ServedAge, Unit: Milliseconds, DAX: true, Help: "Ages of what was answered from the cache of DAX, in milliseconds."},
	} {
		all[d.Name] = d
	}
	return all
}()

// IsDAX reports whether measurements of a name are of the cache.
func IsDAX(name string) bool { return definitions[name].DAX }

// UnitOf returns the unit of the measurements of a name.
func UnitOf(name string) Unit { return definitions[name].Unit }
