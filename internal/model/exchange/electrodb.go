package exchange

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// isElectroDB reports whether a value is the schema of an entity of ElectroDB.
func isElectroDB(t *sourceTree) bool {
	return t.get("model", "entity") != nil && t.get("indexes") != nil
}

// electroSchemas returns the schemas in a file: one, or a list or mapping of them.
func electroSchemas(root *sourceTree) (all []*sourceTree) {
	if isElectroDB(root) {
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
		if !isElectroDB(t) {
			return nil
		}
		all = append(all, t)
	}
	return all
}

// electroDB reads schemas of ElectroDB, whose entities are in one table. The schemas do
// not name it.
type electroDB struct {
	schemaReader
}

func readElectroDB(file string, schemas []*sourceTree, vars map[string]string) (*Design, error) {
	service := textOf(schemas[0].get("model", "service"))
	r := &electroDB{newSchemaReader(file, "ElectroDB", cmp.Or(vars["table"], slug(service)), schemas[0])}
	for _, t := range schemas {
		r.entity(t)
	}
	return r.design(service)
}

// entity reads one schema.
func (r *electroDB) entity(t *sourceTree) {
	s := &electroSchema{reader: r, tree: t, entity: &Entity{Name: r.unique(cmp.Or(slug(textOf(t.get("model", "entity"))), "item")), Table: r.table.name},
		fields: make(map[string]string)}
	if t.get("attributes") == nil || t.get("indexes").kind != treeMap {
		r.fault(t, "%s has no attributes, or its indexes are not a mapping", textOf(t.get("model", "entity")))
		return
	}
	for _, a := range t.get("attributes").members {
		s.fields[a.name] = cmp.Or(textOf(a.value.get("field")), a.name)
	}
	var primary []string
	for _, x := range t.get("indexes").members {
		if key := s.index(x); textOf(x.value.get("index")) == "" {
			primary = key
		}
	}
	s.attributes()
	s.entity.add(SampleAttribute{Name: "__edb_e__", Values: []string{textOf(t.get("model", "entity"))}})
	s.entity.add(SampleAttribute{Name: "__edb_v__", Values: []string{textOf(t.get("model", "version"))}})
	r.entities = append(r.entities, s.entity)
	r.patterns = append(r.patterns, SourcePattern{Name: "get " + s.entity.Name, Verb: "get", Entity: s.entity.Name, Given: primary},
		SourcePattern{Name: "create " + s.entity.Name, Verb: "put", Entity: s.entity.Name, Condition: r.notExists()})
	r.patterns = append(r.patterns, s.queries...)
}

// electroSchema reads the schema of one entity.
type electroSchema struct {
	reader  *electroDB
	tree    *sourceTree
	entity  *Entity
	fields  map[string]string // names in the table, by names of attributes
	queries []SourcePattern
	cased   bool
}

// index reads an index: it adds its keys to the table and to the entity, and its query.
// It returns the attributes that its keys are built from.
func (s *electroSchema) index(x treeMember) (leaves []string) {
	name := textOf(x.value.get("index"))
	pk, sk := x.value.get("pk"), x.value.get("sk")
	key := []keyPart{{textOf(pk.get("field")), "HASH"}}
	if sk != nil {
		key = append(key, keyPart{textOf(sk.get("field")), "RANGE"})
	}
	s.reader.index(x.value, name, key, textOf(x.value.get("type")) == "local", "ALL", nil)
	if x.value.get("condition") != nil {
		s.entity.Notes = append(s.entity.Notes, fmt.Sprintf("A function decides which items have the keys of %s; add a when to them.", x.name))
	}
	partition := s.template(pk, s.partitionPrefix(x.value, pk, sk), "")
	s.entity.addKey(partition)
	leaves = partition.Parts
	if sk != nil {
		before, after := s.sortAffixes(x.value, sk)
		sort := s.template(sk, before, after)
		s.entity.addKey(sort)
		leaves = appendMissing(leaves, sort.Parts...)
	}
	if name != "" || sk != nil && len(leaves) > len(partition.Parts) {
		s.queries = append(s.queries, SourcePattern{Name: s.entity.Name + " by " + x.name, Verb: "query", Entity: s.entity.Name, Given: partition.Parts, Index: name})
	}
	return leaves
}

// partitionPrefix is the text before the attributes of a partition key. It names the
// entity only if there is no sort key that does.
func (s *electroSchema) partitionPrefix(index, pk, sk *sourceTree) string {
	prefix := "$" + textOf(s.tree.get("model", "service"))
	if scope := textOf(index.get("scope")); scope != "" {
		prefix += "_" + scope
	}
	if sk == nil {
		prefix += "$" + s.name()
	}
	return s.inCase(pk, prefix)
}

// name is the name of the entity with its version, as keys contain it.
func (s *electroSchema) name() string {
	return textOf(s.tree.get("model", "entity")) + "_" + textOf(s.tree.get("model", "version"))
}

// sortAffixes returns the text before and after the attributes of a sort key. A clustered
// index has the name of the entity at the end, so that the entities of a collection are
// sorted together.
func (s *electroSchema) sortAffixes(index, sk *sourceTree) (before, after string) {
	var collections []string
	c := index.get("collection")
	if text := textOf(c); text != "" {
		collections = []string{text}
	}
	for _, x := range listOrNil(c) {
		collections = append(collections, x.text)
	}
	clustered := textOf(index.get("type")) == "clustered"
	switch {
	case len(collections) == 0 && clustered:
		return "", s.inCase(sk, "$"+s.name())
	case len(collections) == 0:
		return s.inCase(sk, "$"+s.name()), ""
	case clustered:
		return s.inCase(sk, "$"+strings.Join(collections, "#")), s.inCase(sk, "#"+s.name())
	}
	return s.inCase(sk, "$"+strings.Join(collections, "#")+"#"+s.name()), ""
}

// inCase returns text in the case of a key: lower, unless the schema says otherwise.
func (s *electroSchema) inCase(key *sourceTree, text string) string {
	switch textOf(key.get("casing")) {
	case "upper":
		return strings.ToUpper(text)
	case "none":
		return text
	}
	return strings.ToLower(text)
}

// template returns the template of a key.
func (s *electroSchema) template(key *sourceTree, before, after string) KeyTemplate {
	k := KeyTemplate{Name: textOf(key.get("field"))}
	if textOf(key.get("casing")) != "none" {
		s.cased = true
	}
	composite := listOrNil(key.get("composite"))
	if composite == nil {
		composite = listOrNil(key.get("facets")) // an older name
	}
	if text := textOf(key.get("template")); text != "" {
		k.Text, k.Parts = s.reader.placeholders(key, text, func(name string) string { return s.fields[name] })
		s.reader.numberKey(k, s.kindOf)
		return k
	}
	if len(composite) == 1 && s.fields[composite[0].text] == k.Name {
		// The attribute itself is the key.
		k.Text, k.Parts = "{"+k.Name+"}", []string{k.Name}
		s.reader.keyType(k.Name, s.kindOf(k.Name))
		return k
	}
	k.Text = escaped(before)
	for _, c := range composite {
		field, ok := s.fields[c.text]
		if !ok || !templatable(field) {
			s.reader.fault(c, "the key %s is built from %s, which is not an attribute", k.Name, c.text)
			continue
		}
		label := cmp.Or(textOf(s.tree.get("attributes", c.text, "label")), c.text)
		k.Text += escaped(s.inCase(key, "#"+label+"_")) + "{" + field + "}"
		k.Parts = append(k.Parts, field)
	}
	k.Text += escaped(after)
	return k
}

// kindOf is the type of an attribute of a key, by its name in the table.
func (s *electroSchema) kindOf(field string) string {
	for name, f := range s.fields {
		if f == field && textOf(s.tree.get("attributes", name, "type")) == "number" {
			return "N"
		}
	}
	return "S"
}

// attributes adds the attributes of the entity.
func (s *electroSchema) attributes() {
	for _, a := range s.tree.get("attributes").members {
		attribute := SampleAttribute{Name: s.fields[a.name]}
		kind := a.value.get("type")
		if values := listOrNil(kind); values != nil {
			for _, v := range values {
				attribute.Values = append(attribute.Values, v.text)
			}
		} else {
			attribute.Type = electroType(textOf(kind), textOf(a.value.get("items")), textOf(a.value.get("items", "type")))
			if attribute.Type == "" {
				s.entity.Notes = append(s.entity.Notes, fmt.Sprintf("%s may be of any type; it is described as text.", attribute.Name))
			}
		}
		if a.value.get("padding") != nil {
			s.entity.Notes = append(s.entity.Notes, fmt.Sprintf("%s is padded in keys, but not in the item.", attribute.Name))
		}
		s.entity.add(attribute)
	}
	if s.cased {
		s.entity.Notes = append(s.entity.Notes, "ElectroDB writes the values in keys in another case than in the item.")
	}
}

// electroType is the type of an attribute in the table; "" if it is not known.
func electroType(kind, items, itemsType string) string {
	if kind == "set" {
		return map[string]string{"string": "SS", "number": "NS"}[cmp.Or(items, itemsType)]
	}
	return map[string]string{"string": "S", "number": "N", "boolean": "BOOL", "list": "L", "map": "M", "static": "S"}[kind]
}

// appendMissing appends the names that a list does not contain.
func appendMissing(list []string, names ...string) []string {
	list = slices.Clip(list)
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
