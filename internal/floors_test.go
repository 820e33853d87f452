package internal

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	moduleDir    = ".."
	module       = "github.com/stator-db/stator"
	architecture = "../docs/architecture.md"
)

// The imports follow the floors of docs/architecture.md.
func TestFloors(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	h, err := readLayering(string(text))
	if err != nil {
		t.Fatalf("%s: %v", architecture, err)
	}
	code, err := readImports(moduleDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range h.faults(code) {
		t.Error(fault)
	}
}

// The control: a violation of each rule is found.
func TestFloorsAreHeld(t *testing.T) {
	h, err := readLayering(`
| floor | packages | what they know |
|---|---|---|
| 2 top | ` + "`top/a`, `top/b`" + ` | |
| 1 low | ` + "`low`, `low/sub`" + ` | |

| package | does not import | because |
|---|---|---|
| ` + "`top/b`" + ` | ` + "`low/...`, `os`" + ` | |

| library | imported by |
|---|---|
| ` + "`lib.org/x`" + ` | ` + "`low`" + ` |
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, from, to, want string
	}{
		{"down is allowed", "top/a", "low", ""},
		{"back within a row is allowed", "top/b", "top/a", ""},
		{"up is caught", "low", "top/a", "low imports top/a, which stands above it"},
		{"up within a row is caught", "top/a", "top/b", "top/a imports top/b, which stands above it"},
		{"a package without a place is caught", "stray", "low", "stray has no floor"},
		{"a special rule is held", "top/b", "low", "top/b imports low, which it must not"},
		{"a special rule reaches below", "top/b", "low/sub", "top/b imports low/sub, which it must not"},
		{"the standard library can be forbidden", "top/b", "os", "top/b imports os, which it must not"},
		{"the standard library is free otherwise", "top/a", "os", ""},
		{"a library has its importer", "low", "lib.org/x/y", ""},
		{"a library of another is caught", "top/a", "lib.org/x", "top/a imports lib.org/x, which is for low"},
		{"a longer name is another library", "low", "lib.org/xy", "low imports lib.org/xy, which is for no package"},
		{"an unknown library is caught", "low", "lib.org/z", "low imports lib.org/z, which is for no package"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code := imports{"top/a": nil, "top/b": nil, "low": nil, "low/sub": nil}
			code[c.from] = []string{c.to}
			got := strings.Join(h.faults(code), "; ")
			if got != c.want {
				t.Errorf("faults are %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a listed package that does not exist is caught", func(t *testing.T) {
		got := strings.Join(h.faults(imports{"top/a": nil, "top/b": nil, "low": nil}), "; ")
		if want := "low/sub has a floor but does not exist"; got != want {
			t.Errorf("faults are %q, want %q", got, want)
		}
	})
}

// imports maps each package to its imports. Our packages are named by their
// folder, "." is the root.
type imports map[string][]string

// layering has the rules of the tables in docs/architecture.md.
type layering struct {
	height    map[string]int // of each package; a package imports lower ones
	forbidden []ban
	libraries map[string][]string // which packages may import each
}

type ban struct{ from, to string }

func (h *layering) faults(code imports) (faults []string) {
	note := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, pkg := range slices.Sorted(maps.Keys(h.height)) {
		if _, ok := code[pkg]; !ok {
			note("%s has a floor but does not exist", pkg)
		}
	}
	for _, from := range slices.Sorted(maps.Keys(code)) {
		height, ok := h.height[from]
		if !ok {
			note("%s has no floor", from)
			continue
		}
		for _, to := range code[from] {
			below, ours := h.height[to]
			switch {
			case h.bans(from, to):
				note("%s imports %s, which it must not", from, to)
			case ours && below >= height:
				note("%s imports %s, which stands above it", from, to)
			case isLibrary(to) && !h.mayImport(from, to):
				note("%s imports %s, which is for %s", from, to, h.importers(to))
			}
		}
	}
	return faults
}

func (h *layering) bans(from, to string) bool {
	return slices.ContainsFunc(h.forbidden, func(b ban) bool { return covers(b.from, from) && covers(b.to, to) })
}

func (h *layering) mayImport(from, to string) bool {
	return slices.Contains(h.libraries[h.libraryOf(to)], from)
}

func (h *layering) importers(to string) string {
	if lib := h.libraryOf(to); lib != "" {
		return strings.Join(h.libraries[lib], ", ")
	}
	return "no package"
}

// libraryOf returns the library in the table that a package belongs to.
func (h *layering) libraryOf(pkg string) string {
	for lib := range h.libraries {
		if covers(lib+"/...", pkg) {
			return lib
		}
	}
	return ""
}

// covers reports whether a pattern, which may end in /..., matches a package.
func covers(pattern, pkg string) bool {
	root, deep := strings.CutSuffix(pattern, "/...")
	return pkg == root || deep && strings.HasPrefix(pkg, root+"/")
}

// isLibrary reports whether a package is in another module: its host has a
// dot.
func isLibrary(pkg string) bool {
	host, _, _ := strings.Cut(pkg, "/")
	return strings.Contains(host, ".") && host != "."
}

var quoted = regexp.MustCompile("`([^`]+)`")

// readLayering parses the three tables, which it distinguishes by their first
// row.
func readLayering(text string) (*layering, error) {
	h := &layering{height: make(map[string]int), libraries: make(map[string][]string)}
	var floors [][]string
	table, lowest := "", math.MaxInt
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 {
			table = ""
			continue
		}
		first := strings.TrimSpace(cells[1])
		left, right := names(cells[1]), names(cells[2])
		switch {
		case table == "":
			table = first
		case strings.HasPrefix(first, "---"):
		case table == "floor":
			floor, _, _ := strings.Cut(first, " ")
			if floor != "wing" {
				n, err := strconv.Atoi(floor)
				if err != nil || n >= lowest {
					return nil, fmt.Errorf("the floor %q does not stand below the one before", first)
				}
				lowest = n
			}
			floors = append(floors, right)
		case table == "package":
			for _, from := range left {
				for _, to := range right {
					h.forbidden = append(h.forbidden, ban{from, to})
				}
			}
		case table == "library":
			for _, lib := range left {
				h.libraries[lib] = right
			}
		}
	}
	slices.Reverse(floors)
	for _, packages := range floors {
		for _, pkg := range packages {
			if _, twice := h.height[pkg]; twice {
				return nil, fmt.Errorf("%s has two floors", pkg)
			}
			h.height[pkg] = len(h.height)
		}
	}
	if len(h.height) == 0 || len(h.forbidden) == 0 || len(h.libraries) == 0 {
		return nil, fmt.Errorf("one of the tables of floors, rules and libraries is missing")
	}
	return h, nil
}

func names(cell string) (names []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// readImports reads the imports of all files that are not tests. Folders with
// a module of their own are skipped.
func readImports(root string) (imports, error) {
	code := make(imports)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, file, d.Name())
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(dir)
		code[pkg] = append(code[pkg], nil...) // present even if it imports nothing
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if name = local(name); !slices.Contains(code[pkg], name) {
				code[pkg] = append(code[pkg], name)
			}
		}
		return nil
	})
	return code, err
}

// enter returns fs.SkipDir for a folder that cannot have packages of this
// module.
func enter(root, dir, name string) error {
	if dir == root {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// local names our own packages by their folder.
func local(name string) string {
	if name == module {
		return "."
	}
	if inside, ok := strings.CutPrefix(name, module+"/"); ok {
		return path.Clean(inside)
	}
	return name
}
