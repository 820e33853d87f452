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

// GetClock returns the time of a server. DynamoDB does not have it, nor the other operations of
// the clock.
type GetClock struct{}

// SetClock moves the clock of a test to a time.
type SetClock struct {
	Time *Time `must:"present"`
}

// AdvanceClock moves the clock of a test forward. It is answered when all that became due has
// happened.
type AdvanceClock struct {
	Seconds *float64 `must:"present"`
}

// FreezeClock makes the clock of a test stand still.
type FreezeClock struct{}

// RunClock lets the time of the clock of a test pass.
type RunClock struct{}

// ClockReply answers the operations of the clock.
type ClockReply struct {
	Time Time
	Mode string // system, running or frozen
}
