package model

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const propertySeed = 20261117

// correctModels returns the text of every model that has no faults, by name: the
// applications, the examples and the fixed models of the corpus.
func correctModels(t *testing.T) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	for _, pattern := range []string{"../../apps/*/*.model.yaml", "../../examples/models/*.model.yaml", "testdata/*/*.fixed.model.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no models in %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.Base(file)] = text
		}
	}
	return found
}

// eachChange applies a random change to every correct model, which must remain
// correct.
func eachChange(t *testing.T, change func(text []byte, chance *rand.Rand) []byte) {
	for name, text := range correctModels(t) {
		seeds := uint64(4)
		if strings.Contains(name, ".fixed.") {
			seeds = 1
		}
		for seed := range seeds {
			changed := change(text, rand.New(rand.NewPCG(propertySeed, seed)))
			if faults := faultsOf(changed); faults != nil {
				t.Errorf("%s with seed %d, %d becomes faulty: %s", name, propertySeed, seed, strings.Join(faults, "\n"))
				t.Logf("%s", changed)
			}
		}
	}
}

// A correct model stays correct, and costs the same, when its entities,
// attributes, tables, indexes and patterns get other names of the same length.
func TestRenamingIsHarmless(t *testing.T) {
	eachChange(t, func(text []byte, chance *rand.Rand) []byte {
		renamed := rename(t, text, chance)
		before, after := parsed(t, text), parsed(t, renamed)
		if after == nil {
			return renamed
		}
		a, b := before.Cost(DefaultPrices()), after.Cost(DefaultPrices())
		if math.Abs(a.Dollars-b.Dollars) > 1e-9*a.Dollars {
			t.Errorf("it costs %v, and %v with other names:\n%s", a.Dollars, b.Dollars, renamed)
		}
		return renamed
	})
}

func parsed(t *testing.T, text []byte) *Model {
	t.Helper()
	m, err := Parse("x", text)
	if err != nil {
		t.Errorf("%v", err)
		return nil
	}
	return m
}

// rename replaces the names that a model declares, except those that are also
// words of the format.
func rename(t *testing.T, text []byte, chance *rand.Rand) []byte {
	m := parsed(t, text)
	names := slices.Concat(names(m.Tables), names(m.Entities))
	for _, x := range m.Tables {
		for _, i := range x.Indexes {
			names = append(names, i.Name)
		}
		for _, a := range x.schema.Attributes {
			names = append(names, a.Name)
		}
	}
	for _, e := range m.Entities {
		names = append(names, e.names()...)
	}
	slices.Sort(names)
	words, taken := formatWords(), make(map[string]bool)
	for _, name := range slices.Compact(names) {
		if words[name] || len(name) < 4 || !regexp.MustCompile(`^[a-zA-Z0-9-]+$`).MatchString(name) {
			continue
		}
		other := randomName(len(name), chance)
		for taken[other] || strings.Contains(string(text), other) {
			other = randomName(len(name), chance)
		}
		taken[other] = true
		text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAll(text, []byte(other))
	}
	return text
}

func randomName(length int, chance *rand.Rand) string {
	name := []byte("z")
	for len(name) < length {
		name = append(name, "abcdefghijklmnopqrstuvwxyz"[chance.IntN(26)])
	}
	return string(name)
}

// formatWords returns the words that the format defines.
func formatWords() map[string]bool {
	words := map[string]bool{"true": true, "false": true, "null": true, "size": true, "desc": true}
	var add func(t reflect.Type)
	seen := make(map[reflect.Type]bool)
	add = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for _, f := range fieldSpecs(t) {
			words[f.name] = true
			for _, word := range f.oneof {
				words[word] = true
			}
			add(t.FieldByIndex(f.index).Type)
		}
	}
	add(reflect.TypeFor[Model]())
	for unit := range perUnit {
		words[unit] = true
	}
	return words
}

// A correct model stays correct in any order of its mappings and of the lists
// whose order has no meaning.
func TestReorderingIsHarmless(t *testing.T) {
	eachChange(t, func(text []byte, chance *rand.Rand) []byte {
		return edited(t, text, func(path []string, value any) any {
			switch x := value.(type) {
			case yaml.MapSlice:
				chance.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
			case []any:
				if slices.Contains(unordered, path[len(path)-1]) {
					chance.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
				}
			}
			return value
		})
	})
}

// unordered are the lists whose order has no meaning. The attributes of a key
// and the initial states of a machine have an order.
var unordered = []string{"patterns", "rules", "transitions", "transact", "batch", "given", "each", "returns", "remove", "except", "tables", "values", "from"}

// A correct model stays correct if a pattern never runs, or none does.
func TestRateOfZeroIsHarmless(t *testing.T) {
	eachChange(t, func(text []byte, chance *rand.Rand) []byte {
		all := chance.IntN(2) == 0
		return edited(t, text, func(path []string, value any) any {
			x, ok := value.(yaml.MapSlice)
			if !ok || path[len(path)-1] != "patterns" || !all && chance.IntN(2) == 0 {
				return value
			}
			x = slices.DeleteFunc(x, func(m yaml.MapItem) bool { return m.Key == "peak" })
			for i := range x {
				if x[i].Key == "rate" {
					x[i].Value = "0/s"
				}
			}
			return x
		})
	})
}

// edited returns a text with each mapping and list replaced by what edit returns
// for it. The elements of a list have the path of the list.
func edited(t *testing.T, text []byte, edit func(path []string, value any) any) []byte {
	t.Helper()
	var root any
	if err := yaml.UnmarshalWithOptions(text, &root, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	var visit func(path []string, value any) any
	visit = func(path []string, value any) any {
		switch x := value.(type) {
		case yaml.MapSlice:
			for i := range x {
				key, _ := x[i].Key.(string)
				x[i].Value = visit(append(slices.Clip(path), key), x[i].Value)
			}
		case []any:
			for i := range x {
				x[i] = visit(path, x[i])
			}
		}
		return edit(path, value)
	}
	changed, err := yaml.Marshal(visit([]string{""}, root))
	if err != nil {
		t.Fatal(err)
	}
	return changed
}
