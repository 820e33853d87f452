package code

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// pattern writes the function that builds the request of a pattern, and the one
// that decodes its reply.
func (w *goWriter) pattern(p *codePattern) {
	w.inputTypes(p)
	w.comment(w.funcs[p] + " returns " + p.summary())
	switch {
	case p.operation == "Query":
		w.query(p)
		w.decodeQuery(p)
	case p.single():
		w.single(p)
		if p.operation == "GetItem" {
			w.decodeGet(p)
		}
	case p.Transact != nil:
		w.transaction(p)
		if p.reads() {
			w.decodeTransaction(p)
		}
	default:
		w.batch(p)
		if p.reads() {
			w.decodeBatch(p)
		}
	}
}

// inputTypes writes the types of what the caller passes.
func (w *goWriter) inputTypes(p *codePattern) {
	for _, c := range p.steps {
		switch {
		case c.put() && len(c.params) == 0:
			w.inputs[c] = w.types[c.entity]
			continue
		case len(c.params) == 0:
			continue
		case p.single():
			w.inputs[c] = w.names.take(w.funcs[p]+"Params", "Value")
			w.f("// %s are the parameters of %s.\ntype %s struct {", w.inputs[c], w.funcs[p], w.inputs[c])
		default:
			w.inputs[c] = w.names.take(w.funcs[p]+exportedName(c.entity.Name), "Input")
			w.f("// %s are the parameters of one %s of %s.\ntype %s struct {", w.inputs[c], c.Action.Verb(), w.funcs[p], w.inputs[c])
		}
		names := newNameSet()
		if c.put() {
			w.f("Item %s", w.types[c.entity])
			names.take("Item", "")
		}
		for _, x := range c.params {
			w.members[x] = names.take(exportedName(x.name), "Value")
			w.f("%s %s%s", w.members[x], w.goType(x.field), paramRemark(" // ", x))
		}
		w.f("}\n")
	}
	if p.single() || w.inputArgument(p) == "" {
		return
	}
	w.f("// %s are the parameters of %s.\ntype %s struct {", w.funcs[p]+"Params", w.funcs[p], w.names.take(w.funcs[p]+"Params", ""))
	for _, c := range p.steps {
		switch {
		case !c.hasInput():
		case c.list:
			w.f("%s []%s // at most %d", exportedName(c.name), w.inputs[c], c.most)
		default:
			w.f("%s %s", exportedName(c.name), w.inputs[c])
		}
	}
	w.f("}\n")
}

// paramRemark says which value a parameter is.
func paramRemark(comment string, x *codeParam) string {
	switch {
	case x.Role == model.NewValue:
		return comment + "the new value"
	case x.field.shards > 0:
		return fmt.Sprintf("%sfrom 0 to %d", comment, x.field.shards-1)
	}
	return ""
}

// inputArgument returns the declaration of the argument p with a comma, or ""
// if the caller passes nothing.
func (w *goWriter) inputArgument(p *codePattern) string {
	if !slices.ContainsFunc(p.steps, (*codeStep).hasInput) {
		return ""
	}
	if p.single() {
		return "p " + w.inputs[p.steps[0]] + ", "
	}
	return "p " + w.funcs[p] + "Params, "
}

// values returns the expressions of the parameters of a step in a variable.
func (w *goWriter) values(c *codeStep, variable string) func(model.Param) string {
	return func(p model.Param) string {
		i := slices.IndexFunc(c.params, func(x *codeParam) bool { return x.Param == p })
		return variable + "." + w.members[c.params[i]]
	}
}

// query writes the function of a query. If the shard is not known, it returns
// one request for each.
func (w *goWriter) query(p *codePattern) {
	c := p.steps[0]
	fail := w.stepFail(c, "p")
	if c.Shards <= 1 {
		w.f("func %s(%sstart Key) (*dynamodb.QueryInput, error) {\n%sreturn &dynamodb.QueryInput{%s\nExclusiveStartKey: start,\n}, nil\n}\n", w.funcs[p], w.inputArgument(p), fail, w.body(c, c.Body, "p", ""))
		return
	}
	w.need("Position")
	w.f("func %s(%sstart [%d]Position) ([]ShardQuery, error) {\n%svar all []ShardQuery\nfor shard, at := range start {\nif at.Finished {\ncontinue\n}", w.funcs[p], w.inputArgument(p), c.Shards, fail)
	w.f("all = append(all, ShardQuery{shard, &dynamodb.QueryInput{%s\nExclusiveStartKey: at.After,\n}})\n}\nreturn all, nil\n}\n", w.body(c, c.Body, "p", ""))
}

// single writes the function of a request of one item.
func (w *goWriter) single(p *codePattern) {
	c := p.steps[0]
	argument := strings.TrimSuffix(w.inputArgument(p), ", ")
	w.f("func %s(%s) (*dynamodb.%sInput, error) {", w.funcs[p], argument, p.operation)
	w.WriteString(w.stepFail(c, "p"))
	value := w.item(c, "p")
	w.f("return &dynamodb.%sInput{%s\n}, nil\n}\n", p.operation, w.body(c, c.Body, "p", value))
}

// item writes how the item of a put gets the values that the pattern
// determines, and returns the variable of the item.
func (w *goWriter) item(c *codeStep, variable string) string {
	if !c.put() {
		return ""
	}
	source := variable
	if len(c.params) > 0 {
		source += ".Item"
	}
	if len(c.Assigned) > 0 {
		w.f("e := %s", source)
		source = "e"
	}
	for _, a := range c.Assigned {
		w.f("%s", w.assignment(c.entity.field(a.Field), a.Operand))
	}
	w.f("it, err := %s.Item()\nif err != nil {\nreturn nil, err\n}", source)
	return "it"
}

// assignment returns the statement that sets a field of e to an operand.
func (w *goWriter) assignment(f *codeField, o *model.Operand) string {
	value := ""
	switch {
	case o.Constant != nil && len(f.values) > 0:
		value = w.enumValue(f, plainText(o.Constant))
	case o.Constant != nil:
		value = w.goLiteral(f, o.Constant)
	case len(o.Parts) == 1 && o.Parts[0].Param.Field != nil:
		value = w.own("e")(o.Parts[0].Param)
	default:
		value = w.joined(o.Parts, w.own("e"))
	}
	if isPointer(f) {
		return fmt.Sprintf("e.%s = %s(%s(%s))", w.fields[f.Field], w.need("pointer"), w.goType(f), value)
	}
	return fmt.Sprintf("e.%s = %s", w.fields[f.Field], value)
}

// bodyMembers are the members of requests, in the order in which they are
// written.
var bodyMembers = []string{"TableName", "IndexName", "Key", "Item", "KeyConditionExpression", "FilterExpression", "ProjectionExpression",
	"UpdateExpression", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues", "ScanIndexForward", "ConsistentRead", "Limit"}

// body returns the members of a request as those of a Go struct.
func (w *goWriter) body(c *codeStep, body map[string]any, variable, value string) string {
	var b strings.Builder
	for _, name := range bodyMembers {
		text := ""
		switch v := body[name].(type) {
		case string:
			text = "aws.String(" + strconv.Quote(v) + ")"
			if name == "UpdateExpression" {
				text = cmp.Or(w.updateExpression(c, variable), text)
			}
		case bool:
			text = fmt.Sprintf("aws.Bool(%t)", v)
		case int:
			text = fmt.Sprintf("aws.Int32(%d)", v)
		case map[string]string:
			text = "map[string]string{"
			for _, ref := range slices.Sorted(maps.Keys(v)) {
				text += fmt.Sprintf("\n%q: %q,", ref, v[ref])
			}
			text += "\n}"
		case map[string]any:
			text = w.operands(c, v, variable)
			if replaced := c.replacedSets(w.spec); name == "ExpressionAttributeValues" && len(replaced) > 0 {
				text = "withoutEmptySets(" + text + quotedList(replaced, strconv.Quote) + ")"
			}
		case nil:
			if name != "Item" || value == "" {
				continue
			}
			text = value
		}
		fmt.Fprintf(&b, "\n%s: %s,", name, text)
	}
	return b.String()
}

// operands returns attribute values by name.
func (w *goWriter) operands(c *codeStep, values map[string]any, variable string) string {
	text := "map[string]types.AttributeValue{"
	for _, ref := range slices.Sorted(maps.Keys(values)) {
		text += fmt.Sprintf("\n%q: %s,", ref, w.operand(values[ref].(*model.Operand), w.values(c, variable)))
	}
	return text + "\n}"
}

// limits writes the checks of the lists that the caller passes.
func (w *goWriter) limits(p *codePattern) {
	for _, c := range p.limited() {
		member := "p." + exportedName(c.name)
		w.f("if len(%s) > %d {\nreturn nil, %s(%q, len(%s), %d)\n}", member, c.most, w.need("tooMany"), c.name, member, c.most)
	}
}

// steps writes the steps of a transaction or a batch: add returns the statement
// that adds one, given the variable with its input and the item of a put.
func (w *goWriter) steps(p *codePattern, add func(c *codeStep, variable, value string) string) {
	for _, c := range p.steps {
		variable, list := "p."+exportedName(c.name), c.list && c.hasInput()
		switch {
		case list:
			w.f("for _, v := range %s {", variable)
			variable = "v"
		case c.put():
			w.f("{")
		}
		w.WriteString(w.stepFail(c, variable))
		w.f("%s", add(c, variable, w.item(c, variable)))
		if list || c.put() {
			w.f("}")
		}
	}
}

// transaction writes the function of a transaction.
func (w *goWriter) transaction(p *codePattern) {
	part := "TransactWriteItem"
	if p.reads() {
		part = "TransactGetItem"
	}
	w.f("func %s(%s) (*dynamodb.%sInput, error) {", w.funcs[p], strings.TrimSuffix(w.inputArgument(p), ", "), p.operation)
	w.limits(p)
	w.f("var items []types.%s", part)
	w.steps(p, func(c *codeStep, variable, value string) string {
		name := map[model.Verb]string{model.Get: "Get", model.Put: "Put", model.Update: "Update", model.Delete: "Delete", model.Check: "ConditionCheck"}[c.Action.Verb()]
		body := maps.Clone(c.Body)
		delete(body, "ConsistentRead") // it always is
		return fmt.Sprintf("items = append(items, types.%s{%s: &types.%s{%s\n}})", part, name, name, w.body(c, body, variable, value))
	})
	w.f("return &dynamodb.%sInput{TransactItems: items}, nil\n}\n", p.operation)
}

// batch writes the function of a batch.
func (w *goWriter) batch(p *codePattern) {
	w.f("func %s(%s) (*dynamodb.%sInput, error) {", w.funcs[p], strings.TrimSuffix(w.inputArgument(p), ", "), p.operation)
	w.limits(p)
	if !p.reads() {
		w.f("items := make(map[string][]types.WriteRequest)")
		w.steps(p, func(c *codeStep, variable, value string) string {
			request := fmt.Sprintf("PutRequest: &types.PutRequest{Item: %s}", value)
			if !c.put() {
				request = fmt.Sprintf("DeleteRequest: &types.DeleteRequest{Key: %s}", w.operands(c, c.Body["Key"].(map[string]any), variable))
			}
			return fmt.Sprintf("items[%q] = append(items[%q], types.WriteRequest{%s})", c.Table.Name, c.Table.Name, request)
		})
		w.f("return &dynamodb.BatchWriteItemInput{RequestItems: items}, nil\n}\n")
		return
	}
	w.f("items := make(map[string]types.KeysAndAttributes)\nadd := func(table string, consistent bool, key Key) {\npart := items[table]\npart.Keys = append(part.Keys, key)\nif consistent {\npart.ConsistentRead = aws.Bool(true)\n}\nitems[table] = part\n}")
	w.steps(p, func(c *codeStep, variable, _ string) string {
		return fmt.Sprintf("add(%q, %t, %s)", c.Table.Name, c.Action.Consistent, w.operands(c, c.Body["Key"].(map[string]any), variable))
	})
	w.f("return &dynamodb.BatchGetItemInput{RequestItems: items}, nil\n}\n")
}
