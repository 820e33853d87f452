package exchange

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// isToolbox reports whether a value is an entity of dynamodb-toolbox, as its EntityDTO
// describes it.
func isToolbox(t *sourceTree) bool {
	return t.get("entityName") != nil && t.get("schema", "attributes") != nil && t.get("table", "partitionKey") != nil
}

// toolboxEntities returns the entities in a file: one, or a list or mapping of them.
func toolboxEntities(root *sourceTree) (all []*sourceTree) {
	if isToolbox(root) {
		return []*sourceTree{root}
	}
	if inner := root.get("entities"); inner != nil {
		root = inner
	}
	candidates := root.list
	for _, m := range root.members {
		candidates = append(candidates, m.value)
	}
	for _, t := range candidates {
		if !isToolbox(t) {
			return nil
		}
		all = append(all, t)
	}
	return all
}

// readToolbox reads entities of dynamodb-toolbox, which name their tables.
func readToolbox(file string, entities []*sourceTree, vars map[string]string) (*Design, error) {
	d := &Design{}
	var tables []string
	byTable := make(map[string][]*sourceTree)
	for _, t := range entities {
		name := cmp.Or(vars["table"], textOf(t.get("table", "tableName")), slug(plainName(file)))
		if byTable[name] == nil {
			tables = append(tables, name)
		}
		byTable[name] = append(byTable[name], t)
	}
	names := make(map[string]bool)
	for _, name := range tables {
		r := &toolboxSchema{newSchemaReader(file, "dynamodb-toolbox", name, byTable[name][0])}
		r.names = names
		for _, t := range byTable[name] {
			r.keys(t.get("table"))
			r.entity(t)
		}
		part, err := r.design(tables[0])
		if err != nil {
			return nil, err
		}
		d.Name, d.Source = part.Name, part.Source
		d.Tables, d.Entities, d.Patterns = append(d.Tables, part.Tables...), append(d.Entities, part.Entities...), append(d.Patterns, part.Patterns...)
	}
	return d, nil
}

// toolboxSchema reads the entities of one table.
type toolboxSchema struct {
	schemaReader
}

var toolboxKinds = map[string]string{"string": "S", "number": "N", "binary": "B"}

// keys adds the table's key and its indexes.
func (r *toolboxSchema) keys(table *sourceTree) {
	key := func(t *sourceTree, hash *sourceTree) (parts []keyPart) {
		for _, k := range []struct {
			tree *sourceTree
			kind string
		}{{hash, "HASH"}, {t.get("sortKey"), "RANGE"}} {
			if k.tree != nil {
				parts = append(parts, keyPart{textOf(k.tree.get("name")), k.kind})
			}
		}
		return parts
	}
	types := func(t *sourceTree) {
		for _, k := range []*sourceTree{t.get("partitionKey"), t.get("sortKey")} {
			if kind := toolboxKinds[textOf(k.get("type"))]; kind != "" {
				r.keyType(textOf(k.get("name")), kind)
			}
		}
	}
	r.index(table, "", key(table, table.get("partitionKey")), false, "ALL", nil)
	types(table)
	if table.get("indexes") == nil {
		return
	}
	for _, x := range table.get("indexes").members {
		local := textOf(x.value.get("type")) == "local"
		hash := x.value.get("partitionKey")
		if local {
			hash = table.get("partitionKey")
		}
		if hash == nil {
			r.fault(x.value, "the index %s has no partition key, or several, which is not supported", x.name)
			continue
		}
		r.index(x.value, x.name, key(x.value, hash), local, "ALL", nil)
		types(x.value)
	}
}

// savedAs is the name of an attribute in the table.
func savedAs(a treeMember) string { return cmp.Or(textOf(a.value.get("savedAs")), a.name) }

// entity reads one entity.
func (r *toolboxSchema) entity(t *sourceTree) {
	e := &Entity{Name: r.unique(cmp.Or(slug(textOf(t.get("entityName"))), "item")), Table: r.table.name}
	attributes := t.get("schema", "attributes").members
	// A value that is stored in another form is a part of its own.
	inner := make(map[string]string) // names of such parts, by attribute
	for _, a := range attributes {
		if text, ok := r.transformed(a); ok && text != "" && textOf(a.value.get("link")) == "" {
			inner[a.name] = a.name
			if savedAs(a) == a.name {
				inner[a.name] = a.name + "Value"
			}
			e.add(SampleAttribute{Name: inner[a.name], Values: textsOf(a.value.get("enum")), Unstored: true})
		}
	}
	field := func(name string) string {
		for _, a := range attributes {
			if a.name == name {
				return cmp.Or(inner[name], savedAs(a))
			}
		}
		return ""
	}
	values := make(map[string]KeyTemplate)
	for _, a := range attributes {
		r.value(e, t, a, inner, field, values)
	}
	for _, name := range r.keyNames() {
		if k, ok := values[name]; ok {
			e.addKey(k)
		}
	}
	for _, a := range attributes {
		if !slices.ContainsFunc(e.Keys, func(k KeyTemplate) bool { return k.Name == savedAs(a) }) {
			attribute := SampleAttribute{Name: savedAs(a), Type: toolboxType(a.value), Values: textsOf(a.value.get("enum")), Template: values[savedAs(a)].Text}
			if attribute.Type == "" {
				e.Notes = append(e.Notes, fmt.Sprintf("%s may be of any type; it is described as text.", attribute.Name))
			}
			e.add(attribute)
		}
	}
	r.internal(e, t)
	r.entities = append(r.entities, e)
	r.queries(e, func(name string) bool {
		return slices.ContainsFunc(attributes, func(a treeMember) bool { return savedAs(a) == name })
	})
}

// value adds the template of an attribute whose value is computed or transformed.
func (r *toolboxSchema) value(e *Entity, t *sourceTree, a treeMember, inner map[string]string, field func(string) string, values map[string]KeyTemplate) {
	name := savedAs(a)
	text := cmp.Or(textOf(a.value.get("link")), textOf(t.get("computedKey", name)))
	before, transformed := r.transformed(a)
	switch {
	case transformed && before == "":
		if slices.Contains(r.keyNames(), name) {
			r.fault(a.value, "%s is transformed by a function; docs/model-commands.md has a program that exports it", a.name)
			return
		}
		e.Notes = append(e.Notes, fmt.Sprintf("%s is stored in another form, which a function computes.", a.name))
	case text != "" && transformed:
		values[name] = r.template(e, a.value, name, strings.ReplaceAll(before, "${"+a.name+"}", text), field)
	case text != "":
		values[name] = r.template(e, a.value, name, text, field)
	case transformed:
		values[name] = r.template(e, a.value, name, before, func(part string) string { return cmp.Or(inner[part], field(part)) })
	case isTrue(a.value.get("hidden")) && slices.ContainsFunc(r.table.key, func(k keyPart) bool { return k.name == name }):
		r.fault(a.value, "the key %s of %s is computed by a function; docs/model-commands.md has a program that exports it", name, textOf(t.get("entityName")))
	}
}

// transformed returns the text that is stored for an attribute with a transformer, with
// ${attribute} for its value. It is "" if the transformer is a function that is not known.
func (r *toolboxSchema) transformed(a treeMember) (text string, ok bool) {
	t := a.value.get("transform")
	if t == nil || t.kind != treeMap {
		return "", false
	}
	if text := textOf(t.get("text")); text != "" {
		return text, true
	}
	text = "${" + a.name + "}"
	steps := []*sourceTree{t}
	if textOf(t.get("transformerId")) == "pipe" {
		steps = listOrNil(t.get("transformers"))
	}
	for _, step := range steps {
		switch textOf(step.get("transformerId")) {
		case "prefix":
			text = textOf(step.get("prefix")) + textOf(step.get("delimiter")) + text
		case "suffix":
			text += textOf(step.get("delimiter")) + textOf(step.get("suffix"))
		case "trim":
		default:
			return "", true
		}
	}
	return text, true
}

// toolboxType is the type of an attribute in the table; "" if it is not known.
func toolboxType(a *sourceTree) string {
	switch kind := textOf(a.get("type")); kind {
	case "set":
		return map[string]string{"string": "SS", "number": "NS", "binary": "BS"}[textOf(a.get("elements", "type"))]
	default:
		return map[string]string{"string": "S", "number": "N", "boolean": "BOOL", "binary": "B", "list": "L", "tuple": "L", "map": "M", "record": "M", "item": "M", "null": "NULL"}[kind]
	}
}

// textsOf returns the values of a list.
func textsOf(t *sourceTree) (texts []string) {
	for _, v := range listOrNil(t) {
		texts = append(texts, v.text)
	}
	return texts
}

// internal adds the attributes that the library writes itself: the name of the entity and
// the times of its creation and of its last change.
func (r *toolboxSchema) internal(e *Entity, t *sourceTree) {
	if name := t.get("entityAttribute"); name == nil || name.kind != treeBool || isTrue(name) {
		e.add(SampleAttribute{Name: cmp.Or(textOf(t.get("table", "entityAttributeSavedAs")), "_et"), Values: []string{textOf(t.get("entityName"))}})
	}
	stamps := t.get("timestamps")
	for _, when := range []struct{ name, saved string }{{"created", "_ct"}, {"modified", "_md"}} {
		is := stamps.get(when.name)
		switch {
		case stamps == nil || isTrue(stamps) || isTrue(is):
			e.add(SampleAttribute{Name: when.saved, Format: "iso8601-ms"})
		case is != nil && is.kind == treeMap:
			e.add(SampleAttribute{Name: cmp.Or(textOf(is.get("savedAs")), when.saved), Format: "iso8601-ms"})
		}
	}
}
