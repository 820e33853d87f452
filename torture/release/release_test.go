package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/torture/ledger"
)

const head = "| began (UTC) | commit | rig | seed | took | counts | result |\n|---|---|---|---|---|---|---|\n"

// ledgerOf writes a ledger and returns the lines of commit c1.
func ledgerOf(t *testing.T, lines ...ledger.Line) []ledger.Line {
	t.Helper()
	path := filepath.Join(t.TempDir(), ledger.Name)
	if err := os.WriteFile(path, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if l.Seed = "7"; l.Commit == "" {
			l.Commit = "c1"
		}
		if err := l.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	found, err := ledger.Read(path, func(commit string) bool { return commit == "c1" })
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The counts of the lines of one commit add up, and those of other commits do not count.
func TestCountsOfACommitAddUp(t *testing.T) {
	kill := goal{"KillLosesNoAcknowledgedWrite", "kills", 1000}
	lines := ledgerOf(t,
		ledger.Line{Rig: kill.rig, Counts: "400 kills, 9 scrubs", Took: time.Minute},
		ledger.Line{Rig: kill.rig, Counts: "8 scrubs, 500 kills"},
		ledger.Line{Rig: kill.rig, Counts: "77 kills", Commit: "c1+"},
		ledger.Line{Rig: kill.rig, Counts: "77 kills", Commit: "c0"},
		ledger.Line{Rig: "KillRigFindsLosses", Counts: "3 kills"},
	)
	if got := kill.reached(lines); got != 900 {
		t.Errorf("%d kills, want 900", got)
	}
	if got := (goal{kill.rig, ledger.SecondsInSum, 1}).reached(lines); got != 60 {
		t.Errorf("%d seconds, want 60", got)
	}
	left := row{goals: []goal{kill, {kill.rig, "scrubs", 17}}}.missing(lines)
	if len(left) != 1 || left[0].n != 100 {
		t.Errorf("missing is %v, want 100 kills", left)
	}
}

func TestResultOfARow(t *testing.T) {
	r := row{goals: []goal{{"A", "cuts", 10}, {"B/ext4", "cuts", 10}}, control: "C", command: rigs("x", 1)}
	a, b := ledger.Line{Rig: "A", Counts: "10 cuts"}, ledger.Line{Rig: "B/ext4", Counts: "10 cuts"}
	for _, c := range []struct {
		name  string
		lines []ledger.Line
		want  string
	}{
		{"nothing", nil, "not run"},
		{"one of two", []ledger.Line{a}, "held, not enough yet"},
		{"both", []ledger.Line{a, b}, "held"},
		{"another file system", []ledger.Line{a, {Rig: "B/xfs", Counts: "10 cuts"}}, "held, not enough yet"},
		{"a fault, although another run held", []ledger.Line{a, b, {Rig: "A", Counts: "1 cuts", Failed: true}}, "FAILED"},
		{"the control finds nothing", []ledger.Line{a, b, {Rig: "C/x", Failed: true}}, "FAILED"},
		{"the fault of another row", []ledger.Line{a, b, {Rig: "D", Failed: true}}, "held"},
		{"a goal of the rig", []ledger.Line{a, b, {Rig: "A", Counts: "goal at most 1 MB: 2, **not reached**"}}, "held, but a goal of the rig is not reached"},
	} {
		if got := r.result(ledgerOf(t, c.lines...)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A rig ends when what is missing is reached.
func TestCommandHasWhatIsMissing(t *testing.T) {
	missing := []goal{{"A/ext4", "cuts", 20}, {"A/xfs", "cuts", 70}, {"A", "items", 5}, {"A", ledger.SecondsInSum, 9}}
	got := strings.Join(rigs("PowerCut", 2)(missing, time.Minute), " ")
	if want := "-run PowerCut -torture -torture.for 30s -torture.until cuts=70,items=5"; !strings.HasSuffix(got, want) {
		t.Errorf("the command is %q, want the end %q", got, want)
	}
}

func TestCountsOfOutputs(t *testing.T) {
	for output, want := range map[string]string{
		"    x_test.go:3: ledger: 5 windows, 6 operations\n--- PASS":    "5 windows, 6 operations",
		"a: 1 of 2 mutants found\nall: 30 of 40 mutants found (75 %)\n": "30 mutants found, 40 mutants",
		"ok": "1 runs",
	} {
		if got := countsIn(output); got != want {
			t.Errorf("the counts are %q, want %q", got, want)
		}
	}
}

// Each rig that a row counts exists.
func TestRowsNameTests(t *testing.T) {
	var source strings.Builder
	for _, pattern := range []string{"../*_test.go", "../../internal/serialtest/*_test.go", "../../internal/db/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, r := range rows {
		for _, rig := range append([]string{r.control}, rigsOf(r.goals)...) {
			name, _, _ := strings.Cut(rig, "/")
			if rig != "" && r.rig != "RaceDetector" && r.rig != mutantsRig && !strings.Contains(source.String(), "func Test"+name) {
				t.Errorf("%s: there is no test %s", r.id, name)
			}
		}
	}
}

func rigsOf(goals []goal) (names []string) {
	for _, g := range goals {
		names = append(names, g.rig)
	}
	return names
}

// Commits of tests and documents count, and those of the server, of its dependencies, of rigs and of changed files do not.
func TestSameProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", args...).CombinedOutput() //nolint:gosec // of this test
		if err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(files map[string]string) string {
		t.Helper()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
		git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "t")
		return git("describe", "--always")
	}
	git("init", "-q")
	first := commit(map[string]string{
		"go.mod": "module m\n\ngo 1.26\n", "README.md": "a", "cmd/stator/main.go": "package main\n\nimport _ \"m/store\"\n\nfunc main() {}\n",
		"store/store.go": "package store\n", "store/store_test.go": "package store\n", "store/deep/deep.go": "package deep\n", "bench/bench.go": "package bench\n",
		"torture/kill_test.go": "package torture\n", "torture/LEDGER.md": "a", "torture/formats/1": "a", "internal/db/rig_test.go": "package db\n",
	})
	tests := commit(map[string]string{
		"README.md": "b", "store/store_test.go": "package store // changed\n", "store/deep/deep.go": "package deep // unused\n", "bench/bench.go": "package bench // changed\n", "torture/LEDGER.md": "b",
	})
	same, err := sameProgram(tests)
	if err != nil {
		t.Fatal(err)
	}
	for other, want := range map[string]bool{tests: true, first: true, first + "+": false, "?": false, "0123456": false} {
		if same(other) != want {
			t.Errorf("%s counts: %t, want %t", other, !want, want)
		}
	}
	for what, files := range map[string]map[string]string{
		"source": {"store/store.go": "package store // changed\n"}, "rig": {"torture/kill_test.go": "package torture // changed\n"},
		"folder of a format": {"torture/formats/2": "a"}, "rig of a package": {"internal/db/rig_test.go": "package db // changed\n"}, "dependency": {"go.mod": "module m\n\ngo 1.26\n\nrequire x.example/y v1.0.0\n"},
	} {
		before := git("describe", "--always")
		same, err := sameProgram(commit(files))
		if err != nil {
			t.Fatal(err)
		}
		if same(before) {
			t.Errorf("another %s counts", what)
		}
	}
	dirty, err := sameProgram(first + "+")
	if err != nil {
		t.Fatal(err)
	}
	if !dirty(first+"+") || dirty(first) {
		t.Error("changed files count for a commit")
	}
}
