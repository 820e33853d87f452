package ops

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
)

// itemPermissions returns the permissions of requests to items; not ok for others.
func (s *Service) itemPermissions(ctx context.Context, request any) (found []permission, ok bool, err error) {
	on := func(action, table string, details func(*schema.Table) (details, error)) {
		found = append(found, s.itemPermission(ctx, action, table, "", details))
	}
	switch in := request.(type) {
	case *api.GetItem:
		on("GetItem", in.TableName, func(t *schema.Table) (details, error) { return s.getDetails(t, in) })
	case *api.PutItem:
		on("PutItem", in.TableName, func(t *schema.Table) (details, error) {
			if err := firstFault(in, putItemChecks); err != nil {
				return details{}, err
			}
			return s.writeDetails(t, in.ReturnConsumedCapacity, in.ReturnValues, in.Item.Item, nil, &in.Conditional)
		})
	case *api.DeleteItem:
		on("DeleteItem", in.TableName, func(t *schema.Table) (details, error) {
			if err := firstFault(in, deleteItemChecks); err != nil {
				return details{}, err
			}
			return s.writeDetails(t, in.ReturnConsumedCapacity, in.ReturnValues, in.Key.Item, nil, &in.Conditional)
		})
	case *api.UpdateItem:
		on("UpdateItem", in.TableName, func(t *schema.Table) (details, error) {
			if err := firstFault(in, updateItemChecks); err != nil {
				return details{}, err
			}
			return s.writeDetails(t, in.ReturnConsumedCapacity, in.ReturnValues, in.Key.Item, in, &in.Conditional)
		})
	case *api.Query:
		found = append(found, s.itemPermission(ctx, "Query", in.TableName, or(in.IndexName, ""), func(t *schema.Table) (details, error) {
			return s.queryDetails(t, in)
		}))
	case *api.Scan:
		found = append(found, s.itemPermission(ctx, "Scan", in.TableName, or(in.IndexName, ""), func(*schema.Table) (details, error) {
			if err := firstFault(in, scanChecks); err != nil {
				return details{}, err
			}
			r := &reading{in: &in.Paged, bind: bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)}
			d, err := s.pageDetails(r, in.ScanFilter)
			return d, cmp.Or(err, apierror.Bare(r.bind.Unused()))
		}))
	case *api.GetItemAt:
		found, ok, err = s.itemPermissions(ctx, &in.GetItem)
		return ofPast("GetItemAt", found), ok, err
	case *api.QueryAt:
		found, ok, err = s.itemPermissions(ctx, &in.Query)
		return ofPast("QueryAt", found), ok, err
	case *api.ScanAt:
		found, ok, err = s.itemPermissions(ctx, &in.Scan)
		return ofPast("ScanAt", found), ok, err
	case *api.ItemHistory:
		found, ok, err = s.itemPermissions(ctx, historyGet(in))
		return ofPast("ItemHistory", found), ok, err
	case *api.UndoChanges:
		if in.Key.Item != nil {
			found, ok, err = s.itemPermissions(ctx, &api.GetItem{TableName: in.TableName, Key: in.Key, ReturnConsumedCapacity: in.ReturnConsumedCapacity})
		} else {
			found, ok, err = s.itemPermissions(ctx, &api.Scan{TableName: in.TableName, Paged: api.Paged{ReturnConsumedCapacity: in.ReturnConsumedCapacity}})
		}
		return ofPast("UndoChanges", found), ok, err
	case *api.BatchGetItem:
		if len(in.RequestItems) > maxBatchKeys {
			return nil, true, firstFault(in, batchGetItemChecks)
		}
		for _, sent := range sortedKeys(in.RequestItems) {
			part := in.RequestItems[sent]
			on("BatchGetItem", tableSent(sent), func(t *schema.Table) (details, error) {
				if err := firstFault(in, batchGetItemChecks); err != nil {
					return details{}, err
				}
				return s.batchGetDetails(t, in.ReturnConsumedCapacity, &part)
			})
		}
	case *api.BatchWriteItem:
		if len(in.RequestItems) > maxBatchKeys {
			return nil, true, firstFault(in, batchWriteItemChecks)
		}
		for _, sent := range sortedKeys(in.RequestItems) {
			on("BatchWriteItem", tableSent(sent), func(t *schema.Table) (details, error) {
				if err := firstFault(in, batchWriteItemChecks); err != nil {
					return details{}, err
				}
				return batchWriteDetails(t, in.ReturnConsumedCapacity, in.RequestItems[sent])
			})
		}
	case *api.TransactGetItems:
		found, err = s.transactGetPermissions(ctx, in)
	case *api.TransactWriteItems:
		found, err = s.transactWritePermissions(ctx, in)
	case *api.ExecuteStatement:
		found, err = s.statementPermissions(ctx, nil, statementRequest{&in.Statement, in.Parameters, in.ReturnValuesOnConditionCheckFailure, in.ReturnConsumedCapacity, ""})
	case *api.BatchExecuteStatement:
		for _, one := range in.Statements {
			if found, err = s.statementPermissions(ctx, found, statementRequest{one.Statement, one.Parameters, one.ReturnValuesOnConditionCheckFailure, in.ReturnConsumedCapacity, ""}); err != nil {
				break
			}
		}
	case *api.ExecuteTransaction:
		for _, one := range in.TransactStatements {
			if found, err = s.statementPermissions(ctx, found, statementRequest{one.Statement, one.Parameters, one.ReturnValuesOnConditionCheckFailure, in.ReturnConsumedCapacity, "ExecuteTransaction"}); err != nil {
				break
			}
		}
	default:
		return nil, false, nil
	}
	return found, true, err
}

// ofPast adds the permission of an operation on the past to those of the operation that
// reads the present, which it needs too: nobody sees more of the past than of the present.
func ofPast(action string, present []permission) []permission {
	past := make([]permission, 0, 2*len(present))
	for _, p := range present {
		p.action = "stator:" + action
		past = append(past, p)
	}
	return append(past, present...)
}

// itemPermission returns the permission for items of a table or an index. The keys of a table
// that does not exist are not known: then there are no values of the key.
func (s *Service) itemPermission(ctx context.Context, action, table, index string, of func(*schema.Table) (details, error)) permission {
	arn := s.tableARN(ctx, table)
	if index != "" {
		arn += "/index/" + index
	}
	return permission{action: "dynamodb:" + action, resource: arn, table: table, details: func() (details, error) {
		t, missing := s.DB.Table(table)
		if missing != nil {
			t = &schema.Table{}
		}
		d, err := of(t)
		d.missing = missing
		return d, cmp.Or(err, d.fault)
	}}
}

// tableSent returns the name of a table that a request names by its name or its ARN.
func tableSent(sent string) string {
	if strings.HasPrefix(sent, "arn:") {
		if m := tableARN().FindStringSubmatch(sent); m != nil {
			return m[1]
		}
	}
	return sent
}

// keyed adds the key of an item, and the names of its attributes.
func (d *details) keyed(t *schema.Table, it item.Item) {
	for i, a := range t.Key.Partition {
		if v, ok := it.Get(a.Name); ok {
			d.partition(i, v)
		}
	}
	for name := range it.All() {
		d.names(name)
	}
}

// partition adds a value of the attribute i of a partition key. One of a type that no key
// has is a fault of the request.
func (d *details) partition(i int, v item.Value) {
	text, ok := conditionText(v)
	if !ok {
		d.fault = apierror.KeyMismatch()
		return
	}
	if i == 0 {
		d.many[leadingKeys] = append(d.many[leadingKeys], text)
	}
	if i < len(partitionKeyValues) {
		d.many[partitionKeyValues[i]] = append(d.many[partitionKeyValues[i]], text)
	}
}

// conditionText returns a value of a key as conditions compare it; not ok if it is none.
func conditionText(v item.Value) (text string, ok bool) {
	if len(v) == 0 {
		return "", false
	}
	switch v.Type() {
	case item.S:
		return string(v.Bytes()), true
	case item.N:
		return v.Number().String(), true
	case item.B:
		return base64.StdEncoding.EncodeToString(v.Bytes()), true
	}
	return "", false
}

func (d *details) paths(paths []item.Path) {
	for _, p := range paths {
		d.names(p[0].Name)
	}
}

// projected adds a projection, and what it means for Select.
func (d *details) projected(paths []item.Path) {
	d.one[selected] = "ALL_ATTRIBUTES"
	if paths != nil {
		d.one[selected] = "SPECIFIC_ATTRIBUTES"
	}
	d.paths(paths)
}

func (s *Service) getDetails(t *schema.Table, in *api.GetItem) (details, error) {
	d := newDetails(in.ReturnConsumedCapacity)
	if err := firstFault(in, getItemChecks); err != nil {
		return d, err
	}
	paths, err := s.onlyProjection(in.Compiled, in.ProjectionExpression, in.AttributesToGet, in.ExpressionAttributeNames)
	d.keyed(t, in.Key.Item)
	d.projected(paths)
	return d, err
}

// writeDetails returns the details of a write of one item. What a failed condition
// returns counts as what the write returns.
func (s *Service) writeDetails(t *schema.Table, capacity, returned *string, it item.Item, update *api.UpdateItem, c *api.Conditional) (details, error) {
	d := newDetails(capacity)
	d.keyed(t, it)
	d.one[returnValues] = mostReturned(or(returned, "NONE"), c.ReturnValuesOnConditionCheckFailure)
	b := bindings(c.ExpressionAttributeNames, c.ExpressionAttributeValues)
	if update != nil {
		u, err := s.update(update, b)
		if err != nil {
			return d, err
		}
		d.updated(u)
	}
	cond, err := s.writeCondition(c, b)
	if cond != nil {
		d.paths(cond.Paths())
	}
	return d, cmp.Or(err, b.Unused())
}

// mostReturned returns what a write returns of an item at most: after a failed condition that
// may be more than otherwise.
func mostReturned(returned string, onFailure *string) string {
	if isSet(onFailure, "ALL_OLD") && returned != "ALL_NEW" {
		return "ALL_OLD"
	}
	return returned
}

func (d *details) updated(u *expr.Update) {
	if u != nil {
		d.paths(u.Paths())
		d.paths(u.Reads())
	}
}

// queryDetails returns the details of a query. The values of the partition key are those
// of the index that is queried.
func (s *Service) queryDetails(t *schema.Table, in *api.Query) (details, error) {
	if err := firstFault(in, queryChecks); err != nil {
		return details{}, err
	}
	r := &reading{in: &in.Paged, bind: bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)}
	keys, err := s.keyCondition(in, r.bind)
	if err != nil {
		return details{}, err
	}
	d, err := s.pageDetails(r, in.QueryFilter)
	if err == nil {
		err = apierror.Bare(r.bind.Unused())
	}
	if err == nil && keys != nil {
		err = keys.Check()
	}
	if err != nil || keys == nil {
		return d, err
	}
	d.paths(keys.Paths())
	key := t.Key
	if in.IndexName != nil {
		if x, ok := t.Index(*in.IndexName); ok {
			key = x.Key
		}
	}
	if len(key.Partition) == 0 {
		return d, nil // there is no table
	}
	found, err := keys.Keys(key.Partition, key.Sort)
	if err != nil {
		return d, err
	}
	for i, v := range found.Partition {
		d.partition(i, v)
	}
	return d, nil
}

// pageDetails returns the details that a query and a scan have.
func (s *Service) pageDetails(r *reading, filter map[string]api.Condition) (details, error) {
	d := newDetails(r.in.ReturnConsumedCapacity)
	if err := checkConditions(filter); err != nil {
		return d, err
	}
	if err := s.bindFilter(r, filter); err != nil {
		return d, err
	}
	if err := s.bindProjection(r); err != nil {
		return d, err
	}
	if r.filter != nil {
		d.paths(r.filter.Paths())
	}
	d.projected(r.paths)
	switch {
	case r.in.Select != nil:
		d.one[selected] = *r.in.Select
	case r.in.IndexName != nil && r.paths == nil:
		d.one[selected] = "ALL_PROJECTED_ATTRIBUTES"
	}
	return d, nil
}

func (s *Service) batchGetDetails(t *schema.Table, capacity *string, part *api.KeysAndAttributes) (details, error) {
	d := newDetails(capacity)
	paths, err := s.onlyProjection(part.Compiled, part.ProjectionExpression, part.AttributesToGet, part.ExpressionAttributeNames)
	for _, key := range part.Keys {
		d.keyed(t, key.Item)
	}
	d.projected(paths)
	return d, err
}

func batchWriteDetails(t *schema.Table, capacity *string, writes []api.WriteRequest) (details, error) {
	d := newDetails(capacity)
	for _, w := range writes {
		if w.PutRequest != nil {
			d.keyed(t, w.PutRequest.Item.Item)
		}
		if w.DeleteRequest != nil {
			d.keyed(t, w.DeleteRequest.Key.Item)
		}
	}
	return d, nil
}

func (s *Service) transactGetPermissions(ctx context.Context, in *api.TransactGetItems) (found []permission, err error) {
	for _, action := range in.TransactItems {
		get := action.Get
		if get == nil || get.TableName == nil {
			continue // the request is rejected
		}
		found = append(found, s.itemPermission(ctx, "GetItem", *get.TableName, "", func(t *schema.Table) (details, error) {
			d, err := s.getDetails(t, &api.GetItem{Key: get.Key, ReturnConsumedCapacity: in.ReturnConsumedCapacity,
				ProjectionExpression: get.ProjectionExpression, ExpressionAttributeNames: get.ExpressionAttributeNames, Compiled: get.Compiled})
			return d.with(enclosingOperation, "TransactGetItems"), err
		}))
	}
	return found, nil
}

func (s *Service) transactWritePermissions(ctx context.Context, in *api.TransactWriteItems) (found []permission, err error) {
	add := func(action string, table *string, sent api.Attributes, update *string, c api.ActionCondition) {
		if table == nil {
			return // the request is rejected
		}
		conditional := &api.Conditional{ConditionExpression: c.ConditionExpression,
			ReturnValuesOnConditionCheckFailure: c.ReturnValuesOnConditionCheckFailure, Expressions: c.Expressions, Compiled: c.Compiled}
		var u *api.UpdateItem
		if action == "UpdateItem" {
			u = &api.UpdateItem{UpdateExpression: update, Conditional: api.Conditional{Compiled: c.Compiled}}
		}
		found = append(found, s.itemPermission(ctx, action, *table, "", func(t *schema.Table) (details, error) {
			if err := faultOf(sent); err != nil {
				return details{}, err
			}
			d, err := s.writeDetails(t, in.ReturnConsumedCapacity, nil, sent.Item, u, conditional)
			return d.with(enclosingOperation, "TransactWriteItems"), err
		}))
	}
	for _, action := range in.TransactItems {
		if c := action.ConditionCheck; c != nil {
			add("ConditionCheckItem", c.TableName, c.Key, nil, api.ActionCondition{ConditionExpression: c.ConditionExpression,
				ReturnValuesOnConditionCheckFailure: c.ReturnValuesOnConditionCheckFailure, Expressions: c.Expressions, Compiled: c.Compiled})
		}
		if p := action.Put; p != nil {
			add("PutItem", p.TableName, p.Item, nil, p.ActionCondition)
		}
		if d := action.Delete; d != nil {
			add("DeleteItem", d.TableName, d.Key, nil, d.ActionCondition)
		}
		if u := action.Update; u != nil {
			add("UpdateItem", u.TableName, u.Key, u.UpdateExpression, u.ActionCondition)
		}
	}
	return found, nil
}

// statementRequest is a statement with what its request says about it.
type statementRequest struct {
	text       *string
	parameters []api.Value
	onFailure  *string // ReturnValuesOnConditionCheckFailure
	capacity   *string
	enclosing  string
}

// statementPermissions adds the permission that a statement needs: none if it cannot be
// parsed or bound, since then the operation does not execute it.
func (s *Service) statementPermissions(ctx context.Context, found []permission, r statementRequest) ([]permission, error) {
	if r.text == nil {
		return found, nil // the request is rejected
	}
	parsed, err := s.parseStatement(*r.text)
	if err != nil {
		return append(found, permission{rejected: err}), nil
	}
	st, err := bindStatement(parsed, r.parameters)
	if err != nil {
		return append(found, permission{rejected: err}), nil
	}
	action, index := "", ""
	switch st := st.(type) {
	case *partiql.Select:
		action, index = "PartiQLSelect", st.Index
	case *partiql.Exists:
		action = "PartiQLSelect"
		if st.Select == nil {
			return append(found, permission{rejected: errNotConditional}), nil
		}
		index = st.Select.Index
	case *partiql.Insert:
		action = "PartiQLInsert"
	case *partiql.Update:
		action = "PartiQLUpdate"
	case *partiql.Delete:
		action = "PartiQLDelete"
	}
	return append(found, s.itemPermission(ctx, action, tableSent(st.On()), index, func(t *schema.Table) (details, error) {
		d := newDetails(r.capacity)
		d.statement(t, st, r.onFailure)
		if r.enclosing != "" {
			d.one[enclosingOperation] = r.enclosing
		}
		return d, nil
	})), nil
}

// statement adds the details of a statement.
func (d *details) statement(t *schema.Table, st partiql.Statement, onFailure *string) {
	switch st := st.(type) {
	case *partiql.Select:
		d.selects(t, st)
	case *partiql.Exists:
		d.selects(t, st.Select)
		if isSet(onFailure, "ALL_OLD") { // then the item is returned, and not what is selected of it
			d.one[selected], d.one[returnValues] = "ALL_ATTRIBUTES", "ALL_OLD"
		}
	case *partiql.Insert:
		d.keyed(t, st.Item)
		d.one[returnValues] = mostReturned("NONE", onFailure)
	case *partiql.Update:
		d.where(t.Key, st.Where)
		d.updated(st.Changes)
		d.one[returnValues] = mostReturned(returning(st.Returning), onFailure)
	case *partiql.Delete:
		d.where(t.Key, st.Where)
		d.one[returnValues] = mostReturned(returning(st.Returning), onFailure)
	}
}

func returning(r partiql.Returning) string {
	switch r {
	case partiql.AllOld:
		return "ALL_OLD"
	case partiql.AllNew:
		return "ALL_NEW"
	case partiql.ModifiedOld:
		return "UPDATED_OLD"
	case partiql.ModifiedNew:
		return "UPDATED_NEW"
	}
	return "NONE"
}

func (d *details) selects(t *schema.Table, st *partiql.Select) {
	key := t.Key
	if st.Index != "" {
		if x, ok := t.Index(st.Index); ok {
			key = x.Key
		}
	}
	whole := !d.where(key, st.Where)
	d.one[fullTableScan] = "false"
	if whole {
		d.one[fullTableScan] = "true"
	}
	var paths []item.Path
	for _, c := range st.Columns {
		paths = append(paths, c.Path)
	}
	d.projected(paths)
	for _, o := range st.Order {
		d.names(o.Name)
	}
}

// where adds the values of the partition key that a clause chooses, and the names of its
// attributes. It reports whether the clause selects partitions: only then the values say what
// is read.
func (d *details) where(key schema.Key, where expr.Test) (selects bool) {
	d.paths(expr.NewCondition(where).Paths())
	if len(key.Partition) == 0 {
		return false // there is no table
	}
	chosen := make([][]item.Value, len(key.Partition))
	lookups := 1
	for i, a := range key.Partition {
		for _, k := range partiql.KeyTests(where, a.Name) {
			if isChoice(k) {
				chosen[i] = append(chosen[i], k.Values...)
			}
		}
		if lookups *= len(chosen[i]); lookups == 0 || lookups > maxLookups {
			return false
		}
	}
	for i, values := range chosen {
		for _, v := range values {
			d.partition(i, v)
		}
	}
	return true
}
