package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// draft is a design as the answers of an interview describe it.
type draft struct {
	name     string
	entities []*draftEntity
	patterns []*draftPattern
	indexes  []*draftIndex
}

type draftEntity struct {
	name          string
	ids, others   []*draftAttribute
	count, growth string
	keys          []draftKey // of indexes
}

type draftKey struct{ name, template string }

type draftAttribute struct {
	name   string
	kind   string   // a type or a format, "" for text
	values []string // all possible ones, if they are known
}

type draftPattern struct {
	name, kind string
	entity     *draftEntity
	given, set []*draftAttribute
	order      *draftAttribute
	matches    string
	rate, peak string
	index      *draftIndex // nil if the table serves it
}

// draftIndex is an index that several entities may use.
type draftIndex struct {
	number int
	sort   *draftAttribute // a number that is the sort key itself; nil for GSInSK
	uses   []draftIndexUse
}

// draftIndexUse is the keys of one entity in an index.
type draftIndexUse struct {
	entity *draftEntity
	given  []*draftAttribute
	order  *draftAttribute
}

var (
	draftTypes   = []string{"S", "N", "B", "BOOL", "SS", "NS", "L", "M"}
	draftFormats = []string{"uuid", "iso8601", "iso8601-ms", "date", "month", "ulid", "ksuid", "epoch-seconds", "epoch-millis"}
)

// parseDraftAttributes parses "a b:N c=X|Y".
func parseDraftAttributes(text string) (list []*draftAttribute, err error) {
	for part := range strings.FieldsSeq(text) {
		a := new(draftAttribute)
		name, values, listed := strings.Cut(part, "=")
		name, kind, typed := strings.Cut(name, ":")
		a.name = name
		if err := checkPlainName(name); err != nil {
			return nil, err
		}
		if typed {
			a.kind = kind
			if !slices.Contains(draftTypes, kind) && !slices.Contains(draftFormats, kind) {
				return nil, fmt.Errorf("%q is neither a type (%s) nor a format (%s)", kind, strings.Join(draftTypes, ", "), strings.Join(draftFormats, ", "))
			}
		}
		if listed {
			a.values = strings.Split(values, "|")
			for _, v := range a.values {
				if checkPlainName(v) != nil || typed {
					return nil, fmt.Errorf("the values of %s must be texts such as %s=OPEN|PAID", name, name)
				}
			}
		}
		if slices.ContainsFunc(list, func(b *draftAttribute) bool { return b.name == name }) {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		list = append(list, a)
	}
	return list, nil
}

func (a *draftAttribute) isNumber() bool {
	return a.kind == "N" || a.kind == "epoch-seconds" || a.kind == "epoch-millis"
}

// inKey reports whether a key may contain the attribute.
func (a *draftAttribute) inKey() bool {
	return a.kind == "" || a.kind == "S" || a.kind == "N" || slices.Contains(draftFormats, a.kind)
}

// yamlName quotes a name that YAML would not read as text.
func yamlName(name string) string {
	if slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(name)) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

func (d *draft) entity(name string) *draftEntity {
	for _, e := range d.entities {
		if e.name == name {
			return e
		}
	}
	return nil
}

func (e *draftEntity) attribute(name string) *draftAttribute {
	for _, a := range slices.Concat(e.ids, e.others) {
		if a.name == name {
			return a
		}
	}
	return nil
}

// word is the constant text for an entity in keys.
func (e *draftEntity) word() string { return strings.ToUpper(e.name) }

// tableServes reports whether the table's key serves a list: it is found by the
// first identifiers, and sorted by the next one or not at all.
func (p *draftPattern) tableServes() bool {
	n := len(p.given)
	if n == 0 || n > len(p.entity.ids) {
		return false
	}
	for _, a := range p.entity.ids[:n] {
		if !slices.ContainsFunc(p.given, func(g *draftAttribute) bool { return g.name == a.name }) {
			return false
		}
	}
	return p.order == nil || n < len(p.entity.ids) && p.entity.ids[n].name == p.order.name
}

// indexFor returns an index that serves a list: one that the entity already has,
// one of other entities, or a new one.
func (d *draft) indexFor(p *draftPattern) *draftIndex {
	use := draftIndexUse{p.entity, p.given, p.order}
	same := func(u draftIndexUse) bool {
		if u.entity != use.entity || len(u.given) != len(use.given) || use.order != nil && u.order != use.order {
			return false
		}
		return !slices.ContainsFunc(use.given, func(g *draftAttribute) bool { return !slices.Contains(u.given, g) })
	}
	for _, x := range d.indexes {
		if slices.ContainsFunc(x.uses, same) {
			return x
		}
	}
	number := p.order != nil && p.order.isNumber()
	for _, x := range d.indexes {
		used := slices.ContainsFunc(x.uses, func(u draftIndexUse) bool { return u.entity == p.entity })
		if !number && x.sort == nil && !used {
			x.use(use)
			return x
		}
	}
	x := &draftIndex{number: len(d.indexes) + 1}
	if number {
		x.sort = p.order
	}
	x.use(use)
	d.indexes = append(d.indexes, x)
	return x
}

// use gives the entity its keys in the index.
func (x *draftIndex) use(u draftIndexUse) {
	x.uses = append(x.uses, u)
	parts := []string{u.entity.word()}
	for _, a := range u.given {
		parts = append(parts, "{"+a.name+"}")
	}
	u.entity.keys = append(u.entity.keys, draftKey{x.partitionName(), strings.Join(parts, "#")})
	if x.sort != nil {
		return
	}
	sort := u.order
	if sort == nil {
		sort = u.entity.ids[len(u.entity.ids)-1]
	}
	u.entity.keys = append(u.entity.keys, draftKey{x.sortName(), "{" + sort.name + "}"})
}

func (x *draftIndex) partitionName() string { return fmt.Sprintf("GSI%dPK", x.number) }

func (x *draftIndex) sortName() string {
	if x.sort != nil {
		return x.sort.name
	}
	return fmt.Sprintf("GSI%dSK", x.number)
}

// text returns the model: one table, in which items that belong to another are
// in its partition.
func (d *draft) text() []byte {
	for _, p := range d.patterns {
		if p.kind == "list" && !p.tableServes() {
			p.index = d.indexFor(p)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Written by stator model init. docs/model.md describes the format.\nmodel: 1\nname: %s\n\ntables:\n  %s:\n    key: {partition: PK, sort: SK}\n", yamlName(d.name), yamlName(tableNameOf(d.name)))
	d.writeIndexes(&b)
	b.WriteString("\nentities:\n")
	for _, e := range d.entities {
		d.writeEntity(&b, e)
	}
	b.WriteString("\npatterns:\n")
	for _, p := range d.patterns {
		p.write(&b)
	}
	return b.Bytes()
}

// tableNameOf is a table name: at least three characters.
func tableNameOf(name string) string {
	if len(name) < 3 {
		return name + "-table"
	}
	return name
}

func (d *draft) writeIndexes(b *bytes.Buffer) {
	var types []string
	for _, x := range d.indexes {
		if x.sort != nil && !slices.Contains(types, yamlName(x.sort.name)+": N") {
			types = append(types, yamlName(x.sort.name)+": N")
		}
	}
	if len(types) > 0 {
		fmt.Fprintf(b, "    types: {%s}\n", strings.Join(types, ", "))
	}
	if len(d.indexes) > 0 {
		b.WriteString("    indexes:\n")
	}
	for _, x := range d.indexes {
		fmt.Fprintf(b, "      GSI%d: {partition: %s, sort: %s}\n", x.number, x.partitionName(), yamlName(x.sortName()))
	}
}

func (d *draft) writeEntity(b *bytes.Buffer, e *draftEntity) {
	sort := []string{e.word()}
	for _, a := range e.ids[1:] {
		sort = append(sort, "{"+a.name+"}")
	}
	fmt.Fprintf(b, "  %s:\n    keys:\n      PK: %q\n      SK: %q\n", yamlName(e.name), d.owner(e)+"#{"+e.ids[0].name+"}", strings.Join(sort, "#"))
	for _, k := range e.keys {
		fmt.Fprintf(b, "      %s: %q\n", k.name, k.template)
	}
	b.WriteString("    attributes:\n")
	for i, a := range slices.Concat(e.ids, e.others) {
		var parts []string
		switch {
		case len(a.values) > 0:
			var quoted []string
			for _, v := range a.values {
				quoted = append(quoted, yamlName(v))
			}
			parts = append(parts, "values: ["+strings.Join(quoted, ", ")+"]")
		case a.kind == "epoch-seconds" || a.kind == "epoch-millis":
			parts = append(parts, "type: N", "format: "+a.kind)
		case slices.Contains(draftFormats, a.kind):
			parts = append(parts, "format: "+a.kind)
		case a.kind != "":
			parts = append(parts, "type: "+a.kind)
		default:
			parts = append(parts, "type: S")
		}
		if owner := d.identifiedBy(a.name); i == 0 && len(e.ids) > 1 && owner != nil {
			parts = append(parts, "distinct: "+owner.count)
		}
		fmt.Fprintf(b, "      %s: {%s}\n", yamlName(a.name), strings.Join(parts, ", "))
	}
	fmt.Fprintf(b, "    count: %s\n", e.count)
	if e.growth != "none" {
		fmt.Fprintf(b, "    growth: %s\n", e.growth)
	}
}

// identifiedBy returns the entity that an attribute alone identifies.
func (d *draft) identifiedBy(name string) *draftEntity {
	for _, e := range d.entities {
		if len(e.ids) == 1 && e.ids[0].name == name {
			return e
		}
	}
	return nil
}

// owner is the constant text of the partition key of an entity: that of the
// entity to which it belongs, if there is one.
func (d *draft) owner(e *draftEntity) string {
	if len(e.ids) == 1 {
		return e.word()
	}
	if owner := d.identifiedBy(e.ids[0].name); owner != nil {
		return owner.word()
	}
	return strings.ToUpper(strings.TrimSuffix(e.ids[0].name, "Id"))
}

func (p *draftPattern) write(b *bytes.Buffer) {
	verb := map[string]string{"get": "get", "list": "query", "create": "put", "replace": "put", "update": "update", "delete": "delete"}[p.kind]
	fmt.Fprintf(b, "  - name: %q\n    %s: %s\n", p.name, verb, yamlName(p.entity.name))
	given := p.entity.ids
	if p.kind == "list" {
		given = p.given
	}
	if p.kind != "create" && p.kind != "replace" && len(given) > 0 {
		var names []string
		for _, a := range given {
			names = append(names, yamlName(a.name))
		}
		fmt.Fprintf(b, "    given: [%s]\n", strings.Join(names, ", "))
	}
	switch p.kind {
	case "create":
		b.WriteString("    condition: attribute_not_exists(PK)\n")
	case "replace":
		b.WriteString("    replaces: true\n")
	case "update":
		var parts []string
		for _, a := range p.set {
			parts = append(parts, fmt.Sprintf("%s: \"{%s}\"", yamlName(a.name), a.name))
		}
		fmt.Fprintf(b, "    set: {%s}\n    condition: attribute_exists(PK)\n", strings.Join(parts, ", "))
	case "list":
		if p.index != nil {
			fmt.Fprintf(b, "    index: GSI%d\n", p.index.number)
		}
		if p.order != nil {
			fmt.Fprintf(b, "    order: %s\n", yamlName(p.order.name))
		}
		fmt.Fprintf(b, "    matches: %s\n", p.matches)
	}
	fmt.Fprintf(b, "    rate: %s\n", p.rate)
	if p.peak != "the same" {
		fmt.Fprintf(b, "    peak: %s\n", p.peak)
	}
}
