package principals

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/language/policy"
)

// Definition is a principal with the texts of its policies, as a database stores it.
type Definition struct {
	ARN      string            `json:"arn"`
	Policies []NamedPolicy     `json:"policies,omitempty"`
	Boundary *NamedPolicy      `json:"boundary,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Sessions []SessionPolicies `json:"sessions,omitempty"`
}

// NamedPolicy is a policy with a name, by which explanations call it.
type NamedPolicy struct {
	Name     string `json:"name"`
	Document string `json:"document"`
}

// SessionPolicies are the policies of a session of a role.
type SessionPolicies struct {
	Name     string        `json:"name"`
	Policies []NamedPolicy `json:"policies"`
}

// Define returns the set of definitions. It reports the first one that cannot be used.
func Define(list []Definition) (*Set, error) {
	s := newSet()
	for i := range list {
		if err := s.define(&list[i]); err != nil {
			return nil, fmt.Errorf("principal %s: %w", list[i].ARN, err)
		}
	}
	return s, nil
}

// DefineStored is Define for definitions that were checked when they were stored. One that cannot
// be used was stored by a later version: its principal may do nothing.
func DefineStored(list []Definition) (s *Set, faults []error) {
	s = newSet()
	for i := range list {
		if err := s.define(&list[i]); err != nil {
			faults = append(faults, fmt.Errorf("principal %s: %w", list[i].ARN, err))
			denied := &entry{ARN: list[i].ARN, identity: []*policy.Document{denyAll()}}
			if s.check(denied) == nil {
				s.add(denied)
			}
		}
	}
	return s, faults
}

// define adds a principal of a definition.
func (s *Set) define(d *Definition) (err error) {
	e := &entry{ARN: d.ARN, Tags: d.Tags, Sessions: make([]roleSession, len(d.Sessions))}
	if err := s.check(e); err != nil {
		return err
	}
	if e.identity, err = parseAll(policy.Identity, d.Policies); err != nil {
		return err
	}
	if d.Boundary != nil {
		if e.boundary, err = parseNamed(policy.Boundary, *d.Boundary); err != nil {
			return err
		}
	}
	e.sessions = make(map[string][]*policy.Document)
	for _, one := range d.Sessions {
		if err := checkSession(e, one.Name, len(one.Policies)); err != nil {
			return err
		}
		if e.sessions[one.Name], err = parseAll(policy.Session, one.Policies); err != nil {
			return err
		}
	}
	s.add(e)
	return nil
}

func parseAll(kind policy.Kind, list []NamedPolicy) (all []*policy.Document, err error) {
	for _, p := range list {
		d, err := parseNamed(kind, p)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func parseNamed(kind policy.Kind, p NamedPolicy) (*policy.Document, error) {
	d, err := policy.Parse(kind, []byte(p.Document))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", p.Name, err)
	}
	d.File = p.Name
	return d, nil
}

// denyAll returns a policy that denies everything.
func denyAll() *policy.Document {
	d, err := policy.Parse(policy.Identity, []byte(`{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"*","Resource":"*"}}`))
	if err != nil {
		panic(err)
	}
	return d
}

// Unite returns the principals of two sets. Those of the first take precedence: shadowed are the
// ARNs of the second whose names the first has, too.
func Unite(first, second *Set) (united *Set, shadowed []string) {
	united = &Set{users: maps.Clone(first.users), roles: maps.Clone(first.roles), names: maps.Clone(first.names), files: first.files}
	for _, entries := range []map[string]*entry{second.users, second.roles} {
		for arn, e := range entries {
			if _, taken := first.names[e.name()]; taken {
				shadowed = append(shadowed, arn)
				continue
			}
			united.add(e)
		}
	}
	slices.Sort(shadowed)
	return united, shadowed
}

// Has returns the ARN of the principal that has the name of another one, which may be itself; empty if
// there is none.
func (s *Set) Has(arn string) string {
	if strings.Count(arn, ":") < 5 {
		return ""
	}
	return s.names[(&entry{ARN: arn}).name()]
}

// Listing is a principal as a list shows it, with the names of its policies.
type Listing struct {
	ARN      string
	Policies []string
	Boundary string
	Tags     map[string]string
	Sessions []string
}

// List returns the principals in order of their ARNs.
func (s *Set) List() []Listing {
	list := make([]Listing, 0, len(s.names))
	for _, entries := range []map[string]*entry{s.users, s.roles} {
		for _, e := range entries {
			l := Listing{ARN: e.ARN, Policies: e.Policies, Boundary: e.Boundary, Tags: e.Tags}
			for _, one := range e.Sessions {
				l.Sessions = append(l.Sessions, one.Name)
			}
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Listing) int { return cmp.Compare(a.ARN, b.ARN) })
	return list
}

// List returns a principal as a list shows it.
func (d *Definition) List() Listing {
	l := Listing{ARN: d.ARN, Tags: d.Tags}
	for _, p := range d.Policies {
		l.Policies = append(l.Policies, p.Name)
	}
	if d.Boundary != nil {
		l.Boundary = d.Boundary.Name
	}
	for _, one := range d.Sessions {
		l.Sessions = append(l.Sessions, one.Name)
	}
	return l
}

// Len is the number of principals.
func (s *Set) Len() int { return len(s.names) }
