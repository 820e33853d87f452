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
		if isTrue(a.value.get("value")) {
			r.fault(a.value, "the value of %s is computed by a function; docs/model-commands.md has a program that exports it", a.name)
		} else if text := textOf(a.value.get("value")); text != "" {
			values[stored(a)] = r.value(e, m, a, text)
		}
	}
	for _, name := range r.keyNames() {
		if k, ok := values[name]; ok {
			e.addKey(k)
		}
	}
	for _, a := range m.value.members {
		if !slices.ContainsFunc(e.Keys, func(k KeyTemplate) bool { return k.Name == stored(a) }) {
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
	r.queries(e, func(name string) bool {
		return slices.ContainsFunc(m.value.members, func(a treeMember) bool { return stored(a) == name })
	})
}

// keyNames returns the attributes of the table's key and of the indexes.
func (r *schemaReader) keyNames() (names []string) {
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

// stored is the name of an attribute in the table: map may rename it.
func stored(a treeMember) string {
	if target := textOf(a.value.get("map")); target != "" && !strings.Contains(target, ".") {
		return target
	}
	return a.name
}

// value returns the template of an attribute. The name of the model stands for its type.
func (r *oneTableSchema) value(e *Entity, m, a treeMember, text string) KeyTemplate {
	text = strings.ReplaceAll(text, "${"+r.typeField+"}", m.name)
	k := r.template(e, a.value, stored(a), text, func(name string) string {
		for _, other := range m.value.members {
			if other.name == name {
				return stored(other)
			}
		}
		return ""
	})
	r.numberKey(k, func(attribute string) string {
		for _, other := range m.value.members {
			if stored(other) == attribute && strings.EqualFold(textOf(other.value.get("type")), "number") {
				return "N"
			}
		}
		return "S"
	})
	return k
}

// attribute returns an attribute of a model.
func (r *oneTableSchema) attribute(e *Entity, a treeMember, values map[string]KeyTemplate) SampleAttribute {
	kind := strings.ToLower(cmp.Or(textOf(a.value.get("type")), textOf(a.value)))
	attribute := SampleAttribute{Name: stored(a), Type: map[string]string{"string": "S", "number": "N", "boolean": "BOOL", "array": "L", "object": "M",
		"set": "SS", "binary": "B", "buffer": "B", "typedarray": "B", "arraybuffer": "B"}[kind]}
	for _, v := range listOrNil(a.value.get("enum")) {
		attribute.Values = append(attribute.Values, v.text)
	}
	if k, ok := values[stored(a)]; ok {
		attribute.Template = k.Text
	}
	switch generate := textOf(a.value.get("generate")); {
	case generate == "ulid", strings.HasPrefix(generate, "uuid"):
		attribute.Format = generate[:4]
	}
	if kind == "date" {
		attribute = r.date(stored(a))
	}
	if isTrue(a.value.get("ttl")) {
		attribute.Type, attribute.Format = "N", "epoch-seconds"
		r.table.ttl = stored(a)
	}
	if attribute.Type != "" && attribute.Type != "S" {
		for _, name := range r.keyNames() {
			if name == stored(a) {
				r.keyType(name, attribute.Type)
			}
		}
	}
	if target := textOf(a.value.get("map")); strings.Contains(target, ".") {
		e.Notes = append(e.Notes, fmt.Sprintf("%s is stored as %s, within another attribute.", a.name, target))
	}
	if isTrue(a.value.get("unique")) {
		e.Notes = append(e.Notes, fmt.Sprintf("%s is unique: OneTable writes another item for it, in a transaction.", a.name))
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
