package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// asStator is set in the environment of a process that runs the test binary as
// stator.
const asStator = "STATOR_TEST_AS_STATOR"

// TestRunAsStator is stator for the steps of the action; otherwise it does
// nothing.
func TestRunAsStator(*testing.T) {
	if os.Getenv(asStator) == "" {
		return
	}
	for i, a := range os.Args {
		if a == "--" {
			os.Exit(Run(os.Args[i+1:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(exitUsage)
}

type actionFile struct {
	Inputs map[string]struct{ Description, Default string }
	Runs   struct {
		Using string
		Steps []struct {
			Name, ID, If, Shell, Run string
			Env                      map[string]string
		}
	}
}

func readAction(t *testing.T) *actionFile {
	t.Helper()
	text, err := os.ReadFile("../../actions/model/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	a := new(actionFile)
	if err := yaml.Unmarshal(text, a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Steps take inputs from the environment: an expression in a script would let
// an input run commands.
func TestActionScriptsHaveNoExpressions(t *testing.T) {
	a := readAction(t)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) < 4 {
		t.Fatalf("the action is %+v", a.Runs)
	}
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "${{") || s.Shell != "bash" || s.Run == "" {
			t.Errorf("step %q is %+v", s.Name, s)
		}
	}
	readme, err := os.ReadFile("../../actions/model/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range a.Inputs {
		if input.Description == "" || !strings.Contains(string(readme), "| `"+name+"` |") {
			t.Errorf("the input %s has no description, or is not in the README", name)
		}
	}
}

// The action annotates faults, writes SARIF, and compares changed models with
// the base.
func TestAction(t *testing.T) {
	for _, tool := range []string{"bash", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	r := newActionRun(t)
	good, bad := r.text(goodModel), r.text(faulty)
	changed := strings.Replace(bad, "sort: SK}", "sort: SK}\n    indexes: {GSI1: {partition: status}}", 1)
	r.put("design/shop.model.yaml", changed)
	r.put("design/same.model.yaml", good)
	r.put("design/broken.model.yaml", good)
	r.git("add", "-A")
	r.git("commit", "-qm", "base")
	base := strings.TrimSpace(r.git("rev-parse", "HEAD"))
	r.put("design/shop.model.yaml", bad)
	r.put("design/a new.model.yaml", good)
	r.put("design/broken.model.yaml", "model: 1\ntabels: {}\n")
	r.git("add", "-A")

	out := r.step("Check", map[string]string{"MODELS": "*.model.yaml", "SARIF": "sarif"})
	if want := "::error file=design/shop.model.yaml,line=22,col=12,title=stator model%3A missing::"; !strings.Contains(out, want) {
		t.Errorf("the output is\n%s\nwithout %s", out, want)
	}
	if got := r.text(filepath.Join(r.folder, "output")); got != "faulty=2\n" {
		t.Errorf("the outputs are %q", got)
	}
	logs, _ := filepath.Glob(filepath.Join(r.folder, "repo/sarif/*.sarif"))
	if len(logs) != 4 {
		t.Errorf("the SARIF logs are %v", logs)
	}
	r.step("Compare with the base", map[string]string{"MODELS": "design/*.yaml", "BASE": base})
	summary := r.text(filepath.Join(r.folder, "summary"))
	for _, want := range []string{"### Model design/shop.model.yaml", "1 fault new", "- `missing` ", "### Model design/a new.model.yaml\n\nThe model is new.",
		"### Model design/broken.model.yaml\n\nThe model, or that of the base, is invalid and cannot be compared."} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary is\n%s\nwithout %s", summary, want)
		}
	}
	if strings.Contains(summary, "same.model.yaml") {
		t.Errorf("the summary has a model that did not change:\n%s", summary)
	}
}

// actionRun runs steps of the action in a repository.
type actionRun struct {
	t      *testing.T
	folder string
	action *actionFile
}

func newActionRun(t *testing.T) *actionRun {
	r := &actionRun{t: t, folder: t.TempDir(), action: readAction(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.put("../stator", fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' -test.run '^TestRunAsStator$' -- \"$@\"\n", asStator, self))
	if err := os.Chmod(filepath.Join(r.folder, "stator"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q")
	return r
}

func (r *actionRun) text(path string) string {
	r.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func (r *actionRun) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.folder, "repo", name)
	if err := os.MkdirAll(filepath.Join(r.folder, "repo"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *actionRun) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = filepath.Join(r.folder, "repo")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// step runs a step as GitHub does, and returns what it prints.
func (r *actionRun) step(name string, env map[string]string) string {
	r.t.Helper()
	for _, s := range r.action.Runs.Steps {
		if s.Name != name {
			continue
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir = filepath.Join(r.folder, "repo")
		cmd.Env = append(os.Environ(), "STATOR="+filepath.Join(r.folder, "stator"), "GITHUB_OUTPUT="+filepath.Join(r.folder, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(r.folder, "summary"))
		for name, value := range env {
			if _, ok := s.Env[name]; !ok {
				r.t.Errorf("the step %s does not set %s", s.Name, name)
			}
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			r.t.Fatalf("step %s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	r.t.Fatalf("the action has no step %s", name)
	return ""
}
