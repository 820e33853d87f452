package main

import (
	"context"
	"errors"
	"regexp"
)

// errUnlike is returned when a witness cannot get the same items as stator.
var errUnlike = errors.New("the tables have other keys")

// resync gives a witness the items that stator has, after a difference in a
// write.
func resync(ctx context.Context, stator, witness *server) error {
	a, err := stator.send(ctx, "ListTables", object{})
	if err != nil {
		return err
	}
	names, _ := a.Body["TableNames"].([]any)
	for _, name := range names {
		if err := resyncTable(ctx, stator, witness, name); err != nil {
			return err
		}
	}
	return nil
}

func resyncTable(ctx context.Context, stator, witness *server, name any) error {
	want, err := contents(ctx, stator, name)
	if err != nil {
		return err
	}
	got, err := contents(ctx, witness, name)
	if err != nil {
		return err
	}
	for key, it := range got {
		if want[key].item == nil {
			if err := write(ctx, witness, "DeleteItem", object{"TableName": name, "Key": it.key}); err != nil {
				return err
			}
		}
	}
	for key, it := range want {
		if canonical(normalValue(got[key].item)) != canonical(normalValue(it.item)) {
			if err := write(ctx, witness, "PutItem", object{"TableName": name, "Item": it.item}); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(ctx context.Context, s *server, op string, body object) error {
	a, err := s.send(ctx, op, body)
	if err == nil && !a.ok() {
		err = errUnlike
	}
	return err
}

// stored is an item of a table with its key.
type stored struct{ key, item object }

// contents returns the items of a table by the text of their keys.
func contents(ctx context.Context, s *server, name any) (map[string]stored, error) {
	a, err := s.send(ctx, "DescribeTable", object{"TableName": name})
	if err != nil {
		return nil, err
	}
	table, _ := a.Body["Table"].(object)
	schema, _ := table["KeySchema"].([]any)
	if len(schema) == 0 {
		return nil, errUnlike
	}
	if a, err = s.do(ctx, step{Op: "Scan", Body: object{"TableName": name, "ConsistentRead": true}, Pages: true}); err != nil {
		return nil, err
	}
	items, _ := a.Body["Items"].([]any)
	all := make(map[string]stored, len(items))
	for _, v := range items {
		it, _ := v.(object)
		key := make(object)
		for _, element := range schema {
			attribute, _ := element.(object)["AttributeName"].(string)
			key[attribute] = it[attribute]
		}
		all[canonical(normalValue(key))] = stored{key, it}
	}
	return all, nil
}

// hidden reports whether a step may leave a witness with other items although
// the answers do not show it:
//
//   - An update that only removes, if its item does not exist, is ignored by AWS
//     and stator (conformance/update_item/results.txt; tests of Scylla's Alternator
//     that run on AWS). The witnesses create an item.
//   - A member of AttributeUpdates without an action means PUT (API reference).
//     DynamoDB Local ignores it.
//   - A batch of statements for one item is rejected before anything is written.
//     DynamoDB Local carries its statements out before it rejects them.
func hidden(st step, stator answer) bool {
	switch st.Op {
	case "UpdateItem":
		return onlyRemoves(st.Body) || lacksAction(st.Body)
	case "BatchExecuteStatement":
		return !stator.ok()
	}
	return removes(st)
}

// removes reports whether a step has an update that only removes.
func removes(st step) bool {
	if st.Op == "TransactWriteItems" {
		items, _ := st.Body["TransactItems"].([]any)
		for _, v := range items {
			if update, ok := member(v, "Update").(object); ok && onlyRemoves(update) {
				return true
			}
		}
	}
	return st.Op == "UpdateItem" && onlyRemoves(st.Body)
}

func lacksAction(update object) bool {
	updates, _ := update["AttributeUpdates"].(object)
	for _, u := range updates {
		if member(u, "Action") == nil {
			return true
		}
	}
	return false
}

// addsAttributes matches the clauses of an update that may create attributes.
var addsAttributes = regexp.MustCompile(`\b(?:SET|ADD)\b`)

func onlyRemoves(update object) bool {
	if text, ok := update["UpdateExpression"].(string); ok {
		return !addsAttributes.MatchString(text)
	}
	updates, _ := update["AttributeUpdates"].(object)
	for _, u := range updates {
		if member(u, "Action") != "DELETE" {
			return false
		}
	}
	return len(updates) > 0
}
