package torture

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var fuzzFlag = flag.Duration("torture.fuzz", 0, "how long each fuzz target runs in the long form; defaults to a third of -torture.for")

func fuzzTime() time.Duration {
	if *fuzzFlag == 0 {
		return *longTime / 3
	}
	return *fuzzFlag
}

// No fuzz target of the module finds a failure. With all other tests they run
// on their seeds; here they look for more.
func TestFuzzTargetsFindNothing(t *testing.T) {
	if !*long {
		t.Skip("the seeds of all fuzz targets run with their packages; -torture looks for more")
	}
	g := newRig(t)
	packages, err := exec.Command("go", "list", "-f", "{{if .TestGoFiles}}{{.Dir}}{{else if .XTestGoFiles}}{{.Dir}}{{end}}", "../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.Lines(string(packages)) {
		for _, target := range fuzzTargets(t, strings.TrimSpace(dir)) {
			out, tried, err := fuzz(strings.TrimSpace(dir), target)
			g.count("targets", 1)
			g.count("inputs", tried)
			if err != nil {
				t.Errorf("%s in %s: %v\n%s", target, dir, err, out)
			}
		}
	}
	// The control: a planted fault is found.
	dir := t.TempDir()
	copyFolder(t, filepath.Join("testdata", "planted"), dir)
	if out, _, err := fuzz(dir, "FuzzPlanted"); err == nil || !strings.Contains(out, "found") {
		t.Errorf("a planted fault is not found: %v\n%s", err, out)
	}
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

func fuzzTargets(t testing.TB, dir string) (targets []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range fuzzFunc.FindAllStringSubmatch(string(text), -1) {
			targets = append(targets, found[1])
		}
	}
	return targets
}

var execs = regexp.MustCompile(`execs: (\d+)`)

// fuzz runs one target for a while, and returns how many inputs it tried.
func fuzz(dir, target string) (out string, tried int, err error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+target+"$", "-fuzztime", fuzzTime().String(), "-fuzzminimizetime", "1x", ".")
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if all := execs.FindAllSubmatch(text, -1); len(all) > 0 {
		tried, _ = strconv.Atoi(string(all[len(all)-1][1]))
	}
	return string(text), tried, err
}
