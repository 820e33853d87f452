package docs

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/cli"
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

// The example of the page is found as it is printed there.
func TestPolicyExample(t *testing.T) {
	text := read(t, "policies.md")
	_, document, _ := strings.Cut(text, "```json\n")
	document, after, _ := strings.Cut(document, "```")
	_, want, _ := strings.Cut(after, "$ stator policy check app.json\n")
	want, _, _ = strings.Cut(want, "```")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("app.json", []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := cli.Run([]string{"policy", "check", "app.json"}, &out, io.Discard); code != 1 || out.String() != want {
		t.Errorf("exit code %d, and the output is\n%s\nwant\n%s", code, out.String(), want)
	}
}

// The example of an explanation is printed as the page has it.
func TestPolicyExplainExample(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "policies.md"), "## Why a request is denied\n")
	t.Chdir(t.TempDir())
	block := regexp.MustCompile("`([a-z]+\\.[a-z]+)`.*:\n\n```(?:json|yaml)\n((?:[^`].*\n)*)```")
	for _, m := range block.FindAllStringSubmatch(section, 4) {
		if err := os.WriteFile(m[1], []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, console, _ := strings.Cut(section, "$ stator ")
	command, want, _ := strings.Cut(console, "\n")
	want, _, _ = strings.Cut(want, "```")
	var out, errs strings.Builder
	if code := cli.Run(strings.Fields(command), &out, &errs); code != 1 || out.String() != want {
		t.Errorf("exit code %d, and the output is\n%s%s\nwant\n%s", code, out.String(), errs.String(), want)
	}
}

// The table of the actions that a model needs is as it is printed on the page.
func TestModelPolicyExample(t *testing.T) {
	const command = "$ stator model policy apps/goals/goals.model.yaml --explain\n"
	_, want, found := strings.Cut(read(t, "policies.md"), command)
	want, _, _ = strings.Cut(want, "```")
	t.Chdir("..")
	var out strings.Builder
	args := strings.Fields(strings.TrimPrefix(command, "$ stator "))
	if code := cli.Run(args, &out, io.Discard); !found || code != 0 || out.String() != want {
		t.Errorf("exit code %d, and the output is\n%s\nwant\n%s", code, out.String(), want)
	}
}
