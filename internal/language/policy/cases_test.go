package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The account and the prefix of resources in the cases.
const (
	caseAccount  = "111122223333"
	caseResource = "arn:aws:dynamodb:us-east-1:" + caseAccount + ":"
)

// policyCase is a request of testdata/cases, with the documents of its group.
type policyCase struct {
	file     string
	line     int
	group    string
	policies Policies
	texts    []caseDocument
	request  Request
	want     string
}

type caseDocument struct {
	kind Kind
	text string
}

// Each request of the cases is decided as its group says.
func TestCases(t *testing.T) {
	cases := readCases(t)
	if len(cases) < 150 {
		t.Errorf("there are only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s:%d", c.file, c.line), func(t *testing.T) {
			got := outcome(c.policies.Evaluate(&c.request))
			if got != c.want && !strings.HasPrefix(got, c.want+" ") {
				t.Errorf("%s\n%s on %s\nis decided as %q, want %q\n%s", c.group, c.request.Action, c.request.Resource, got, c.want, c.policies.Explain(&c.request).describe())
			}
		})
	}
}

// describe prints the conditions of an explanation.
func (e *Explanation) describe() string {
	var b strings.Builder
	for _, s := range e.Statements {
		fmt.Fprintf(&b, "%s %d.%d %s: principal %v, action %v, resource %v %q\n", s.Policy, s.Document, s.Statement, s.Effect, s.Principal, s.Action, s.Resource, s.Notes)
		for _, c := range s.Conditions {
			fmt.Fprintf(&b, "  %s %s %q: %q %v %s\n", c.Operator, c.Key, c.Values, c.Request, c.Holds, c.Note)
		}
	}
	return b.String()
}

// outcomes are the words of the cases for the reasons.
var outcomes = map[Reason]string{
	AllowedByIdentity: "allow identity", AllowedByResource: "allow resource", AllowedAsRoot: "allow root",
	DeniedByIdentity: "deny identity", DeniedByResource: "deny resource", DeniedByBoundary: "deny boundary", DeniedBySession: "deny session",
	NoIdentityAllows: "none identity", NoResourceAllows: "none resource", NoBoundaryAllows: "none boundary", NoSessionAllows: "none session",
}

func outcome(v Verdict) string { return strings.TrimSuffix(outcomes[v.Reason]+" "+v.Sid, " ") }

// readCases reads testdata/cases. A line that begins with # starts a group, in which
// identity, resource, boundary and session lines give documents, and "as" the
// principal. "> Action resource key=value" is a request, and "< " its outcome.
func readCases(t testing.TB) []*policyCase {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var all []*policyCase
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var group policyCase
		for i, line := range strings.Split(string(text), "\n") {
			word, rest, _ := strings.Cut(line, " ")
			at := fmt.Sprintf("%s:%d", file, i+1)
			switch word {
			case "":
			case "#":
				group = policyCase{file: filepath.Base(file), group: rest}
				group.request.Principal = principalOf(t, at, "user/ana")
			case "as":
				group.request.Principal = principalOf(t, at, rest)
			case "identity", "resource", "boundary", "session":
				group.add(t, at, word, rest)
			case ">":
				c := group
				c.line = i + 1
				c.readRequest(t, at, rest)
				all = append(all, &c)
			case "<":
				all[len(all)-1].want = rest
			default:
				t.Fatalf("%s: unknown word %q", at, word)
			}
		}
	}
	for _, c := range all {
		if c.want == "" {
			t.Fatalf("%s:%d has no outcome", c.file, c.line)
		}
	}
	return all
}

// principalOf reads "user/ana", "role/app/session", "root" or an ARN.
func principalOf(t testing.TB, at, name string) *Principal {
	t.Helper()
	arn := name
	if rest, ok := strings.CutPrefix(name, "role/"); ok {
		arn = "arn:aws:sts::" + caseAccount + ":assumed-role/" + rest
	} else if !strings.HasPrefix(name, "arn:") {
		arn = "arn:aws:iam::" + caseAccount + ":" + name
	}
	p, err := NewPrincipal(arn, "")
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return p
}

// wrap makes a document of a statement or a list of them, and writes out resources.
func wrap(text string) string {
	text = strings.ReplaceAll(text, `"@`, `"`+caseResource)
	if !strings.Contains(text, `"Statement"`) {
		text = `{"Version": "2012-10-17", "Statement": ` + text + `}`
	}
	return text
}

func (c *policyCase) add(t testing.TB, at, word, text string) {
	t.Helper()
	kind := map[string]Kind{"identity": Identity, "resource": Resource, "boundary": Boundary, "session": Session}[word]
	text = wrap(text)
	doc, err := Parse(kind, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	c.texts = append(c.texts[:len(c.texts):len(c.texts)], caseDocument{kind, text})
	c.policies.attach(doc)
}

// attach adds a document to those of its kind.
func (p *Policies) attach(doc *Document) {
	switch doc.Kind {
	case Identity:
		p.Identity = append(p.Identity[:len(p.Identity):len(p.Identity)], doc)
	case Resource:
		p.Resource = doc
	case Boundary:
		p.Boundary = doc
	case Session:
		p.Session = append(p.Session[:len(p.Session):len(p.Session)], doc)
	}
}

func (c *policyCase) readRequest(t testing.TB, at, text string) {
	t.Helper()
	words := strings.Fields(text)
	if len(words) < 2 {
		t.Fatalf("%s: a request is an action, a resource, and values of keys", at)
	}
	c.request.Action, c.request.Resource = words[0], words[1]
	if !strings.Contains(words[0], ":") {
		c.request.Action = "dynamodb:" + words[0]
	}
	if words[1] != "*" && !strings.HasPrefix(words[1], "arn:") {
		c.request.Resource = caseResource + words[1]
	}
	c.request.ResourceAccount = caseAccount
	keys := Keys{}
	for _, w := range words[2:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			t.Fatalf("%s: %q is not key=value", at, w)
		}
		if list, ok := strings.CutPrefix(value, "["); ok {
			var values []string
			if list = strings.TrimSuffix(list, "]"); list != "" {
				values = strings.Split(list, ",")
			}
			keys.Set(key, Many(values))
		} else {
			keys.Set(key, One(strings.ReplaceAll(value, `""`, "")))
		}
	}
	c.request.Context = keys
}
