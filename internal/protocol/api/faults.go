package api

// SetFaults replaces the faults that a server injects, and forgets those that it has injected.
// DynamoDB does not have it, nor the other operations of this file.
type SetFaults struct {
	Plan *string `must:"present,maxlen=4194304"` // in YAML; empty injects nothing
	Seed *int64  `must:"min=0"`                  // replaces that of the plan
}

// SetFaultsReply answers a SetFaults.
type SetFaultsReply struct {
	Rules int   `reply:"always"`
	Seed  int64 `reply:"always"`
}

// GetFaults asks for the faults that a server injects.
type GetFaults struct{}

// GetFaultsReply answers a GetFaults.
type GetFaultsReply struct {
	Plan     string // in YAML
	Rules    int    `reply:"always"`
	Seed     int64  `reply:"always"`
	Injected int    `reply:"always"` // how many faults so far
}

// ListInjectedFaults asks for the faults that a server has injected, the oldest first.
type ListInjectedFaults struct {
	After *int32 `must:"min=0"` // the number of the last one of an earlier reply
	Limit *int32 `must:"min=1,max=1000"`
}

// ListInjectedFaultsReply answers a ListInjectedFaults.
type ListInjectedFaultsReply struct {
	Faults   []InjectedFault `reply:"always"`
	Injected int             `reply:"always"` // in total
	Kept     int             `reply:"always"` // how many of them are kept at most: the newest
}

// InjectedFault is a fault that was injected into a request.
type InjectedFault struct {
	Number         int
	AtMilliseconds float64 // since the plan was set
	Fault          string
	Rule           int
	Operation      string
	Tables         []string
	IndexName      string
	Key            string
	Request        string
	Occurrence     int
	Detail         string
}
