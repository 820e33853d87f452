package cli

import (
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// readSARIF decodes a log, and verifies the rules of SARIF 2.1.0 that a reader
// relies on.
func readSARIF(t *testing.T, text string) sarifLog {
	t.Helper()
	var log sarifLog
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&log); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if log.Version != "2.1.0" || !strings.HasSuffix(log.Schema, "sarif-2.1.0.json") || len(log.Runs) != 1 {
		t.Fatalf("the log is %+v", log)
	}
	run := log.Runs[0]
	if run.Tool.Driver.Name == "" || run.Results == nil || run.ColumnKind != "unicodeCodePoints" {
		t.Errorf("the run is %+v", run)
	}
	rules := make(map[string]bool)
	for _, r := range run.Tool.Driver.Rules {
		if rules[r.ID] || r.ShortDescription.Text == "" {
			t.Errorf("the rule %+v is there twice, or has no description", r)
		}
		rules[r.ID] = true
	}
	prints := make(map[string]bool)
	for _, r := range run.Results {
		if r.RuleIndex < 0 || r.RuleIndex >= len(run.Tool.Driver.Rules) || run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("the rule of %+v is not at its index", r)
		}
		if !slices.Contains([]string{"error", "note"}, r.Level) || r.Message.Text == "" || len(r.Locations) != 1 {
			t.Errorf("the result is %+v", r)
		}
		at := r.Locations[0].Physical
		if u, err := url.Parse(at.Artifact.URI); err != nil || u.IsAbs() != (at.Artifact.Base == "") {
			t.Errorf("the location is %+v: %v", at, err)
		}
		if at.Region != nil && (at.Region.Line < 1 || at.Region.Column < 0) {
			t.Errorf("the region is %+v", at.Region)
		}
		for _, p := range r.Fingerprints {
			if prints[p] {
				t.Errorf("two results have the fingerprint %s", p)
			}
			prints[p] = true
		}
	}
	return log
}

// Every fault of every example is in its SARIF log and in its JUnit report, with
// its position.
func TestFindingsOfExamples(t *testing.T) {
	files, err := filepath.Glob("../model/testdata/*/*.model.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d examples, %v", len(files), err)
	}
	for _, file := range files {
		m, err := readModel(file)
		if err != nil {
			continue // TestFindingsOfInvalidFile
		}
		report := m.Check(model.DefaultPrices())
		found := &findings{file, report.Faults, report.Notes, report.Patterns}
		var sarif, junit strings.Builder
		if err := printSARIF(&sarif, found); err != nil {
			t.Fatal(err)
		}
		run := readSARIF(t, sarif.String()).Runs[0]
		if len(run.Results) != len(report.Faults)+len(report.Notes) {
			t.Errorf("%s has %d results for %d faults and %d notes", file, len(run.Results), len(report.Faults), len(report.Notes))
		}
		for i, f := range report.Faults {
			r := run.Results[i]
			if r.RuleID != f.Code || !strings.Contains(r.Message.Text, f.Message) || r.Locations[0].Physical.Region == nil || r.Locations[0].Physical.Region.Line != f.Position.Line {
				t.Errorf("%s: the result of %+v is %+v", file, f, r)
			}
		}
		if err := printJUnit(&junit, found); err != nil {
			t.Fatal(err)
		}
		var suites junitSuites
		if err := xml.Unmarshal([]byte(junit.String()), &suites); err != nil {
			t.Fatal(err)
		}
		checkJUnit(t, file, &suites, report)
	}
}

// checkJUnit compares a JUnit report with the report of check.
func checkJUnit(t *testing.T, file string, suites *junitSuites, report *model.Report) {
	t.Helper()
	cases, failures, failed := suites.Suites[0].Cases, 0, 0
	for _, c := range cases {
		failures += len(c.Failures)
		if len(c.Failures) > 0 {
			failed++
		}
	}
	if len(cases) != len(report.Patterns)+1 || suites.Tests != len(cases) || failures != len(report.Faults) || suites.Failures != failed || suites.Errors != 0 {
		t.Errorf("%s: %d cases, %d failures and %d failed for %d patterns and %d faults", file, len(cases), failures, suites.Failures, len(report.Patterns), len(report.Faults))
	}
	for i, p := range report.Patterns {
		if cases[i+1].Name != p.Name || cases[i+1].Line != p.Position.Line || len(cases[i+1].Failures) != len(p.Faults) {
			t.Errorf("%s: the case of %s is %+v", file, p.Name, cases[i+1])
		}
	}
}

// An invalid file is a finding too, and still exits with 2.
func TestFindingsOfInvalidFile(t *testing.T) {
	code, out, _ := runStator(t, "model", "check", "--format", "sarif", invalid)
	results := readSARIF(t, out).Runs[0].Results
	if code != 2 || len(results) == 0 || results[0].RuleID != "syntax" || results[0].Locations[0].Physical.Region.Line != 6 || results[0].Locations[0].Physical.Region.Column != 11 {
		t.Errorf("exit code %d, the results are %+v", code, results)
	}
	code, out, _ = runStator(t, "model", "check", "--format", "junit", invalid)
	if code != 2 || !strings.Contains(out, `errors="1"`) || !strings.Contains(out, `<error message="unknown field partiton`) {
		t.Errorf("exit code %d, the output is %s", code, out)
	}
}

// Results with the same content have different fingerprints, which do not
// depend on the line.
func TestFingerprints(t *testing.T) {
	prints := func(line int) (all []string) {
		f := func() *model.Fault {
			return &model.Fault{Code: "hot", Message: "m", Position: model.Position{Line: line, Column: 1}}
		}
		var out strings.Builder
		if err := printSARIF(&out, &findings{file: "a b.yaml", faults: []*model.Fault{f(), f()}}); err != nil {
			t.Fatal(err)
		}
		log := readSARIF(t, out.String())
		if uri := log.Runs[0].Results[0].Locations[0].Physical.Artifact.URI; uri != "a%20b.yaml" {
			t.Errorf("the URI is %s", uri)
		}
		for _, r := range log.Runs[0].Results {
			all = append(all, r.Fingerprints["statorFault/v1"])
		}
		return all
	}
	if a, b := prints(3), prints(9); !slices.Equal(a, b) || a[0] == a[1] {
		t.Errorf("the fingerprints are %v and %v", a, b)
	}
}

// Workflow commands escape what would end a property or a command.
func TestWorkflowCommands(t *testing.T) {
	var out strings.Builder
	f := &model.Fault{Code: "hot", Pattern: "p", Message: "100 %: a,\nb", Position: model.Position{Line: 2, Column: 3}}
	n := &model.Note{Code: "growth", Message: "large"}
	if err := printWorkflowCommands(&out, &findings{file: "a,b.yaml", faults: []*model.Fault{f}, notes: []*model.Note{n}}); err != nil {
		t.Fatal(err)
	}
	const want = "::error file=a%2Cb.yaml,line=2,col=3,title=stator model%3A hot::\"p\": 100 %25: a,%0Ab\n::notice file=a%2Cb.yaml,title=stator model%3A growth::large\n"
	if out.String() != want {
		t.Errorf("the commands are\n%s\nwant\n%s", out.String(), want)
	}
}

// Each code of docs/model.md has a description, and no other.
func TestFaultDescriptions(t *testing.T) {
	text, err := os.ReadFile("../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "| code | fails on |")
	tables, _, _ = strings.Cut(tables, "Exit codes are")
	codes := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| [^|]* \\| `[a-z-]+`").FindAllStringSubmatch(tables, -1) {
		codes[m[1]] = true
		if faultDescriptions[m[1]] == "" {
			t.Errorf("the code %s has no description", m[1])
		}
	}
	for code := range faultDescriptions {
		if !codes[code] {
			t.Errorf("the code %s is not in docs/model.md", code)
		}
	}
}
