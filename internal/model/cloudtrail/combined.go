package cloudtrail

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/workload"
)

// combined returns the shapes of a batch or a transaction. The parts are a list, or, by
// table, as in the API.
func (l *Log) combined(e *event) ([]workload.Shape, error) {
	parts, err := partsOf(e)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]workload.Action)
	kinds := make(map[string]workload.Writes)
	consistent := make(map[string]bool)
	var unknown error
	for i := range parts {
		p := &parts[i]
		t, err := l.table(p.TableName)
		if err != nil {
			unknown = err
			continue
		}
		kind, ok := partKinds[p.Operation]
		if !ok {
			return nil, fmt.Errorf("an action %q is unknown", p.Operation)
		}
		s := shaper{l.recorder, t}
		a := workload.Action{Verb: p.Operation, Conditional: p.ConditionExpression != "",
			Partition: s.prefixes(t.Key.Partition, p.Key), Sort: s.prefixes(t.Key.Sort, p.Key)}
		found[t.Name] = append(found[t.Name], a)
		kinds[t.Name] |= kind
		consistent[t.Name] = consistent[t.Name] || p.ConsistentRead
	}
	var shapes []workload.Shape
	for _, name := range slices.Sorted(maps.Keys(found)) {
		shapes = append(shapes, workload.Shape{Operation: e.EventName, Table: name, Form: kinds[name].Form(), Actions: workload.Actions(found[name]),
			Consistent: consistent[name]})
	}
	if unknown != nil {
		if len(shapes) == 0 {
			return nil, unknown
		}
		l.leave(e.EventName + ": parts of it are in tables that are not sampled; the others are derived")
	}
	if len(shapes) == 0 {
		return nil, errors.New("the log has no parts of it")
	}
	return shapes, nil
}

var partKinds = map[string]workload.Writes{"Get": workload.Get, "Put": workload.Put, "Update": workload.Update, "Delete": workload.Delete,
	"ConditionCheck": workload.ConditionCheck}

// partsOf returns the parts of a batch or a transaction.
func partsOf(e *event) (parts []loggedRequest, err error) {
	var request struct {
		RequestItems  json.RawMessage
		TransactItems json.RawMessage
	}
	if err := json.Unmarshal(e.RequestParameters, &request); err != nil {
		return nil, fmt.Errorf("its parameters cannot be read: %w", err)
	}
	text := request.RequestItems
	if text == nil {
		text = request.TransactItems
	}
	var list []loggedPart
	if json.Unmarshal(text, &list) == nil {
		for i := range list {
			parts = append(parts, list[i].normalized("", e.EventName))
		}
		return parts, nil
	}
	var byTable map[string]json.RawMessage
	if err := json.Unmarshal(text, &byTable); err != nil {
		return nil, errors.New("the log has no parts of it")
	}
	for _, table := range slices.Sorted(maps.Keys(byTable)) {
		var gets struct {
			Keys           []loggedItem
			ConsistentRead bool
		}
		var writes []loggedPart
		switch {
		case json.Unmarshal(byTable[table], &writes) == nil:
			for i := range writes {
				parts = append(parts, writes[i].normalized(table, e.EventName))
			}
		case json.Unmarshal(byTable[table], &gets) == nil:
			for _, key := range gets.Keys {
				parts = append(parts, loggedRequest{Operation: "Get", TableName: table, Key: key, ConsistentRead: gets.ConsistentRead})
			}
		}
	}
	return parts, nil
}

// loggedPart is one part of a batch or a transaction: its parameters with the operation, or
// within a member that is named after the operation.
type loggedPart struct {
	loggedRequest
	Get, Put, Update, Delete, ConditionCheck, PutRequest, DeleteRequest *loggedRequest
}

// normalized returns the parameters of a part with its operation and table.
func (p *loggedPart) normalized(table, event string) loggedRequest {
	found := p.loggedRequest
	for _, member := range []struct {
		operation string
		given     *loggedRequest
	}{{"Get", p.Get}, {"Put", p.Put}, {"Update", p.Update}, {"Delete", p.Delete}, {"ConditionCheck", p.ConditionCheck},
		{"Put", p.PutRequest}, {"Delete", p.DeleteRequest}} {
		if member.given != nil {
			found = *member.given
			found.Operation = member.operation
		}
	}
	if found.TableName == "" {
		found.TableName = table
	}
	if found.Operation == "" && (event == "TransactGetItems" || event == "BatchGetItem") {
		found.Operation = "Get"
	}
	return found
}
