package iam

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The condition keys that statements have.
const (
	keyEnclosing  = "dynamodb:EnclosingOperation"
	keyAttributes = "dynamodb:Attributes"
	keySelect     = "dynamodb:Select"
	keyLeading    = "dynamodb:LeadingKeys"
)

// actionOn is one action on one resource, with all needs for it.
type actionOn struct {
	class, action, resource string
	needs                   []*Need
	limits                  limits
}

// limits are the conditions that all needs for an action on a resource fulfil.
type limits struct {
	enclosing  []string
	attributes []string
	leading    []string
}

// statementPlan is a statement in the making: each of its actions is needed on each of its resources.
type statementPlan struct {
	class   string
	limits  limits
	actions []string
	on      []*actionOn // one for each resource
	all     []*actionOn
}

// statements groups the needs: actions on a resource with the same conditions, then resources with the same actions.
func (g *generator) statements() []*AllowStatement {
	var plans []*statementPlan
	for _, x := range g.byAction() {
		i := slices.IndexFunc(plans, func(p *statementPlan) bool {
			return p.class == x.class && p.on[0].resource == x.resource && p.limits.equal(&x.limits)
		})
		if i < 0 {
			i = len(plans)
			plans = append(plans, &statementPlan{class: x.class, limits: x.limits, on: []*actionOn{x}})
		}
		plans[i].actions = append(plans[i].actions, x.action)
		plans[i].all = append(plans[i].all, x)
	}
	var merged []*statementPlan
	for _, p := range plans {
		slices.Sort(p.actions)
		i := slices.IndexFunc(merged, func(m *statementPlan) bool {
			return m.class == p.class && m.limits.equal(&p.limits) && slices.Equal(m.actions, p.actions)
		})
		if i < 0 {
			merged = append(merged, p)
			continue
		}
		merged[i].on = append(merged[i].on, p.on...)
		merged[i].all = append(merged[i].all, p.all...)
	}
	slices.SortStableFunc(merged, func(a, b *statementPlan) int {
		return slices.Index(classes, a.class) - slices.Index(classes, b.class)
	})
	var all []*AllowStatement
	taken := make(map[string]bool)
	for _, p := range merged {
		all = append(all, p.statement(taken))
	}
	return all
}

// classes are the classes in the order of their statements.
var classes = []string{classRead, classWrite, classConsume, classDescribe}

// byAction returns the actions on resources in the order of the patterns, with the conditions that all their needs fulfil.
func (g *generator) byAction() []*actionOn {
	var all []*actionOn
	for _, n := range g.needs {
		i := slices.IndexFunc(all, func(x *actionOn) bool { return x.action == n.Action && x.resource == n.Resource })
		if i < 0 {
			i = len(all)
			all = append(all, &actionOn{class: n.class, action: n.Action, resource: n.Resource})
		}
		all[i].needs = append(all[i].needs, n)
	}
	leading := make(map[string]map[string]bool) // by resource, so that its actions share a statement
	for _, n := range g.needs {
		if n.leading != "" {
			if leading[n.Resource] == nil {
				leading[n.Resource] = make(map[string]bool)
			}
			leading[n.Resource][n.leading] = true
		}
	}
	for _, x := range all {
		x.limits = commonLimits(x.needs)
		if x.needs[0].leading != "" {
			x.limits.leading = slices.Sorted(maps.Keys(leading[x.resource]))
		}
	}
	return all
}

// commonLimits returns what holds for all needs.
func commonLimits(needs []*Need) (l limits) {
	enclosing, attributes := make(map[string]bool), make(map[string]bool)
	alone, whole := false, false
	for _, n := range needs {
		alone, whole = alone || n.enclosing == "", whole || n.whole
		enclosing[n.enclosing] = true
		for _, name := range n.attributes {
			attributes[name] = true
		}
	}
	if !alone {
		l.enclosing = slices.Sorted(maps.Keys(enclosing))
	}
	if !whole {
		l.attributes = slices.Sorted(maps.Keys(attributes))
	}
	return l
}

func (l *limits) equal(o *limits) bool {
	return slices.Equal(l.enclosing, o.enclosing) && slices.Equal(l.attributes, o.attributes) && slices.Equal(l.leading, o.leading)
}

// condition returns the conditions as a statement has them.
func (l *limits) condition() map[string]map[string][]string {
	c := make(map[string]map[string][]string)
	add := func(operator, key string, values []string) {
		if c[operator] == nil {
			c[operator] = make(map[string][]string)
		}
		c[operator][key] = values
	}
	if l.enclosing != nil {
		add("StringEquals", keyEnclosing, l.enclosing)
	}
	if l.attributes != nil {
		add("ForAllValues:StringEquals", keyAttributes, l.attributes)
		add("StringEquals", keySelect, []string{"SPECIFIC_ATTRIBUTES"})
	}
	if l.leading != nil {
		operator := "ForAllValues:StringEquals"
		if slices.ContainsFunc(l.leading, func(v string) bool { return strings.HasSuffix(v, "*") }) {
			operator = "ForAllValues:StringLike"
		}
		add(operator, keyLeading, l.leading)
	}
	return c
}

// statement returns the statement, and tells its needs its Sid.
func (p *statementPlan) statement(taken map[string]bool) *AllowStatement {
	s := &AllowStatement{Sid: p.sid(taken), Effect: "Allow", Action: p.actions, Condition: p.limits.condition()}
	for _, x := range p.on {
		s.Resource = append(s.Resource, x.resource)
	}
	for _, x := range p.all {
		for _, n := range x.needs {
			n.Statement = s.Sid
		}
	}
	return s
}

// maxPlaces is how many resources a Sid names.
const maxPlaces = 3

// sid returns a Sid that says what the statement is for, and that no other statement has.
func (p *statementPlan) sid(taken map[string]bool) string {
	var places []string
	for i, x := range p.on {
		n := x.needs[0]
		place := n.table + n.index
		if i > 0 && n.index != "" && p.on[i-1].needs[0].table == n.table {
			place = n.index // of the same table
		}
		places = append(places, place)
	}
	if len(places) > maxPlaces {
		places = append(places[:maxPlaces-1], fmt.Sprintf("%dMore", len(p.on)-maxPlaces+1))
	}
	sid := p.class + strings.Join(places, "And")
	if p.limits.attributes != nil {
		sid += "Attributes"
	}
	if p.limits.enclosing != nil {
		sid += "InTransactions"
	}
	unique := sid
	for i := 2; taken[unique]; i++ {
		unique = fmt.Sprintf("%s%d", sid, i)
	}
	taken[unique] = true
	return unique
}
