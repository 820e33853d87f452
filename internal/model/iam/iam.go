// Package iam writes the IAM policy that the access patterns of a model need, and
// compares policies with the traffic of a server.
//
// It knows which actions an operation asks for; package policy knows what a document
// means.
package iam

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// Role is the part of a model that a policy is for.
type Role string

// The roles.
const (
	All      Role = "all"
	Reader   Role = "reader"   // the patterns that read
	Writer   Role = "writer"   // the patterns that write
	Consumer Role = "consumer" // the programs that read streams
)

// Roles are all roles.
var Roles = []Role{All, Reader, Writer, Consumer}

// DefaultTenantVariable is the variable that holds the tenant of a caller.
const DefaultTenantVariable = "aws:PrincipalTag/tenant"

// PolicyOptions say what a policy is for.
type PolicyOptions struct {
	Region, Account string // of the resources
	Role            Role
	Groups          []string // of patterns; none is all of them
	Setup           bool     // also what a program asks for when it starts: DescribeTable

	// TenantKey is the attribute that partition keys begin with. If it is given, the
	// policy only allows partitions whose attribute has the value of TenantVariable.
	TenantKey      string
	TenantVariable string // such as aws:PrincipalTag/tenant
}

// PolicyDocument is a policy as JSON.
type PolicyDocument struct {
	Version   string
	Statement []*AllowStatement
}

// AllowStatement is a statement of a PolicyDocument.
type AllowStatement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string][]string `json:",omitempty"`
}

// Need is one permission that an access pattern or a reader of a stream asks for.
type Need struct {
	Pattern   string `json:"pattern,omitempty"` // "" for what is no access pattern
	For       string `json:"for,omitempty"`     // what asks for it, if it is no access pattern
	Group     string `json:"group,omitempty"`
	Operation string `json:"operation"`
	Action    string `json:"action"`
	Resource  string `json:"resource"`
	Statement string `json:"statement"` // the Sid of the statement that allows it

	class      string
	table      string   // as a part of a Sid
	index      string   // as a part of a Sid; "" for the table itself
	enclosing  string   // the transaction that the action is a part of
	whole      bool     // it reads whole items, or writes
	attributes []string // that a read names
	leading    string   // what the partition key begins with
}

// The classes of needs, which are the first words of Sids.
const (
	classRead     = "Read"
	classWrite    = "Write"
	classConsume  = "ReadStreamOf"
	classDescribe = "Describe"
)

// Generated is a policy with the reasons for what it allows.
type Generated struct {
	Policy *PolicyDocument `json:"policy"`
	Needs  []*Need         `json:"needs"`
}

// NotServedError is returned for a model with patterns that no request can serve.
type NotServedError struct{ Plans []*model.Plan }

func (e *NotServedError) Error() string {
	var lines []string
	for _, p := range e.Plans {
		lines = append(lines, fmt.Sprintf("%q cannot be served: %s", p.Pattern.Name, p.Faults[0].Message))
	}
	return strings.Join(lines, "\n")
}

// Obstacle is why a policy cannot be restricted to the partitions of a tenant.
type Obstacle struct{ Who, Why string }

// TenantError is returned if some patterns do not keep to the partitions of a tenant.
type TenantError struct {
	Attribute string
	Obstacles []Obstacle
}

func (e *TenantError) Error() string {
	var lines []string
	for _, o := range e.Obstacles {
		lines = append(lines, o.Who+": "+o.Why)
	}
	return strings.Join(lines, "\n")
}

// Generate returns the policy that allows the requests of a model's patterns, and nothing else.
func Generate(m *model.Model, o PolicyOptions) (*Generated, error) {
	g := &generator{model: m, options: &o}
	if err := g.addPatterns(); err != nil {
		return nil, err
	}
	g.addStreams()
	if o.Setup {
		g.addSetup()
	}
	switch {
	case len(g.obstacles) > 0:
		return nil, &TenantError{o.TenantKey, g.obstacles}
	case len(g.needs) == 0:
		return nil, fmt.Errorf("the model has nothing that a %s asks for", g.subject())
	}
	return &Generated{Policy: &PolicyDocument{Version: "2012-10-17", Statement: g.statements()}, Needs: g.needs}, nil
}

// generator collects what a policy must allow.
type generator struct {
	model     *model.Model
	options   *PolicyOptions
	tables    []*model.Table // that are used
	needs     []*Need
	obstacles []Obstacle
}

// subject is what the policy is for, in words.
func (g *generator) subject() string {
	text := "program"
	if g.options.Role != All {
		text = string(g.options.Role)
	}
	if len(g.options.Groups) > 0 {
		text += " of the group " + strings.Join(g.options.Groups, ", ")
	}
	return text
}

// chooses reports whether the policy is for a pattern.
func (g *generator) chooses(p *model.Pattern) bool {
	if len(g.options.Groups) > 0 && !slices.Contains(g.options.Groups, p.Group) {
		return false
	}
	writes := p.Actions()[0].Verb().Writes()
	switch g.options.Role {
	case Reader:
		return !writes
	case Writer:
		return writes
	}
	return g.options.Role == All
}

func (g *generator) addPatterns() error {
	var unserved []*model.Plan
	for _, p := range g.model.Patterns {
		if !g.chooses(p) {
			continue
		}
		plan := g.model.Plan(p)
		if !plan.Served() {
			unserved = append(unserved, plan)
			continue
		}
		for _, s := range plan.Steps {
			g.addStep(plan, s)
		}
	}
	if unserved != nil {
		return &NotServedError{unserved}
	}
	return nil
}

// transactActions are the actions that the parts of transactions ask for, by the names of the parts.
var transactActions = map[string]string{
	"Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem",
}

var transactParts = map[model.Verb]string{
	model.Get: "Get", model.Put: "Put", model.Update: "Update", model.Delete: "Delete", model.Check: "ConditionCheck",
}

// addStep adds what one action of a pattern asks for.
func (g *generator) addStep(plan *model.Plan, s *model.Step) {
	n := &Need{Pattern: plan.Pattern.Name, Group: plan.Pattern.Group, Operation: plan.Operation, Action: plan.Operation,
		Resource: g.arn(s.Table), class: classRead, table: camel(s.Table.Name), whole: true}
	verb := s.Action.Verb()
	if verb.Writes() {
		n.class = classWrite
	}
	if plan.Pattern.Transact != nil {
		n.Action, n.enclosing = transactActions[transactParts[verb]], plan.Operation
	}
	n.Action = service + n.Action
	if s.Index != nil {
		n.Resource += "/index/" + s.Index.Name
		n.index = camel(s.Index.Name)
	}
	// A batch has one projection for each table, so that its actions read whole items.
	if len(s.Action.Returns) > 0 && plan.Pattern.Batch == nil {
		n.whole, n.attributes = false, namedBy(s)
	}
	if g.options.TenantKey != "" {
		pattern, why := g.leadingKey(s)
		if why != "" {
			g.prevent(fmt.Sprintf("%q", plan.Pattern.Name), why)
		}
		n.leading = pattern
	}
	g.use(s.Table)
	if !slices.ContainsFunc(g.needs, func(other *Need) bool { return n.same(other) }) {
		g.needs = append(g.needs, n)
	}
}

// same reports whether two actions of a pattern ask for the same.
func (n *Need) same(o *Need) bool {
	return n.Pattern == o.Pattern && n.Action == o.Action && n.Resource == o.Resource && n.leading == o.leading && slices.Equal(n.attributes, o.attributes)
}

// namedBy returns the attributes that a read may name: those that it returns and filters by, and the keys, which
// the service requires to be listed.
func namedBy(s *model.Step) []string {
	all := slices.Concat(s.Action.Returns, s.Filter)
	for _, a := range s.Table.Schema().Key.All() {
		all = append(all, a.Name)
	}
	if s.Index != nil {
		for _, a := range s.Index.Schema().Key.All() {
			all = append(all, a.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (g *generator) prevent(who, why string) {
	if o := (Obstacle{who, why}); !slices.Contains(g.obstacles, o) {
		g.obstacles = append(g.obstacles, o)
	}
}

func (g *generator) use(t *model.Table) {
	if !slices.Contains(g.tables, t) {
		g.tables = append(g.tables, t)
	}
}

// addStreams adds what the programs that poll streams ask for.
func (g *generator) addStreams() {
	if len(g.options.Groups) > 0 || g.options.Role != All && g.options.Role != Consumer {
		return
	}
	for _, t := range g.model.Tables {
		if t.Stream == "" || t.Readers != nil && *t.Readers == 0 {
			continue
		}
		what := "the stream of " + t.Name
		if g.options.TenantKey != "" {
			g.prevent(what, "it has the items of all tenants; use --role reader or --role writer, and another policy for --role consumer")
		}
		g.use(t)
		for _, operation := range []string{"DescribeStream", "GetShardIterator", "GetRecords"} {
			g.needs = append(g.needs, &Need{For: what, Operation: operation, Action: service + operation,
				Resource: g.arn(t) + "/stream/*", class: classConsume, table: camel(t.Name), whole: true})
		}
	}
}

// addSetup adds what a program asks for when it starts.
func (g *generator) addSetup() {
	for _, t := range g.tables {
		g.needs = append(g.needs, &Need{For: "setup", Operation: "DescribeTable", Action: service + "DescribeTable",
			Resource: g.arn(t), class: classDescribe, table: camel(t.Name), whole: true})
	}
}

const service = "dynamodb:"

func (g *generator) arn(t *model.Table) string {
	return "arn:aws:dynamodb:" + g.options.Region + ":" + g.options.Account + ":table/" + t.Name
}

// camel returns a name with the characters that a Sid can have.
func camel(name string) string {
	var b strings.Builder
	start := true
	for _, c := range name {
		switch {
		case c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z':
			start = true
			continue
		case start && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		start = false
		b.WriteRune(c)
	}
	return b.String()
}
