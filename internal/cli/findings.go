package cli

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// findings are the faults and notes of one file, for formats that other tools
// read.
type findings struct {
	file     string
	faults   []*model.Fault
	notes    []*model.Note
	patterns []*model.PatternReport // nil if the file is invalid
}

// findingFormats are the formats of findings.
var findingFormats = map[string]func(io.Writer, *findings) error{"sarif": printSARIF, "junit": printJUnit, "github": printWorkflowCommands}

// faultDescriptions describe each code of a fault or note.
var faultDescriptions = map[string]string{
	"scan":        "A pattern scans a table or an index.",
	"missing":     "No key or index serves a query.",
	"key":         "A key cannot be built from the attributes that the pattern knows.",
	"filter":      "A filter discards most of the items that are read, or is impossible.",
	"projection":  "An index lacks an attribute that the pattern returns.",
	"consistent":  "A global index is read consistently.",
	"order":       "The sort key does not provide the order or the range of the pattern.",
	"neighbours":  "A query also reads items of other entities.",
	"sparse":      "A sparse index does not contain all items of the query.",
	"expectation": "A pattern expects more matches than its key allows.",
	"machine":     "A write does not follow its status machine.",
	"condition":   "A condition is false for the item before the write, or tests an unknown attribute.",
	"overwrite":   "A put without a condition may replace an existing item.",
	"stale":       "An update would leave a key that contradicts the attributes it is built from, or an attribute that contradicts its when.",
	"size":        "An item, a set, a list or a key may exceed its limit.",
	"collection":  "An item collection exceeds 10 GB at the horizon.",
	"limit":       "A transaction or batch has too many items.",
	"ttl":         "The TTL attribute is not in epoch seconds, or no entity has it.",
	"keep":        "Items that are kept for a limited time are never removed.",
	"unused":      "No pattern reads an index.",
	"patterns":    "The model has no patterns.",
	"collision":   "Two entities can have the same key.",
	"rule":        "A rule of the model is broken.",
	"hot":         "A partition exceeds its limit of units.",
	"provisioned": "Fewer units are provisioned than the peak needs.",
	"budget":      "A budget is exceeded.",
	"syntax":      "The file is invalid.",
	"growth":      "A partition grows without bound.",
	"conflict":    "Writes of an item conflict with transactions.",
	"separator":   "A separator in the sort key may change the order of the text before it.",
}

// fullMessage is a message with its pattern and with what to try.
func fullMessage(f *model.Fault) string {
	if f.Pattern == "" {
		return f.Error()
	}
	return fmt.Sprintf("%q: %s", f.Pattern, f.Error())
}

// printWorkflowCommands prints commands that GitHub Actions shows as
// annotations.
func printWorkflowCommands(w io.Writer, r *findings) error {
	out := &errorWriter{w: w}
	command := func(kind string, f *model.Fault) {
		at := "file=" + commandProperty(filepath.ToSlash(r.file))
		if f.Position.Line > 0 {
			at += fmt.Sprintf(",line=%d,col=%d", f.Position.Line, f.Position.Column)
		}
		out.printf("::%s %s,title=%s::%s\n", kind, at, commandProperty("stator model: "+f.Code), commandData(fullMessage(f)))
	}
	for _, f := range r.faults {
		command("error", f)
	}
	for _, n := range r.notes {
		command("notice", (*model.Fault)(n))
	}
	return out.err
}

// commandData escapes the message of a workflow command.
func commandData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// commandProperty escapes a property of a workflow command.
func commandProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(commandData(text))
}

// The elements of JUnit's XML.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Cases    []*junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name     string         `xml:"name,attr"`
		Class    string         `xml:"classname,attr"`
		File     string         `xml:"file,attr"`
		Line     int            `xml:"line,attr,omitempty"`
		Failures []junitProblem `xml:"failure"`
		Errors   []junitProblem `xml:"error"`
		Output   string         `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// printJUnit prints a test case for each pattern, and one for what belongs to
// no pattern.
func printJUnit(w io.Writer, r *findings) error {
	suite := junitSuite{Name: r.file}
	byName := make(map[string]*junitCase)
	add := func(name string, at model.Position) {
		c := &junitCase{Name: name, Class: r.file, File: filepath.ToSlash(r.file), Line: at.Line}
		byName[name] = c
		suite.Cases = append(suite.Cases, c)
	}
	add("", model.Position{Line: 1})
	for _, p := range r.patterns {
		add(p.Name, p.Position)
	}
	caseOf := func(pattern string) *junitCase {
		if c := byName[pattern]; c != nil {
			return c
		}
		return byName[""]
	}
	for _, f := range r.faults {
		c := caseOf(f.Pattern)
		problem := junitProblem{Message: f.Message, Type: f.Code, Text: model.Located(r.file, f.Position, f.Error())}
		if f.Code == "syntax" {
			c.Errors = append(c.Errors, problem)
		} else {
			c.Failures = append(c.Failures, problem)
		}
	}
	for _, n := range r.notes {
		caseOf(n.Pattern).Output += model.Located(r.file, n.Position, (*model.Fault)(n).Error()) + "\n"
	}
	byName[""].Name = "tables and entities"
	for _, c := range suite.Cases {
		suite.Tests++
		suite.Failures += min(1, len(c.Failures))
		suite.Errors += min(1, len(c.Errors))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", "  ")
	if err := out.Encode(junitSuites{Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Suites: []junitSuite{suite}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// fileURI is a path as a URI: relative to the root of the sources, or absolute.
func fileURI(path string) string {
	slashed := filepath.ToSlash(filepath.Clean(path))
	if filepath.IsAbs(path) {
		return (&url.URL{Scheme: "file", Path: slashed}).String()
	}
	return (&url.URL{Path: slashed}).EscapedPath()
}
