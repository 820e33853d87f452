package api

// SetThrottling sets whether requests to a table are throttled. DynamoDB does not have
// it.
type SetThrottling struct {
	TableName  string  `must:"present,table"`
	Throttling *string `must:"present,oneof=on|off|default"`
}

// SetThrottlingReply answers a SetThrottling.
type SetThrottlingReply struct {
	TableName  string
	Throttling string
}
