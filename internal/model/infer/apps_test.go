package infer

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/exchange"
)

// appModels returns the models of the four applications, by file.
func appModels(t *testing.T) map[string]*model.Model {
	t.Helper()
	files, err := filepath.Glob("../../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	all := make(map[string]*model.Model)
	for _, file := range files {
		if filepath.Base(file) == "documents.model.yaml" {
			file = "testdata/documents.model.yaml" // without what is not derived
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if all[filepath.Base(file)], err = model.Parse(file, text); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// samplesOf generates items of all entities of a model but one, and those that its patterns read, which
// have all states.
func samplesOf(t *testing.T, m *model.Model, except string) (samples []*TableSample) {
	t.Helper()
	byTable := make(map[string]*TableSample)
	seen := make(map[string]bool)
	for _, x := range m.Tables {
		s := &TableSample{Table: &exchange.Table{Table: *x}, Complete: true}
		byTable[x.Name] = s
		samples = append(samples, s)
	}
	add := func(table *model.Table, it item.Item) {
		key := table.Name + string(keyspace.Item(nil, table.Schema(), it))
		if s := byTable[table.Name]; !seen[key] {
			seen[key] = true
			s.Items = append(s.Items, it)
			s.Count++
		}
	}
	for _, e := range m.Entities {
		for i := range 60 {
			if e.Name != except {
				add(e.TableOf(), model.Generator{}.Item(e, 1_000_000+i))
			}
		}
	}
	for _, p := range m.Patterns {
		for run := range 4 {
			scenario, err := m.Scenario(m.Plan(p), model.Generator{}, run)
			if err != nil {
				t.Fatal(err)
			}
			for _, stored := range scenario.Before {
				if entityOf(m, stored) != except {
					table, _ := m.Table(stored.Table)
					add(table, stored.Item)
				}
			}
		}
	}
	return samples
}

// entityOf returns the entity of a generated item, by its key.
func entityOf(m *model.Model, s model.Stored) string {
	table, _ := m.Table(s.Table)
	matchesForm := func(template, text string) bool {
		at := 0
		for _, constant := range templateName.Split(template, -1) {
			n := strings.Index(text[at:], constant)
			if n < 0 {
				return false
			}
			at += n + len(constant)
		}
		return strings.Count(text, "#") == strings.Count(template, "#")
	}
	for _, e := range m.EntitiesOf(table) {
		matches := true
		for _, a := range table.Schema().Key.All() {
			v, _ := s.Item.Get(a.Name)
			f, _ := e.Field(a.Name)
			matches = matches && matchesForm(f.Template(), string(v.Bytes()))
			if f.Attribute != nil && len(f.Attribute.Values) > 0 {
				matches = matches && slices.Contains(f.Attribute.Values, string(v.Bytes()))
			}
		}
		if matches {
			return e.Name
		}
	}
	return ""
}

var templateName = regexp.MustCompile(`\{[^}]*\}`)

// keyForms returns the keys of an entity with * for each attribute.
func keyForms(m *model.Model, e *model.Entity) string {
	all := []string{e.TableOf().Name}
	for _, a := range e.TableOf().Schema().Attributes {
		if f, ok := e.Field(a.Name); ok {
			all = append(all, a.Name+"="+templateName.ReplaceAllString(f.Template(), "*"))
		}
	}
	slices.Sort(all[1:])
	return strings.Join(all, " ")
}

// The entities of the four applications are found in their items, with the templates of all keys.
// An entity that is not in the items is not found.
func TestEntitiesOfApplications(t *testing.T) {
	for file, m := range appModels(t) {
		t.Run(file, func(t *testing.T) {
			compareEntities(t, m, "")
			compareEntities(t, m, m.Entities[0].Name)
		})
	}
}

func compareEntities(t *testing.T, m *model.Model, except string) {
	t.Helper()
	r := From(m.Name, "generated items", samplesOf(t, m, except))
	r.AssumePatterns()
	text, err := r.Model()
	if err != nil {
		t.Fatal(err)
	}
	derived, err := model.Parse("derived", text)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, e := range m.Entities {
		if e.Name != except {
			want = append(want, keyForms(m, e))
		}
	}
	for _, e := range derived.Entities {
		got = append(got, keyForms(derived, e))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("without %q the entities are\n  %s\nwant\n  %s\n%s", except, strings.Join(got, "\n  "), strings.Join(want, "\n  "), text)
	}
}
