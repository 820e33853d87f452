package api

// PutResourcePolicy attaches a policy to a table or a stream.
type PutResourcePolicy struct {
	ResourceArn                     *string `must:"present,minlen=1,maxlen=1283"`
	Policy                          *string `must:"present"`
	ExpectedRevisionId              *string `must:"minlen=1,maxlen=255"`
	ConfirmRemoveSelfResourceAccess bool
}

// ResourcePolicyReply answers a PutResourcePolicy or a DeleteResourcePolicy.
type ResourcePolicyReply struct {
	RevisionId string
}

// GetResourcePolicy returns the policy of a table or a stream.
type GetResourcePolicy struct {
	ResourceArn *string `must:"present,minlen=1,maxlen=1283"`
}

// GetResourcePolicyReply answers a GetResourcePolicy.
type GetResourcePolicyReply struct {
	Policy     string
	RevisionId string
}

// DeleteResourcePolicy removes the policy of a table or a stream.
type DeleteResourcePolicy struct {
	ResourceArn        *string `must:"present,minlen=1,maxlen=1283"`
	ExpectedRevisionId *string `must:"minlen=1,maxlen=255"`
}

// ExplainDenial asks why a request was refused.
type ExplainDenial struct {
	RequestId *string `must:"present,minlen=1,maxlen=52"`
}

// ExplainDenialReply answers an ExplainDenial.
type ExplainDenialReply struct {
	RequestId  string
	Time       string
	Operation  string
	Principal  string
	Action     string
	Resource   string
	Message    string
	Reason     string
	Statements []ExplainedStatement `reply:"always"`
}

// ExplainedStatement is how a statement of a policy compares with a request.
type ExplainedStatement struct {
	Policy     string // the kind of the document
	Document   int    `reply:"always"` // its index among those of the kind
	File       string // that the document was read from; a resource policy has none
	Statement  int    `reply:"always"`
	Line       int
	Sid        string
	Effect     string
	Decided    bool `reply:"always"` // it is the statement that decided
	Nearest    bool `reply:"always"` // nothing allows the request, and this comes nearest to it
	Matches    bool `reply:"always"`
	Principal  bool `reply:"always"`
	Action     bool `reply:"always"`
	Resource   bool `reply:"always"`
	Notes      []string
	Conditions []ExplainedCondition
}

// ExplainedCondition is how a condition compares with a request.
type ExplainedCondition struct {
	Operator string
	Key      string
	Values   []string // of the statement
	Resolved []string // the same with the values of variables, if there are any
	Present  bool     `reply:"always"` // the request has the key
	Request  []string // the values of the request
	Holds    bool     `reply:"always"`
	Note     string
}
