package hometest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/apps/internal/home"
)

// The keys of tests. Programs that find no credentials sign with the application's.
var (
	app           = credentials.NewStaticCredentialsProvider("app", "app", "")
	administrator = credentials.NewStaticCredentialsProvider("administrator", "administrator", "")
)

const keysFile = `keys:
  - {access_key: app, secret: app}
  - {access_key: administrator, secret: administrator, principal: "arn:aws:iam::000000000000:root"}
`

// Guard makes the embedded stator of a test verify signatures, and lets the application do
// what its policy allows: the file *.policy.json in its folder, which `stator model policy` has
// written. The test fails if a request of the application is denied. Guard does nothing for a
// package that belongs to no application.
func Guard(t testing.TB, o *home.Options) {
	t.Helper()
	name, folder, err := application()
	if err != nil {
		t.Fatal(err)
	}
	if name == "" || o.Endpoint != "" {
		return
	}
	policy, err := readPolicy(filepath.Join(folder, name+".policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	policy.remove(os.Getenv(withoutGrant))
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	for file, text := range map[string]string{
		"keys.yaml":     keysFile,
		"policy.json":   string(text),
		"policies.yaml": `principals: [{arn: "arn:aws:iam::000000000000:user/app", policies: [policy.json]}]`,
	} {
		if err := os.WriteFile(filepath.Join(files, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	access, err := stator.OpenAccess(stator.AccessOptions{Keys: filepath.Join(files, "keys.yaml"), Policies: filepath.Join(files, "policies.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	var denied []error
	t.Cleanup(func() {
		mutex.Lock()
		defer mutex.Unlock()
		for _, err := range denied {
			t.Errorf("the policy of %s denies a request that it sends: %v", name, err)
		}
	})
	o.Guard = &home.Guard{Access: access, Application: app, Administrator: administrator, Denied: func(err error) {
		if os.Getenv(withoutGrant) != "" { // at once: an application may try again for long
			fmt.Printf("--- FAIL: %s\n    %v\n", t.Name(), err)
			os.Exit(1)
		}
		mutex.Lock()
		defer mutex.Unlock()
		if len(denied) < 10 {
			denied = append(denied, err)
		}
	}}
}

// AsAdministrator lets the commands of a test sign with the key of an administrator.
func AsAdministrator(t *testing.T) {
	t.Helper()
	key, err := administrator.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", key.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", key.SecretAccessKey)
}

// withoutGrant is the environment variable with a grant that is removed from the policy.
const withoutGrant = "APPS_POLICY_WITHOUT"

// policy is a policy as `stator model policy` writes it.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition json.RawMessage `json:",omitempty"`
}

func readPolicy(file string) (*policy, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p := new(policy)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// grant names an action on a resource, such as "GetItem table/tasks".
func grant(action, resource string) string {
	return strings.TrimPrefix(action, "dynamodb:") + " " + resource[strings.LastIndex(resource, ":")+1:]
}

// grants returns what a policy allows.
func (p *policy) grants() (all []string) {
	for _, s := range p.Statement {
		for _, action := range s.Action {
			for _, resource := range s.Resource {
				all = append(all, grant(action, resource))
			}
		}
	}
	slices.Sort(all)
	return all
}

// remove removes a grant from the first statement that has it.
func (p *policy) remove(removed string) {
	for i, s := range p.Statement {
		for _, action := range s.Action {
			for j, resource := range s.Resource {
				if grant(action, resource) != removed {
					continue
				}
				// The other actions keep all resources, and the action keeps the other resources.
				others, rest := s, s
				others.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == action })
				rest.Sid, rest.Action, rest.Resource = s.Sid+"Rest", []string{action}, slices.Delete(slices.Clone(s.Resource), j, j+1)
				p.Statement = slices.Replace(p.Statement, i, i+1, nonEmpty(others, rest)...)
				return
			}
		}
	}
}

func nonEmpty(all ...statement) []statement {
	return slices.DeleteFunc(all, func(s statement) bool { return len(s.Action) == 0 || len(s.Resource) == 0 })
}

// AllGrants is the environment variable that makes PolicyIsLeast remove each grant.
const AllGrants = "APPS_POLICY_ALL"

// PolicyIsLeast checks that an application needs what its policy allows: for each grant it has the
// name of a test of the package that fails without it. These tests run in other processes,
// so that only the first is run unless the environment asks for all.
func PolicyIsLeast(t *testing.T, needs [][2]string) {
	t.Helper()
	name, folder, err := application()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := readPolicy(filepath.Join(folder, name+".policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, need := range needs {
		named = append(named, need[0])
	}
	slices.Sort(named)
	if granted := policy.grants(); !slices.Equal(granted, named) {
		t.Fatalf("the policy grants\n%s\nbut there are tests for\n%s", strings.Join(granted, "\n"), strings.Join(named, "\n"))
	}
	if os.Getenv(AllGrants) == "" {
		needs = needs[:1]
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, need := range needs {
		t.Run(need[0], func(t *testing.T) {
			run := exec.CommandContext(t.Context(), program, "-test.run=^"+need[1]+"$", "-test.timeout=2m")
			run.Env = append(os.Environ(), withoutGrant+"="+need[0], TrafficFolder+"=")
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+need[1]) {
				t.Errorf("without %s %s does not fail: %v\n%s", need[0], need[1], err, out)
			}
		})
	}
}
