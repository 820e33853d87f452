// Mutants changes the rules that the design documents of the applications name, one at a
// time, and reports which changes no test notices: thresholds, times, conditions and
// transitions. The rules are in mutants.yaml.
//
//	cd apps && go run ./internal/mutants           # all; takes a minute or more for each
//	cd apps && go run ./internal/mutants goals     # those of an application
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// mutant is a change of the source by which a rule does not hold any more.
type mutant struct {
	Rule  string // as the document has it; may be empty if From says it
	File  string
	From  string // occurs once in the file
	To    string
	Tests string // package whose tests notice it
	Run   string // tests to run, as of go test; defaults to all of the package
}

func (m mutant) String() string {
	return m.File + ": " + cmp.Or(m.Rule, m.From+" becomes "+m.To)
}

func main() {
	all, err := readMutants("mutants.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	tried, survived := 0, 0
	for _, m := range all {
		if len(os.Args) > 1 && !strings.HasPrefix(m.File, os.Args[1]+"/") {
			continue
		}
		tried++
		found, err := m.found()
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutants: %s: %v\n", m, err)
			os.Exit(1)
		}
		outcome := "found   "
		if !found {
			outcome = "SURVIVED"
			survived++
		}
		fmt.Println(outcome, m)
	}
	fmt.Printf("%d of %d changed rules are found\n", tried-survived, tried)
	if survived > 0 || tried == 0 {
		os.Exit(1)
	}
}

// readMutants reads the list, and checks that each place exists once.
func readMutants(file string) (all []mutant, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var faults []error
	for _, m := range all {
		if _, err := m.apply(filepath.Dir(file)); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", m, err))
		}
	}
	return all, errors.Join(faults...)
}

// apply returns the changed file.
func (m *mutant) apply(dir string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(dir, m.File))
	if err != nil {
		return nil, err
	}
	switch n := bytes.Count(source, []byte(m.From)); {
	case m.Tests == "" || m.From == m.To:
		return nil, errors.New("it needs tests and a change")
	case n != 1:
		return nil, fmt.Errorf("%q occurs %d times in %s, but must occur once", m.From, n, m.File)
	}
	return bytes.Replace(source, []byte(m.From), []byte(m.To), 1), nil
}

// found reports whether a test fails with the mutant. The tests must have passed without.
func (m *mutant) found() (bool, error) {
	changed, err := m.apply(".")
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of the system for temporary files
	original, err := filepath.Abs(m.File)
	if err != nil {
		return false, err
	}
	source, overlay := filepath.Join(dir, filepath.Base(m.File)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: source}})
	if err = errors.Join(err, os.WriteFile(source, changed, 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return false, err
	}
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", "5m", "-overlay", overlay}
	if m.Run != "" {
		args = append(args, "-run", m.Run)
	}
	text, err := exec.Command("go", append(args, "./"+m.Tests)...).CombinedOutput()
	switch {
	case err == nil && !bytes.Contains(text, []byte("ok ")):
		return false, fmt.Errorf("there are no tests in %s", m.Tests)
	case bytes.Contains(text, []byte("[build failed]")) || bytes.Contains(text, []byte("[setup failed]")):
		return false, fmt.Errorf("it does not compile:\n%s", text)
	case bytes.Contains(text, []byte("no tests to run")):
		return false, fmt.Errorf("no test of %s is called %s", m.Tests, m.Run)
	}
	return err != nil, nil
}
