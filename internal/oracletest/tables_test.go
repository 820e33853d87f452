package oracletest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

type createTable struct {
	name    string
	key     key
	indexes []index
}

func (s *createTable) body() map[string]any {
	// A table with provisioned units has one partition. The model does not know how
	// items are distributed over several, on which the cost of a scan depends.
	units := map[string]any{"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
	body := map[string]any{
		"TableName": s.name, "ProvisionedThroughput": units, "KeySchema": keySchema(s.key), "AttributeDefinitions": s.definitions(),
	}
	for _, x := range s.indexes {
		member := "LocalSecondaryIndexes"
		if x.global {
			member = "GlobalSecondaryIndexes"
		}
		all, _ := body[member].([]any)
		if x.global {
			body[member] = append(all, globalIndex{describe(&x), units})
			continue
		}
		body[member] = append(all, describe(&x))
	}
	return body
}

// globalIndex is a global index with its units.
type globalIndex struct {
	indexDescription
	ProvisionedThroughput map[string]any
}

// definitions are the attributes of all keys, each once, by name.
func (s *createTable) definitions() []definition {
	kinds := make(map[string]string)
	for _, k := range s.keys() {
		for _, a := range k.all() {
			kinds[a.name] = a.kind
		}
	}
	var definitions []definition
	for _, name := range sortedKeys(kinds) {
		definitions = append(definitions, definition{name, kinds[name]})
	}
	return definitions
}

func (s *createTable) keys() []key {
	keys := []key{s.key}
	for _, x := range s.indexes {
		keys = append(keys, x.key)
	}
	return keys
}

// The parts of a table's description that the model compares.
type (
	description struct {
		TableName              string
		TableStatus            string
		KeySchema              []keySchemaElement
		AttributeDefinitions   []definition
		LocalSecondaryIndexes  []indexDescription
		GlobalSecondaryIndexes []indexDescription
		ItemCount              int
		TableSizeBytes         int
	}
	indexDescription struct {
		IndexName      string
		KeySchema      []keySchemaElement
		Projection     projection
		ItemCount      int `json:",omitempty"`
		IndexSizeBytes int `json:",omitempty"`
	}
	definition       struct{ AttributeName, AttributeType string }
	keySchemaElement struct{ AttributeName, KeyType string }
	projection       struct {
		ProjectionType   string
		NonKeyAttributes []string `json:",omitempty"`
	}
)

func keySchema(k key) []keySchemaElement {
	var elements []keySchemaElement
	for _, a := range k.hash {
		elements = append(elements, keySchemaElement{a.name, "HASH"})
	}
	for _, a := range k.sort {
		elements = append(elements, keySchemaElement{a.name, "RANGE"})
	}
	return elements
}

func describe(x *index) indexDescription {
	return indexDescription{IndexName: x.name, KeySchema: keySchema(x.key), Projection: projection{x.projection, x.include}}
}

// describe returns the description of a table.
func (t *tableModel) describe(status string) description {
	d := description{
		TableName: t.name, TableStatus: status, KeySchema: keySchema(t.key),
		AttributeDefinitions: (&createTable{key: t.key, indexes: t.indexes}).definitions(),
		ItemCount:            len(t.items),
	}
	for _, it := range t.items {
		d.TableSizeBytes += it.size()
	}
	for _, x := range t.indexes {
		shown := describe(&x)
		for _, entry := range t.content(&x) {
			shown.ItemCount++
			shown.IndexSizeBytes += entry.size()
		}
		if x.global {
			d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, shown)
		} else {
			d.LocalSecondaryIndexes = append(d.LocalSecondaryIndexes, shown)
		}
	}
	d.sort()
	return d
}

// sort sorts lists whose order has no meaning.
func (d *description) sort() {
	slices.SortFunc(d.AttributeDefinitions, func(a, b definition) int { return strings.Compare(a.AttributeName, b.AttributeName) })
	for _, indexes := range [][]indexDescription{d.LocalSecondaryIndexes, d.GlobalSecondaryIndexes} {
		slices.SortFunc(indexes, func(a, b indexDescription) int { return strings.Compare(a.IndexName, b.IndexName) })
		for _, x := range indexes {
			slices.Sort(x.Projection.NonKeyAttributes)
		}
	}
}

// expectTable sends a request that is answered with a table's description.
func (w *harness) expectTable(operation string, body map[string]any, want description) error {
	status, answer := w.send(operation, body)
	var got struct{ Table, TableDescription *description }
	if err := json.Unmarshal(answer, &got); err != nil || status != http.StatusOK {
		return &difference{operation, body, show(want), string(answer)}
	}
	shown := got.TableDescription
	if operation == "DescribeTable" {
		shown = got.Table
	}
	if shown == nil {
		return &difference{operation, body, show(want), string(answer)}
	}
	if shown.sort(); !reflect.DeepEqual(*shown, want) {
		return &difference{operation, body, show(want), show(shown)}
	}
	return nil
}

func (s *createTable) run(w *harness) error {
	if w.tables[s.name] != nil {
		return w.expect("CreateTable", s.body(), result{
			code: "ResourceInUseException", messages: []string{"Table already exists: " + s.name},
		})
	}
	t := &tableModel{name: s.name, key: s.key, indexes: s.indexes, items: make(map[string]object)}
	w.tables[s.name] = t
	return w.expectTable("CreateTable", s.body(), t.describe("CREATING"))
}

type deleteTable struct{ name string }

func (s *deleteTable) run(w *harness) error {
	body := map[string]any{"TableName": s.name}
	t := w.tables[s.name]
	if t == nil {
		return w.expect("DeleteTable", body, noTableNamed(s.name))
	}
	delete(w.tables, s.name)
	// The reply shows little of the table.
	status, answer := w.send("DeleteTable", body)
	if status != http.StatusOK {
		return &difference{"DeleteTable", body, "the table's description", string(answer)}
	}
	return w.expect("DescribeTable", body, noTableNamed(s.name))
}

type describeTable struct{ name string }

func (s *describeTable) run(w *harness) error {
	body := map[string]any{"TableName": s.name}
	t := w.tables[s.name]
	if t == nil {
		return w.expect("DescribeTable", body, noTableNamed(s.name))
	}
	return w.expectTable("DescribeTable", body, t.describe("ACTIVE"))
}

func noTableNamed(name string) result {
	return result{
		code:     "ResourceNotFoundException",
		messages: []string{"Requested resource not found: Table: " + name + " not found"},
	}
}

// restart closes the database, opens it again, and checks that nothing has
// changed.
type restart struct{}

func (restart) run(w *harness) error {
	if w.reopen == nil {
		return nil
	}
	if err := w.reopen(); err != nil {
		return fmt.Errorf("reopen the database: %w", err)
	}
	return audit{}.run(w)
}

// audit compares all tables, and the content of each and of its indexes.
type audit struct{}

func (audit) run(w *harness) error {
	for _, name := range sortedKeys(w.tables) {
		if err := (&describeTable{name}).run(w); err != nil {
			return err
		}
		reads := []*pagedRead{{table: name, scan: true, capacity: "INDEXES"}}
		for _, x := range w.tables[name].indexes {
			reads = append(reads, &pagedRead{table: name, index: x.name, scan: true, capacity: "INDEXES"})
		}
		for _, r := range reads {
			if err := r.run(w); err != nil {
				return err
			}
		}
	}
	return nil
}
