package code

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// unmarshal writes the method that decodes an entity.
func (w *pyWriter) unmarshal(e *codeEntity) {
	var lines []string
	for _, f := range e.fields {
		value, source := w.read(f, f.Name), f.Name
		if a := w.spec.source(e, f); a != nil {
			value, source = w.partOf(e, f, a), a.Name
		}
		lines = append(lines, w.decodedField(f, w.fields[f.Field], value, source))
	}
	w.decodeMethod(w.types[e], lines)
}

// decodeMethod writes the method of.
func (w *pyWriter) decodeMethod(kind string, lines []string) {
	w.f("\n@classmethod")
	w.def("of", []string{"cls", "it: Mapping[str, AttributeValue]"}, kind)
	w.doc("Decodes an item.")
	w.f("return cls(\n%s\n)", strings.Join(lines, "\n"))
	w.depth--
}

// decodedField returns the argument of a constructor.
func (w *pyWriter) decodedField(f *codeField, name, value, source string) string {
	switch {
	case f.optional:
		value = fmt.Sprintf("%s if %s in it else None", value, quotePy(source))
	case f.Type.IsSet():
		value = fmt.Sprintf("%s if %s in it else set()", value, quotePy(source))
	}
	return name + "=" + value + ","
}

// read returns the expression that reads a field from its attribute.
func (w *pyWriter) read(f *codeField, name string) string {
	return pyConverted(f, fmt.Sprintf("%s(it, %s, %q)", w.need("_read"), quotePy(name), f.Type.String()))
}

// pyConverted returns the value of a field from what an attribute value holds.
func pyConverted(f *codeField, text string) string {
	switch {
	case f.shards > 0:
		return "int(" + text + " or 0)"
	case f.Type == item.N:
		return "Decimal(" + text + ")"
	case f.Type == item.NS:
		return "set(map(Decimal, " + text + "))"
	case f.Type.IsSet():
		return "set(" + text + ")"
	}
	return text
}

// partOf returns the expression that reads a field from a text that contains it.
func (w *pyWriter) partOf(e *codeEntity, f *codeField, a *codeAttribute) string {
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
	return pyConverted(f, fmt.Sprintf("%s(it, %s, %d, %s)", w.need("_part"), quotePy(a.Name), hole, strings.Join(pieces, ", ")))
}

// recognize returns the function that tells whether an item is of an entity.
func (w *pyWriter) recognize(e *codeEntity) string {
	name := "_is_" + snakeName(w.types[e])
	if w.names[name] {
		return name
	}
	w.names[name] = true
	var tests []string
	for _, k := range e.key {
		value := "it.get(" + quotePy(k.Name) + ")"
		switch {
		case k.own != nil && len(k.own.values) > 0 && k.Type == item.S:
			var values []string
			for _, v := range k.own.values {
				values = append(values, fmt.Sprintf("{%q: %s}", "S", quotePy(v)))
			}
			tests = append(tests, fmt.Sprintf("%s in [%s]", value, strings.Join(values, ", ")))
		case k.own != nil:
		case k.operand.Constant != nil:
			tests = append(tests, fmt.Sprintf("%s == %s", value, pyConstant(k.operand.Constant)))
		default:
			var pieces []string
			for _, run := range splitAtUnknown(k.operand.Parts, func(*model.Field) bool { return false }) {
				pieces = append(pieces, quotePy(textOf(run.known)))
			}
			tests = append(tests, fmt.Sprintf("%s(%s, %s)", w.need("_is_cut"), value, strings.Join(pieces, ", ")))
		}
	}
	if len(tests) == 0 {
		tests = append(tests, "True")
	}
	w.later = append(w.later, fmt.Sprintf("\n\ndef %s(it: Mapping[str, AttributeValue]) -> bool:\n    \"\"\"Tells whether the key of an item is that of a %s.\"\"\"\n    return %s\n", name, w.types[e], strings.Join(tests, " and ")))
	return name
}

// pattern writes the function that builds the request of a pattern, and the one
// that decodes its reply.
func (w *pyWriter) pattern(p *codePattern) {
	w.inputTypes(p)
	c := p.steps[0]
	arguments := w.arguments(p)
	switch {
	case p.operation == "Query":
		w.query(p)
	case p.single():
		w.f("\n")
		w.def(w.funcs[p], arguments, "Request")
		w.doc("Returns " + p.summary())
		w.stepChecks(c, "")
		w.f("return {\n%s\n}", w.body(c, c.Body, "", w.item(c, "item")))
		w.depth--
		if p.operation == "GetItem" {
			w.decodeGet(p)
		}
	default:
		w.combined(p)
	}
}

// inputTypes chooses the names of what the caller passes, and writes the
// classes of the parts of a transaction or a batch.
func (w *pyWriter) inputTypes(p *codePattern) {
	taken := newNameSet(pyReserved...)
	for _, c := range p.steps {
		names := newNameSet(pyReserved...)
		for _, x := range c.params {
			w.params[x] = names.take(snakeName(x.name), "_")
		}
		w.members[c] = taken.take(snakeName(c.name), "_")
		if c.put() && len(c.params) == 0 {
			w.inputs[c] = w.types[c.entity]
		}
		if p.single() || len(c.params) == 0 {
			continue
		}
		w.inputs[c] = w.names.take(pascalName(p.Name)+pascalName(c.entity.Name), "Input")
		w.f("\n\n@dataclass(kw_only=True)\nclass %s:", w.inputs[c])
		w.depth++
		w.doc(fmt.Sprintf("The parameters of one %s of %s.", c.Action.Verb(), w.funcs[p]))
		w.f("")
		if c.put() {
			w.f("item: %s", w.types[c.entity])
		}
		for _, x := range c.params {
			w.f("%s: %s%s", w.params[x], w.pyType(x.field), paramRemark("  # ", x))
		}
		w.depth--
	}
}

// arguments returns the arguments of the function of a pattern.
func (w *pyWriter) arguments(p *codePattern) (all []string) {
	if p.single() {
		c := p.steps[0]
		if c.put() {
			all = append(all, "item: "+w.types[c.entity])
		}
		if len(c.params) > 0 {
			all = append(all, "*")
		}
		for _, x := range c.params {
			all = append(all, fmt.Sprintf("%s: %s", w.params[x], w.pyType(x.field)))
		}
		return all
	}
	for _, c := range p.steps {
		switch {
		case !c.hasInput():
		case c.list:
			all = append(all, fmt.Sprintf("%s: Sequence[%s]", w.members[c], w.inputs[c]))
		default:
			all = append(all, fmt.Sprintf("%s: %s", w.members[c], w.inputs[c]))
		}
	}
	if len(all) > 0 {
		all = append([]string{"*"}, all...)
	}
	return all
}

// values returns the expressions of the parameters of a step: arguments, or
// members of a variable.
func (w *pyWriter) values(c *codeStep, variable string) func(model.Param) string {
	return func(p model.Param) string {
		i := slices.IndexFunc(c.params, func(x *codeParam) bool { return x.Param == p })
		if variable == "" {
			return w.params[c.params[i]]
		}
		return variable + "." + w.params[c.params[i]]
	}
}

// item returns the expression of the item of a put, with the values that the
// pattern determines.
func (w *pyWriter) item(c *codeStep, variable string) string {
	if !c.put() {
		return ""
	}
	if len(c.Assigned) == 0 {
		return variable + ".item()"
	}
	var members []string
	for _, a := range c.Assigned {
		f, o := c.entity.field(a.Field), a.Operand
		own := func(p model.Param) string { return variable + "." + w.fields[p.Field] }
		value := ""
		switch {
		case o.Constant != nil:
			value = w.literal(f, o.Constant)
		case len(o.Parts) == 1 && o.Parts[0].Param.Field != nil:
			value = own(o.Parts[0].Param)
		default:
			value = w.joined(o.Parts, own)
		}
		members = append(members, w.fields[f.Field]+"="+value)
	}
	return fmt.Sprintf("replace(%s, %s).item()", variable, strings.Join(members, ", "))
}

// body returns the members of a request.
func (w *pyWriter) body(c *codeStep, body map[string]any, variable, value string) string {
	replaced := c.replacedSets(w.spec)
	var lines []string
	for _, name := range bodyMembers {
		switch v := body[name].(type) {
		case string:
			text := quotePy(v)
			if name == "UpdateExpression" && len(replaced) > 0 {
				text = w.updateExpression(c, variable)
			}
			lines = append(lines, fmt.Sprintf("%q: %s,", name, text))
		case bool:
			lines = append(lines, fmt.Sprintf("%q: %s,", name, map[bool]string{true: "True", false: "False"}[v]))
		case int:
			lines = append(lines, fmt.Sprintf("%q: %d,", name, v))
		case map[string]string:
			lines = append(lines, fmt.Sprintf("%q: {", name))
			for _, ref := range slices.Sorted(maps.Keys(v)) {
				lines = append(lines, fmt.Sprintf("%s: %s,", quotePy(ref), quotePy(v[ref])))
			}
			lines = append(lines, "},")
		case map[string]any:
			if name == "ExpressionAttributeValues" && len(replaced) > 0 {
				lines = append(lines, fmt.Sprintf("**%s(%s%s),", w.need("_without_empty_sets"), w.operands(c, v, variable), quotedList(replaced, quotePy)))
				continue
			}
			lines = append(lines, fmt.Sprintf("%q: %s,", name, w.operands(c, v, variable)))
		case nil:
			if name == "Item" && value != "" {
				lines = append(lines, fmt.Sprintf("%q: %s,", name, value))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// operands returns attribute values by name.
func (w *pyWriter) operands(c *codeStep, values map[string]any, variable string) string {
	text := "{"
	for _, ref := range slices.Sorted(maps.Keys(values)) {
		text += fmt.Sprintf("\n%s: %s,", quotePy(ref), w.operand(values[ref].(*model.Operand), w.values(c, variable)))
	}
	return text + "\n}"
}

// query writes the functions of a query.
func (w *pyWriter) query(p *codePattern) {
	c := p.steps[0]
	w.f("\n")
	if c.Shards > 1 {
		w.shardQuery(p)
	} else {
		w.def(w.funcs[p], append(w.arguments(p), "start: Key | None = None"), "Request")
		w.doc("Returns " + p.summary())
		w.stepChecks(c, "")
		w.f("request: Request = {\n%s\n}\nif start is not None:\n%srequest[\"ExclusiveStartKey\"] = start\nreturn request", w.body(c, c.Body, "", ""), w.unit)
		w.depth--
	}
	w.decodeQuery(p)
}

// shardQuery writes the function of a query whose shard is not known: it returns one
// request for each.
func (w *pyWriter) shardQuery(p *codePattern) {
	c := p.steps[0]
	w.need("_positions")
	w.def(w.funcs[p], append(w.arguments(p), "start: Sequence[Position] | None = None"), "list[ShardQuery]")
	w.doc("Returns " + p.summary())
	w.stepChecks(c, "")
	w.f("requests: list[ShardQuery] = []\nfor shard, v in enumerate(_positions(start, %d)):", c.Shards)
	w.depth++
	w.f("if v.finished:\n%scontinue\nrequest: Request = {\n%s\n}\nif v.after is not None:", w.unit, w.body(c, c.Body, "", ""))
	w.f("%srequest[\"ExclusiveStartKey\"] = v.after\nrequests.append(ShardQuery(shard, request))", w.unit)
	w.depth--
	w.f("return requests")
	w.depth--
}

// decodeQuery writes the function that decodes a page of a query.
func (w *pyWriter) decodeQuery(p *codePattern) {
	c := p.steps[0]
	kind := w.decoder(p, c)
	generic, next, nextType, end := "Page", `reply.get("LastEvaluatedKey")`, "Key | None", "None"
	if c.Shards > 1 {
		generic, next, nextType, end = "ShardPage", `_position_after(reply.get("LastEvaluatedKey"))`, "Position", "finished"
	}
	if len(c.with) == 0 {
		w.need(generic)
		w.f("\n")
		w.def("decode_"+w.funcs[p], []string{"reply: Mapping[str, Any]"}, generic+"["+kind+"]")
		w.doc("Returns the items of a reply.")
		w.f("return %s([%s.of(it) for it in reply[\"Items\"]], %s)", generic, kind, next)
		w.depth--
		return
	}
	page := w.names.take(pascalName(p.Name)+"Page", "Value")
	kinds := append([]*codeEntity{c.entity}, c.with...)
	w.lists(page, fmt.Sprintf("A page of %q. next is where the next page starts; it is %s after the last one.", p.Name, end), kinds, "next: "+nextType)
	w.def("decode_"+w.funcs[p], []string{"reply: Mapping[str, Any]"}, page)
	w.doc("Returns the items of a reply. An item of another entity is an error.")
	w.f("page = %s(%s, next=%s)", page, pyEmpty(kinds), next)
	w.sort(c.kinds(), `reply["Items"]`, "page")
	w.f("return page")
	w.depth--
}

// lists writes a class with a list for each entity.
func (w *pyWriter) lists(name, doc string, kinds []*codeEntity, more string) {
	w.f("\n\n@dataclass\nclass %s:", name)
	w.depth++
	w.doc(doc)
	w.f("")
	for _, e := range kinds {
		w.f("%s: list[%s]", pyList(e), w.types[e])
	}
	if more != "" {
		w.f("%s", more)
	}
	w.depth--
	w.f("\n")
}

// pyList returns the name of the list of an entity.
func pyList(e *codeEntity) string {
	return newNameSet(pyReserved...).take(snakeName(plural(e.Name)), "_")
}

func pyEmpty(kinds []*codeEntity) string {
	var all []string
	for _, e := range kinds {
		all = append(all, pyList(e)+"=[]")
	}
	return strings.Join(all, ", ")
}

// sort writes a loop that decodes items of several entities.
func (w *pyWriter) sort(kinds []*codeEntity, items, variable string) {
	w.f("for it in %s:", items)
	w.depth++
	for i, e := range kinds {
		push := fmt.Sprintf("%s.%s.append(%s.of(it))", variable, pyList(e), w.types[e])
		switch {
		case len(kinds) == 1:
			w.f("%s", push)
		case i == 0:
			w.f("if %s(it):\n%s%s", w.recognize(e), w.unit, push)
		default:
			w.f("elif %s(it):\n%s%s", w.recognize(e), w.unit, push)
		}
	}
	if len(kinds) > 1 {
		w.f("else:\n%sraise %s(it, %s)", w.unit, w.need("_strange_item"), quotedKey(kinds[0], quotePy))
	}
	w.depth--
}

// decoder returns the class of what a step returns.
func (w *pyWriter) decoder(p *codePattern, c *codeStep) string {
	if len(c.returns) == 0 || p.operation == "BatchGetItem" {
		return w.types[c.entity]
	}
	kind := w.names.take(pascalName(p.Name)+"Item", "Value")
	w.f("\n\n@dataclass(kw_only=True)\nclass %s:", kind)
	w.depth++
	w.doc(fmt.Sprintf("The attributes that %q returns.", p.Name))
	w.f("")
	names := newNameSet(append([]string{"of"}, pyReserved...)...)
	var lines []string
	for _, a := range c.returns {
		f := a.own
		if f == nil {
			f = &codeField{Field: a.Field, optional: a.optional}
		}
		name := names.take(snakeName(a.Name), "_")
		w.property(f, name)
		lines = append(lines, w.decodedField(f, name, w.read(f, a.Name), a.Name))
	}
	w.decodeMethod(kind, lines)
	w.depth--
	return kind
}

func (w *pyWriter) decodeGet(p *codePattern) {
	kind := w.decoder(p, p.steps[0])
	w.f("\n")
	w.def("decode_"+w.funcs[p], []string{"reply: Mapping[str, Any]"}, kind+" | None")
	w.doc("Returns the item of a reply, None if there is none.")
	w.f("return %s.of(reply[\"Item\"]) if \"Item\" in reply else None", kind)
	w.depth--
}

// combined writes the functions of a transaction or a batch.
func (w *pyWriter) combined(p *codePattern) {
	w.f("\n")
	w.def(w.funcs[p], w.arguments(p), "Request")
	w.doc("Returns " + p.summary())
	for _, c := range p.limited() {
		w.f("%s(%s, len(%s), %d)", w.need("_at_most"), quotePy(c.name), w.members[c], c.most)
	}
	if p.Transact != nil {
		w.f("items: list[Any] = []")
	} else {
		w.f("items: dict[str, Any] = {\n%s\n}", strings.Join(w.emptyTables(p), "\n"))
	}
	for _, c := range p.steps {
		variable := w.members[c]
		if c.list && c.hasInput() {
			w.f("for v in %s:", variable)
			w.depth++
			variable = "v"
		}
		w.stepChecks(c, variable)
		w.part(p, c, variable)
		if c.list && c.hasInput() {
			w.depth--
		}
	}
	if p.Transact != nil {
		w.f("return {\"TransactItems\": items}")
	} else {
		w.f("return {\"RequestItems\": items}")
	}
	w.depth--
	switch p.operation {
	case "TransactGetItems":
		w.decodeTransaction(p)
	case "BatchGetItem":
		w.decodeBatch(p)
	}
}

// emptyTables returns the members of an empty batch.
func (w *pyWriter) emptyTables(p *codePattern) (lines []string) {
	for _, table := range p.tables() {
		value := "[]"
		if p.reads() {
			value = `{"Keys": []}`
			if slices.ContainsFunc(p.steps, func(c *codeStep) bool { return c.Table.Name == table && c.Action.Consistent }) {
				value = `{"Keys": [], "ConsistentRead": True}`
			}
		}
		lines = append(lines, quotePy(table)+": "+value+",")
	}
	return lines
}

// part writes the statement that adds one action to a transaction or a batch.
func (w *pyWriter) part(p *codePattern, c *codeStep, variable string) {
	whole := variable
	if c.put() && len(c.params) > 0 {
		whole += ".item"
	}
	value := w.item(c, whole)
	if p.Transact != nil {
		name := map[model.Verb]string{model.Get: "Get", model.Put: "Put", model.Update: "Update", model.Delete: "Delete", model.Check: "ConditionCheck"}[c.Action.Verb()]
		body := maps.Clone(c.Body)
		delete(body, "ConsistentRead") // it always is
		w.f("items.append({\n%q: {\n%s\n},\n})", name, w.body(c, body, variable, value))
		return
	}
	table := "items[" + quotePy(c.Table.Name) + "]"
	switch {
	case p.reads():
		w.f("%s[\"Keys\"].append(%s)", table, w.operands(c, c.Body["Key"].(map[string]any), variable))
	case c.put():
		w.f("%s.append({\"PutRequest\": {\"Item\": %s}})", table, value)
	default:
		w.f("%s.append({\n\"DeleteRequest\": {\n\"Key\": %s,\n},\n})", table, w.operands(c, c.Body["Key"].(map[string]any), variable))
	}
}

// decodeTransaction writes the function that decodes the reply to a
// TransactGetItems. Its items are in the order of the request.
func (w *pyWriter) decodeTransaction(p *codePattern) {
	result := w.names.take(pascalName(p.Name)+"Items", "Value")
	var members, values []string
	arguments := []string{"reply: Mapping[str, Any]"}
	if len(p.limited()) > 0 {
		arguments = append(arguments, "*")
	}
	for _, c := range p.steps {
		kind := w.decoder(p, c)
		next := fmt.Sprintf("%s.of(it) if (it := next(items)) else None", kind)
		if c.list {
			members = append(members, fmt.Sprintf("%s: list[%s | None]", w.members[c], kind))
			values = append(values, fmt.Sprintf("%s=[%s for _ in %s],", w.members[c], next, w.members[c]))
			arguments = append(arguments, fmt.Sprintf("%s: Sequence[Any]", w.members[c]))
		} else {
			members = append(members, fmt.Sprintf("%s: %s | None", w.members[c], kind))
			values = append(values, fmt.Sprintf("%s=%s,", w.members[c], next))
		}
	}
	w.f("\n\n@dataclass\nclass %s:", result)
	w.depth++
	w.doc(fmt.Sprintf("The items of %q; None stands for an item that does not exist.", p.Name))
	w.f("\n%s", strings.Join(members, "\n"))
	w.depth--
	w.f("\n")
	w.def("decode_"+w.funcs[p], arguments, result)
	w.doc("Returns the items of a reply to the request with the same parameters.")
	w.f("items = (response.get(\"Item\") for response in reply[\"Responses\"])\nreturn %s(\n%s\n)", result, strings.Join(values, "\n"))
	w.depth--
}

// decodeBatch writes the function that decodes the reply to a BatchGetItem.
func (w *pyWriter) decodeBatch(p *codePattern) {
	result := w.names.take(pascalName(p.Name)+"Items", "Value")
	kinds := p.entities("")
	w.lists(result, fmt.Sprintf("The items of %q, in any order.", p.Name), kinds, "")
	w.def("decode_"+w.funcs[p], []string{"reply: Mapping[str, Any]"}, result)
	w.doc("Returns the items of a reply.")
	w.f("found = %s(%s)", result, pyEmpty(kinds))
	for _, table := range p.tables() {
		w.sort(bySpecificity(p.entities(table)), fmt.Sprintf("reply[\"Responses\"].get(%s, [])", quotePy(table)), "found")
	}
	w.f("return found")
	w.depth--
}
