package exchange

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync"
)

var aliasName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`) })

// facet derives an entity from a facet without samples: its key aliases are the
// attributes that the keys contain.
func (s *sampler) facet(t *Table, f, source *sourceTree, what string) {
	aliases := map[string]string{
		t.Key.Partition: textOf(f.get("KeyAttributeAlias", "PartitionKeyAlias")),
		t.Key.Sort:      textOf(f.get("KeyAttributeAlias", "SortKeyAlias")),
	}
	delete(aliases, "")
	if aliases[t.Key.Partition] == "" && aliases[t.Key.Sort] == "" {
		s.omit(f, what, "it has neither rows nor key aliases")
		return
	}
	if len(s.entities) >= maxEntities {
		s.omit(f, what, fmt.Sprintf("only %d kinds of items are read", maxEntities))
		return
	}
	e := &Entity{Table: t.Name, Name: s.unique(cmp.Or(slug(textOf(f.get("FacetName"))), slug(t.Name), "item"))}
	for _, a := range listOrNil(f.get("NonKeyAttributes")) {
		if _, isKey := aliases[a.text]; !isKey && usable(a.text) {
			e.addAttribute(a.text, cmp.Or(declaredType(source, a.text), t.kindOf(a.text)))
		}
	}
	for _, name := range []string{t.Key.Partition, t.Key.Sort} {
		switch alias, kind := aliases[name], t.kindOf(name); {
		case name == "":
		case kind != "S" || alias == name || !aliasName().MatchString(alias) || alias == t.Key.Partition || alias == t.Key.Sort:
			e.addAttribute(name, kind)
		default:
			e.Keys = append(e.Keys, KeyTemplate{Name: name, Text: "{" + alias + "}", Parts: []string{alias}})
			if !e.has(alias) {
				e.Attributes = append(e.Attributes, SampleAttribute{Name: alias, Part: true})
			}
		}
	}
	s.entities = append(s.entities, e)
}

func (e *Entity) has(name string) bool {
	return slices.ContainsFunc(e.Attributes, func(a SampleAttribute) bool { return a.Name == name })
}

func (e *Entity) addAttribute(name, kind string) {
	if !e.has(name) {
		e.Attributes = append(e.Attributes, SampleAttribute{Name: name, Type: kind})
	}
}

// declaredType returns the type that a table declares for an attribute, "" if
// it declares none.
func declaredType(source *sourceTree, name string) string {
	for _, a := range listOrNil(source.get("NonKeyAttributes")) {
		if kind := textOf(a.get("AttributeType")); textOf(a.get("AttributeName")) == name && kinds[kind] {
			return kind
		}
	}
	return ""
}
