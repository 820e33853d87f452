// Package policy is the language of IAM: it parses policy documents, decides whether
// they allow a request, and finds statements that do not do what they seem to do.
//
// It knows nothing of operations: which actions a request asks for, and which values
// its condition keys have, is for the caller to say. It looks at no clock and does no
// I/O, and a decision without an explanation does not allocate.
package policy

// Kind is what a document is attached to. It decides which members the document may
// have, and how much its Allow counts.
type Kind int

// The kinds of documents.
const (
	Identity Kind = iota // of a user or a role: what it may do
	Boundary             // permissions boundary: the most that identity policies can allow
	Session              // given when a role was assumed: the most that the session may do
	Resource             // of a table or a stream: which principals may use it
)

// String returns the name of the kind as messages of the service have it.
func (k Kind) String() string {
	switch k {
	case Boundary:
		return "permissions boundary"
	case Session:
		return "session policy"
	case Resource:
		return "resource-based policy"
	default:
		return "identity-based policy"
	}
}

// The versions of the language. Variables are literal text in the older one, which is
// that of a document without a version.
const (
	Version2008 = "2008-10-17"
	Version2012 = "2012-10-17"
)

// Position is where something stands in a document. Lines and columns start at 1;
// columns count characters.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Document is a policy that was parsed. It is not changed afterwards, so that several
// goroutines may use it.
type Document struct {
	Kind       Kind
	Version    string // Version2008 if the document has none
	ID         string
	Statements []*Statement

	// File is the file that the document was read from. The caller of Parse may set it,
	// for explanations.
	File string
}

// Effect is what a statement does with the requests that match it.
type Effect bool

// The effects.
const (
	Deny  Effect = false
	Allow Effect = true
)

func (e Effect) String() string {
	if e == Allow {
		return "Allow"
	}
	return "Deny"
}

// Statement is one statement of a document.
type Statement struct {
	Position
	Sid          string
	Effect       Effect
	Principals   []PrincipalName // resource policies only
	Actions      []Pattern
	Resources    []Pattern
	Conditions   []*Condition
	NotPrincipal bool // Principals are those who do not match
	NotAction    bool // Actions are those that do not match
	NotResource  bool // Resources are those that do not match

	// fineGrained says that a condition has a key that depends on the items and
	// attributes of a request.
	fineGrained bool
}

// Pattern is an action or a resource as a statement has it.
type Pattern struct {
	Position
	Text string
	glob glob
}
