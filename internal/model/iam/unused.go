package iam

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/workload"
)

// PolicyFile is a policy of an identity.
type PolicyFile struct {
	Name     string
	Document *policy.Document

	loose *policy.Document // for any region and account, and with * for variables of resources
}

// ParseFile reads a policy. The error is a *policy.SyntaxError if it is none.
func ParseFile(name string, text []byte) (*PolicyFile, error) {
	doc, err := policy.Parse(policy.Identity, text)
	if err != nil {
		return nil, err
	}
	loose, err := loosen(text)
	if err != nil {
		return nil, err
	}
	return &PolicyFile{name, doc, loose}, nil
}

// UnusedKind is what of a policy is not used.
type UnusedKind string

// The kinds.
const (
	UnusedStatement UnusedKind = "statement"
	UnusedAction    UnusedKind = "action"
	UnusedResource  UnusedKind = "resource"
	UnusedPart      UnusedKind = "wildcard" // some of the actions that a wildcard stands for
)

// Unused is a part of an Allow statement that no request needed.
type Unused struct {
	policy.Position
	File string     `json:"file"`
	Sid  string     `json:"sid,omitempty"`
	Kind UnusedKind `json:"kind"`
	Text string     `json:"text"`           // the action or the resource; the actions of a statement
	Only []string   `json:"only,omitempty"` // the actions of a wildcard that were used
}

// PolicyUse compares a policy with traffic.
type PolicyUse struct {
	Since     time.Time `json:"since"`
	Unused    []*Unused `json:"unused"`
	Denied    []*Used   `json:"denied"`    // that the policy refuses
	Undecided []*Used   `json:"undecided"` // that the policy allows or refuses by conditions on values that are not counted
	Unknown   []*Unused `json:"unknown"`   // of actions that servers do not count
	Uncounted int64     `json:"uncounted"` // requests that were not counted by shape
}

// CompareTraffic returns what of the policies of an identity the requests did not use, and what they refuse of it.
func CompareTraffic(files []*PolicyFile, r workload.Report) *PolicyUse {
	c := &trafficComparison{used: usedBy(r), use: &PolicyUse{Since: r.Since, Unused: []*Unused{}, Denied: []*Used{}, Undecided: []*Used{}, Unknown: []*Unused{}, Uncounted: r.Other.Requests}}
	for _, f := range files {
		for i, s := range f.loose.Statements {
			c.lenient = append(c.lenient, c.decided(s, f.Document.Statements[i], true)...)
			c.strict = append(c.strict, c.decided(s, f.Document.Statements[i], false)...)
		}
	}
	for _, u := range c.used {
		switch {
		case u.allowed(c.strict, true):
		case u.allowed(c.lenient, false):
			c.use.Undecided = append(c.use.Undecided, u)
		default:
			c.use.Denied = append(c.use.Denied, u)
		}
	}
	for _, f := range files {
		for i, s := range f.Document.Statements {
			if s.Effect == policy.Allow {
				c.compareStatement(f, s, f.loose.Statements[i])
			}
		}
	}
	return c.use
}

// trafficComparison compares policies with traffic.
type trafficComparison struct {
	used            []*Used
	lenient, strict []*policy.Statement // with conditions on unknown values taken to hold, or not to
	use             *PolicyUse
}

// decided returns a statement without conditions on unknown values; none if these decide against it. Of an Allow they are
// taken to hold if lenient, of a Deny if not.
func (c *trafficComparison) decided(s, original *policy.Statement, lenient bool) []*policy.Statement {
	known := *s
	known.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(k *policy.Condition) bool { return !isKnown(k) })
	unknown := len(known.Conditions) < len(s.Conditions) || slices.ContainsFunc(original.Resources, func(p policy.Pattern) bool { return strings.Contains(p.Text, "${") })
	if unknown && lenient != (s.Effect == policy.Allow) {
		return nil
	}
	return []*policy.Statement{&known}
}

func isKnown(k *policy.Condition) bool {
	return slices.ContainsFunc(knownKeys, func(key string) bool { return strings.EqualFold(key, k.Key) }) &&
		!slices.ContainsFunc(k.Values, func(v string) bool { return strings.Contains(v, "${") })
}

// caller is a principal of the account that all resources are taken to belong to.
var caller = &policy.Principal{ARN: "arn:aws:iam::000000000000:user/any", Account: "000000000000", Kind: policy.User, Name: "any"}

// allowed reports whether statements allow what was used, for all possible values of Select or for one of them.
func (u *Used) allowed(statements []*policy.Statement, all bool) bool {
	arn := "arn:aws:dynamodb:us-east-1:000000000000:table/" + u.Table
	if u.Index != "" {
		arn += "/index/" + u.Index
	}
	policies := policy.Policies{Identity: []*policy.Document{{Kind: policy.Identity, Version: policy.Version2012, Statements: statements}}}
	for _, keys := range u.contexts() {
		verdict := policies.Evaluate(&policy.Request{Principal: caller, Action: u.Action, Resource: arn, Context: keys})
		if verdict.Allowed() != all {
			return !all
		}
	}
	return all
}

// compareStatement finds what of an Allow was not used. A statement with NotAction or NotResource allows what it does
// not name, so that only the whole of it can be unused.
func (c *trafficComparison) compareStatement(f *PolicyFile, s, loose *policy.Statement) {
	report := func(list *[]*Unused, at policy.Position, kind UnusedKind, text string, only []string) {
		*list = append(*list, &Unused{at, f.Name, s.Sid, kind, text, only})
	}
	if s.NotAction {
		if !c.uses(loose, loose.Actions, loose.Resources) {
			report(&c.use.Unused, s.Position, UnusedStatement, "all but "+texts(s.Actions), nil)
		}
		return
	}
	counted := make([][]string, len(s.Actions))
	some := false
	for i := range loose.Actions {
		counted[i] = countedBy(loose.Actions[i])
		some = some || len(counted[i]) > 0
		if len(counted[i]) == 0 {
			report(&c.use.Unknown, s.Actions[i].Position, UnusedAction, s.Actions[i].Text, nil)
		}
	}
	switch {
	case !some:
		return
	case !c.uses(loose, loose.Actions, loose.Resources):
		report(&c.use.Unused, s.Position, UnusedStatement, texts(s.Actions), nil)
		return
	}
	for i := range loose.Actions {
		if len(counted[i]) == 0 {
			continue
		}
		used := c.usedOf(loose, loose.Actions[i:i+1], loose.Resources)
		switch {
		case len(used) == 0:
			report(&c.use.Unused, s.Actions[i].Position, UnusedAction, s.Actions[i].Text, nil)
		case len(used) < len(counted[i]):
			report(&c.use.Unused, s.Actions[i].Position, UnusedPart, s.Actions[i].Text, used)
		}
	}
	for i := range loose.Resources {
		if !s.NotResource && isTableOrIndex(s.Resources[i].Text) && !c.uses(loose, loose.Actions, loose.Resources[i:i+1]) {
			report(&c.use.Unused, s.Resources[i].Position, UnusedResource, s.Resources[i].Text, nil)
		}
	}
}

func (c *trafficComparison) uses(s *policy.Statement, actions, resources []policy.Pattern) bool {
	return len(c.usedOf(s, actions, resources)) > 0
}

// usedOf returns the actions used that a part of an Allow statement may have allowed.
func (c *trafficComparison) usedOf(s *policy.Statement, actions, resources []policy.Pattern) (found []string) {
	part := *s
	part.Actions, part.Resources = actions, resources
	statements := c.decided(&part, &part, true)
	for _, u := range c.used {
		if name := strings.TrimPrefix(u.Action, service); !slices.Contains(found, name) && u.allowed(statements, false) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// everything is a statement that allows all actions on all resources.
var everything = sync.OnceValue(func() *policy.Statement {
	doc, err := policy.Parse(policy.Identity, []byte(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`))
	if err != nil {
		panic(err)
	}
	return doc.Statements[0]
})

// countedBy returns the actions of a pattern that servers count.
func countedBy(p policy.Pattern) (all []string) {
	one := *everything()
	one.Actions = []policy.Pattern{p}
	for _, name := range countedActions {
		if (&Used{Action: service + name, Table: "t"}).allowed([]*policy.Statement{&one}, true) {
			all = append(all, name)
		}
	}
	return all
}

// isTableOrIndex reports whether a resource can be a table or an index, by its text.
func isTableOrIndex(text string) bool {
	_, path, _ := strings.Cut(text, ":table/")
	_, below, found := strings.Cut(path, "/")
	kind, _, _ := strings.Cut(below, "/")
	return !found || kind == "index" || strings.ContainsAny(kind, "*?$")
}

func texts(patterns []policy.Pattern) string {
	var all []string
	for _, p := range patterns {
		all = append(all, p.Text)
	}
	return strings.Join(all, ", ")
}

// loosen parses a policy with resources of any region and account, since traffic has neither, and with * in place of
// their variables. The statements, actions and resources keep their order.
func loosen(text []byte) (*policy.Document, error) {
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	statements, ok := document["Statement"].([]any)
	if !ok {
		statements = []any{document["Statement"]}
	}
	for _, s := range statements {
		members, ok := s.(map[string]any)
		if !ok {
			continue
		}
		for _, name := range []string{"Resource", "NotResource"} {
			switch v := members[name].(type) {
			case string:
				members[name] = looseResource(v)
			case []any:
				for i := range v {
					if one, ok := v[i].(string); ok {
						v[i] = looseResource(one)
					}
				}
			}
		}
	}
	again, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return policy.Parse(policy.Identity, again)
}

// looseResource returns a resource of any partition, region and account, without variables.
func looseResource(text string) string {
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			break
		}
		_, after, _ := strings.Cut(rest, "}")
		text = before + "*" + after
	}
	fields := strings.SplitN(text, ":", 6)
	if len(fields) == 6 {
		fields[1], fields[3], fields[4] = "*", "*", "*"
	}
	return strings.Join(fields, ":")
}
