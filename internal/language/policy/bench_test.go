package policy

import "testing"

// lazyContext computes values when they are asked for.
type lazyContext struct {
	leading []string
	asked   int
}

func (c *lazyContext) Lookup(key string) Values {
	c.asked++
	switch key {
	case "dynamodb:leadingkeys":
		return Many(c.leading)
	case "aws:username":
		return One("ana")
	case "aws:sourceip":
		return One("10.1.2.3")
	case "aws:currenttime":
		return One("2026-11-18T10:00:00Z")
	case "aws:principalarn":
		return One("arn:aws:iam::111122223333:user/ana")
	default:
		return Values{}
	}
}

// decisions are common requests that must be decided without an allocation.
var decisions = []struct {
	name, identity, resource string
	allowed                  bool
}{
	{"all", `{"Effect": "Allow", "Action": "*", "Resource": "*"}`, "", true},
	{"table", `[{"Effect": "Allow", "Action": ["dynamodb:Query", "dynamodb:GetItem"], "Resource": ["@table/Carts", "@table/Ord*"]}, {"Effect": "Deny", "Action": "dynamodb:Delete*", "Resource": "*"}]`, "", true},
	{"refused", `{"Effect": "Allow", "Action": "dynamodb:Scan", "Resource": "*"}`, "", false},
	{"tenant", `{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "@table/*", "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["${aws:username}"]}, "Null": {"dynamodb:LeadingKeys": "false"}}}`, "", true},
	{"address and time", `{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": ["192.168.0.0/16", "10.0.0.0/8"]}, "DateGreaterThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}, "ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/*"}}}`, "", true},
	{"resource policy", "", `{"Effect": "Allow", "Principal": {"AWS": ["444455556666", "arn:aws:iam::111122223333:user/ana"]}, "Action": "dynamodb:GetItem", "Resource": "@table/Orders"}`, true},
}

func decisionOf(t testing.TB, identity, resource string) (*Policies, *Request) {
	t.Helper()
	p := new(Policies)
	if identity != "" {
		p.Identity = []*Document{mustParse(t, Identity, wrap(identity))}
	}
	if resource != "" {
		p.Resource = mustParse(t, Resource, wrap(resource))
	}
	return p, &Request{
		Principal: principalOf(t, "", "user/ana"), Action: "dynamodb:GetItem", Resource: caseResource + "table/Orders", ResourceAccount: caseAccount,
		Context: &lazyContext{leading: []string{"ana"}},
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, d := range decisions {
		b.Run(d.name, func(b *testing.B) {
			p, r := decisionOf(b, d.identity, d.resource)
			b.ReportAllocs()
			for b.Loop() {
				if p.Evaluate(r).Allowed() != d.allowed {
					b.Fatal("wrong verdict")
				}
			}
		})
	}
}

// A decision does not allocate.
func TestEvaluateAllocations(t *testing.T) {
	for _, d := range decisions {
		p, r := decisionOf(t, d.identity, d.resource)
		if p.Evaluate(r).Allowed() != d.allowed {
			t.Errorf("%s: allowed is %v", d.name, !d.allowed)
		}
		if n := testing.AllocsPerRun(100, func() { p.Evaluate(r) }); n != 0 {
			t.Errorf("%s: %.0f allocations, want none", d.name, n)
		}
	}
}

// Keys are looked up only for statements about the action and the resource.
func TestEvaluateIsLazy(t *testing.T) {
	p, r := decisionOf(t, `[{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Action": "dynamodb:Scan", "Resource": "*", "Condition": {"StringEquals": {"aws:username": "ana"}}}, {"Effect": "Deny", "Action": "*", "Resource": "@table/Carts", "Condition": {"StringEquals": {"aws:username": "ana"}}}]`, "")
	if v := p.Evaluate(r); !v.Allowed() || r.Context.(*lazyContext).asked != 0 {
		t.Errorf("%v, and %d keys were looked up", v, r.Context.(*lazyContext).asked)
	}
}

// The largest documents that repeat one thing are parsed and checked without much work.
func BenchmarkLargest(b *testing.B) {
	fill := func(before, each, after string) []byte {
		text := before
		for len(text)+len(each)+len(after) < MaxBytes {
			text += each
		}
		return []byte(text + after)
	}
	for name, text := range map[string][]byte{
		"statements": fill(`{"Statement": [{"Effect":"Deny","Action":"dynamodb:GetItem","Resource":"*"}`, `,{"Effect":"Allow","Action":"dynamodb:G*","Resource":"*"},{"Effect":"Deny","Action":"dynamodb:GetI*","Resource":"*"}`, `]}`),
		"members":    fill(`{"Statement": [`, `{"Efect":1},`, `1]}`),
		"operators":  fill(`{"Statement": {"Effect":"Allow","Action":"*","Resource":"*","Condition":{`, `"StrinEquals":{},`, `"Bool":{}}}}`),
		"stars":      fill(`{"Version":"2012-10-17","Statement": {"Effect":"Allow","Action":"dynamodb:*","Resource":"arn:aws:dynamodb:us-east-1:111122223333:table/`, "*?", `","Condition":{"StringEquals":{"aws:username":"*"}}}}`),
		"literals":   fill(`{"Statement": {"Effect":"Allow","Action":"dynamodb:*","Resource":"*","Condition":{"StringEquals":{"aws:username":"`, "*", `"}}}}`),
		"values":     fill(`{"Statement": {"Effect":"Allow","Action":"dynamodb:*","Resource":"*","Condition":{"StringEquals":{"aws:username":["x"`, `,"y"`, `]},"StringNotEquals":{"aws:username":["x","y"]}}}}`),
		"keys":       fill(`{"Statement": {"Effect":"Allow","Action":"dynamodb:*","Resource":"*","Condition":{"StringEquals":{`, `"aws:x":"y",`, `"aws:z":""}}}}`),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if doc, err := Parse(Identity, text); err == nil {
					Check(doc)
				}
			}
		})
	}
}
