package policy

import (
	"fmt"
	"strings"
)

// CheckTarget checks a resource policy against the table or stream that it is for, by
// its ARN: whether its actions and resources are possible there, and whether it allows
// everyone. The error is a *SyntaxError.
func (d *Document) CheckTarget(arn string) error {
	on := onTable | onIndex
	if strings.Contains(arn, "/stream/") {
		on = onStream
	}
	var faults []*Fault
	for _, s := range d.Statements {
		for i := range s.Resources {
			if f := s.Resources[i].checkRelativeID(); f != nil {
				faults = append(faults, f)
			}
		}
	}
	if f := d.invalidActions(on); f != nil {
		faults = append(faults, f)
	}
	for _, s := range d.Statements {
		if n := s.unbounded(); n != nil {
			faults = append(faults, &Fault{Position: n.Position, Code: FaultUnbounded, Message: "the statement allows everyone: name the principals, or add a condition on who they are"})
		}
	}
	if faults == nil {
		return nil
	}
	return &SyntaxError{faults}
}

// checkRelativeID checks the last field of an ARN of DynamoDB, unless it begins with a
// wildcard.
func (p *Pattern) checkRelativeID() *Fault {
	fields, ok := splitARN(p.Text)
	id := fields[5]
	if !ok || fields[2] != "dynamodb" || strings.HasPrefix(id, "*") || strings.HasPrefix(id, "?") || strings.HasPrefix(id, "$") {
		return nil
	}
	if rest, found := strings.CutPrefix(id, "table/"); found && rest != "" || strings.HasPrefix("table/", strings.TrimRight(id, "*?")) && strings.ContainsAny(id, "*?") {
		return nil
	}
	return &Fault{
		Position: p.Position, Code: FaultResource,
		Message: fmt.Sprintf("%s is not a table, nor a part of one", quote(p.Text)),
		service: fmt.Sprintf("The relative-id %q is invalid for ARN %q", id, p.Text),
	}
}

// notInResourcePolicies are the actions on tables that their policies cannot have, apart
// from those that act on no table.
var notInResourcePolicies = map[string]bool{
	"CreateTable": true, "CreateGlobalTable": true, "ImportTable": true, "ListExports": true, "ListImports": true,
	"RestoreTableFromBackup": true, "RestoreTableFromAwsBackup": true,
	"UpdateGlobalTable": true, "UpdateGlobalTableSettings": true, "UpdateGlobalTableVersion": true,
}

// inResourcePolicies reports whether a policy of a resource of a type can have an
// action.
func (a *actionInfo) inResourcePolicies(on resourceTypes) bool {
	return a.types&on != 0 && !notInResourcePolicies[a.name]
}

// invalidActions returns the fault of the actions that a policy of a type of resources
// cannot have. A pattern is valid if it matches an action of DynamoDB.
func (d *Document) invalidActions(on resourceTypes) *Fault {
	var names []string
	var at Position
	for _, s := range d.Statements {
		for i := range s.Actions {
			p := &s.Actions[i]
			all := p.expand()
			if len(all) > 1 || len(all) == 1 && (strings.ContainsAny(p.Text, "*?") || all[0].inResourcePolicies(on)) {
				continue
			}
			if names == nil {
				at = p.Position
			}
			names = append(names, `"`+p.Text+`"`)
		}
	}
	if names == nil {
		return nil
	}
	text := "The following action names are invalid: " + strings.Join(names, ", ")
	return &Fault{Position: at, Code: FaultAction, Message: text, service: text}
}

// boundingKeys are the keys whose values say who a principal is, or from where it
// comes.
var boundingKeys = []string{
	"aws:principalarn", "aws:principalaccount", "aws:principalorgid", "aws:principalorgpaths", "aws:sourceaccount", "aws:sourcearn", "aws:sourceip",
	"aws:sourceorgid", "aws:sourceowner", "aws:sourcevpc", "aws:sourcevpce", "aws:userid", "aws:username", "aws:vpcsourceip",
}

// unbounded returns the principal by which the statement allows everyone, or nil.
func (s *Statement) unbounded() *PrincipalName {
	if s.Effect == Deny {
		return nil
	}
	for _, c := range s.Conditions {
		if c.bounds() {
			return nil
		}
	}
	for i := range s.Principals {
		if s.NotPrincipal || s.Principals[i].everyone() {
			return &s.Principals[i]
		}
	}
	return nil
}

// bounds reports whether the condition restricts who a principal is.
func (c *Condition) bounds() bool {
	if c.op.negated || c.holdsAbsent() || c.op.family == familyNull {
		return false
	}
	for _, v := range c.Values {
		if strings.Trim(v, "*?") == "" || v == "0.0.0.0/0" || v == "::/0" {
			return false
		}
	}
	for _, k := range boundingKeys {
		if c.key == k {
			return true
		}
	}
	return false
}
