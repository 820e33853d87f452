package docs

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/language/policy"
)

// The page on policies has a row for each rule of check, whose example breaks that rule.
func TestPolicyRules(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([a-z, ]+) \\| `(.*)` \\| [^|]+ \\|$")
	found := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(read(t, "policies.md"), -1) {
		rule, severities, example := m[1], m[2], m[3]
		found[rule] = true
		finding := findingOf(t, rule, example)
		if finding == nil {
			t.Errorf("%s is not found in the example %s", rule, example)
		} else if !strings.Contains(severities, string(finding.Severity)) {
			t.Errorf("%s is of severity %s, which its row does not have", rule, finding.Severity)
		}
	}
	for _, r := range policy.Rules {
		if !found[r.Name] {
			t.Errorf("policies.md has no row for the rule %s", r.Name)
		}
		delete(found, r.Name)
	}
	for rule := range maps.Keys(found) {
		t.Errorf("policies.md has a row for %s, which is no rule", rule)
	}
}

// findingOf checks an example, and returns what the rule found in it.
func findingOf(t *testing.T, rule, example string) *policy.Finding {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte("{"+example+"}"), &members); err != nil {
		t.Fatalf("the example of %s: %v", rule, err)
	}
	statement := map[string]any{"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "arn:aws:dynamodb:us-east-1:111122223333:table/Orders"}
	document := map[string]any{"Version": "2012-10-17", "Statement": statement}
	for name, v := range members {
		switch name {
		case "Version", "Statement":
			document[name] = v
		default:
			delete(statement, strings.TrimPrefix(name, "Not"))
			statement[name] = v
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := policy.Parse(policy.DetectKind(text), text)
	if err != nil {
		t.Fatalf("the example of %s: %v", rule, err)
	}
	for _, f := range policy.Check(doc) {
		if f.Rule == rule {
			return f
		}
	}
	return nil
}
