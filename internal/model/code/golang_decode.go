package code

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// goReaders are the methods that read attributes, with their snippets.
var goReaders = map[item.Type][2]string{item.S: {"text", "readText"}, item.N: {"number", "readNumber"}, item.B: {"binary", "readBinary"},
	item.BOOL: {"bool", "readBool"}, item.SS: {"texts", "readTexts"}, item.NS: {"numbers", "readNumbers"}, item.BS: {"binaries", "readBinaries"},
	item.L: {"list", "readList"}, item.M: {"attributes", "readMap"}}

// unmarshal writes the function that decodes an entity.
func (w *goWriter) unmarshal(e *codeEntity) {
	name := w.types[e]
	w.need("itemReader")
	w.f("// %sOf decodes an item.\nfunc %sOf(it map[string]types.AttributeValue) (%s, error) {\nr := itemReader{item: it}\nvar e %s", name, name, name, name)
	for _, f := range e.fields {
		if w.spec.source(e, f) == nil && (f.Stored || f.shards == 0) {
			w.readField(f, f.Name, w.fields[f.Field])
		}
	}
	for _, f := range e.fields {
		if a := w.spec.source(e, f); a != nil {
			w.readPart(e, f, a)
		}
	}
	w.f("return e, r.err\n}\n")
}

// readField writes how a field is read from its attribute.
func (w *goWriter) readField(f *codeField, name, member string) {
	reader := goReaders[f.Type]
	w.need(reader[1])
	value := fmt.Sprintf("r.%s(%q)", reader[0], name)
	if enum, ok := w.enums[f.Field]; ok {
		value = enum + "(" + value + ")"
	}
	if f.shards > 0 {
		w.need("readShard")
		value = fmt.Sprintf("r.shard(string(%s))", value)
	}
	switch {
	case isPointer(f):
		w.f("if r.has(%q) {\nv := %s\ne.%s = &v\n}", name, value, member)
	case f.optional, f.Type.IsSet():
		w.f("if r.has(%q) {\ne.%s = %s\n}", name, member, value)
	default:
		w.f("e.%s = %s", member, value)
	}
}

// readPart writes how a field is read from a text that contains it.
func (w *goWriter) readPart(e *codeEntity, f *codeField, a *codeAttribute) {
	pieces, hole := w.pieces(e, f, a)
	value := fmt.Sprintf("r.%s(%q, %d, %s)", "part", a.Name, hole, strings.Join(pieces, ", "))
	w.need("readPart")
	switch {
	case f.shards > 0:
		w.need("readShard")
		value = "r.shard(" + value + ")"
	case f.Type == item.N || w.enums[f.Field] != "":
		value = w.goType(f) + "(" + value + ")"
	}
	if isPointer(f) {
		w.f("if r.has(%q) {\nv := %s\ne.%s = &v\n}", a.Name, value, w.fields[f.Field])
		return
	}
	w.f("e.%s = %s", w.fields[f.Field], value)
}

// pieces returns the texts around the unknown parts of an attribute, and which
// of these parts is the field.
func (w *goWriter) pieces(e *codeEntity, f *codeField, a *codeAttribute) (pieces []string, hole int) {
	for _, run := range splitAtUnknown(a.operand.Parts, func(x *model.Field) bool { return w.spec.decoded(e, x) }) {
		text := `""`
		if len(run.known) > 0 {
			text = w.joined(run.known, w.own("e"))
		}
		pieces = append(pieces, text)
		if run.unknown == f.Field {
			hole = len(pieces) - 1
		}
	}
	return pieces, hole
}

// templateRun is a run of known parts of a text, and the field that follows it.
type templateRun struct {
	known   []model.OperandPart
	unknown *model.Field
}

// splitAtUnknown splits a text at the parts whose values are not known.
func splitAtUnknown(parts []model.OperandPart, known func(*model.Field) bool) []templateRun {
	runs := []templateRun{{}}
	for _, p := range parts {
		last := &runs[len(runs)-1]
		switch {
		case p.Shard != nil:
			last.unknown = p.Shard.Field
			runs = append(runs, templateRun{})
		case p.Param.Field != nil && !known(p.Param.Field):
			last.unknown = p.Param.Field
			runs = append(runs, templateRun{})
		default:
			last.known = append(last.known, p)
		}
	}
	return runs
}

// decoded reports whether a field is read from an attribute of its own that
// all items have.
func (s *codeSpec) decoded(e *codeEntity, f *model.Field) bool {
	own := e.field(f)
	return own != nil && !own.optional && own.Stored && s.source(e, own) == nil
}

// recognize writes the function that reports whether an item is of an entity,
// once.
func (w *goWriter) recognize(e *codeEntity) string {
	name := "is" + w.types[e]
	if w.names[name] {
		return name
	}
	w.names[name] = true
	var b strings.Builder
	fmt.Fprintf(&b, "// %s reports whether the key of an item is that of a %s.\nfunc %s(it map[string]types.AttributeValue) bool {\n", name, w.types[e], name)
	for _, k := range e.key {
		var pieces []string
		switch {
		case k.own != nil && len(k.own.values) > 0 && k.Type == item.S:
			var values []string
			for _, v := range k.own.values {
				values = append(values, strconv.Quote(v))
			}
			fmt.Fprintf(&b, "if v, ok := %s(it[%q]); !ok || !slices.Contains([]string{%s}, v) {\nreturn false\n}\n", w.need("isText"), k.Name, strings.Join(values, ", "))
			w.need("slices")
			continue
		case k.own != nil:
			continue
		case k.operand.Constant != nil:
			pieces = []string{strconv.Quote(string(k.operand.Constant.Bytes()))}
		default:
			for _, run := range splitAtUnknown(k.operand.Parts, func(*model.Field) bool { return false }) {
				pieces = append(pieces, strconv.Quote(textOf(run.known)))
			}
		}
		fmt.Fprintf(&b, "if v, ok := %s(it[%q]); !ok {\nreturn false\n} else if _, ok := %s(v, %s); !ok {\nreturn false\n}\n", w.need("isText"), k.Name, w.need("cut"), strings.Join(pieces, ", "))
	}
	b.WriteString("return true\n}\n")
	w.later = append(w.later, b.String())
	return name
}

func textOf(parts []model.OperandPart) (text string) {
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// decoder returns the function that decodes what a step returns, and its type.
func (w *goWriter) decoder(p *codePattern, c *codeStep) (function, kind string) {
	if len(c.returns) == 0 || p.operation == "BatchGetItem" {
		return w.types[c.entity] + "Of", w.types[c.entity]
	}
	kind = w.names.take(w.funcs[p]+"Item", "Value")
	function = kind + "Of"
	w.f("// %s has the attributes that %q returns.\ntype %s struct {", kind, p.Name, kind)
	names := newNameSet()
	var members []string
	var fields []*codeField
	for _, a := range c.returns {
		f := a.own
		if f == nil {
			f = &codeField{Field: a.Field, optional: a.optional}
		}
		member := names.take(exportedName(a.Name), "Value")
		star := ""
		if isPointer(f) {
			star = "*"
		}
		w.f("%s %s%s", member, star, w.goType(f))
		members, fields = append(members, member), append(fields, f)
	}
	w.f("}\n\n// %s decodes an item of a reply.\nfunc %s(it map[string]types.AttributeValue) (%s, error) {\nr := itemReader{item: it}\nvar e %s", function, function, kind, kind)
	for i, f := range fields {
		w.readField(f, c.returns[i].Name, members[i])
	}
	w.f("return e, r.err\n}\n")
	return function, kind
}

// decodeGet writes the function that decodes the reply to a GetItem.
func (w *goWriter) decodeGet(p *codePattern) {
	name := w.funcs[p]
	function, kind := w.decoder(p, p.steps[0])
	w.f("// Decode%s returns the item of a reply, nil if there is none.\nfunc Decode%s(out *dynamodb.GetItemOutput) (*%s, error) {\nreturn %s(out.Item, %s)\n}\n",
		name, name, kind, w.need("decodeOne"), function)
}

// decodeQuery writes the function that decodes a page of a query.
func (w *goWriter) decodeQuery(p *codePattern) {
	name, c := w.funcs[p], p.steps[0]
	function, kind := w.decoder(p, c)
	next, end, nextKey := "Key", "it is nil\n// after the last one", "out.LastEvaluatedKey"
	generic := "Page"
	if c.Shards > 1 {
		w.need("ShardPage")
		next, end, nextKey, generic = "Position", "it is\n// finished after the last one", "positionAfter(out.LastEvaluatedKey)", "ShardPage"
	}
	if len(c.with) == 0 {
		w.f("// Decode%s returns the items of a reply.\nfunc Decode%s(out *dynamodb.QueryOutput) (%s[%s], error) {", name, name, w.need(generic), kind)
		w.f("items, err := %s(out.Items, %s)\nreturn %s[%s]{items, %s}, err\n}\n", w.need("decodeAll"), function, generic, kind, nextKey)
		return
	}
	page := w.names.take(name+"Page", "Value")
	w.f("// %s is a page of %q. Next is where the next page starts; %s.\ntype %s struct {", page, p.Name, end, page)
	for _, e := range append([]*codeEntity{c.entity}, c.with...) {
		w.f("%s []%s", exportedName(plural(e.Name)), w.types[e])
	}
	w.f("Next %s\n}\n\n// Decode%s returns the items of a reply. An item of another entity is an error.\nfunc Decode%s(out *dynamodb.QueryOutput) (%s, error) {\npage := %s{Next: %s}", next, name, name, page, page, nextKey)
	w.sort(c.kinds(), "out.Items", "page", func(e *codeEntity) string { return exportedName(plural(e.Name)) })
	w.f("return page, nil\n}\n")
}

// sort writes a loop that decodes items of several entities into the members of
// a variable.
func (w *goWriter) sort(kinds []*codeEntity, items, variable string, member func(*codeEntity) string) {
	w.f("for _, it := range %s {", items)
	if len(kinds) > 1 {
		w.f("switch {")
	}
	for _, e := range kinds {
		if len(kinds) > 1 {
			w.f("case %s(it):", w.recognize(e))
		}
		w.f("e, err := %sOf(it)\nif err != nil {\nreturn %s, err\n}\n%s.%s = append(%s.%s, e)", w.types[e], variable, variable, member(e), variable, member(e))
	}
	if len(kinds) > 1 {
		w.f("default:\nreturn %s, %s(it, %s)\n}", variable, w.need("strangeItem"), quotedKey(kinds[0], strconv.Quote))
	}
	w.f("}")
}

// quotedKey returns the names of the attributes of the table's key as arguments.
func quotedKey(e *codeEntity, quote func(string) string) string {
	var names []string
	for _, k := range e.key {
		names = append(names, quote(k.Name))
	}
	return strings.Join(names, ", ")
}

// decodeBatch writes the function that decodes the reply to a BatchGetItem.
func (w *goWriter) decodeBatch(p *codePattern) {
	name := w.funcs[p]
	result := w.names.take(name+"Items", "Value")
	w.f("// %s are the items of %q, in any order.\ntype %s struct {", result, p.Name, result)
	for _, e := range p.entities("") {
		w.f("%s []%s", exportedName(plural(e.Name)), w.types[e])
	}
	w.f("}\n\n// Decode%s returns the items of a reply.\nfunc Decode%s(out *dynamodb.BatchGetItemOutput) (%s, error) {\nvar found %s", name, name, result, result)
	for _, table := range p.tables() {
		w.sort(bySpecificity(p.entities(table)), fmt.Sprintf("out.Responses[%q]", table), "found", func(e *codeEntity) string { return exportedName(plural(e.Name)) })
	}
	w.f("return found, nil\n}\n")
}

// decodeTransaction writes the function that decodes the reply to a
// TransactGetItems. Its items are in the order of the request.
func (w *goWriter) decodeTransaction(p *codePattern) {
	name := w.funcs[p]
	result := w.names.take(name+"Items", "Value")
	var members, steps []string
	for _, c := range p.steps {
		function, kind := w.decoder(p, c)
		member := exportedName(c.name)
		if c.list {
			members = append(members, fmt.Sprintf("%s []*%s", member, kind))
			steps = append(steps, fmt.Sprintf("for range p.%s {\nif err := next(func(it map[string]types.AttributeValue) error {\ne, err := %s(it, %s)\nfound.%s = append(found.%s, e)\nreturn err\n}); err != nil {\nreturn found, err\n}\n}",
				member, w.need("decodeOne"), function, member, member))
			continue
		}
		members = append(members, fmt.Sprintf("%s *%s", member, kind))
		steps = append(steps, fmt.Sprintf("if err := next(func(it map[string]types.AttributeValue) (err error) {\nfound.%s, err = %s(it, %s)\nreturn err\n}); err != nil {\nreturn found, err\n}", member, w.need("decodeOne"), function))
	}
	w.f("// %s are the items of %q; nil stands for an item that does not exist.\ntype %s struct {\n%s\n}\n", result, p.Name, result, strings.Join(members, "\n"))
	w.f("// Decode%s returns the items of a reply to the request with the same parameters.\nfunc Decode%s(%sout *dynamodb.TransactGetItemsOutput) (%s, error) {\nvar found %s\nresponses := out.Responses",
		name, name, w.inputArgument(p), result, result)
	w.f("next := func(decode func(map[string]types.AttributeValue) error) error {\nif len(responses) == 0 {\nreturn errors.New(\"the reply has fewer items than the request\")\n}\nit := responses[0].Item\nresponses = responses[1:]\nreturn decode(it)\n}")
	w.need("errors")
	for _, step := range steps {
		w.f("%s", step)
	}
	w.f("return found, nil\n}\n")
}
