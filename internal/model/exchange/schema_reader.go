package exchange

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// SourcePattern is an access pattern that a source has a method for.
type SourcePattern struct {
	Name, Verb, Entity string
	Given              []string
	Index              string
	Condition          string
}

// schemaReader collects what the schemas of a library for single tables say.
type schemaReader struct {
	file, library string
	table         *describedTable
	entities      []*Entity
	patterns      []SourcePattern
	names         map[string]bool
	faults        Faults
}

func newSchemaReader(file, library, table string, root *sourceTree) schemaReader {
	return schemaReader{file: file, library: library, names: make(map[string]bool),
		table: &describedTable{file: file, at: root.at, what: "table " + table, name: table, onDemand: true}}
}

func (r *schemaReader) fault(at *sourceTree, format string, args ...any) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{r.file, at.at, fmt.Sprintf(format, args...)})
	}
}

// unique returns a name that no entity has yet.
func (r *schemaReader) unique(name string) string {
	for base, n := name, 2; r.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	r.names[name] = true
	return name
}

// index adds the table's key, if name is empty, or an index. Several entities may
// declare it.
func (r *schemaReader) index(at *sourceTree, name string, key []keyPart, local bool, projection string, names []string) {
	for _, k := range key {
		if k.name == "" {
			r.fault(at, "a key has no name")
			return
		}
		r.keyType(k.name, "S")
	}
	if name == "" {
		if r.table.key != nil && !slices.Equal(r.table.key, key) {
			r.fault(at, "two entities have different keys of the table; they are not in the same table")
		}
		r.table.key = key
		return
	}
	for _, x := range r.table.indexes {
		if x.name != name {
			continue
		}
		if len(key) > len(x.key) {
			x.key = key
		}
		return
	}
	r.table.indexes = append(r.table.indexes, &describedIndex{name: name, key: key, local: local, projection: projection, names: names})
}

// keyType sets the type of a key attribute.
func (r *schemaReader) keyType(name, kind string) {
	for i := range r.table.types {
		if r.table.types[i].name == name {
			if kind != "S" {
				r.table.types[i].kind = kind
			}
			return
		}
	}
	r.table.types = append(r.table.types, attributeType{name, kind})
}

var schemaPlaceholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([^}]*)\}`) })

// placeholders converts text with ${attribute} to a template. field returns the name of
// an attribute in the table, "" if there is none.
func (r *schemaReader) placeholders(at *sourceTree, text string, field func(name string) string) (converted string, parts []string) {
	last := 0
	for _, m := range schemaPlaceholder().FindAllStringSubmatchIndex(text, -1) {
		converted += escaped(text[last:m[0]])
		last = m[1]
		name, _, _ := strings.Cut(text[m[2]:m[3]], ":") // a padding may follow
		f := field(name)
		if f == "" || !templatable(f) {
			r.fault(at, "%q contains %s, which is not an attribute", text, name)
			continue
		}
		converted += "{" + f + "}"
		parts = appendMissing(parts, f)
	}
	return converted + escaped(text[last:]), parts
}

// template returns the template of a key or of another attribute. field returns the name
// of an attribute in the table. A number that is padded in the key is a part of its own,
// since the item has it without padding.
func (r *schemaReader) template(e *Entity, at *sourceTree, key, text string, field func(name string) string) KeyTemplate {
	for _, match := range paddedPlaceholder().FindAllStringSubmatch(text, -1) {
		if field(match[1]) == "" {
			continue // reported below
		}
		part := match[1] + "Padded"
		text = strings.ReplaceAll(text, match[0], "${"+part+"}")
		e.add(SampleAttribute{Name: part, Format: "sequence", Size: match[2], Unstored: true})
		e.Notes = append(e.Notes, fmt.Sprintf("%s is %s as the key %s contains it.", part, match[1], key))
	}
	k := KeyTemplate{Name: key}
	k.Text, k.Parts = r.placeholders(at, text, func(name string) string {
		if slices.ContainsFunc(e.Attributes, func(x SampleAttribute) bool { return x.Name == name && x.Unstored }) {
			return name
		}
		return field(name)
	})
	return k
}

var paddedPlaceholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([^}:]+):(\d{1,2}):[^}]*\}`) })

// escaped returns text as a template contains it.
func escaped(text string) string { return strings.NewReplacer("{", "{{", "}", "}}").Replace(text) }

// numberKey sets the type of a key that is a number attribute alone.
func (r *schemaReader) numberKey(k KeyTemplate, kindOf func(attribute string) string) {
	if len(k.Parts) == 1 && k.Text == "{"+k.Parts[0]+"}" {
		r.keyType(k.Name, kindOf(k.Parts[0]))
	}
}

// notExists is the condition of a put that creates an item.
func (r *schemaReader) notExists() string {
	var tests []string
	for _, k := range r.table.key {
		tests = append(tests, "attribute_not_exists("+k.name+")")
	}
	return strings.Join(tests, " AND ")
}

// design returns what was read.
func (r *schemaReader) design(name string) (*Design, error) {
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	tables, faults := toTables([]*describedTable{r.table})
	if len(faults) > 0 {
		return nil, faults
	}
	return &Design{Name: name, Source: r.library + ", " + filepath.Base(r.file), Tables: tables, Entities: r.entities, Patterns: r.patterns}, nil
}

// add adds an attribute, unless it is a key or declared already.
func (e *Entity) add(a SampleAttribute) {
	same := func(x SampleAttribute) bool { return x.Name == a.Name }
	isKey := func(k KeyTemplate) bool { return k.Name == a.Name }
	if usable(a.Name) && !slices.ContainsFunc(e.Attributes, same) && !slices.ContainsFunc(e.Keys, isKey) {
		e.Attributes = append(e.Attributes, a)
	}
}

// addKey adds a key, unless another index has the same. A key that is an attribute
// itself needs no template.
func (e *Entity) addKey(k KeyTemplate) {
	if slices.ContainsFunc(e.Keys, func(x KeyTemplate) bool { return x.Name == k.Name }) || k.Text == "{"+k.Name+"}" {
		return
	}
	e.Keys = append(e.Keys, k)
}

// queries adds the access patterns of an entity: it is read and created by its key, and
// found by each index that it has keys for. has reports whether it has an attribute.
func (r *schemaReader) queries(e *Entity, has func(name string) bool) {
	var primary []string
	for _, k := range r.table.key {
		primary = append(primary, k.name)
	}
	if len(primary) == 0 || !has(primary[0]) {
		return
	}
	leaves := e.leaves(primary...)
	r.patterns = append(r.patterns, SourcePattern{Name: "get " + e.Name, Verb: "get", Entity: e.Name, Given: leaves},
		SourcePattern{Name: "create " + e.Name, Verb: "put", Entity: e.Name, Condition: r.notExists()})
	if partition := e.leaves(primary[0]); len(partition) < len(leaves) {
		r.patterns = append(r.patterns, SourcePattern{Name: "find " + e.Name, Verb: "query", Entity: e.Name, Given: partition})
	}
	for _, x := range r.table.indexes {
		if !slices.ContainsFunc(x.key, func(k keyPart) bool { return !has(k.name) }) {
			r.patterns = append(r.patterns, SourcePattern{Name: e.Name + " by " + x.name, Verb: "query", Entity: e.Name, Given: e.leaves(x.key[0].name), Index: x.name})
		}
	}
}
