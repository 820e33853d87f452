package main

import (
	"errors"
	"os/exec"
	"testing"
)

// Both projects pass against stator with forks. That they pass against DynamoDB Local, and how
// long that takes, is for make side-by-side.
func TestProjects(t *testing.T) {
	c := config{root: "../..", work: "../../bin/sidebyside"}
	if err := c.prepare(t.Context(), nil, []string{"stator"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"js", "python"} {
		t.Run(name, func(t *testing.T) {
			if text, err := exec.Command("npm", "ping").CombinedOutput(); name == "js" && err != nil {
				t.Skipf("the registry of npm does not answer: %s", text)
			}
			if err := c.prepare(t.Context(), []string{name}, []string{"stator"}); errors.Is(err, errMissing) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			o, err := c.run(t.Context(), name, "stator")
			if err != nil {
				t.Fatal(err)
			}
			if o.passed < 200 || o.failed > 0 {
				t.Errorf("%d tests passed and %d failed, want 200 or more, and none", o.passed, o.failed)
			}
		})
	}
}

func TestUnknownNames(t *testing.T) {
	c := config{root: "../..", work: t.TempDir(), stator: "stator"}
	if err := c.prepare(t.Context(), []string{"cobol"}, []string{"stator"}); err == nil {
		t.Error("a project that is unknown was accepted")
	}
	if err := c.prepare(t.Context(), nil, []string{"oracle"}); err == nil {
		t.Error("a database that is unknown was accepted")
	}
}

func TestReports(t *testing.T) {
	passed, failed, err := readJest([]byte(`{"numPassedTests": 5, "numFailedTests": 2, "numFailedTestSuites": 1}`))
	if passed != 5 || failed != 2 || err != nil {
		t.Error(passed, failed, err)
	}
	// A file that cannot be loaded has no tests, and fails.
	if _, failed, _ := readJest([]byte(`{"numPassedTests": 5, "numFailedTestSuites": 1}`)); failed != 1 {
		t.Error(failed)
	}
	passed, failed, err = readPytest([]byte(`<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>`))
	if passed != 3 || failed != 3 || err != nil {
		t.Error(passed, failed, err)
	}
	if _, _, err := readPytest(nil); err == nil {
		t.Error("an empty report was accepted")
	}
}

func TestMedian(t *testing.T) {
	if m := median([]seconds{9, 1, 5}); m != 5 {
		t.Error(m)
	}
}
