package internal

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// outsideModules are the modules of this repository that use the product as any
// other program does: by its public packages.
var outsideModules = []string{"apps", "bench", "clients", "differ"}

// Go lets a module below ours import our internal packages. The applications do
// not, so that they can be moved out of the repository (decision 14).
func TestModulesUsePublicPackages(t *testing.T) {
	for _, dir := range outsideModules {
		faults, err := internalImports(filepath.Join(moduleDir, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range faults {
			t.Error(fault)
		}
	}
}

// The control: an import of an internal package is found, in tests as well, and
// a module's own internal packages are allowed.
func TestModulesAreChecked(t *testing.T) {
	dir := t.TempDir()
	for file, imported := range map[string]string{
		"bad.go":      module + "/internal/db",
		"bad_test.go": module + "/internal",
		"own.go":      module + "/apps/internal/home",
		"public.go":   module,
	} {
		text := fmt.Sprintf("package p\n\nimport _ %q\n", imported)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	faults, err := internalImports(dir)
	if err != nil || len(faults) != 2 {
		t.Errorf("the faults are %q, %v, want two", faults, err)
	}
}

// internalImports lists the imports of internal packages of the root module, in
// all Go files below a folder.
func internalImports(root string) (faults []string, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if covers(module+"/internal/...", name) {
				faults = append(faults, fmt.Sprintf("%s imports %s, which is internal", file, name))
			}
		}
		return nil
	})
	return faults, err
}

// A program that tests with statortest does not get the modules of the object stores, of
// Terraform's language and of TiKV into its go.mod. Build tags do not help: go mod tidy
// ignores them, and so does this test.
func TestStatortestHasFewModules(t *testing.T) {
	code, err := readImports(moduleDir)
	if err != nil {
		t.Fatal(err)
	}
	if faults := heavyModules(code, "statortest"); len(faults) != 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	// The control: the program has them.
	if faults := heavyModules(code, "cmd/stator"); len(faults) < 3 {
		t.Errorf("cmd/stator imports only %q", faults)
	}
}

// heavyModules lists the imports of large modules by a package and by those of our packages
// that it depends on.
func heavyModules(code imports, root string) (faults []string) {
	seen, todo := map[string]bool{root: true}, []string{root}
	for len(todo) > 0 {
		pkg := todo[0]
		todo = todo[1:]
		for _, to := range code[pkg] {
			for _, heavy := range []string{"service/s3", "hashicorp/", "zclconf/", "tikv/", "pingcap/"} {
				if isLibrary(to) && strings.Contains(to, heavy) {
					faults = append(faults, fmt.Sprintf("%s depends on %s, which imports %s", root, pkg, to))
				}
			}
			if !seen[to] && !isLibrary(to) {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return faults
}
