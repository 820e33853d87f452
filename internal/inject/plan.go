package inject

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Plan says which faults to inject. The zero value injects none.
type Plan struct {
	// Seed selects the requests of rules with a Share, and what a fault does to a part of
	// a request. The same plan with the same seed injects the same faults into the same requests.
	Seed uint64 `yaml:"seed,omitempty"`

	// Identity is how requests are counted for Share and Occurrences: IdentityKey or
	// IdentityOperation. It defaults to IdentityKey.
	Identity string `yaml:"identity,omitempty"`

	// Consecutive is how often the same request is rejected in a row at most, so that a
	// client that repeats it succeeds; 0 has no limit.
	Consecutive int `yaml:"consecutive,omitempty"`

	// Rules are tried in order: of the faults that exclude each other, a request gets the first.
	Rules []Rule `yaml:"faults"`
}

// The values of Plan.Identity.
const (
	IdentityKey       = "key"       // by operation, table, and key or parameters
	IdentityOperation = "operation" // by operation and table, for programs whose keys are random
)

// Rule injects one fault into the requests that match all of its members. Members that are
// not set match all requests.
type Rule struct {
	Fault Fault `yaml:"fault"`

	Table      string   `yaml:"table,omitempty"` // a name, in which * stands for any text
	Index      string   `yaml:"index,omitempty"` // the same, of an index
	Operations []string `yaml:"operations,omitempty"`

	// Key matches requests of an item by attributes of its key, of which numbers and
	// binaries have their text in DynamoDB's JSON.
	Key map[string]string `yaml:"key,omitempty"`

	// Request matches the id that the log of injected faults has, and Occurrences the first,
	// second and later requests with that id.
	Request     string `yaml:"request,omitempty"`
	Occurrences []int  `yaml:"occurrences,omitempty"`

	Share *float64 `yaml:"share,omitempty"` // of the requests that match, from 0 to 1; defaults to all
	Count int      `yaml:"count,omitempty"` // how many requests get the fault at most; 0 has no limit

	// From and Until are times since the plan was set.
	From  time.Duration `yaml:"from,omitempty"`
	Until time.Duration `yaml:"until,omitempty"`

	Delay time.Duration `yaml:"delay,omitempty"` // of Latency; defaults to DefaultDelay
	Lag   time.Duration `yaml:"lag,omitempty"`   // of StaleRead and IndexLag; defaults to DefaultLag

	// As is how the fault shows: AsInternalError or AsConnectionClosed of InternalError and
	// LostAnswer; of Throttle what is exceeded: AsTable, AsPartition, AsMaximum or AsAccount.
	As string `yaml:"as,omitempty"`
}

// Defaults of rules, and the largest values: a server holds a request that long, and that
// much of the past.
const (
	DefaultDelay = 200 * time.Millisecond
	DefaultLag   = time.Second
	MaxDelay     = 5 * time.Minute
	MaxLag       = 10 * time.Minute
	MaxRules     = 10_000
	MaxSeed      = math.MaxInt64 // a reply has the seed as such a number
	MaxPlanBytes = 4 << 20
	maxPlanLines = 15 * MaxRules // the time and the depth of the parser grow with them
)

// Fill returns a rule with its defaults.
func (r Rule) fill() Rule {
	k := kinds[r.Fault]
	if k.delay && r.Delay == 0 {
		r.Delay = DefaultDelay
	}
	if k.lag && r.Lag == 0 {
		r.Lag = DefaultLag
	}
	if k.as && r.As == "" {
		r.As = as[r.Fault][0]
	}
	return r
}

// Check returns the error of a plan that was not parsed.
func (p *Plan) Check() error {
	if member, err := p.check(); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	if len(p.Rules) > MaxRules {
		return fmt.Errorf("there are %d rules, but at most %d are allowed", len(p.Rules), MaxRules)
	}
	for i := range p.Rules {
		if member, err := p.Rules[i].check(); err != nil {
			return fmt.Errorf("rule %d: %s: %w", i+1, member, err)
		}
	}
	return nil
}

func (p *Plan) check() (member string, err error) {
	switch {
	case p.Identity != "" && p.Identity != IdentityKey && p.Identity != IdentityOperation:
		return "identity", fmt.Errorf("%q must be %s or %s", p.Identity, IdentityKey, IdentityOperation)
	case p.Seed > MaxSeed:
		return "seed", fmt.Errorf("is %d, but must be at most %d", p.Seed, uint64(MaxSeed))
	case p.Consecutive < 0:
		return "consecutive", errors.New("must not be negative")
	}
	return "", nil
}

// check returns the first member of a rule that is not valid, and why.
func (r *Rule) check() (member string, err error) {
	k, known := kinds[r.Fault]
	switch {
	case r.Fault == "":
		return "fault", errors.New("is missing")
	case !known:
		return "fault", fmt.Errorf("%q is not a fault; the faults are %s", r.Fault, joined(Faults()))
	case r.Share != nil && !(*r.Share >= 0 && *r.Share <= 1):
		return "share", fmt.Errorf("is %v, but must be from 0 to 1", *r.Share)
	case r.Count < 0:
		return "count", errors.New("must not be negative")
	case r.From < 0 || r.Until < 0:
		return "from", errors.New("from and until must not be negative")
	case r.Until != 0 && r.Until <= r.From:
		return "until", fmt.Errorf("%v must be later than from, which is %v", r.Until, r.From)
	case r.Delay != 0 && !k.delay:
		return "delay", fmt.Errorf("is for %s only", Latency)
	case r.Delay < 0 || r.Delay > MaxDelay:
		return "delay", fmt.Errorf("is %v, but must be more than 0 and at most %v", r.Delay, MaxDelay)
	case r.Lag != 0 && !k.lag:
		return "lag", fmt.Errorf("is for %s and %s only", StaleRead, IndexLag)
	case r.Lag < 0 || r.Lag > MaxLag:
		return "lag", fmt.Errorf("is %v, but must be more than 0 and at most %v", r.Lag, MaxLag)
	case r.As != "" && !k.as:
		return "as", fmt.Errorf("is for %s, %s and %s only", Throttle, InternalError, LostAnswer)
	case r.As != "" && !slices.Contains(as[r.Fault], r.As):
		return "as", fmt.Errorf("is %q, but must be one of %s", r.As, joined(as[r.Fault]))
	}
	for _, n := range r.Occurrences {
		if n < 1 {
			return "occurrences", fmt.Errorf("has %d, but the first is 1", n)
		}
	}
	for _, name := range r.Operations {
		if !k.takes(name, true) {
			return "operations", fmt.Errorf("%s cannot have the fault %s, only %s", name, r.Fault, joined(slices.Concat(k.operations, k.onRequest)))
		}
	}
	return "", nil
}

func joined[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}

// Parse parses a plan in YAML, or in JSON, which is YAML. name is that of the file, which
// errors begin with.
func Parse(name string, text []byte) (*Plan, error) {
	at := func(t *token.Token, err error) error {
		if t == nil || t.Position == nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return fmt.Errorf("%s:%d:%d: %w", name, t.Position.Line, t.Position.Column, err)
	}
	reworded := func(err error) error {
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			return at(syntax.GetToken(), errors.New(syntax.GetMessage()))
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > MaxPlanBytes {
		return nil, fmt.Errorf("%s: the plan has %d bytes, but at most %d are allowed", name, len(text), MaxPlanBytes)
	}
	if lines := bytes.Count(text, []byte{'\n'}); lines > maxPlanLines {
		return nil, fmt.Errorf("%s: the plan has %d lines, but at most %d are allowed", name, lines, maxPlanLines)
	}
	if nestsDeeply(text) {
		return nil, fmt.Errorf("%s: the file is nested more than %d levels deep", name, maxNesting)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, reworded(err)
	}
	if len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: a second document is not allowed", name)
	}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		refs := new(anchorFinder)
		ast.Walk(refs, file.Docs[0].Body)
		if refs.first != nil { // a few of them can stand for any number of rules
			return nil, at(refs.first.GetToken(), errors.New("anchors and aliases are not allowed"))
		}
	}
	if !hasContent(file) {
		return nil, fmt.Errorf("%s: the file is empty; it must have a list of faults", name)
	}
	members := membersOf(file.Docs[0].Body)
	if t, err := checkDurations(members); err != nil {
		return nil, at(t, err)
	}
	p := new(Plan)
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(p); err != nil {
		return nil, reworded(err)
	}
	if member, err := p.check(); err != nil {
		return nil, at(tokenOf(members, member, file.Docs[0].Body), fmt.Errorf("%s %w", member, err))
	}
	if len(p.Rules) > MaxRules {
		return nil, fmt.Errorf("%s: there are %d rules, but at most %d are allowed", name, len(p.Rules), MaxRules)
	}
	list, _ := valueOf(members, "faults").(*ast.SequenceNode)
	for i := range p.Rules {
		member, err := p.Rules[i].check()
		if err == nil {
			continue
		}
		if list == nil || i >= len(list.Values) {
			return nil, fmt.Errorf("%s: rule %d: %s %w", name, i+1, member, err)
		}
		rule := list.Values[i]
		return nil, at(tokenOf(membersOf(rule), member, rule), fmt.Errorf("%s %w", member, err))
	}
	return p, nil
}

// hasContent reports whether a file has more than comments.
func hasContent(file *ast.File) bool {
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return false
	}
	_, comments := file.Docs[0].Body.(*ast.CommentGroupNode)
	return !comments
}

// checkDurations checks the times of rules, since the errors of the decoder have no position and name types of
// Go. It returns where the first one is that is not valid.
func checkDurations(members []*ast.MappingValueNode) (*token.Token, error) {
	list, _ := valueOf(members, "faults").(*ast.SequenceNode)
	if list == nil {
		return nil, nil
	}
	for _, rule := range list.Values {
		for _, m := range membersOf(rule) {
			name := m.Key.GetToken().Value
			if !slices.Contains([]string{"from", "until", "delay", "lag"}, name) {
				continue
			}
			switch m.Value.(type) {
			case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
				given := m.Value.GetToken()
				d, err := time.ParseDuration(given.Value)
				switch {
				case err != nil:
					return given, fmt.Errorf("%s %.40q must be a duration such as 300ms or 2s", name, given.Value)
				case d == 0 && (name == "delay" || name == "lag"): // a rule without one has a default
					return given, fmt.Errorf("%s must be more than 0", name)
				}
			}
		}
	}
	return nil, nil
}

// maxNesting is how deep a plan may be nested; one that is valid has three levels. The parser of YAML has
// no bound.
const maxNesting = 32

// nestsDeeply reports whether a text may be nested more than maxNesting levels deep: by brackets, by the
// marks of lists and keys in one line, or by such marks, tags and anchors that follow each other.
func nestsDeeply(text []byte) bool {
	brackets, run := 0, 0
	before := byte(' ')
	for line := range bytes.Lines(text) {
		marks := 0
		for i, c := range line {
			switch c {
			case '[', '{':
				brackets++
			case ']', '}':
				brackets = max(0, brackets-1)
			case '-', '?', ':', '!', '&', '|', '>':
				if i+1 == len(line) || isSpace(line[i+1]) {
					marks++
				}
			}
			if begins := bytes.IndexByte([]byte(" \t\r\n[{,"), before) >= 0; begins && !isSpace(c) {
				switch {
				case c == '!', c == '&', (c == '-' || c == '?' || c == ':') && (i+1 == len(line) || isSpace(line[i+1])):
					run++
				default:
					run = 0
				}
			}
			before = c
			if run > maxNesting || brackets > maxNesting || marks > maxNesting && brackets == 0 {
				return true
			}
		}
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// anchorFinder finds the first anchor or alias.
type anchorFinder struct{ first ast.Node }

func (r *anchorFinder) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		if r.first == nil {
			r.first = n
		}
	}
	return r
}

// membersOf returns the members of a mapping.
func membersOf(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func valueOf(members []*ast.MappingValueNode, name string) ast.Node {
	for _, m := range members {
		if m.Key.GetToken().Value == name {
			return m.Value
		}
	}
	return nil
}

// tokenOf returns where a member is, or else where its mapping begins.
func tokenOf(members []*ast.MappingValueNode, name string, otherwise ast.Node) *token.Token {
	if v := valueOf(members, name); v != nil {
		return v.GetToken()
	}
	if len(members) > 0 {
		return members[0].Key.GetToken()
	}
	return otherwise.GetToken()
}

// Format returns a plan as YAML.
func (p *Plan) Format() []byte {
	text, err := yaml.MarshalWithOptions(p, yaml.IndentSequence(true))
	if err != nil {
		panic("a plan of faults cannot be encoded: " + err.Error())
	}
	return text
}
