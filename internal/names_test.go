package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sharedNames are the unexported type names that several packages may declare,
// with the reason. A name that is no longer shared must be removed.
var sharedNames = map[string]string{
	"parser":    "expr and partiql are two languages with the usual parts of one",
	"token":     "expr and partiql are two languages with the usual parts of one",
	"tokenKind": "expr and partiql are two languages with the usual parts of one",
	"node":      "expr and partiql are two languages with the usual parts of one",
	"binder":    "expr and partiql are two languages with the usual parts of one",
	"bailout":   "expr and partiql end parsing by a panic, which go/parser calls so",
	"tx":        "pebble and tikv implement store.Tx",
	"snapshot":  "pebble and tikv implement store.Snapshot",
}

// One word stands for one thing: no unexported type name is declared in two
// packages, tests included.
func TestTypeNamesAreUnique(t *testing.T) {
	declared, err := readTypeNames(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range declared.faults(sharedNames) {
		t.Error(fault)
	}
}

// The control: each kind of fault is found.
func TestTypeNameFaultsAreFound(t *testing.T) {
	declared := typeNames{
		"cache": {"a", "b"}, "parser": {"a", "b"}, "token": {"a"}, "entry": {"c"},
	}
	got := declared.faults(map[string]string{"parser": "", "token": "", "node": ""})
	want := []string{
		"a and b both declare a type cache: rename one to what it is",
		"node is listed as a shared name but is not declared in two packages",
		"token is listed as a shared name but is not declared in two packages",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults are %q, want %q", got, want)
	}
}

// typeNames maps each unexported type name to the packages that declare it.
type typeNames map[string][]string

func (n typeNames) faults(shared map[string]string) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(n)) {
		if _, ok := shared[name]; !ok && len(n[name]) > 1 {
			faults = append(faults, fmt.Sprintf("%s both declare a type %s: rename one to what it is", strings.Join(n[name], " and "), name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		if len(n[name]) < 2 {
			faults = append(faults, name+" is listed as a shared name but is not declared in two packages")
		}
	}
	return faults
}

// readTypeNames reads the package-level type declarations of all files below a
// folder, whatever their build tags.
func readTypeNames(root string) (typeNames, error) {
	declared := make(typeNames)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, file, d.Name())
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		declared.add(filepath.ToSlash(filepath.Dir(file)), parsed)
		return nil
	})
	return declared, err
}

func (n typeNames) add(pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			name := spec.(*ast.TypeSpec).Name.Name
			if !ast.IsExported(name) && !slices.Contains(n[name], pkg) {
				n[name] = append(n[name], pkg)
			}
		}
	}
}
