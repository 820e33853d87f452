package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Policies for the tests of stator policy check.
const (
	goodPolicy = `{"Version": "2012-10-17", "Statement": [
  {"Sid": "Read", "Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": "arn:aws:dynamodb:us-east-1:111122223333:table/Orders"}
]}`
	leakyPolicy = `{"Version": "2012-10-17", "Statement": [
  {"Sid": "Tenant", "Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Scan"], "Resource": "arn:aws:dynamodb:us-east-1:111122223333:table/Orders",
   "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": "${aws:username}"}}}
]}`
	notedPolicy  = `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "dynamodb:Get*", "Resource": "*"}}`
	tablePolicy  = `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "444455556666"}, "Action": "dynamodb:CreateTable", "Resource": "*"}}`
	brokenPolicy = `{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Actoin": "dynamodb:GetItem", "Resource": "*"}
]}`
)

// The exit codes distinguish policies without findings, with findings, and files that are
// no policies.
func TestPolicyCheck(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, leaky, noted := file("good.json", goodPolicy), file("leaky.json", leakyPolicy), file("noted.json", notedPolicy)
	table, broken := file("table.json", tablePolicy), file("broken.json", brokenPolicy)
	principals := file("policies.yaml", "principals:\n  - arn: arn:aws:iam::000000000000:user/ana\n    policies: [good.json]\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"nothing found", []string{good}, 0, "ok       " + good + ": identity policy with 1 statement: nothing found"},
		{"a warning", []string{leaky}, 1, leaky + ":3:48  warning   for-all-values  the statement allows Scan without this condition"},
		{"what to do", []string{leaky}, 1, `add "Null": {"dynamodb:LeadingKeys": "false"}`},
		{"a note", []string{noted}, 0, "ok       " + noted + ": identity policy with 1 statement: 1 note"},
		{"a resource policy", []string{table}, 1, "resource policy with 1 statement: 1 error"},
		{"as an identity policy", []string{"--kind", "identity", table}, 2, "only resource-based policies name principals"},
		{"as a resource policy", []string{"--kind", "resource", good}, 2, "Principal is missing"},
		{"an invalid file", []string{broken}, 2, broken + `:2:23  error     syntax  a statement has no member "Actoin"; did you mean Action?`},
		{"a file of principals", []string{principals}, 2, "if this is a file of principals, check the policies that it names"},
		{"several files", []string{good, leaky, broken}, 2, "fault    " + leaky},
		{"the error of several files", []string{leaky, broken, good}, 2, "stator: " + broken + ": the policy is invalid"},
		{"no file", []string{filepath.Join(dir, "none.json")}, 2, "cannot read the policy"},
		{"no argument", nil, 2, "needs at least one file"},
		{"another kind", []string{"--kind", "role", good}, 2, `--kind is "role", but must be identity or resource`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"policy", "check"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, c.want)
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		code, out, errs := runStator(t, "policy", "check", "--json", good, leaky, broken)
		var got struct {
			OK    bool
			Files []struct {
				File, Kind string
				OK         bool
				Findings   []struct {
					Line, Statement           int
					Rule, Severity, Sid, Text string
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 2 {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
		}
		if f := got.Files; got.OK || len(f) != 3 || !f[0].OK || f[0].Findings == nil || len(f[0].Findings) != 0 || f[1].OK || f[2].OK {
			t.Fatalf("%s", out)
		}
		if f := got.Files[1].Findings[0]; f.Line != 3 || f.Rule != "for-all-values" || f.Severity != "warning" || f.Statement != 0 || f.Sid != "Tenant" || f.Text == "" {
			t.Errorf("the finding is %+v", f)
		}
		if f := got.Files[2].Findings[0]; f.Line != 2 || f.Rule != "syntax" || f.Severity != "error" {
			t.Errorf("the fault is %+v", f)
		}
	})
	if code, _, errs := runStator(t, "policy"); code != 2 || !strings.Contains(errs, "needs a command") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
