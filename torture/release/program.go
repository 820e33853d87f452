package main

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// sameProgram returns a function that reports whether another commit has the sources and the
// dependencies of the server, and the rigs, of this one. The goals take days: documents, and
// tests that are no rigs, do not begin the counts again when they are changed meanwhile.
func sameProgram(commit string) (func(other string) bool, error) {
	sources, err := programSources()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{commit: true}
	return func(other string) bool {
		same, ok := known[other]
		if !ok {
			same = isClean(commit) && isClean(other) && sameFiles(other, commit, sources)
			known[other] = same
		}
		return same
	}, nil
}

// isClean reports whether a commit of the ledger is known, and no file was changed since.
func isClean(commit string) bool { return commit != "?" && !strings.HasSuffix(commit, "+") }

// rigSources are the pathspecs of the rigs. Mutants have none: their result depends on all tests.
var rigSources = []string{
	"torture", ":(exclude,glob)torture/*.md", ":(exclude)torture/release", ":(exclude)torture/ledger", "internal/serialtest", ":(glob)" + testedHere + "/*.go",
}

// testedHere is a package of the server whose tests are rigs.
const testedHere = "internal/db"

// programSources returns the pathspecs of the Go files that the server and the rigs are built of.
func programSources() ([]string, error) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", "./cmd/stator").Output()
	if err != nil {
		return nil, fmt.Errorf("the packages of the server: %w", err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	specs := append([]string{"go.mod", "go.sum"}, rigSources...)
	for dir := range strings.FieldsSeq(string(out)) {
		below, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		below = filepath.ToSlash(below)
		specs = append(specs, ":(glob)"+path.Join(below, "*.go"))
		if below != testedHere {
			specs = append(specs, ":(exclude,glob)"+path.Join(below, "*_test.go"))
		}
	}
	return specs, nil
}

// sameFiles reports whether files are the same in two commits; not if one of them does not exist.
func sameFiles(a, b string, pathspecs []string) bool {
	return exec.Command("git", append([]string{"diff", "--quiet", a, b, "--"}, pathspecs...)...).Run() == nil //nolint:gosec // commits of the ledger
}
