package code

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// tsReaders are the functions that read attributes.
var tsReaders = map[item.Type]string{item.S: "readText", item.N: "readDigits", item.B: "readBinary", item.BOOL: "readBool", item.SS: "readTexts",
	item.NS: "readNumbers", item.BS: "readBinaries", item.L: "readList", item.M: "readMap"}

// unmarshal writes the function that decodes an entity.
func (w *tsWriter) unmarshal(e *codeEntity) {
	w.f("/** Decodes an item. */\nexport function %s(it: Item): %s {", w.function(e, "Of"), w.types[e])
	var fields []*codeField
	var names, values []string
	for _, f := range e.fields {
		fields, names = append(fields, f), append(names, f.Name)
		if a := w.spec.source(e, f); a != nil {
			values = append(values, w.partOf(e, f, a))
		} else {
			values = append(values, w.read(f, f.Name))
		}
	}
	w.decoded(w.types[e], fields, names, values, func(f *codeField) string {
		if a := w.spec.source(e, f); a != nil {
			return a.Name
		}
		return f.Name
	})
}

// decoded writes the end of a function that decodes an item: source is the
// attribute that a field is read from.
func (w *tsWriter) decoded(kind string, fields []*codeField, names, values []string, source func(*codeField) string) {
	w.f("const e: %s = {", kind)
	for i, f := range fields {
		switch {
		case f.Type.IsSet() && !f.optional:
			w.f("%s: it[%s] === undefined ? [] : %s,", tsProperty(names[i]), quoteTS(source(f)), values[i])
		case !f.optional:
			w.f("%s: %s,", tsProperty(names[i]), values[i])
		}
	}
	w.f("};")
	for i, f := range fields {
		if f.optional {
			w.f("if (it[%s] !== undefined) {\n%s = %s;\n}", quoteTS(source(f)), tsMember("e", names[i]), values[i])
		}
	}
	w.f("return e;\n}\n")
}

// read returns the expression that reads a field from its attribute.
func (w *tsWriter) read(f *codeField, name string) string {
	value := fmt.Sprintf("%s(it, %s)", w.need(tsReaders[f.Type]), quoteTS(name))
	return w.converted(f, value)
}

// converted returns the value of a field from the text of a string or number.
func (w *tsWriter) converted(f *codeField, text string) string {
	switch {
	case f.shards > 0:
		return "Number(" + text + ")"
	case f.Type == item.N && !exactNumber(f):
		text = w.need("numberOf") + "(" + text + ")"
	case f.Type == item.NS && !exactNumber(f):
		text += ".map(" + w.need("numberOf") + ")"
	}
	if enum, ok := w.enums[f.Field]; ok {
		text += " as " + enum
	}
	return text
}

// partOf returns the expression that reads a field from a text that contains it.
func (w *tsWriter) partOf(e *codeEntity, f *codeField, a *codeAttribute) string {
	var pieces []string
	hole := 0
	for _, run := range splitAtUnknown(a.operand.Parts, func(x *model.Field) bool { return w.spec.decoded(e, x) }) {
		text := `""`
		if len(run.known) > 0 {
			text = w.joined(run.known, func(p model.Param) string { return w.read(w.spec.field(p.Field), p.Field.Name) })
		}
		pieces = append(pieces, text)
		if run.unknown == f.Field {
			hole = len(pieces) - 1
		}
	}
	return w.converted(f, fmt.Sprintf("%s(it, %s, %d, %s)", w.need("part"), quoteTS(a.Name), hole, strings.Join(pieces, ", ")))
}

// recognize returns the function that tells whether an item is of an entity.
func (w *tsWriter) recognize(e *codeEntity) string {
	name := "is" + w.types[e]
	if w.names[name] {
		return name
	}
	w.names[name] = true
	var tests []string
	for _, k := range e.key {
		value := "it[" + quoteTS(k.Name) + "]"
		switch {
		case k.own != nil && len(k.own.values) > 0 && k.Type == item.S:
			var values []string
			for _, v := range k.own.values {
				values = append(values, quoteTS(v))
			}
			tests = append(tests, fmt.Sprintf("[%s].includes(%s?.S ?? \"\")", strings.Join(values, ", "), value))
		case k.own != nil:
		case k.operand.Constant != nil:
			tests = append(tests, fmt.Sprintf("%s?.S === %s", value, quoteTS(plainText(k.operand.Constant))))
		default:
			var pieces []string
			for _, run := range splitAtUnknown(k.operand.Parts, func(*model.Field) bool { return false }) {
				pieces = append(pieces, quoteTS(textOf(run.known)))
			}
			tests = append(tests, fmt.Sprintf("%s(%s, %s)", w.need("isCut"), value, strings.Join(pieces, ", ")))
		}
	}
	if len(tests) == 0 {
		tests = append(tests, "true")
	}
	w.later = append(w.later, fmt.Sprintf("\n/** Tells whether the key of an item is that of a %s. */\nfunction %s(it: Item): boolean {\n  return %s;\n}\n", w.types[e], name, strings.Join(tests, " && ")))
	return name
}

// pattern writes the function that builds the request of a pattern, and the one
// that decodes its reply.
func (w *tsWriter) pattern(p *codePattern) {
	w.inputTypes(p)
	w.comment(capitalized(p.summary()))
	switch {
	case p.operation == "Query":
		w.query(p)
	case p.single():
		c := p.steps[0]
		w.f("export function %s(%s): %s {", w.funcs[p], w.arguments(p), w.sdk(p.operation+"CommandInput"))
		value := w.item(c, "p")
		w.f("%sreturn {\n%s\n};\n}\n", w.stepChecks(c, "p"), w.body(c, c.Body, "p", value))
		if p.operation == "GetItem" {
			w.decodeGet(p)
		}
	case p.Transact != nil:
		w.transaction(p)
	default:
		w.batch(p)
	}
}

// inputTypes writes the types of what the caller passes.
func (w *tsWriter) inputTypes(p *codePattern) {
	name := capitalized(w.funcs[p])
	for _, c := range p.steps {
		switch {
		case c.put() && len(c.params) == 0:
			w.inputs[c] = w.types[c.entity]
			continue
		case len(c.params) == 0:
			continue
		case p.single():
			w.inputs[c] = w.names.take(name+"Params", "Value")
			w.f("/** The parameters of %s. */\nexport interface %s {", w.funcs[p], w.inputs[c])
		default:
			w.inputs[c] = w.names.take(name+pascalName(c.entity.Name), "Input")
			w.f("/** The parameters of one %s of %s. */\nexport interface %s {", c.Action.Verb(), w.funcs[p], w.inputs[c])
		}
		if c.put() {
			w.f("item: %s;", w.types[c.entity])
		}
		for _, x := range c.params {
			if remark := paramRemark("", x); remark != "" {
				w.f("/** %s */", remark)
			}
			w.f("%s: %s;", tsProperty(tsParam(x)), w.tsType(x.field))
		}
		w.f("}\n")
	}
	if p.single() || w.arguments(p) == "" {
		return
	}
	w.f("/** The parameters of %s. */\nexport interface %s {", w.funcs[p], w.names.take(name+"Params", ""))
	for _, c := range p.steps {
		switch {
		case !c.hasInput():
		case c.list:
			w.f("/** at most %d */\n%s: %s[];", c.most, camelName(c.name), w.inputs[c])
		default:
			w.f("%s: %s;", camelName(c.name), w.inputs[c])
		}
	}
	w.f("}\n")
}

// arguments returns the declaration of p, or "" if the caller passes nothing.
func (w *tsWriter) arguments(p *codePattern) string {
	if !slices.ContainsFunc(p.steps, (*codeStep).hasInput) {
		return ""
	}
	if p.single() {
		return "p: " + w.inputs[p.steps[0]]
	}
	return "p: " + capitalized(w.funcs[p]) + "Params"
}

// values returns the expressions of the parameters of a step in a variable.
func (w *tsWriter) values(c *codeStep, variable string) func(model.Param) string {
	return func(p model.Param) string {
		i := slices.IndexFunc(c.params, func(x *codeParam) bool { return x.Param == p })
		return tsMember(variable, tsParam(c.params[i]))
	}
}

// item returns the expression of the item of a put, with the values that the
// pattern determines.
func (w *tsWriter) item(c *codeStep, variable string) string {
	if !c.put() {
		return ""
	}
	if len(c.params) > 0 {
		variable += ".item"
	}
	if len(c.Assigned) == 0 {
		return fmt.Sprintf("%s(%s)", w.function(c.entity, "Item"), variable)
	}
	members := "..." + variable
	for _, a := range c.Assigned {
		f, o := c.entity.field(a.Field), a.Operand
		value := ""
		switch {
		case o.Constant != nil:
			value = w.literal(f, o.Constant)
		case len(o.Parts) == 1 && o.Parts[0].Param.Field != nil:
			value = tsMember(variable, o.Parts[0].Param.Field.Name)
		default:
			value = w.joined(o.Parts, func(p model.Param) string { return tsMember(variable, p.Field.Name) })
		}
		members += fmt.Sprintf(", %s: %s", tsProperty(a.Field.Name), value)
	}
	return fmt.Sprintf("%s({ %s })", w.function(c.entity, "Item"), members)
}

// body returns the members of a request.
func (w *tsWriter) body(c *codeStep, body map[string]any, variable, value string) string {
	replaced := c.replacedSets(w.spec)
	var lines []string
	for _, name := range bodyMembers {
		switch v := body[name].(type) {
		case string:
			text := quoteTS(v)
			if name == "UpdateExpression" && len(replaced) > 0 {
				text = w.updateExpression(c, variable)
			}
			lines = append(lines, name+": "+text+",")
		case bool, int:
			lines = append(lines, fmt.Sprintf("%s: %v,", name, v))
		case map[string]string:
			lines = append(lines, name+": {")
			for _, ref := range slices.Sorted(maps.Keys(v)) {
				lines = append(lines, fmt.Sprintf("%s: %s,", tsProperty(ref), quoteTS(v[ref])))
			}
			lines = append(lines, "},")
		case map[string]any:
			text := w.operands(c, v, variable)
			if name == "ExpressionAttributeValues" && len(replaced) > 0 {
				text = w.need("withoutEmptySets") + "(" + text + quotedList(replaced, quoteTS) + ")"
			}
			lines = append(lines, name+": "+text+",")
		case nil:
			if name == "Item" && value != "" {
				lines = append(lines, name+": "+value+",")
			}
		}
	}
	return strings.Join(lines, "\n")
}

// operands returns attribute values by name.
func (w *tsWriter) operands(c *codeStep, values map[string]any, variable string) string {
	text := "{"
	for _, ref := range slices.Sorted(maps.Keys(values)) {
		text += fmt.Sprintf("\n%s: %s,", tsProperty(ref), w.operand(values[ref].(*model.Operand), w.values(c, variable)))
	}
	return text + "\n}"
}

// query writes the functions of a query.
func (w *tsWriter) query(p *codePattern) {
	c := p.steps[0]
	arguments := w.arguments(p)
	if arguments != "" {
		arguments += ", "
	}
	if c.Shards > 1 {
		w.need("Position")
		w.f("export function %s(%sstart: Position[] = []): ShardQuery[] {\n%sconst all: ShardQuery[] = [];\nfor (let shard = 0; shard < %d; shard++) {", w.funcs[p], arguments, w.stepChecks(c, "p"), c.Shards)
		w.sdk("QueryCommandInput")
		w.f("const at = start[shard] ?? {};\nif (at.finished) {\ncontinue;\n}\nall.push({\nshard,\nrequest: {\n%s\nExclusiveStartKey: at.after,\n},\n});\n}\nreturn all;\n}\n", w.body(c, c.Body, "p", ""))
	} else {
		w.f("export function %s(%sstart?: Key): %s {", w.funcs[p], arguments, w.sdk("QueryCommandInput"))
		w.f("%sreturn {\n%s\nExclusiveStartKey: start,\n};\n}\n", w.stepChecks(c, "p"), w.body(c, c.Body, "p", ""))
	}
	w.decodeQuery(p)
}

// decodeQuery writes the function that decodes a page of a query.
func (w *tsWriter) decodeQuery(p *codePattern) {
	c := p.steps[0]
	function, kind := w.decoder(p, c)
	name, sharded := capitalized(w.funcs[p]), c.Shards > 1
	begin := fmt.Sprintf("export function decode%s(out: %s)", name, w.sdk("QueryCommandOutput"))
	switch {
	case len(c.with) == 0 && sharded:
		w.f("/** Returns the items of a reply. */\n%s: %s<%s> {", begin, w.need("ShardPage"), kind)
		w.f("return { items: (out.Items ?? []).map(%s), next: positionAfter(out.LastEvaluatedKey) };\n}\n", function)
		return
	case len(c.with) == 0:
		w.f("/** Returns the items of a reply. */\n%s: %s<%s> {", begin, w.need("Page"), kind)
		w.f("const items = (out.Items ?? []).map(%s);\nreturn out.LastEvaluatedKey === undefined ? { items } : { items, next: out.LastEvaluatedKey };\n}\n", function)
		return
	}
	page := w.names.take(name+"Page", "Value")
	kinds := append([]*codeEntity{c.entity}, c.with...)
	end, next := "the last page has none", "next?: Key;"
	if sharded {
		end, next = "it is finished after the last one", "next: Position;"
	}
	w.f("/** A page of %q. next is where the next page starts; %s. */\nexport interface %s {", p.Name, end, page)
	w.lists(kinds)
	w.f("%s\n}\n\n/** Returns the items of a reply. An item of another entity is an error. */\n%s: %s {", next, begin, page)
	if sharded {
		w.f("const page: %s = { %s, next: %s(out.LastEvaluatedKey) };", page, emptyLists(kinds), w.need("positionAfter"))
	} else {
		w.f("const page: %s = { %s };\nif (out.LastEvaluatedKey !== undefined) {\npage.next = out.LastEvaluatedKey;\n}", page, emptyLists(kinds))
	}
	w.sort(c.kinds(), "out.Items ?? []", "page")
	w.f("return page;\n}\n")
}

func (w *tsWriter) lists(kinds []*codeEntity) {
	for _, e := range kinds {
		w.f("%s: %s[];", camelName(plural(e.Name)), w.types[e])
	}
}

func emptyLists(kinds []*codeEntity) string {
	var all []string
	for _, e := range kinds {
		all = append(all, camelName(plural(e.Name))+": []")
	}
	return strings.Join(all, ", ")
}

// sort writes a loop that decodes items of several entities.
func (w *tsWriter) sort(kinds []*codeEntity, items, variable string) {
	w.f("for (const it of %s) {", items)
	for i, e := range kinds {
		push := fmt.Sprintf("%s.%s.push(%s(it));", variable, camelName(plural(e.Name)), w.function(e, "Of"))
		switch {
		case len(kinds) == 1:
			w.f("%s", push)
		case i == 0:
			w.f("if (%s(it)) {\n%s", w.recognize(e), push)
		default:
			w.f("} else if (%s(it)) {\n%s", w.recognize(e), push)
		}
	}
	if len(kinds) > 1 {
		w.f("} else {\nthrow %s(it, %s);\n}", w.need("strangeItem"), quotedKey(kinds[0], quoteTS))
	}
	w.f("}")
}

// decoder returns the function that decodes what a step returns, and its type.
func (w *tsWriter) decoder(p *codePattern, c *codeStep) (function, kind string) {
	if len(c.returns) == 0 || p.operation == "BatchGetItem" {
		return w.function(c.entity, "Of"), w.types[c.entity]
	}
	kind = w.names.take(capitalized(w.funcs[p])+"Item", "Value")
	function = strings.ToLower(kind[:1]) + kind[1:] + "Of"
	w.f("/** The attributes that %q returns. */\nexport interface %s {", p.Name, kind)
	var fields []*codeField
	var names, values []string
	for _, a := range c.returns {
		f := a.own
		if f == nil {
			f = &codeField{Field: a.Field, optional: a.optional}
		}
		w.property(f, a.Name)
		fields, names, values = append(fields, f), append(names, a.Name), append(values, w.read(f, a.Name))
	}
	w.f("}\n\n/** Decodes an item of a reply. */\nexport function %s(it: Item): %s {", function, kind)
	w.decoded(kind, fields, names, values, func(f *codeField) string { return f.Name })
	return function, kind
}

func (w *tsWriter) decodeGet(p *codePattern) {
	function, kind := w.decoder(p, p.steps[0])
	w.f("/** Returns the item of a reply, undefined if there is none. */\nexport function decode%s(out: %s): %s | undefined {", capitalized(w.funcs[p]), w.sdk("GetItemCommandOutput"), kind)
	w.f("return out.Item === undefined ? undefined : %s(out.Item);\n}\n", function)
}

// steps writes the steps of a transaction or a batch: add returns the statement
// that adds one.
func (w *tsWriter) steps(p *codePattern, add func(c *codeStep, variable string) string) {
	for _, c := range p.limited() {
		member := "p." + camelName(c.name)
		w.f("%s(%s, %s.length, %d);", w.need("atMost"), quoteTS(c.name), member, c.most)
	}
	w.f("const items: %s = %s;", w.itemsType(p), map[bool]string{true: "[]", false: "{}"}[p.Transact != nil])
	if p.Transact == nil {
		for _, table := range p.tables() {
			w.f("const %s: %s = [];", w.list(table), w.listType(p))
		}
	}
	for _, c := range p.steps {
		if c.list && c.hasInput() {
			w.f("for (const v of p.%s) {\n%s%s\n}", camelName(c.name), w.stepChecks(c, "v"), add(c, "v"))
		} else {
			variable := "p." + camelName(c.name)
			w.f("%s%s", w.stepChecks(c, variable), add(c, variable))
		}
	}
}

// list returns the variable of the list of a table.
func (w *tsWriter) list(table string) string { return camelName(table) + "Requests" }

func (w *tsWriter) itemsType(p *codePattern) string {
	switch p.operation {
	case "TransactWriteItems":
		return w.sdk("TransactWriteItem") + "[]"
	case "TransactGetItems":
		return w.sdk("TransactGetItem") + "[]"
	case "BatchGetItem":
		return "Record<string, " + w.sdk("KeysAndAttributes") + ">"
	}
	return "Record<string, " + w.sdk("WriteRequest") + "[]>"
}

func (w *tsWriter) listType(p *codePattern) string {
	if p.operation == "BatchGetItem" {
		return "Key[]"
	}
	return "WriteRequest[]"
}

// transaction writes the functions of a transaction.
func (w *tsWriter) transaction(p *codePattern) {
	w.f("export function %s(%s): %s {", w.funcs[p], w.arguments(p), w.sdk(p.operation+"CommandInput"))
	w.steps(p, func(c *codeStep, variable string) string {
		name := map[model.Verb]string{model.Get: "Get", model.Put: "Put", model.Update: "Update", model.Delete: "Delete", model.Check: "ConditionCheck"}[c.Action.Verb()]
		body := maps.Clone(c.Body)
		delete(body, "ConsistentRead") // it always is
		return fmt.Sprintf("items.push({\n%s: {\n%s\n},\n});", name, w.body(c, body, variable, w.item(c, variable)))
	})
	w.f("return { TransactItems: items };\n}\n")
	if p.reads() {
		w.decodeTransaction(p)
	}
}

// decodeTransaction writes the function that decodes the reply to a
// TransactGetItems. Its items are in the order of the request.
func (w *tsWriter) decodeTransaction(p *codePattern) {
	name := capitalized(w.funcs[p])
	result := w.names.take(name+"Items", "Value")
	var members, values []string
	for _, c := range p.steps {
		function, kind := w.decoder(p, c)
		member := camelName(c.name)
		if c.list {
			members = append(members, fmt.Sprintf("%s: (%s | undefined)[];", member, kind))
			values = append(values, fmt.Sprintf("%s: p.%s.map(() => next(%s)),", member, member, function))
		} else {
			members = append(members, fmt.Sprintf("%s: %s | undefined;", member, kind))
			values = append(values, fmt.Sprintf("%s: next(%s),", member, function))
		}
	}
	w.f("/** The items of %q; undefined stands for an item that does not exist. */\nexport interface %s {\n%s\n}\n", p.Name, result, strings.Join(members, "\n"))
	arguments := w.arguments(p)
	if arguments != "" {
		arguments += ", "
	}
	w.f("/** Returns the items of a reply to the request with the same parameters. */\nexport function decode%s(%sout: %s): %s {", name, arguments, w.sdk("TransactGetItemsCommandOutput"), result)
	w.f("let i = 0;\nconst next = <T>(decode: (it: Item) => T): T | undefined => {\nconst it = out.Responses?.[i++]?.Item;\nreturn it === undefined ? undefined : decode(it);\n};\nreturn {\n%s\n};\n}\n", strings.Join(values, "\n"))
}

// batch writes the functions of a batch.
func (w *tsWriter) batch(p *codePattern) {
	w.f("export function %s(%s): %s {", w.funcs[p], w.arguments(p), w.sdk(p.operation+"CommandInput"))
	consistent := make(map[string]bool)
	w.steps(p, func(c *codeStep, variable string) string {
		consistent[c.Table.Name] = consistent[c.Table.Name] || c.Action.Consistent
		list := w.list(c.Table.Name)
		switch {
		case p.reads():
			return fmt.Sprintf("%s.push(%s);", list, w.operands(c, c.Body["Key"].(map[string]any), variable))
		case c.put():
			return fmt.Sprintf("%s.push({ PutRequest: { Item: %s } });", list, w.item(c, variable))
		}
		return fmt.Sprintf("%s.push({\nDeleteRequest: {\nKey: %s,\n},\n});", list, w.operands(c, c.Body["Key"].(map[string]any), variable))
	})
	for _, table := range p.tables() {
		value := w.list(table)
		switch {
		case p.reads() && consistent[table]:
			value = "{ Keys: " + value + ", ConsistentRead: true }"
		case p.reads():
			value = "{ Keys: " + value + " }"
		}
		w.f("items[%s] = %s;", quoteTS(table), value)
	}
	w.f("return { RequestItems: items };\n}\n")
	if !p.reads() {
		return
	}
	name := capitalized(w.funcs[p])
	result := w.names.take(name+"Items", "Value")
	kinds := p.entities("")
	w.f("/** The items of %q, in any order. */\nexport interface %s {", p.Name, result)
	w.lists(kinds)
	w.f("}\n\n/** Returns the items of a reply. */\nexport function decode%s(out: %s): %s {\nconst found: %s = { %s };", name, w.sdk("BatchGetItemCommandOutput"), result, result, emptyLists(kinds))
	for _, table := range p.tables() {
		w.sort(bySpecificity(p.entities(table)), fmt.Sprintf("out.Responses?.[%s] ?? []", quoteTS(table)), "found")
	}
	w.f("return found;\n}\n")
}
