package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// testdata/checks.txt has documents with what is found in them. A line that begins with # starts a
// group, "identity" or "resource" gives a document, and each "< " a finding: its rule, its
// severity, and a part of its text. All findings are listed.
func TestCheck(t *testing.T) {
	text, err := os.ReadFile("testdata/checks.txt")
	if err != nil {
		t.Fatal(err)
	}
	var group, document string
	var got []*Finding
	rules := make(map[string]bool)
	finish := func() {
		for _, f := range got {
			t.Errorf("%s\n%s\nalso finds %s", group, document, printed(f))
		}
		got = nil
	}
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "":
		case "#":
			finish()
			group = rest
		case "identity", "resource":
			finish()
			document = rest
			kind := Identity
			if word == "resource" {
				kind = Resource
			}
			got = Check(mustParse(t, kind, wrap(rest)))
		case "<":
			fields := strings.SplitN(rest, " ", 3)
			if len(got) == 0 || got[0].Rule != fields[0] || string(got[0].Severity) != fields[1] || !strings.Contains(got[0].Text+"; "+got[0].Try, fields[2]) {
				t.Errorf("%s\n%s\nfinds\n%s\nwant\n%s", group, document, printed(got...), rest)
				got = nil
				continue
			}
			rules[got[0].Rule] = true
			got = got[1:]
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	finish()
	for _, r := range Rules {
		if !rules[r.Name] {
			t.Errorf("no document shows the rule %s", r.Name)
		}
		delete(rules, r.Name)
	}
	for name := range rules {
		t.Errorf("the rule %s is not described", name)
	}
}

func printed(all ...*Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%d:%d %s %s %s; %s\n", f.Line, f.Column, f.Rule, f.Severity, f.Text, f.Try)
	}
	return b.String()
}

// The table of actions is sorted, and each action has a type of resource.
func TestActions(t *testing.T) {
	for i, a := range actions {
		if i > 0 && actions[i-1].name >= a.name {
			t.Errorf("%s stands after %s", a.name, actions[i-1].name)
		}
		if a.types == 0 || a.types.String() == "" {
			t.Errorf("%s has no type of resource", a.name)
		}
	}
	for name := range operationActions {
		if p := (&Pattern{glob: glob{parts: []globPart{{text: service + name}}}}); len(p.expand()) > 0 {
			t.Errorf("%s is an action", name)
		}
	}
}

// The types of resources that a pattern can be.
func TestResourceTypes(t *testing.T) {
	for text, want := range map[string]resourceTypes{
		"*":                                             onTable | onIndex | onStream | onBackup | onExport | onImport | onGlobalTable | onNothing,
		caseResource + "table/Orders":                   onTable,
		caseResource + "table/*":                        onTable | onIndex | onStream | onBackup | onExport | onImport,
		caseResource + "table/Orders*":                  onTable | onIndex | onStream | onBackup | onExport | onImport,
		caseResource + "table/Orders/*":                 onIndex | onStream | onBackup | onExport | onImport,
		caseResource + "table/Orders/index/*":           onIndex,
		caseResource + "table/*/s*":                     onIndex | onStream | onBackup | onExport | onImport,
		caseResource + "table/Orders/?????/x":           onIndex,
		"arn:aws:dynamodb::111122223333:global-table/G": onGlobalTable,
		"arn:aws:s3:::bucket":                           0,
		"arn:aws:dynamodb:*":                            onTable | onIndex | onStream | onBackup | onExport | onImport | onGlobalTable,
		caseResource + "table/":                         0,
	} {
		g, _ := compileGlob(text, true, true)
		if got := g.types(); got != want {
			t.Errorf("%s can be %v, want %v", text, got, want)
		}
	}
}
