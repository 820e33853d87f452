package model

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// Request is one request of the API. Its body is encoded as JSON as it is.
type Request struct {
	Operation string         `json:"operation"`
	Body      map[string]any `json:"body"`
}

// renderer supplies the values of a request: templates for people, or the
// values of an item for a server.
type renderer interface {
	field(f *Field) any                             // the item's value of a field
	bounds(k *KeyPart) []any                        // the values of a key condition
	filter(s *Step, f *Field) []any                 // the values of a filter
	literal(l Literal, t item.Type, fresh bool) any // a literal of the model; fresh asks for a new value
	item(s *Step) any                               // the whole item of a put
}

// requestBuilder builds a request with its placeholders.
type requestBuilder struct {
	renderer renderer
	names    map[string]string
	values   map[string]any
	clauses  []UpdateClause // of the update
}

func (w *requestBuilder) addPlaceholders(body map[string]any) {
	if len(w.names) > 0 {
		body["ExpressionAttributeNames"] = w.names
	}
	if len(w.values) > 0 {
		body["ExpressionAttributeValues"] = w.values
	}
}

var nonWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_]`) })

// name returns the placeholder of an attribute's name.
func (w *requestBuilder) name(attribute string) string {
	ref := "#" + nonWord().ReplaceAllString(attribute, "_")
	for w.names[ref] != "" && w.names[ref] != attribute {
		ref += "_"
	}
	w.names[ref] = attribute
	return ref
}

// value returns a new placeholder for a value, named after an attribute.
func (w *requestBuilder) value(attribute string, v any) string {
	ref := ":" + nonWord().ReplaceAllString(attribute, "_")
	for _, taken := w.values[ref]; taken; _, taken = w.values[ref] {
		ref += "_new"
	}
	w.values[ref] = v
	return ref
}

func newRequestBuilder(v renderer) *requestBuilder {
	return &requestBuilder{renderer: v, names: make(map[string]string), values: make(map[string]any)}
}

// keyBody returns the Key of a request.
func keyBody(s *Step, v renderer) map[string]any {
	key := make(map[string]any)
	for _, p := range slices.Concat(s.Partition, s.Sort) {
		key[p.Name] = v.field(p.field)
	}
	return key
}

// getBody returns the body of a GetItem, or a Get of a transaction.
func getBody(s *Step, v renderer) map[string]any {
	body := map[string]any{"TableName": s.Table.Name, "Key": keyBody(s, v)}
	if s.Action.Consistent {
		body["ConsistentRead"] = true
	}
	w := newRequestBuilder(v)
	w.projection(s, body)
	w.addPlaceholders(body)
	return body
}

func (w *requestBuilder) projection(s *Step, body map[string]any) {
	if len(s.Action.Returns) == 0 {
		return
	}
	var refs []string
	for _, name := range s.Action.Returns {
		refs = append(refs, w.name(name))
	}
	body["ProjectionExpression"] = strings.Join(refs, ", ")
}

// queryBody returns the body of a Query, or of a Scan if there is no key
// condition.
func queryBody(s *Step, v renderer) map[string]any {
	w := newRequestBuilder(v)
	body := map[string]any{"TableName": s.Table.Name}
	if s.Index != nil {
		body["IndexName"] = s.Index.Name
	}
	var tests []string
	for _, k := range slices.Concat(s.Partition, s.Sort) {
		tests = append(tests, w.test(k.Name, k.Op, v.bounds(&k)))
	}
	if len(tests) > 0 {
		body["KeyConditionExpression"] = strings.Join(tests, " AND ")
	}
	var kept []string
	for _, name := range s.Filter {
		kept = append(kept, w.test(name, s.filterOp(name), v.filter(s, s.Entity.byName[name])))
	}
	if len(kept) > 0 {
		body["FilterExpression"] = strings.Join(kept, " AND ")
	}
	w.projection(s, body)
	if s.Reverse {
		body["ScanIndexForward"] = false
	}
	if s.Action.Consistent {
		body["ConsistentRead"] = true
	}
	if s.Action.Page > 0 {
		body["Limit"] = s.Action.Page
	}
	w.addPlaceholders(body)
	return body
}

// filterOp returns the operator of a filter on an attribute.
func (s *Step) filterOp(name string) expr.Op {
	if r := s.Action.Range; r != nil && r.Attribute == name {
		return rangeOp(r.Is, false)
	}
	return expr.Equal
}

// test returns one comparison.
func (w *requestBuilder) test(name string, op expr.Op, values []any) string {
	ref := w.name(name)
	switch op {
	case expr.Between:
		return fmt.Sprintf("%s BETWEEN %s AND %s", ref, w.value(name+"_from", values[0]), w.value(name+"_to", values[1]))
	case expr.BeginsWith:
		return fmt.Sprintf("begins_with(%s, %s)", ref, w.value(name, values[0]))
	}
	return fmt.Sprintf("%s %s %s", ref, op, w.value(name, values[0]))
}

// writeBody returns the body of a PutItem, UpdateItem, DeleteItem or
// ConditionCheck, or such a part of a transaction.
func writeBody(s *Step, v renderer, edits []edit) map[string]any {
	return newRequestBuilder(v).write(s, edits)
}

func (w *requestBuilder) write(s *Step, edits []edit) map[string]any {
	body := map[string]any{"TableName": s.Table.Name}
	if s.Action.verb == Put {
		body["Item"] = w.renderer.item(s)
	} else {
		body["Key"] = keyBody(s, w.renderer)
	}
	if s.Action.Condition != "" {
		w.condition(s.Action)
		body["ConditionExpression"] = s.Action.Condition
	}
	if s.Action.verb == Update {
		if text := w.update(edits); text != "" {
			body["UpdateExpression"] = text
		}
	}
	w.addPlaceholders(body)
	return body
}

// condition adds the placeholders of the action's condition.
func (w *requestBuilder) condition(a *Action) {
	for _, ref := range placeholder().FindAllString(a.Condition, -1) {
		if ref[0] == '#' {
			w.names[ref] = ref[1:]
			if s, ok := named(a.Names, ref); ok {
				w.names[ref] = s.Value.text
			}
			continue
		}
		if s, ok := named(a.Values, ref); ok {
			w.values[ref] = w.renderer.literal(s.Value, s.Value.guess(), false)
		} else {
			w.values[ref] = w.renderer.literal(StringLiteral("{"+ref[1:]+"}"), a.entity.byName[ref[1:]].Type, false)
		}
	}
}

// edit is one change that an update makes to an attribute.
type edit struct {
	verb  string // SET, append, REMOVE or ADD
	field *Field
	value Literal // the value written, unless the change is derived

	// derived is whether the change follows from others by a template or a when, and is not
	// named by the action.
	derived bool
}

// UpdateClause is one change of an UpdateExpression.
type UpdateClause struct {
	Section string // SET, REMOVE or ADD
	Text    string
	Name    string // the placeholder of the attribute's name
	Value   string // the placeholder of the value; "" for REMOVE
}

// update returns the UpdateExpression.
func (w *requestBuilder) update(edits []edit) string {
	for _, e := range edits {
		w.clauses = append(w.clauses, w.clause(e))
	}
	var text []string
	for _, section := range []string{"SET", "REMOVE", "ADD"} {
		var changes []string
		for _, c := range w.clauses {
			if c.Section == section {
				changes = append(changes, c.Text)
			}
		}
		if len(changes) > 0 {
			text = append(text, section+" "+strings.Join(changes, ", "))
		}
	}
	return strings.Join(text, " ")
}

func (w *requestBuilder) clause(e edit) UpdateClause {
	c := UpdateClause{Section: e.verb, Name: w.name(e.field.Name)}
	switch {
	case e.verb == "REMOVE":
		c.Text = c.Name
		return c
	case e.derived:
		c.Value = w.value(e.field.Name, w.renderer.field(e.field))
	default:
		c.Value = w.value(e.field.Name, w.renderer.literal(e.value, e.field.Type, true))
	}
	switch e.verb {
	case "append":
		c.Section, c.Text = "SET", fmt.Sprintf("%s = list_append(%s, %s)", c.Name, c.Name, c.Value)
	case "ADD":
		c.Text = c.Name + " " + c.Value
	default:
		c.Text = c.Name + " = " + c.Value
	}
	return c
}

// renderRequests returns the requests of a plan for people.
func (m *Model) renderRequests(plan *Plan) []Request {
	renderers := make([]renderer, len(plan.Steps))
	edits := make([][]edit, len(plan.Steps))
	for i, s := range plan.Steps {
		w := newHumanRenderer(s)
		for _, k := range m.MachinesOf(s.Entity) {
			if _, fixed := w.fixed[k.Attribute]; !fixed && s.Action.verb == Put {
				w.fixed[k.Attribute] = k.Initial[0]
			}
		}
		renderers[i] = w
		edits[i] = s.edits
		for _, e := range edits[i] {
			s.Changed = append(s.Changed, e.field.Name)
		}
	}
	r := compose(plan, plan.Steps, renderers, edits)
	delete(r.Body, "ReturnConsumedCapacity") // of no interest to a reader
	return []Request{r}
}

// compose makes one request from steps: a single action, or the parts of a
// transaction or a batch.
func compose(plan *Plan, steps []*Step, renderers []renderer, edits [][]edit) Request {
	r := Request{Operation: plan.Operation}
	switch plan.Operation {
	case "GetItem":
		r.Body = getBody(steps[0], renderers[0])
	case "Query", "Scan":
		r.Body = queryBody(steps[0], renderers[0])
	case "PutItem", "UpdateItem", "DeleteItem":
		r.Body = writeBody(steps[0], renderers[0], edits[0])
	case "TransactGetItems":
		var parts []any
		for i, s := range steps {
			part := getBody(s, renderers[i])
			delete(part, "ConsistentRead") // it always is
			parts = append(parts, map[string]any{"Get": part})
		}
		r.Body = map[string]any{"TransactItems": parts}
	case "TransactWriteItems":
		var parts []any
		for i, s := range steps {
			name := map[Verb]string{Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}[s.Action.verb]
			parts = append(parts, map[string]any{name: writeBody(s, renderers[i], edits[i])})
		}
		r.Body = map[string]any{"TransactItems": parts}
	default:
		r.Body = map[string]any{"RequestItems": batchBody(plan.Operation, steps, renderers)}
	}
	r.Body["ReturnConsumedCapacity"] = "INDEXES"
	return r
}

// batchBody returns the RequestItems of a batch, by table.
func batchBody(operation string, steps []*Step, renderers []renderer) map[string]any {
	tables := make(map[string]any)
	for i, s := range steps {
		if operation == "BatchGetItem" {
			part, ok := tables[s.Table.Name].(map[string]any)
			if !ok {
				part = map[string]any{"Keys": []any{}}
				tables[s.Table.Name] = part
			}
			part["Keys"] = append(part["Keys"].([]any), keyBody(s, renderers[i]))
			if s.Action.Consistent {
				part["ConsistentRead"] = true
			}
			continue
		}
		request := map[string]any{"PutRequest": map[string]any{"Item": renderers[i].item(s)}}
		if s.Action.verb == Delete {
			request = map[string]any{"DeleteRequest": map[string]any{"Key": keyBody(s, renderers[i])}}
		}
		list, _ := tables[s.Table.Name].([]any)
		tables[s.Table.Name] = append(list, request)
	}
	return tables
}
