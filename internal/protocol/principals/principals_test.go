package principals

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/language/policy"
)

const allowGet = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":"*"}}`

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "policies.yaml")
}

func TestIdentity(t *testing.T) {
	path := write(t, map[string]string{"get.json": allowGet, "put.json": strings.Replace(allowGet, "GetItem", "PutItem", 1), "policies.yaml": `
principals:
  - arn: arn:aws:iam::000000000000:user/alice
    policies: [get.json, put.json]
    boundary: get.json
    tags: {team: blue}
  - arn: arn:aws:iam::000000000000:role/apps/orders
    policies: [get.json]
    sessions:
      - name: reports
        policies: [put.json]
`})
	set, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Files()) != 3 {
		t.Errorf("the files are %q", set.Files())
	}
	for _, c := range []struct {
		arn, action string
		want        policy.Reason
	}{
		{"arn:aws:iam::000000000000:user/alice", "dynamodb:GetItem", policy.AllowedByIdentity},
		{"arn:aws:iam::000000000000:user/alice", "dynamodb:PutItem", policy.NoBoundaryAllows},
		{"arn:aws:iam::000000000000:user/alice", "dynamodb:Scan", policy.NoIdentityAllows},
		{"arn:aws:iam::000000000000:user/bob", "dynamodb:GetItem", policy.NoIdentityAllows},
		{"arn:aws:iam::000000000000:root", "dynamodb:Scan", policy.AllowedAsRoot},
		{"arn:aws:sts::000000000000:assumed-role/orders/other", "dynamodb:GetItem", policy.AllowedByIdentity},
		{"arn:aws:sts::000000000000:assumed-role/orders/reports", "dynamodb:GetItem", policy.NoSessionAllows},
		{"arn:aws:sts::111111111111:assumed-role/orders/other", "dynamodb:GetItem", policy.NoIdentityAllows},
	} {
		id, err := set.Identity(c.arn)
		if err != nil {
			t.Fatal(err)
		}
		v := id.Policies.Evaluate(&policy.Request{Principal: id.Principal, Action: c.action, Resource: "*", Context: id.Principal})
		if v.Reason != c.want {
			t.Errorf("%s %s: %v, want %v", c.arn, c.action, v.Reason, c.want)
		}
	}
	if id, _ := set.Identity("arn:aws:sts::000000000000:assumed-role/orders/other"); id.Principal.RoleARN != "arn:aws:iam::000000000000:role/apps/orders" || id.UserID != "orders:other" {
		t.Errorf("the session is %+v of %+v", id, id.Principal)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"an unknown member", "principals:\n  - arn: arn:aws:iam::000000000000:user/alice\n    polices: [get.json]\n", `policies.yaml: 3:5: unknown field "polices"`},
		{"no YAML", "principals: [", "policies.yaml: 1:"},
		{"no ARN", "principals:\n  - policies: [get.json]\n", `policies.yaml: principal 1 (): "" is not the ARN of a principal`},
		{"twice", "principals:\n  - arn: arn:aws:iam::000000000000:user/a\n  - arn: arn:aws:iam::000000000000:user/a\n", "principal 2 (arn:aws:iam::000000000000:user/a): there is arn:aws:iam::000000000000:user/a already"},
		{"no such file", "principals:\n  - arn: arn:aws:iam::000000000000:user/a\n    policies: [none.json]\n", "none.json: no such file"},
		{"a malformed policy", "principals:\n  - arn: arn:aws:iam::000000000000:user/a\n    policies: [bad.json]\n", "bad.json:1:"},
		{"a session of a user", "principals:\n  - arn: arn:aws:iam::000000000000:user/a\n    sessions: [{name: a, policies: [get.json]}]\n", "only a role has sessions"},
		{"a session without policies", "principals:\n  - arn: arn:aws:iam::000000000000:role/a\n    sessions: [{name: a}]\n", "a session has a name of its own, and policies"},
		{"not a role", "principals:\n  - arn: arn:aws:iam::123:role/a\n", "this is not the ARN of a role"},
		{"an empty file", "", "policies.yaml: the file is empty"},
		{"a file of comments", "# principals:\n", "policies.yaml: the file is empty"},
		{"a list that is missing", "principals:\n", "policies.yaml: the file is empty"},
		{"an empty policy", "principals:\n  - arn: arn:aws:iam::000000000000:user/a\n    policies: [empty.json]\n", "empty.json:1:"},
		{"an empty principal", "principals:\n  -\n", "principal 1 is empty"},
	} {
		path := write(t, map[string]string{"get.json": allowGet, "empty.json": "", "bad.json": `{"Statement":{"Effect":"Perhaps"}}`, "policies.yaml": c.file})
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// A list without principals is written on purpose.
func TestNoPrincipals(t *testing.T) {
	if _, err := Read(write(t, map[string]string{"policies.yaml": "principals: []\n"})); err != nil {
		t.Error(err)
	}
}

// A file that others can change is not used: neither that of the principals nor a policy.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	path := write(t, map[string]string{"get.json": allowGet, "policies.yaml": "principals:\n  - arn: arn:aws:iam::000000000000:user/a\n    policies: [get.json]\n"})
	for _, changed := range []string{path, filepath.Join(filepath.Dir(path), "get.json")} {
		for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o644: true, 0o640: true, 0o620: false, 0o602: false, 0o666: false} {
			if err := os.Chmod(changed, mode); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "run: chmod go-w "+changed) {
				t.Errorf("%s with the mode %04o: %v", filepath.Base(changed), mode, err)
			}
		}
		if err := os.Chmod(changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Definitions become the same identities as a file does. One that cannot be used denies everything.
func TestDefinitions(t *testing.T) {
	named := NamedPolicy{Name: "get.json", Document: allowGet}
	list := []Definition{
		{ARN: "arn:aws:iam::000000000000:user/alice", Policies: []NamedPolicy{named}, Tags: map[string]string{"team": "blue"}},
		{ARN: "arn:aws:iam::000000000000:role/apps/orders", Policies: []NamedPolicy{named}, Sessions: []SessionPolicies{{Name: "reports", Policies: []NamedPolicy{{Name: "put.json", Document: strings.Replace(allowGet, "GetItem", "PutItem", 1)}}}}},
	}
	verdict := func(s *Set, arn string) policy.Reason {
		t.Helper()
		id, err := s.Identity(arn)
		if err != nil {
			t.Fatal(err)
		}
		return id.Policies.Evaluate(&policy.Request{Principal: id.Principal, Action: "dynamodb:GetItem", Resource: "*", Context: id.Principal}).Reason
	}
	set, err := Define(list)
	if err != nil {
		t.Fatal(err)
	}
	const alice = "arn:aws:iam::000000000000:user/alice"
	for arn, want := range map[string]policy.Reason{
		alice: policy.AllowedByIdentity,
		"arn:aws:sts::000000000000:assumed-role/orders/other":   policy.AllowedByIdentity,
		"arn:aws:sts::000000000000:assumed-role/orders/reports": policy.NoSessionAllows,
	} {
		if got := verdict(set, arn); got != want {
			t.Errorf("%s: %v, want %v", arn, got, want)
		}
	}
	broken := Definition{ARN: "arn:aws:iam::000000000000:user/bob", Policies: []NamedPolicy{named, {Name: "new.json", Document: `{"Version":"2040-01-01"}`}}}
	if _, err := Define([]Definition{broken}); err == nil || !strings.Contains(err.Error(), "new.json:1:") {
		t.Errorf("a broken definition: %v", err)
	}
	stored, faults := DefineStored(append(list, broken))
	if len(faults) != 1 || stored.Len() != 3 || verdict(stored, broken.ARN) != policy.DeniedByIdentity || verdict(stored, alice) != policy.AllowedByIdentity {
		t.Errorf("%d principals, %v; bob: %v", stored.Len(), faults, verdict(stored, broken.ARN))
	}
	first, err := Define([]Definition{{ARN: "arn:aws:iam::000000000000:user/team/Alice"}})
	if err != nil {
		t.Fatal(err)
	}
	united, shadowed := Unite(first, set)
	if len(shadowed) != 1 || shadowed[0] != alice || united.Len() != 2 || united.Has(alice) != "arn:aws:iam::000000000000:user/team/Alice" || verdict(united, alice) != policy.NoIdentityAllows {
		t.Errorf("united: %v, shadowed %v", united.List(), shadowed)
	}
}
