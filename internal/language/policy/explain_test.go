package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// An explanation has each statement with each condition, and says why it does not match.
func TestExplain(t *testing.T) {
	p := &Policies{
		Identity: []*Document{mustParse(t, Identity, wrap(`[
			{"Sid": "Tenant", "Effect": "Allow", "Action": "dynamodb:*", "Resource": "@table/*", "Condition": {
				"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["${aws:username}#*"]},
				"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::${aws:PrincipalAccount}:user/*"},
				"StringEqualsIfExists": {"dynamodb:Select": "COUNT"}}},
			{"Sid": "Guard", "Effect": "Deny", "Action": "*", "Resource": "@table/${aws:PrincipalTag/team}", "Condition": {"StringEquals": {"aws:TagKeys": "a", "aws:userid": "${aws:PrincipalTag/team}"}}}]`))},
		Resource: mustParse(t, Resource, wrap(`{"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "dynamodb:GetItem", "Resource": "*"}`)),
	}
	keys := Keys{}
	keys.Set("dynamodb:LeadingKeys", Many([]string{"ana#1", "ben#2"}))
	keys.Set("aws:username", One("ana"))
	keys.Set("aws:PrincipalArn", One("arn:aws:iam::111122223333:user/ana"))
	keys.Set("aws:PrincipalAccount", One("111122223333"))
	keys.Set("aws:TagKeys", Many([]string{"a"}))
	keys.Set("aws:userid", One("AIDA"))
	r := &Request{Principal: principalOf(t, "", "user/ana"), Action: "dynamodb:GetItem", Resource: caseResource + "table/Orders", ResourceAccount: caseAccount, Context: keys}
	e := p.Explain(r)
	if e.Allowed || e.Verdict.Reason != NoIdentityAllows || len(e.Statements) != 3 {
		t.Fatalf("%+v", e)
	}
	tenant, guard, table := e.Statements[0], e.Statements[1], e.Statements[2]
	want := []ConditionTrace{
		{Operator: "ForAllValues:StringLike", Key: "dynamodb:LeadingKeys", Values: []string{"${aws:username}#*"}, Resolved: []string{"ana#*"}, Present: true, Request: []string{"ana#1", "ben#2"}, Note: `it is false for "ben#2"`},
		{Operator: "ArnLike", Key: "aws:PrincipalArn", Values: []string{"arn:aws:iam::${aws:PrincipalAccount}:user/*"}, Resolved: []string{"arn:aws:iam::111122223333:user/*"}, Present: true, Request: []string{"arn:aws:iam::111122223333:user/ana"}, Holds: true},
		{Operator: "StringEqualsIfExists", Key: "dynamodb:Select", Values: []string{"COUNT"}, Request: []string{}, Holds: true, Note: "the request does not have the key, which IfExists accepts"},
	}
	if !tenant.Nearest || guard.Nearest || table.Nearest {
		t.Error("the nearest statement is Tenant, of which one condition is false")
	}
	if !tenant.Principal || !tenant.Action || !tenant.Resource || tenant.Matches || !reflect.DeepEqual(tenant.Conditions, want) {
		t.Errorf("%+v", tenant)
	}
	if guard.Resource || guard.Matches || len(guard.Notes) != 1 || guard.Notes[0] != "the variable ${aws:principaltag/team} of the resource has no value in this request" ||
		guard.Conditions[0].Note != "the key can have several values, which an operator without ForAllValues or ForAnyValue never matches" ||
		guard.Conditions[1].Note != "the variable ${aws:principaltag/team} has no value in this request" || guard.Line != 6 {
		t.Errorf("%+v", guard)
	}
	if table.Principal || table.Matches || len(table.Notes) != 1 || table.Policy != "resource-based policy" {
		t.Errorf("%+v", table)
	}
	keys.Set("dynamodb:LeadingKeys", Many([]string{"ana#1"}))
	if e := p.Explain(r); !e.Allowed || e.Statements[0].Nearest || !e.Statements[0].Decided || e.Statements[1].Decided || e.Verdict.Sid != "Tenant" {
		t.Errorf("%+v", e)
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
}

// Servers keep explanations of what they deny, so that these are small, whatever a request has.
func TestExplanationsAreBounded(t *testing.T) {
	long := strings.Repeat("\x00", 100_000)
	var statements []string
	for i := range 20 {
		statements = append(statements, fmt.Sprintf(`{"Effect": "Allow", "Action": "*", "Resource": "@table/%d/${aws:UserAgent}", "Condition": {
			"ForAllValues:StringEquals": {"dynamodb:Attributes": ["id"]}, "StringNotEquals": {"aws:userid": ["a", "${aws:UserAgent}"]}, "ArnLike": {"aws:PrincipalArn": "arn:aws:iam::1:user/${aws:UserAgent}"}}}`, i))
	}
	p := &Policies{Identity: []*Document{mustParse(t, Identity, wrap("["+strings.Join(statements, ",")+"]"))}}
	keys := Keys{}
	keys.Set("dynamodb:Attributes", Many([]string{"id", long}))
	keys.Set("aws:UserAgent", One(long))
	text, err := json.Marshal(p.Explain(&Request{Principal: principalOf(t, "", "user/ana"), Action: "dynamodb:PutItem", Resource: caseResource + "table/Orders", ResourceAccount: caseAccount, Context: keys}))
	if err != nil || len(text) > 200_000 {
		t.Errorf("the explanation has %d bytes, %v", len(text), err)
	}
	if !strings.Contains(string(text), "it is false for") {
		t.Error("the explanation does not have the value for which a condition is false")
	}
}
