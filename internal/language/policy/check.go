package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is how much a finding matters.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // the document does not do what it says
	SeverityWarning Severity = "warning" // it allows or denies something that is easily overlooked
	SeverityNote    Severity = "note"    // it is worth knowing
)

// Finding is what Check found in a document.
type Finding struct {
	Position
	Rule      string   `json:"rule"`
	Severity  Severity `json:"severity"`
	Statement int      `json:"statement"` // its index, or -1
	Sid       string   `json:"sid,omitempty"`
	Text      string   `json:"text"`
	Try       string   `json:"try,omitempty"`
}

// Check finds statements of a valid document that do not do what they seem to do. The
// findings are in the order of the text.
func Check(d *Document) []*Finding {
	c := &checker{doc: d, findings: []*Finding{}, bodies: make(map[string]int)}
	for i, s := range d.Statements {
		c.index, c.statement = i, s
		c.covered, c.possible = s.expandActions(), nil
		c.checkActions()
		c.checkNegations()
		c.checkResources()
		c.checkVariables()
		c.checkKeys()
		c.checkContradictions()
		c.checkAttributes()
		c.checkOthers()
		if d.Kind == Resource {
			c.checkResourcePolicy()
		}
	}
	slices.SortStableFunc(c.findings, func(a, b *Finding) int {
		return slices.Compare([]int{a.Line, a.Column}, []int{b.Line, b.Column})
	})
	return c.findings
}

// checker collects the findings of a document, statement by statement.
type checker struct {
	doc       *Document
	findings  []*Finding
	index     int
	statement *Statement
	covered   []*actionInfo  // actions of DynamoDB that the statement is about
	possible  []*actionInfo  // those of them that are asked for on its resources
	bodies    map[string]int // the lines of the statements before, by their members
}

func (c *checker) add(at Position, rule string, severity Severity, try, format string, args ...any) {
	c.findings = append(c.findings, &Finding{
		Position: at, Rule: rule, Severity: severity, Statement: c.index, Sid: c.statement.Sid,
		Text: fmt.Sprintf(format, args...), Try: try,
	})
}

// does is what the statement does, as a verb.
func (c *checker) does() string {
	if c.statement.Effect == Allow {
		return "allows"
	}
	return "denies"
}

// names lists names, at most a few of them.
func names(all []string) string {
	const shown = 6
	if len(all) > shown+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:shown], ", "), len(all)-shown)
	}
	return strings.Join(all, ", ")
}

// neverHave returns "it never has" or "they never have".
func neverHave(all []*actionInfo) string {
	if len(all) == 1 {
		return "it never has"
	}
	return "they never have"
}

// otherServices are the services of stator whose actions are not checked.
var otherServices = []string{"application-autoscaling", "cloudwatch"}

// checkActions finds actions that do not exist, and wildcards that stand for more than
// they seem to.
func (c *checker) checkActions() {
	for i := range c.statement.Actions {
		p := &c.statement.Actions[i]
		prefix, name, _ := strings.Cut(p.Text, ":")
		named := slices.IndexFunc(namedServices, func(s namedService) bool { return strings.EqualFold(prefix+":", s.prefix) })
		switch all := p.expand(); {
		case slices.Contains(otherServices, strings.ToLower(prefix)):
		case named >= 0:
			c.checkNamed(p, name, &namedServices[named])
		case prefix != "*" && !strings.EqualFold(prefix, "dynamodb"):
			c.add(p.Position, "other-service", SeverityNote, "", "%s is an action of another service, which stator never asks for", p.Text)
		case len(all) > 0:
			if c.statement.Effect == Allow && !c.statement.NotAction {
				c.checkWildcard(p, all)
			}
		case operationActions[name] != "":
			c.add(p.Position, "unknown-action", SeverityError, "name these actions",
				"%s is an operation and not an action: it asks for %s", name, operationActions[name])
		default:
			try := ""
			if near := nearest(name, KnownActions()); near != "" {
				try = "did you mean " + service + near + "?"
			}
			c.add(p.Position, "unknown-action", SeverityError, try, "DynamoDB has no action %s", quote(p.Text))
		}
	}
}

// checkNamed finds an action that a service does not have.
func (c *checker) checkNamed(p *Pattern, name string, of *namedService) {
	if of.matches(p) {
		return
	}
	try := ""
	if near := nearest(name, of.actions); near != "" {
		try = "did you mean " + of.prefix + near + "?"
	}
	c.add(p.Position, "unknown-action", SeverityError, try, "%s has no action %s", of.name, quote(p.Text))
}

// checkWildcard reports what a wildcard of an Allow stands for, if these are actions of
// several access levels, or on several subjects.
func (c *checker) checkWildcard(p *Pattern, all []*actionInfo) {
	if !strings.ContainsAny(p.Text, "*?") {
		return
	}
	byLevel := make(map[AccessLevel][]string)
	var subjects []string
	for _, a := range all {
		byLevel[a.level] = append(byLevel[a.level], a.name)
		if !slices.Contains(subjects, a.subject) {
			subjects = append(subjects, a.subject)
		}
	}
	var parts []string
	for _, level := range levels {
		if list := byLevel[level]; list != nil {
			parts = append(parts, fmt.Sprintf("%s: %s", level, names(list)))
		}
	}
	switch {
	case len(byLevel) > 1:
		c.add(p.Position, "wildcard-action", SeverityWarning, "name the actions that are needed",
			"%s stands for %d actions of several access levels (%s)", p.Text, len(all), strings.Join(parts, "; "))
	case len(subjects) > 1:
		c.add(p.Position, "wildcard-action", SeverityNote, "name the actions that are needed",
			"%s stands for %d actions, on %s (%s)", p.Text, len(all), names(subjects), parts[0])
	}
}

// checkNegations finds an Allow of everything but what is listed.
func (c *checker) checkNegations() {
	s := c.statement
	if s.Effect == Deny {
		if s.NotPrincipal {
			c.add(s.Principals[0].Position, "not-principal", SeverityWarning, "use \"Principal\": \"*\" with ArnNotEquals on aws:PrincipalArn",
				"NotPrincipal in a Deny also denies principals that have a permissions boundary, whether listed or not")
		}
		return
	}
	if s.NotAction {
		c.add(s.Actions[0].Position, "not-action", SeverityWarning, "list the actions that are needed in Action",
			"NotAction allows every other action, also of other services: here %d of DynamoDB, among them %s", len(c.covered), names(actionNames(c.covered)))
	}
	if s.NotResource {
		c.add(s.Resources[0].Position, "not-resource", SeverityWarning, "list the resources that are needed in Resource",
			"NotResource allows the actions on every other resource")
	}
}

// checkResources finds actions that are never asked for on the resources of the
// statement, and names of tables with a wildcard.
func (c *checker) checkResources() {
	s := c.statement
	var types resourceTypes
	for i := range s.Resources {
		p := &s.Resources[i]
		types |= p.glob.types()
		c.checkTableWildcard(p)
	}
	var never []*actionInfo
	needed := resourceTypes(0)
	for _, a := range c.covered {
		if a.types&types == 0 && !s.NotResource {
			never = append(never, a)
			needed |= a.types
		} else {
			c.possible = append(c.possible, a)
		}
	}
	switch {
	case len(never) == 0 || s.NotAction:
	case len(never) == len(c.covered) && c.onlyDynamoDB():
		c.add(s.Position, "never-matches", SeverityError, fmt.Sprintf("the resource of %s is %s", names(actionNames(never)), needed),
			"the statement matches no request: its actions are never asked for on its resources")
	case !c.named(never):
		// A wildcard that stands for actions on other resources is the usual case.
	default:
		c.add(s.Position, "resource-type", SeverityWarning, fmt.Sprintf("give it a statement with %s as the resource", needed),
			"the statement never %s %s, because none of its resources can be %s", c.does(), names(actionNames(never)), needed)
	}
}

// onlyDynamoDB reports whether all actions of the statement are of DynamoDB.
func (c *checker) onlyDynamoDB() bool {
	for i := range c.statement.Actions {
		if !hasPrefix(c.statement.Actions[i].Text, service, true) {
			return false
		}
	}
	return true
}

// named reports whether the statement names one of the actions without a wildcard.
func (c *checker) named(all []*actionInfo) bool {
	for i := range c.statement.Actions {
		for _, a := range all {
			if equalFold(c.statement.Actions[i].Text, service+a.name) {
				return true
			}
		}
	}
	return false
}

// checkTableWildcard finds a wildcard within the name of a table, which goes on beyond
// the name.
func (c *checker) checkTableWildcard(p *Pattern) {
	_, name, found := strings.Cut(p.Text, ":table/")
	prefix := strings.TrimSuffix(name, "*")
	if !found || prefix == name || prefix == "" || strings.ContainsAny(prefix, "/*?$") || c.statement.NotResource {
		return
	}
	c.add(p.Position, "wildcard-resource", SeverityWarning,
		fmt.Sprintf("for one table and its indexes list table/%s and table/%s/index/*", prefix, prefix),
		"table/%s also matches other tables whose names begin so, such as %s2, and the indexes, streams, backups, exports and imports of all of them", name, prefix)
}

// checkVariables finds variables that are not replaced.
func (c *checker) checkVariables() {
	report := func(at Position, g *glob, text string) {
		if c.doc.Version == Version2008 && strings.Contains(text, "${") {
			c.add(at, "literal-variable", SeverityWarning, `add "Version": "2012-10-17"`,
				"%s has a variable, but in a document of version 2008-10-17, or without a version, it is literal text", quote(text))
		}
		for _, p := range g.parts {
			if p.kind == globVar {
				c.checkKeyName(at, "variable", p.text, !p.hasPreset)
			}
		}
	}
	for i := range c.statement.Resources {
		p := &c.statement.Resources[i]
		report(p.Position, &p.glob, p.Text)
	}
	for _, k := range c.statement.Conditions {
		for i := range k.globs {
			report(k.Position, &k.globs[i], k.Values[i])
		}
		for i := range k.arns {
			all := glob{}
			for _, g := range k.arns[i] {
				all.parts = append(all.parts, g.parts...)
			}
			report(k.Position, &all, k.Values[i])
		}
	}
}

// checkOthers compares the statement with the others.
func (c *checker) checkOthers() {
	s := c.statement
	own := s.body()
	if line, ok := c.bodies[own]; ok {
		c.add(s.Position, "duplicate", SeverityWarning, "remove one of them", "the statement is the same as the one in line %d", line)
		return
	}
	c.bodies[own] = s.Line
	for _, other := range c.doc.Statements {
		if s.Effect == Allow && other.Effect == Deny && other.shadows(s) {
			c.add(s.Position, "shadowed", SeverityWarning, "remove one of them, or give the Deny a condition",
				"the statement allows nothing: the Deny in line %d covers all of it", other.Line)
			return
		}
	}
}

// body is the statement without its Sid, in the canonical form.
func (s *Statement) body() string {
	w := &canonicalWriter{}
	s.write(w, false)
	return w.buf.String()
}

// shadows reports whether a Deny without conditions covers another statement.
func (s *Statement) shadows(other *Statement) bool {
	if len(s.Conditions) > 0 || s.NotAction || s.NotResource || s.NotPrincipal || other.NotAction || other.NotResource || other.NotPrincipal {
		return false
	}
	for i := range other.Principals {
		if !slices.ContainsFunc(s.Principals, func(n PrincipalName) bool {
			return n.everyone() || n.Type == other.Principals[i].Type && n.canonical() == other.Principals[i].canonical()
		}) {
			return false
		}
	}
	return coverPatterns(s.Actions, other.Actions, true) && coverPatterns(s.Resources, other.Resources, false)
}

// coverPatterns reports whether each of the inner patterns is covered by one of the
// others.
func coverPatterns(outer, inner []Pattern, fold bool) bool {
	for i := range inner {
		if !slices.ContainsFunc(outer, func(p Pattern) bool {
			if !fold {
				return p.Text == inner[i].Text || p.glob.covers(&inner[i].glob)
			}
			a, _ := compileGlob(strings.ToLower(p.Text), true, false)
			b, _ := compileGlob(strings.ToLower(inner[i].Text), true, false)
			return a.covers(&b)
		}) {
			return false
		}
	}
	return true
}

// checkResourcePolicy finds what the service refuses in policies of tables and streams.
func (c *checker) checkResourcePolicy() {
	for i := range c.statement.Actions {
		p := &c.statement.Actions[i]
		all := p.expand()
		if len(all) == 1 && !all[0].inResourcePolicies(onTable|onIndex|onStream) {
			c.add(p.Position, "resource-policy", SeverityError, "give it to an identity-based policy", "a resource-based policy cannot have the action %s", p.Text)
		}
	}
	if n := c.statement.unbounded(); n != nil {
		c.add(n.Position, "unbounded", SeverityError, "name the principals, or add a condition on who they are", "the statement allows everyone, which the service refuses")
	}
}
