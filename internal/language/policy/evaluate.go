package policy

// Request is what a principal wants to do.
type Request struct {
	Principal *Principal // nil is refused
	Action    string     // such as dynamodb:GetItem
	Resource  string     // an ARN, or * for actions on no resource

	// ResourceAccount is the account that owns the resource. Empty is the account of
	// the principal.
	ResourceAccount string

	Context Context // nil is a request without condition keys
}

// Policies are the documents that apply to a request.
type Policies struct {
	Identity []*Document // of the principal
	Resource *Document   // of the resource, or nil
	Boundary *Document   // of the principal, or nil
	Session  []*Document // of the principal's session; at least one must allow, if there are any
}

// Reason is why a request is allowed or refused.
type Reason int

// The reasons.
const (
	AllowedByIdentity Reason = iota
	AllowedByResource
	AllowedAsRoot    // the root user of an account needs no policy of its own
	DeniedByIdentity // an explicit deny
	DeniedByResource
	DeniedByBoundary
	DeniedBySession
	NoIdentityAllows
	NoResourceAllows
	NoBoundaryAllows
	NoSessionAllows
)

// Allowed reports whether the reason is one for which requests are allowed.
func (r Reason) Allowed() bool { return r <= AllowedAsRoot }

// Verdict is the decision about a request, and the statement that decided.
type Verdict struct {
	Reason Reason

	// Kind and Document are the document of the statement that decided, Document being
	// the index among those of the kind, and Statement its index there. Statement is -1
	// if there is none, because nothing allows the request.
	Kind      Kind
	Document  int
	Statement int
	Sid       string
}

// Allowed reports whether the request is allowed.
func (v Verdict) Allowed() bool { return v.Reason.Allowed() }

// Evaluate decides about a request: an explicit deny anywhere refuses it. Within an
// account the policies of the identity or the one of the resource must allow it,
// between accounts both, and a boundary and session policies must allow it as well.
func (p *Policies) Evaluate(r *Request) Verdict {
	identity := decideAll(p.Identity, r, p.Boundary != nil)
	resource := decideOne(p.Resource, r, p.Boundary != nil)
	boundary := decideOne(p.Boundary, r, true)
	session := decideAll(p.Session, r, p.Boundary != nil)
	switch {
	case identity.denied:
		return identity.verdict(DeniedByIdentity, Identity)
	case resource.denied:
		return resource.verdict(DeniedByResource, Resource)
	case boundary.denied:
		return boundary.verdict(DeniedByBoundary, Boundary)
	case session.denied:
		return session.verdict(DeniedBySession, Session)
	}
	var v Verdict
	root := r.Principal != nil && r.Principal.Kind == Root
	switch {
	case r.otherAccount() && !identity.allowed && !root:
		return noStatement(NoIdentityAllows, Identity)
	case r.otherAccount() && !resource.allowed:
		return noStatement(NoResourceAllows, Resource)
	case identity.allowed:
		v = identity.verdict(AllowedByIdentity, Identity)
	case resource.allowed:
		v = resource.verdict(AllowedByResource, Resource)
	case root:
		v = noStatement(AllowedAsRoot, Identity)
	default:
		return noStatement(NoIdentityAllows, Identity)
	}
	switch {
	case p.Boundary != nil && !boundary.allowed:
		return noStatement(NoBoundaryAllows, Boundary)
	case len(p.Session) > 0 && !session.allowed:
		return noStatement(NoSessionAllows, Session)
	}
	return v
}

// otherAccount reports whether the resource belongs to another account than the
// principal. A request without a principal belongs to none.
func (r *Request) otherAccount() bool {
	return r.Principal == nil || r.ResourceAccount != "" && r.ResourceAccount != r.Principal.Account
}

// decision is what the documents of one kind say about a request.
type decision struct {
	denied, allowed     bool
	document, statement int // that decided
	sid                 string
}

func (d *decision) verdict(reason Reason, kind Kind) Verdict {
	return Verdict{reason, kind, d.document, d.statement, d.sid}
}

// noStatement returns a verdict that no statement decided.
func noStatement(reason Reason, kind Kind) Verdict {
	return Verdict{Reason: reason, Kind: kind, Statement: -1}
}

// decideAll returns what documents say together: any Deny wins, then any Allow.
func decideAll(docs []*Document, r *Request, bounded bool) (all decision) {
	for i, doc := range docs {
		d := decideOne(doc, r, bounded)
		d.document = i
		if d.denied {
			return d
		}
		if d.allowed && !all.allowed {
			all = d
		}
	}
	return all
}

// decideOne returns what a document says.
func decideOne(doc *Document, r *Request, bounded bool) (d decision) {
	if doc == nil {
		return d
	}
	for i, s := range doc.Statements {
		if s.Effect == Allow && d.allowed || !s.matches(r, bounded) {
			continue
		}
		d = decision{denied: s.Effect == Deny, allowed: s.Effect == Allow, statement: i, sid: s.Sid}
		if d.denied {
			return d
		}
	}
	return d
}

// matches reports whether the statement is about the request.
func (s *Statement) matches(r *Request, bounded bool) bool {
	if !s.applies(r, bounded) || !s.matchesAction(r) || !s.matchesResource(r) || s.excluded(r) {
		return false
	}
	for _, c := range s.Conditions {
		if !c.holds(r.Context) {
			return false
		}
	}
	return true
}

// applies reports whether the statement is about the principal.
func (s *Statement) applies(r *Request, bounded bool) bool {
	switch s.names(r.Principal, bounded) {
	case notNamed:
		return false
	case byAccount:
		// An Allow for the principal's own account delegates to the account's
		// identity policies, and those suffice without it.
		return s.Effect == Deny || r.otherAccount()
	default:
		return true
	}
}

func (s *Statement) matchesAction(r *Request) bool {
	for i := range s.Actions {
		if s.Actions[i].glob.match(r.Action, nil, true) {
			return !s.NotAction
		}
	}
	return s.NotAction
}

// matchesResource reports whether the statement is about the resource. A variable
// without a value makes the whole statement not match.
func (s *Statement) matchesResource(r *Request) bool {
	found := false
	for i := range s.Resources {
		g := &s.Resources[i].glob
		if !g.resolved(r.Context) {
			return false
		}
		found = found || g.match(r.Resource, r.Context, false)
	}
	return found != s.NotResource
}

const searchVectors = "SearchVectors"

// excluded reports whether the statement cannot allow the request because it
// restricts items or attributes: SearchVectors has no such keys, and is allowed by
// statements without them only.
func (s *Statement) excluded(r *Request) bool {
	return s.fineGrained && s.Effect == Allow && equalFold(r.Action, service+searchVectors)
}
