package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of documents that are sent.
const (
	MaxResourceBytes = 20480 // of a resource policy, white space included
	MaxBytes         = 65536 // of any other document
	maxFaults        = 20
)

// Parse reads a document that is sent. The error is a *SyntaxError.
func Parse(kind Kind, text []byte) (*Document, error) {
	limit := MaxBytes
	if kind == Resource {
		limit = MaxResourceBytes
	}
	if len(text) > limit {
		return nil, &SyntaxError{[]*Fault{{Position: Position{1, 1}, Code: FaultSize, Message: fmt.Sprintf("the document has %d bytes, but may have %d", len(text), limit)}}}
	}
	return ParseStored(kind, text)
}

// ParseStored reads a document whose text was parsed before, as it was sent or in its canonical form.
// The latter has no limit: it may be larger, since account ids become ARNs.
func ParseStored(kind Kind, text []byte) (*Document, error) {
	p := &documentParser{text: text, doc: &Document{Kind: kind, Version: Version2008}}
	p.document()
	if len(p.faults) > 0 {
		slices.SortStableFunc(p.faults, func(a, b *Fault) int {
			return slices.Compare([]int{a.Line, a.Column}, []int{b.Line, b.Column})
		})
		return nil, &SyntaxError{p.faults[:min(len(p.faults), maxFaults)]}
	}
	return p.doc, nil
}

// DetectKind returns Resource if a statement of the document names a principal, and
// Identity otherwise, also if the document is invalid.
func DetectKind(text []byte) Kind {
	if len(text) > MaxBytes {
		return Identity
	}
	root, _, _ := readJSON(text)
	if root == nil {
		return Identity
	}
	for _, m := range root.members {
		if m.name != "Statement" {
			continue
		}
		for _, s := range append(m.value.list, m.value) {
			for _, m := range s.members {
				if m.name == "Principal" || m.name == "NotPrincipal" {
					return Resource
				}
			}
		}
	}
	return Identity
}

// documentParser reads the values of a text into a document, and collects what is
// wrong.
type documentParser struct {
	text   []byte
	doc    *Document
	faults []*Fault
	sids   map[string]Position
}

func (p *documentParser) fault(at Position, code FaultCode, format string, args ...any) *Fault {
	f := &Fault{Position: at, Code: code, Message: fmt.Sprintf(format, args...)}
	p.faults = append(p.faults, f)
	return f
}

// full reports whether enough faults were found.
func (p *documentParser) full() bool { return len(p.faults) >= maxFaults }

func (p *documentParser) missing(at Position, field string) {
	f := p.fault(at, FaultMissing, "%s is missing", field)
	f.service = "Missing required field " + field
}

func (p *documentParser) document() {
	root, at, fault := readJSON(p.text)
	if fault != "" {
		p.fault(at, FaultJSON, "%s", fault)
		return
	}
	if root.kind != jsonObject {
		p.fault(root.at, FaultSyntax, "a policy is an object, but this is %s", root.is())
		return
	}
	members := p.members(root, "a policy", []string{"Version", "Id", "Statement"})
	if v := members["Version"]; v != nil {
		if p.doc.Version = p.str("Version", v); v.kind == jsonString && p.doc.Version != Version2008 && p.doc.Version != Version2012 {
			p.fault(v.at, FaultSyntax, "Version is %s, but must be %s or %s", quote(v.text), Version2012, Version2008)
		}
	}
	if v := members["Id"]; v != nil {
		p.doc.ID = p.str("Id", v)
	}
	switch s := members["Statement"]; {
	case s == nil && len(p.faults) > 0: // probably misspelt
	case s == nil, s.kind == jsonList && len(s.list) == 0:
		p.fault(root.at, FaultEmptyStatement, "the policy has no Statement")
	case s.kind == jsonObject:
		p.statement(s)
	case s.kind == jsonList:
		for _, e := range s.list {
			if p.full() {
				break
			}
			p.statement(e)
		}
	default:
		p.fault(s.at, FaultSyntax, "Statement must be a list of objects, but is %s", s.is())
	}
}

// members returns the members of an object by name, and rejects unknown names and
// duplicates.
func (p *documentParser) members(n *jsonNode, of string, known []string) map[string]*jsonNode {
	found := make(map[string]*jsonNode, len(n.members))
	for _, m := range n.members {
		switch {
		case p.full():
			return found
		case !slices.Contains(known, m.name):
			p.fault(m.at, FaultSyntax, "%s has no member %s%s", of, quote(m.name), didYouMean(m.name, known))
		case found[m.name] != nil:
			p.fault(m.at, FaultSyntax, "the member %s is there twice", m.name)
		default:
			found[m.name] = m.value
		}
	}
	return found
}

// str returns a string, which must be one.
func (p *documentParser) str(name string, n *jsonNode) string {
	if n.kind != jsonString {
		p.fault(n.at, FaultSyntax, "%s must be a string, but is %s", name, n.is())
	}
	return n.text
}

// strings calls f with each string of a string or a list of them.
func (p *documentParser) strings(name string, n *jsonNode, f func(*jsonNode)) {
	list := []*jsonNode{n}
	if n.kind == jsonList {
		list = n.list
		if len(list) == 0 {
			p.fault(n.at, FaultSyntax, "%s is an empty list", name)
		}
	}
	for _, e := range list {
		if e.kind != jsonString {
			p.fault(e.at, FaultSyntax, "%s must be a string or a list of strings, but has %s", name, e.is())
			continue
		}
		f(e)
	}
}

// statementMembers are the members of a statement, in the order of the canonical form.
var statementMembers = []string{"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"}

func (p *documentParser) statement(n *jsonNode) {
	if n.kind != jsonObject {
		p.fault(n.at, FaultSyntax, "a statement is an object, but this is %s", n.is())
		return
	}
	before := len(p.faults)
	members := p.members(n, "a statement", statementMembers)
	misspelt := len(p.faults) > before
	s := &Statement{Position: n.at}
	p.doc.Statements = append(p.doc.Statements, s)
	if v := members["Sid"]; v != nil {
		p.sid(s, v)
	}
	if v := members["Effect"]; v != nil {
		p.effect(s, v)
	} else if !misspelt {
		p.missing(n.at, "Effect")
	}
	// oneOf returns the member that is there, of a name and its negation.
	oneOf := func(name string, required bool) (v *jsonNode, negated bool) {
		v, not := members[name], members["Not"+name]
		switch {
		case v != nil && not != nil:
			p.fault(not.at, FaultSyntax, "a statement has %s or Not%s, not both", name, name)
		case not != nil:
			return not, true
		case v == nil && required && !misspelt:
			p.missing(n.at, name)
		}
		return v, false
	}
	principal, not := oneOf("Principal", p.doc.Kind == Resource)
	switch {
	case principal == nil:
	case p.doc.Kind != Resource:
		p.fault(principal.at, FaultSyntax, "only resource-based policies name principals")
	default:
		s.NotPrincipal = not
		p.principals(s, principal)
	}
	if v, not := oneOf("Action", true); v != nil {
		s.NotAction = not
		p.strings("Action", v, func(e *jsonNode) { p.action(s, e) })
	}
	if v, not := oneOf("Resource", true); v != nil {
		s.NotResource = not
		p.strings("Resource", v, func(e *jsonNode) { p.resource(s, e) })
	}
	if v := members["Condition"]; v != nil {
		p.conditions(s, v)
	}
}

func (p *documentParser) sid(s *Statement, n *jsonNode) {
	s.Sid = p.str("Sid", n)
	if s.Sid == "" {
		return
	}
	if p.doc.Kind != Resource {
		for i := range len(s.Sid) {
			if c := lower(s.Sid[i]); (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				p.fault(n.at, FaultSyntax, "the Sid %s may have letters and digits only", quote(s.Sid))
				break
			}
		}
	}
	if first, ok := p.sids[s.Sid]; ok {
		p.fault(n.at, FaultSid, "the Sid %s is already that of the statement in line %d", quote(s.Sid), first.Line)
		return
	}
	if p.sids == nil {
		p.sids = make(map[string]Position)
	}
	p.sids[s.Sid] = n.at
}

func (p *documentParser) effect(s *Statement, n *jsonNode) {
	effect := p.str("Effect", n)
	if p.doc.Kind == Resource { // the service takes any case here, and IAM does not
		switch {
		case equalFold(effect, "allow"):
			effect = "Allow"
		case equalFold(effect, "deny"):
			effect = "Deny"
		}
	}
	s.Effect = effect == "Allow"
	if n.kind == jsonString && effect != "Allow" && effect != "Deny" {
		p.fault(n.at, FaultSyntax, "Effect is %s, but must be Allow or Deny", quote(effect))
	}
}

var principalTypes = []string{"AWS", "Service", "Federated", "CanonicalUser"}

func (p *documentParser) principals(s *Statement, n *jsonNode) {
	s.Principals = []PrincipalName{}
	switch {
	case n.kind == jsonString && n.text == "*":
		s.Principals = append(s.Principals, PrincipalName{Position: n.at, Text: "*"})
		return
	case n.kind != jsonObject:
		p.fault(n.at, FaultSyntax, `Principal must be "*" or an object such as {"AWS": "123456789012"}, but is %s`, n.is())
		return
	case len(n.members) == 0:
		p.fault(n.at, FaultSyntax, "Principal is empty")
	}
	members := p.members(n, "Principal", principalTypes)
	for _, kind := range principalTypes {
		v := members[kind]
		if v == nil {
			continue
		}
		p.strings(kind, v, func(e *jsonNode) {
			name, fault := newPrincipalName(e.at, kind, e.text)
			if fault != "" {
				p.fault(e.at, FaultPrincipal, "%s", fault)
			}
			s.Principals = append(s.Principals, name)
		})
	}
}

func (p *documentParser) action(s *Statement, n *jsonNode) {
	service, name, ok := strings.Cut(n.text, ":")
	if n.text != "*" && n.text != "*:*" && (!ok || !isName(service, "-") || !isName(name, "*?")) {
		p.fault(n.at, FaultSyntax, "the action %s is not of the form service:Action, such as dynamodb:GetItem, nor *", quote(n.text))
	}
	g, _ := compileGlob(n.text, true, false)
	if n.text == "*:*" {
		g, _ = compileGlob("*", true, false)
	}
	s.Actions = append(s.Actions, Pattern{n.at, n.text, g})
}

// isName reports whether a text has letters, digits and the given characters only.
func isName(s, also string) bool {
	for i := range len(s) {
		if c := lower(s[i]); (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return s != ""
}

func (p *documentParser) resource(s *Statement, n *jsonNode) {
	g, fault := compileGlob(n.text, true, p.doc.Version == Version2012)
	if fault != "" {
		p.fault(n.at, FaultSyntax, "%s", fault)
		return
	}
	// A wildcard crosses the colons of a resource, so that arn:aws:dynamodb:* is one.
	fields := splitGlob(g, arnFields)
	last := fields[len(fields)-1].parts
	open := len(fields) < arnFields && len(last) > 0 && last[len(last)-1].kind == globAny
	if open {
		fields = append(fields, slices.Repeat([]glob{{parts: []globPart{{kind: globAny}}}}, arnFields-len(fields))...)
	}
	if !isARN(fields) {
		p.fault(n.at, FaultSyntax, `the resource %s is neither an ARN, such as arn:aws:dynamodb:us-east-1:123456789012:table/Orders, nor "*"`, quote(n.text))
	}
	s.Resources = append(s.Resources, Pattern{n.at, n.text, g})
}

func (p *documentParser) conditions(s *Statement, n *jsonNode) {
	if n.kind != jsonObject {
		p.fault(n.at, FaultSyntax, "Condition must be an object, but is %s", n.is())
		return
	}
	seen := make(map[string]bool)
	for _, m := range n.members {
		if p.full() {
			return
		}
		op, quantity, ifExists, ok := parseOperator(m.name)
		switch {
		case !ok:
			p.fault(m.at, FaultSyntax, "there is no condition operator %s%s", quote(m.name), didYouMean(m.name, allOperators()))
			continue
		case seen[m.name]:
			p.fault(m.at, FaultSyntax, "the member %s is there twice", m.name)
			continue
		case m.value.kind != jsonObject:
			p.fault(m.value.at, FaultSyntax, "%s must be an object of condition keys, but is %s", m.name, m.value.is())
			continue
		}
		seen[m.name] = true
		keys := make(map[string]bool)
		for _, k := range m.value.members {
			c := &Condition{Position: k.at, Operator: m.name, Key: k.name, op: op, quantity: quantity, ifExists: ifExists, key: strings.ToLower(k.name)}
			if service, name, ok := strings.Cut(k.name, ":"); !ok || service == "" || name == "" {
				p.fault(k.at, FaultSyntax, "the condition key %s is not of the form service:Key, such as aws:username", quote(k.name))
			}
			if keys[c.key] {
				p.fault(k.at, FaultSyntax, "the condition key %s is there twice", quote(k.name))
			}
			keys[c.key] = true
			s.fineGrained = s.fineGrained || isFineGrained(c.key)
			p.values(c, k.value)
			s.Conditions = append(s.Conditions, c)
		}
	}
}

// values reads the values of a condition. Numbers and booleans need no quotes.
func (p *documentParser) values(c *Condition, n *jsonNode) {
	list := []*jsonNode{n}
	if n.kind == jsonList {
		list = n.list
	}
	c.Values = make([]string, 0, len(list))
	for _, v := range list {
		if v.kind != jsonString && v.kind != jsonBare {
			p.fault(v.at, FaultSyntax, "a value of %s must be a string, a number or a boolean, but is %s", c.Key, v.is())
			continue
		}
		if fault := c.compile(v.text, p.doc.Version == Version2012); fault != "" {
			p.fault(v.at, FaultSyntax, "%s: %s", c.Operator, fault)
		}
		c.Values = append(c.Values, v.text)
	}
}
