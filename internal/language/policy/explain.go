package policy

import (
	"strconv"
	"strings"
)

// Explanation is a verdict with all that led to it.
type Explanation struct {
	Verdict    Verdict          `json:"-"`
	Allowed    bool             `json:"allowed"`
	Reason     string           `json:"reason"`
	Statements []StatementTrace `json:"statements"`
}

// StatementTrace is how a statement of a document compares with a request.
type StatementTrace struct {
	Policy     string           `json:"policy"`   // the kind of the document
	Document   int              `json:"document"` // its index among those of the kind
	File       string           `json:"file,omitempty"`
	Statement  int              `json:"statement"`
	Line       int              `json:"line"`
	Sid        string           `json:"sid,omitempty"`
	Effect     string           `json:"effect"`
	Decided    bool             `json:"decided"` // it is the statement of the verdict
	Nearest    bool             `json:"nearest"` // no statement allows the request, and this one comes nearest to it
	Matches    bool             `json:"matches"`
	Principal  bool             `json:"principalMatches"`
	Action     bool             `json:"actionMatches"`
	Resource   bool             `json:"resourceMatches"`
	Notes      []string         `json:"notes,omitempty"`
	Conditions []ConditionTrace `json:"conditions,omitempty"`
}

// ConditionTrace is how a condition compares with a request.
type ConditionTrace struct {
	Operator string   `json:"operator"`
	Key      string   `json:"key"`
	Values   []string `json:"values"`             // of the statement
	Resolved []string `json:"resolved,omitempty"` // the same with the values of variables, if there are any
	Present  bool     `json:"present"`            // the request has the key
	Request  []string `json:"request"`            // the values of the request
	Holds    bool     `json:"holds"`
	Note     string   `json:"note,omitempty"`
}

// Explain decides about a request as Evaluate does, and compares it with each
// statement.
func (p *Policies) Explain(r *Request) *Explanation {
	v := p.Evaluate(r)
	e := &Explanation{Verdict: v, Allowed: v.Allowed(), Reason: v.Reason.String()}
	bounded := p.Boundary != nil
	add := func(kind Kind, document int, doc *Document) {
		if doc == nil {
			return
		}
		for i, s := range doc.Statements {
			t := s.trace(r, bounded)
			t.Policy, t.Document, t.Statement, t.File = kind.String(), document, i, doc.File
			t.Decided = v.Statement == i && v.Kind == kind && v.Document == document
			e.Statements = append(e.Statements, t)
		}
	}
	for i, doc := range p.Identity {
		add(Identity, i, doc)
	}
	add(Resource, 0, p.Resource)
	add(Boundary, 0, p.Boundary)
	for i, doc := range p.Session {
		add(Session, i, doc)
	}
	e.markNearest(r.otherAccount())
	return e
}

// markNearest marks the Allow that comes nearest to the request, if the request is
// refused because nothing allows it. Within an account that of the resource's policy would
// be enough.
func (e *Explanation) markNearest(otherAccount bool) {
	var kinds []Kind
	switch e.Verdict.Reason {
	case NoIdentityAllows:
		kinds = []Kind{Identity}
		if !otherAccount {
			kinds = append(kinds, Resource)
		}
	case NoResourceAllows, NoBoundaryAllows, NoSessionAllows:
		kinds = []Kind{e.Verdict.Kind}
	}
	var nearest *StatementTrace
	for _, kind := range kinds {
		for i := range e.Statements {
			t := &e.Statements[i]
			if t.Policy != kind.String() || t.Effect != Allow.String() || t.Matches || !t.Action && !t.Resource {
				continue
			}
			if nearest == nil || t.distance() < nearest.distance() {
				nearest = t
			}
		}
	}
	if nearest != nil {
		nearest.Nearest = true
	}
}

// distance orders statements by how much of them does not match. An element counts more
// than any number of conditions.
func (t *StatementTrace) distance() int {
	const element = 1 << 20
	n := 0
	for _, matches := range []bool{t.Principal, t.Action, t.Resource} {
		if !matches {
			n += element
		}
	}
	for i := range t.Conditions {
		if !t.Conditions[i].Holds {
			n++
		}
	}
	return n
}

func (s *Statement) trace(r *Request, bounded bool) StatementTrace {
	t := StatementTrace{
		Line: s.Line, Sid: s.Sid, Effect: s.Effect.String(),
		Principal: s.applies(r, bounded), Action: s.matchesAction(r), Resource: s.matchesResource(r),
	}
	if s.names(r.Principal, bounded) == byAccount && !t.Principal {
		t.Notes = append(t.Notes, "the statement names the principal's own account, which leaves it to the policies of the identity")
	}
	for i := range s.Resources {
		if name := s.Resources[i].glob.unresolved(r.Context); name != "" {
			t.Notes = append(t.Notes, "the variable ${"+name+"} of the resource has no value in this request")
		}
	}
	excluded := s.excluded(r)
	if excluded {
		t.Notes = append(t.Notes, "SearchVectors has no keys for items and attributes, and a statement with a condition on them does not allow it")
	}
	t.Matches = t.Principal && t.Action && t.Resource && !excluded
	for _, c := range s.Conditions {
		ct := c.trace(r.Context)
		t.Matches = t.Matches && ct.Holds
		t.Conditions = append(t.Conditions, ct)
	}
	return t
}

func (c *Condition) trace(ctx Context) ConditionTrace {
	v := lookup(ctx, c.key)
	t := ConditionTrace{Operator: c.Operator, Key: c.Key, Values: c.Values, Present: v.Present(), Request: v.some(), Holds: c.holds(ctx)}
	if c.vars && c.unresolved(ctx) == "" {
		t.Resolved = c.resolve(ctx)
	}
	switch name := c.unresolved(ctx); {
	case c.op.family == familyNull:
	case !v.Present() && c.ifExists:
		t.Note = "the request does not have the key, which IfExists accepts"
	case name != "":
		t.Note = "the variable ${" + name + "} has no value in this request"
	case !v.Present() && c.quantity == forAll:
		t.Note = "the request does not have the key, which ForAllValues accepts"
	case !v.Present():
		t.Note = "the request does not have the key"
	case v.multi && c.quantity == single:
		t.Note = "the key can have several values, which an operator without ForAllValues or ForAnyValue never matches"
	case c.quantity == forAll && !t.Holds && v.Len() > 1:
		for i := range v.Len() {
			if !c.test(v.At(i), ctx) {
				t.Note = "it is false for " + strconv.Quote(beginning(v.At(i)))
				break
			}
		}
	}
	return t
}

// resolve returns the values of the condition with those of their variables. Long ones are cut.
func (c *Condition) resolve(ctx Context) []string {
	var all []string
	for i := range c.globs {
		all = append(all, beginning(c.globs[i].resolve(ctx)))
	}
	for _, arn := range c.arns {
		fields := make([]string, len(arn))
		for i := range arn {
			fields[i] = arn[i].resolve(ctx)
		}
		all = append(all, beginning(strings.Join(fields, ":")))
	}
	return all
}

// resolve returns the text of the glob with the values of its variables.
func (g *glob) resolve(ctx Context) string {
	var b strings.Builder
	for i := range g.parts {
		switch p := &g.parts[i]; p.kind {
		case globAny:
			b.WriteByte('*')
		case globOne:
			b.WriteByte('?')
		default:
			v, _ := p.value(ctx)
			b.WriteString(v)
		}
	}
	return b.String()
}
