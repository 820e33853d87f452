package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// policyGenerator makes random documents and requests from few words, so that statements
// often match.
type policyGenerator struct{ *rand.Rand }

func pick[T any](g policyGenerator, list ...T) T { return list[g.IntN(len(list))] }

// several returns one to three elements, as a single one or as a list.
func several(g policyGenerator, list ...string) any {
	if g.IntN(2) == 0 {
		return pick(g, list...)
	}
	all := make([]string, 1+g.IntN(3))
	for i := range all {
		all[i] = pick(g, list...)
	}
	return all
}

var generatedPrincipals = []string{
	"111122223333", "444455556666", "arn:aws:iam::111122223333:root", "arn:aws:iam::111122223333:user/ana", "arn:aws:iam::444455556666:user/ben",
	"arn:aws:iam::111122223333:role/app", "arn:aws:sts::111122223333:assumed-role/app/s1", "*",
}

func (g policyGenerator) statement(kind Kind, effect string) map[string]any {
	not := func(name string) string {
		if g.IntN(6) == 0 {
			return "Not" + name
		}
		return name
	}
	s := map[string]any{
		"Effect":        effect,
		not("Action"):   several(g, "*", "dynamodb:*", "dynamodb:GetItem", "dynamodb:Get*", "dynamodb:?utItem", "dynamodb:Scan"),
		not("Resource"): several(g, "*", caseResource+"table/Orders", caseResource+"table/Ord*", caseResource+"table/${aws:username}", caseResource+"table/${aws:PrincipalTag/t, 'Orders'}", caseResource+"table/Carts"),
	}
	if kind == Resource {
		if g.IntN(4) == 0 {
			s[not("Principal")] = "*"
		} else {
			s[not("Principal")] = map[string]any{"AWS": several(g, generatedPrincipals...)}
		}
	}
	if conditions := g.conditions(); len(conditions) > 0 && g.IntN(2) == 0 {
		s["Condition"] = conditions
	}
	return s
}

func (g policyGenerator) conditions() map[string]any {
	all := make(map[string]any)
	prefix := func() string { return pick(g, "", "", "ForAllValues:", "ForAnyValue:") }
	suffix := func() string { return pick(g, "", "", "IfExists") }
	for range g.IntN(3) {
		switch g.IntN(6) {
		case 0:
			all[pick(g, "Bool", "BoolIfExists")] = map[string]any{"aws:SecureTransport": pick(g, true, false)}
		case 1:
			all["Null"] = map[string]any{pick(g, "dynamodb:LeadingKeys", "aws:username"): pick[any](g, "true", "false", true)}
		case 2:
			all[pick(g, "NumericLessThan", "NumericGreaterThanEquals", "NumericNotEquals")+suffix()] = map[string]any{"aws:PrincipalTag/n": several(g, "1", "2", "10")}
		case 3:
			all[pick(g, "IpAddress", "NotIpAddress")+suffix()] = map[string]any{"aws:SourceIp": several(g, "10.0.0.0/8", "10.1.0.0/16", "::1")}
		case 4:
			all[pick(g, "ArnLike", "ArnNotEquals")+suffix()] = map[string]any{"aws:PrincipalArn": several(g, "arn:aws:iam::*:user/*", "arn:aws:iam::111122223333:user/${aws:username}")}
		default:
			op := pick(g, "StringEquals", "StringNotEquals", "StringLike", "StringNotLike", "StringEqualsIgnoreCase")
			all[prefix()+op+suffix()] = map[string]any{pick(g, "dynamodb:LeadingKeys", "aws:username", "aws:PrincipalTag/t"): several(g, "ana", "a*", "ben", "${aws:username}", "Orders")}
		}
	}
	return all
}

// generatedDocument is a document as a value of JSON, so that it can be changed.
type generatedDocument struct {
	kind       Kind
	version    string
	statements []map[string]any
}

func (g policyGenerator) document(kind Kind) *generatedDocument {
	d := &generatedDocument{kind: kind, version: pick(g, Version2012, Version2012, Version2012, Version2008)}
	for range 1 + g.IntN(4) {
		d.statements = append(d.statements, g.statement(kind, pick(g, "Allow", "Allow", "Deny")))
	}
	return d
}

func (d *generatedDocument) text() []byte {
	text, err := json.Marshal(map[string]any{"Version": d.version, "Statement": d.statements})
	if err != nil {
		panic(err)
	}
	return text
}

func (g policyGenerator) documents() []*generatedDocument {
	var all []*generatedDocument
	for range 1 + g.IntN(2) {
		all = append(all, g.document(Identity))
	}
	if g.IntN(2) == 0 {
		all = append(all, g.document(Resource))
	}
	if g.IntN(3) == 0 {
		all = append(all, g.document(Boundary))
	}
	for range g.IntN(3) / 2 * 2 {
		all = append(all, g.document(Session))
	}
	return all
}

func parseAll(t *testing.T, docs []*generatedDocument) *Policies {
	t.Helper()
	p := new(Policies)
	for _, d := range docs {
		p.attach(mustParse(t, d.kind, string(d.text())))
	}
	return p
}

func (g policyGenerator) request(t *testing.T) *Request {
	t.Helper()
	keys := Keys{}
	set := func(key string, v Values) {
		if g.IntN(3) > 0 {
			keys.Set(key, v)
		}
	}
	set("dynamodb:LeadingKeys", Many(pick(g, []string{"ana"}, []string{"ana", "ben"}, nil, []string{"Orders", "abc"})))
	set("aws:username", One(pick(g, "ana", "ben", "Orders")))
	set("aws:PrincipalTag/t", One(pick(g, "ana", "Carts", "Orders")))
	set("aws:PrincipalTag/n", One(pick(g, "1", "2", "x", "10.0")))
	set("aws:SecureTransport", One(pick(g, "true", "false")))
	set("aws:SourceIp", One(pick(g, "10.1.2.3", "10.2.3.4", "::1", "?")))
	set("aws:PrincipalArn", One("arn:aws:iam::111122223333:user/ana"))
	return &Request{
		Principal:       principalOf(t, "", pick(g, "user/ana", "role/app/s1", "root", "arn:aws:iam::444455556666:user/ben")),
		Action:          pick(g, "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Scan", "dynamodb:SearchVectors"),
		Resource:        pick(g, "*", caseResource+"table/Orders", caseResource+"table/Carts", caseResource+"table/ana"),
		ResourceAccount: pick(g, caseAccount, caseAccount, ""),
		Context:         keys,
	}
}

// eachSeed runs a property for many seeds, and names the seed that fails.
func eachSeed(t *testing.T, seeds uint64, property func(t *testing.T, g policyGenerator)) {
	start := uint64(time.Now().UnixNano())
	t.Logf("seeds from %d", start)
	for i := range seeds {
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", start+i)
				}
			}()
			property(t, policyGenerator{rand.New(rand.NewPCG(start+i, 0))})
		}()
		if t.Failed() {
			return
		}
	}
}

// Adding a Deny never allows.
func TestAddingDenyNeverAllows(t *testing.T) {
	eachSeed(t, 500, func(t *testing.T, g policyGenerator) {
		docs, r := g.documents(), g.request(t)
		before := parseAll(t, docs).Evaluate(r)
		d := pick(g, docs...)
		d.statements = slices.Insert(d.statements, g.IntN(len(d.statements)+1), g.statement(d.kind, "Deny"))
		after := parseAll(t, docs).Evaluate(r)
		if !before.Allowed() && after.Allowed() {
			t.Errorf("%s allows what was refused before a Deny was added: %v", d.text(), before)
		}
	})
}

// Removing an Allow never allows.
func TestRemovingAllowNeverAllows(t *testing.T) {
	eachSeed(t, 500, func(t *testing.T, g policyGenerator) {
		docs, r := g.documents(), g.request(t)
		before := parseAll(t, docs).Evaluate(r)
		d := pick(g, docs...)
		i := g.IntN(len(d.statements))
		if d.statements[i]["Effect"] == "Deny" || len(d.statements) == 1 {
			return
		}
		d.statements = slices.Delete(d.statements, i, i+1)
		after := parseAll(t, docs).Evaluate(r)
		if !before.Allowed() && after.Allowed() {
			t.Errorf("%s allows what was refused before an Allow was removed: %v", d.text(), before)
		}
	})
}

// The order of statements and documents does not matter.
func TestOrderDoesNotMatter(t *testing.T) {
	eachSeed(t, 500, func(t *testing.T, g policyGenerator) {
		docs, r := g.documents(), g.request(t)
		before := parseAll(t, docs).Evaluate(r)
		g.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
		for _, d := range docs {
			g.Shuffle(len(d.statements), func(i, j int) { d.statements[i], d.statements[j] = d.statements[j], d.statements[i] })
		}
		if after := parseAll(t, docs).Evaluate(r); before.Reason != after.Reason {
			t.Errorf("%v becomes %v in another order", before, after)
		}
	})
}

// The statements of an explanation lead to the verdict of Evaluate.
func TestExplanationAgrees(t *testing.T) {
	reached := make(map[Reason]int)
	eachSeed(t, 1000, func(t *testing.T, g policyGenerator) {
		docs, r := g.documents(), g.request(t)
		p := parseAll(t, docs)
		v, e := p.Evaluate(r), p.Explain(r)
		reached[v.Reason]++
		if want := reasonOf(p, r, e); v.Reason != want || e.Verdict != v || e.Allowed != v.Allowed() {
			t.Errorf("Evaluate says %v, the explanation %v\n%s", v.Reason, want, e.describe())
		}
		decided := slices.ContainsFunc(e.Statements, func(s StatementTrace) bool { return s.Decided && s.Matches })
		if decided != (v.Statement >= 0) {
			t.Errorf("%v, but the explanation says %v\n%s", v, decided, e.describe())
		}
	})
	for reason := range Reason(len(reasons)) {
		if reached[reason] == 0 {
			t.Errorf("no request was decided %q", reason)
		}
	}
}

// reasonOf decides by the statements that match, in the plainest way.
func reasonOf(p *Policies, r *Request, e *Explanation) Reason {
	denied, allowed := make(map[string]bool), make(map[string]bool)
	for _, s := range e.Statements {
		if s.Matches && s.Effect == "Deny" {
			denied[s.Policy] = true
		}
		if s.Matches && s.Effect == "Allow" {
			allowed[s.Policy] = true
		}
	}
	const identity, resource, boundary, session = "identity-based policy", "resource-based policy", "permissions boundary", "session policy"
	for i, kind := range []string{identity, resource, boundary, session} {
		if denied[kind] {
			return DeniedByIdentity + Reason(i)
		}
	}
	root := r.Principal.Kind == Root
	other := r.ResourceAccount != "" && r.ResourceAccount != r.Principal.Account
	if other && !root && !allowed[identity] || !other && !root && !allowed[identity] && !allowed[resource] {
		return NoIdentityAllows
	}
	if other && !allowed[resource] {
		return NoResourceAllows
	}
	if p.Boundary != nil && !allowed[boundary] {
		return NoBoundaryAllows
	}
	if len(p.Session) > 0 && !allowed[session] {
		return NoSessionAllows
	}
	switch {
	case allowed[identity]:
		return AllowedByIdentity
	case allowed[resource]:
		return AllowedByResource
	default:
		return AllowedAsRoot
	}
}

// The canonical form is its own canonical form, and decides the same.
func TestCanonicalKeepsVerdicts(t *testing.T) {
	eachSeed(t, 500, func(t *testing.T, g policyGenerator) {
		docs, r := g.documents(), g.request(t)
		before := parseAll(t, docs).Evaluate(r)
		p := new(Policies)
		for _, d := range docs {
			canonical := mustParse(t, d.kind, string(d.text())).Canonical()
			doc := mustParse(t, d.kind, string(canonical))
			if again := doc.Canonical(); !bytes.Equal(again, canonical) {
				t.Errorf("%s becomes %s", canonical, again)
			}
			p.attach(doc)
		}
		if after := p.Evaluate(r); before != after {
			t.Errorf("%v becomes %v", before, after)
		}
	})
}

// A glob that covers another matches all that the other matches.
func TestCoverIsSound(t *testing.T) {
	eachSeed(t, 500, func(t *testing.T, g policyGenerator) {
		word := func(letters string) string {
			var b []byte
			for range g.IntN(6) {
				b = append(b, letters[g.IntN(len(letters))])
			}
			return string(b)
		}
		outer, _ := compileGlob(word("ab*?"), true, false)
		inner, _ := compileGlob(word("ab*?"), true, false)
		s := word("ab")
		if outer.covers(&inner) && inner.match(s, nil, false) && !outer.match(s, nil, false) {
			t.Errorf("%v covers %v, but does not match %q", outer.parts, inner.parts, s)
		}
		if got, want := outer.match(s, nil, false), naiveMatch(outer.chars(), s); got != want {
			t.Errorf("%v matches %q: %v, want %v", outer.parts, s, got, want)
		}
		if shape := fmt.Sprintf("a%s", word("ab")); outer.match(shape, nil, false) != outer.canMatch(shape) {
			t.Errorf("%v can match %q: %v", outer.parts, shape, outer.canMatch(shape))
		}
	})
}

// naiveMatch matches by trying everything.
func naiveMatch(pattern []globChar, s string) bool {
	switch {
	case len(pattern) == 0:
		return s == ""
	case pattern[0].kind == globAny:
		return naiveMatch(pattern[1:], s) || s != "" && naiveMatch(pattern, s[1:])
	default:
		return s != "" && (pattern[0].kind == globOne || pattern[0].char == rune(s[0])) && naiveMatch(pattern[1:], s[1:])
	}
}
