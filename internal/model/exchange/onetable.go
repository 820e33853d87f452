package exchange

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// isOneTable reports whether a file is a schema of OneTable.
func isOneTable(root *sourceTree) bool {
	return root.get("models") != nil && root.get("indexes", "primary") != nil
}

// oneTableSchema reads a schema of OneTable. It does not name its table.
type oneTableSchema struct {
	schemaReader
	root      *sourceTree
	typeField string
	isoDates  bool
}

func readOneTable(file string, root *sourceTree, vars map[string]string) (*Design, error) {
	name := cmp.Or(vars["table"], slug(plainName(file)))
	r := &oneTableSchema{schemaReader: newSchemaReader(file, "OneTable", name, root), root: root,
		typeField: cmp.Or(textOf(root.get("params", "typeField")), "_type"), isoDates: isTrue(root.get("params", "isoDates"))}
	if root.get("models").kind != treeMap || root.get("indexes").kind != treeMap {
		return nil, Faults{{File: file, At: root.at, Message: "models or indexes are not a mapping"}}
	}
	for _, x := range root.get("indexes").members {
		r.readIndex(x)
	}
	for _, m := range root.get("models").members {
		r.model(m)
	}
	return r.design(name)
}

func isTrue(t *sourceTree) bool { return t != nil && t.kind == treeBool && t.text == "true" }

// readIndex adds the table's key or an index.
func (r *oneTableSchema) readIndex(x treeMember) {
	name, hash := x.name, textOf(x.value.get("hash"))
	local := textOf(x.value.get("type")) == "local"
	if name == "primary" {
		name = ""
	}
	if local {
		hash = cmp.Or(hash, textOf(r.root.get("indexes", "primary", "hash")))
	}
	key := []keyPart{{hash, "HASH"}}
	if sort := textOf(x.value.get("sort")); sort != "" {
		key = append(key, keyPart{sort, "RANGE"})
	}
	projection, names := "ALL", []string(nil)
	project := x.value.get("project")
	switch {
	case textOf(project) == "keys":
		projection = "KEYS_ONLY"
	case len(listOrNil(project)) > 0:
		projection = "INCLUDE"
		for _, n := range project.list {
			names = append(names, n.text)
		}
	}
	r.index(x.value, name, key, local, projection, names)
}

// model reads a model as an entity.
func (r *oneTableSchema) model(m treeMember) {
	e := &Entity{Name: r.unique(cmp.Or(slug(m.name), "item")), Table: r.table.name}
	values := make(map[string]KeyTemplate)
	for _, a := range m.value.members {
		if text := textOf(a.value.get("value")); text != "" {
			values[a.name] = r.value(m, a, text)
		}
	}
	for _, name := range r.keyNames() {
		if k, ok := values[name]; ok {
			e.addKey(k)
		}
	}
	for _, a := range m.value.members {
		if !slices.ContainsFunc(e.Keys, func(k KeyTemplate) bool { return k.Name == a.name }) {
			e.add(r.attribute(e, a, values))
		}
	}
	e.add(SampleAttribute{Name: r.typeField, Values: []string{m.name}})
	if stamps := r.root.get("params", "timestamps"); stamps != nil {
		for _, when := range []struct{ name, field string }{{"create", cmp.Or(textOf(r.root.get("params", "createdField")), "created")},
			{"update", cmp.Or(textOf(r.root.get("params", "updatedField")), "updated")}} {
			if isTrue(stamps) || textOf(stamps) == when.name {
				e.add(r.date(when.field))
			}
		}
	}
	r.entities = append(r.entities, e)
	r.queries(e, m.value)
}

// keyNames returns the attributes of the table's key and of the indexes.
func (r *oneTableSchema) keyNames() (names []string) {
	for _, k := range r.table.key {
		names = appendMissing(names, k.name)
	}
	for _, x := range r.table.indexes {
		for _, k := range x.key {
			names = appendMissing(names, k.name)
		}
	}
	return names
}

// value returns the template of an attribute. The name of the model stands for its type.
func (r *oneTableSchema) value(m, a treeMember, text string) KeyTemplate {
	text = strings.ReplaceAll(text, "${"+r.typeField+"}", m.name)
	k := KeyTemplate{Name: a.name}
	k.Text, k.Parts = r.placeholders(a.value, text, func(name string) string {
		if m.value.get(name) == nil {
			return ""
		}
		return name
	})
	return k
}

// attribute returns an attribute of a model.
func (r *oneTableSchema) attribute(e *Entity, a treeMember, values map[string]KeyTemplate) SampleAttribute {
	kind := strings.ToLower(cmp.Or(textOf(a.value.get("type")), textOf(a.value)))
	attribute := SampleAttribute{Name: a.name, Type: map[string]string{"string": "S", "number": "N", "boolean": "BOOL", "array": "L", "object": "M",
		"set": "SS", "binary": "B", "buffer": "B", "typedarray": "B", "arraybuffer": "B"}[kind]}
	for _, v := range listOrNil(a.value.get("enum")) {
		attribute.Values = append(attribute.Values, v.text)
	}
	if k, ok := values[a.name]; ok {
		attribute.Template = k.Text
	}
	switch generate := textOf(a.value.get("generate")); {
	case generate == "ulid", strings.HasPrefix(generate, "uuid"):
		attribute.Format = generate[:4]
	}
	if kind == "date" {
		attribute = r.date(a.name)
	}
	if isTrue(a.value.get("ttl")) {
		attribute.Type, attribute.Format = "N", "epoch-seconds"
		r.table.ttl = a.name
	}
	if attribute.Type != "" && attribute.Type != "S" {
		for _, name := range r.keyNames() {
			if name == a.name {
				r.keyType(name, attribute.Type)
			}
		}
	}
	if target := textOf(a.value.get("map")); target != "" {
		e.Notes = append(e.Notes, fmt.Sprintf("%s is stored as %s.", a.name, target))
	}
	return attribute
}

// date returns an attribute that holds a time.
func (r *oneTableSchema) date(name string) SampleAttribute {
	if r.isoDates {
		return SampleAttribute{Name: name, Format: "iso8601-ms"}
	}
	return SampleAttribute{Name: name, Type: "N", Format: "epoch-millis"}
}

// queries adds the access patterns of a model: it is read and created by its key, and
// found by each index that it has keys for.
func (r *oneTableSchema) queries(e *Entity, m *sourceTree) {
	has := func(name string) bool { return m.get(name) != nil }
	var primary []string
	for _, k := range r.table.key {
		primary = append(primary, k.name)
	}
	if len(primary) == 0 || !has(primary[0]) {
		return
	}
	leaves := e.leaves(primary...)
	r.patterns = append(r.patterns, SourcePattern{Name: "get " + e.Name, Verb: "get", Entity: e.Name, Given: leaves},
		SourcePattern{Name: "create " + e.Name, Verb: "put", Entity: e.Name, Condition: "attribute_not_exists(" + r.partition() + ")"})
	if partition := e.leaves(primary[0]); len(partition) < len(leaves) {
		r.patterns = append(r.patterns, SourcePattern{Name: "find " + e.Name, Verb: "query", Entity: e.Name, Given: partition})
	}
	for _, x := range r.table.indexes {
		if !slices.ContainsFunc(x.key, func(k keyPart) bool { return !has(k.name) }) {
			r.patterns = append(r.patterns, SourcePattern{Name: e.Name + " by " + x.name, Verb: "query", Entity: e.Name, Given: e.leaves(x.key[0].name), Index: x.name})
		}
	}
}
