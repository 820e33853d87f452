package model

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The document names every field of the format.
func TestDocumentNamesEveryField(t *testing.T) {
	text := document(t)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Model](), reflect.TypeFor[Table](), reflect.TypeFor[Key](), reflect.TypeFor[Index](), reflect.TypeFor[Capacity](), reflect.TypeFor[Entity](),
		reflect.TypeFor[Template](), reflect.TypeFor[Attribute](), reflect.TypeFor[Sizes](), reflect.TypeFor[Machine](), reflect.TypeFor[Transition](),
		reflect.TypeFor[Pattern](), reflect.TypeFor[Range](), reflect.TypeFor[Rule](), reflect.TypeFor[Budgets](), reflect.TypeFor[Budget](),
	} {
		for _, f := range fieldSpecs(typ) {
			if !strings.Contains(text, "`"+f.name+"`") {
				t.Errorf("docs/model.md does not name %s of %s", f.name, typ.Name())
			}
			for _, word := range f.oneof {
				if !strings.Contains(text, word) {
					t.Errorf("docs/model.md does not name %s, which %s can be", word, f.name)
				}
			}
		}
	}
}

// The document has a row for every kind of fault and note in the corpus, and
// names only models that are in it.
func TestDocumentNamesEveryFault(t *testing.T) {
	_, text, _ := strings.Cut(document(t), "## What check finds")
	files, err := filepath.Glob("testdata/*/*.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`(?m)^# (?:fault|note): \d+:\d+ ([a-z]+):`)
	for _, file := range files {
		faulty, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if m := code.FindSubmatch(faulty); m != nil && !strings.Contains(text, "| `"+string(m[1])+"` |") {
			t.Errorf("docs/model.md has no row for %s", m[1])
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `[a-z]+` \\| [^|]* \\| ([^|]*) \\|$").FindAllStringSubmatch(text, -1) {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			if found, _ := filepath.Glob("testdata/*/" + name[1] + ".model.yaml"); len(found) == 0 {
				t.Errorf("docs/model.md names the model %s, which the corpus does not have", name[1])
			}
		}
	}
}

// The document's own example is a good design.
func TestDocumentExample(t *testing.T) {
	_, rest, _ := strings.Cut(document(t), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	if faults := faultsOf([]byte(example)); faults != nil {
		t.Errorf("the example has faults: %s", strings.Join(faults, "\n"))
	}
}
