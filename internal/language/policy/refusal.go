package policy

// reasons are the texts of the reasons; those of refusals are the endings of the
// service's messages, in which %s is the action.
var reasons = [...]struct{ before, after string }{
	AllowedByIdentity: {before: "allowed by an identity-based policy"},
	AllowedByResource: {before: "allowed by a resource-based policy"},
	AllowedAsRoot:     {before: "allowed as the root user of the account"},
	DeniedByIdentity:  {before: "with an explicit deny in an identity-based policy"},
	DeniedByResource:  {before: "with an explicit deny in a resource-based policy"},
	DeniedByBoundary:  {before: "with an explicit deny in a permissions boundary"},
	DeniedBySession:   {before: "with an explicit deny in a session policy"},
	NoIdentityAllows:  {"because no identity-based policy allows the ", " action"},
	NoResourceAllows:  {"because no resource-based policy allows the ", " action"},
	NoBoundaryAllows:  {"because no permissions boundary allows the ", " action"},
	NoSessionAllows:   {"because no session policy allows the ", " action"},
}

// String returns the reason in the words of the service, without the action.
func (r Reason) String() string {
	t := reasons[r]
	if t.after == "" {
		return t.before
	}
	return t.before + "requested" + t.after
}

// Refusal returns the message of the AccessDeniedException for a request that was
// refused.
func Refusal(r *Request, v Verdict) string {
	who := "anonymous"
	if r.Principal != nil {
		who = r.Principal.ARN
	}
	t := reasons[v.Reason]
	text := "User: " + who + " is not authorized to perform: " + r.Action + " on resource: " + r.Resource + " " + t.before
	if t.after != "" {
		text += r.Action + t.after
	}
	return text
}
