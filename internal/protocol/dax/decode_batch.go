package dax

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// maxBatch is how many keys or items of a batch are decoded. It is more than any batch may
// have, so that package ops finds the fault of one that has too many.
const maxBatch = 1000

// tooMany is the fault of a batch with more keys or items than maxBatch.
func (r *requestReader) tooMany() error {
	return apierror.Validation("Too many items requested for the %s call", r.out.Operation)
}

// eachTable reads a map of the names of tables. It does not accept a name twice.
func (r *requestReader) eachTable(entry func(table string, key schema.Key) error) error {
	m, err := r.Map()
	if err != nil {
		return err
	}
	var seen []string
	for {
		more, err := r.Next(&m)
		if err != nil || !more {
			return err
		}
		if len(seen) == maxBatch {
			return r.tooMany()
		}
		text, err := r.Text()
		if err != nil {
			return err
		}
		table := string(text)
		for _, s := range seen {
			if s == table {
				return cbor.ErrMalformed
			}
		}
		seen = append(seen, table)
		key, err := r.catalog.Key(table)
		if err != nil {
			return err
		}
		if err := entry(table, key); err != nil {
			return err
		}
	}
}

// each reads an array.
func (r *requestReader) each(element func(i int) error) error {
	m, err := r.Array()
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := r.Next(&m)
		if err != nil || !more {
			return err
		}
		if err := element(i); err != nil {
			return err
		}
	}
}

func (r *requestReader) batchGetItem() error {
	in := &api.BatchGetItem{RequestItems: make(map[string]api.KeysAndAttributes)}
	r.out.In, r.out.byTable = in, make(map[string]*projectionTree)
	count := 0
	err := r.eachTable(func(table string, of schema.Key) error {
		ka, err := r.keysAndAttributes(of, &count)
		if err != nil {
			return err
		}
		if ka.Compiled != nil {
			r.out.byTable[table] = newProjection(ka.Compiled.Projection)
		}
		in.RequestItems[table] = ka
		return nil
	})
	if err != nil {
		return err
	}
	o, err := r.options(batchGetOptions)
	if err != nil {
		return err
	}
	in.ReturnConsumedCapacity = o.consumedCapacity
	return nil
}

// keysAndAttributes reads what a BatchGetItem reads of one table: whether it is consistent,
// the projection or null, and the keys.
func (r *requestReader) keysAndAttributes(of schema.Key, count *int) (ka api.KeysAndAttributes, err error) {
	m, err := r.Array()
	if err != nil {
		return ka, err
	}
	if n, ok := m.Count(); !ok || n != 3 {
		return ka, cbor.ErrMalformed
	}
	if ka.ConsistentRead, err = r.Bool(); err != nil {
		return ka, err
	}
	if ka.Compiled, err = r.projection(); err != nil {
		return ka, err
	}
	ka.Keys = []api.Attributes{} // it is an array, even without keys
	err = r.each(func(int) error {
		if *count++; *count > maxBatch {
			return r.tooMany()
		}
		key, err := r.key(of)
		ka.Keys = append(ka.Keys, key)
		return err
	})
	return ka, err
}

// projection reads a projection or null.
func (r *requestReader) projection() (*api.Compiled, error) {
	if r.Null() {
		return nil, nil
	}
	b, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	paths, err := readProjection(b)
	return &api.Compiled{Projection: paths}, err
}

func (r *requestReader) batchWriteItem() error {
	in := &api.BatchWriteItem{RequestItems: make(map[string][]api.WriteRequest)}
	r.out.In = in
	count := 0
	err := r.eachTable(func(table string, of schema.Key) error {
		writes, err := r.writes(of, &count)
		in.RequestItems[table] = writes
		return err
	})
	if err != nil {
		return err
	}
	o, err := r.options(batchWriteOptions)
	if err != nil {
		return err
	}
	in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics = o.consumedCapacity, o.collectionMetrics
	return nil
}

// writes reads the puts and deletes of one table: each is a key, followed by the other
// attributes, or null for a delete.
func (r *requestReader) writes(of schema.Key, count *int) ([]api.WriteRequest, error) {
	m, err := r.Array()
	if err != nil {
		return nil, err
	}
	n, ok := m.Count()
	if !ok || n%2 != 0 {
		return nil, cbor.ErrMalformed
	}
	if *count += n / 2; *count > maxBatch {
		return nil, r.tooMany()
	}
	writes := make([]api.WriteRequest, 0, n/2)
	for range n / 2 {
		var w api.WriteRequest
		ahead := r.Decoder
		if _, err := ahead.Bytes(); err != nil {
			return nil, err
		}
		if ahead.Kind() == cbor.Null {
			key, err := r.key(of)
			if err != nil {
				return nil, err
			}
			r.Null()
			w.DeleteRequest = &api.DeleteRequest{Key: key}
		} else {
			it, err := r.item(of)
			if err != nil {
				return nil, err
			}
			w.PutRequest = &api.PutRequest{Item: it}
		}
		writes = append(writes, w)
	}
	return writes, nil
}

// maxTransaction is how many actions a transaction may have.
const maxTransaction = 100

// column is an array of a transaction: one value for each action. A null stands for an array
// of nulls.
type column struct {
	cbor.Decoder
	members cbor.Members
	absent  bool
}

// columns reads the arrays of a transaction. They have the same number of elements.
func (r *requestReader) columns(columns ...*column) (rows int, err error) {
	rows = -1
	for _, c := range columns {
		if r.Null() {
			c.absent = true
			continue
		}
		b, err := r.Skip()
		if err != nil {
			return 0, err
		}
		c.Decoder = cbor.NewDecoder(b)
		if c.members, err = c.Array(); err != nil {
			return 0, err
		}
		n, ok := c.members.Count()
		if !ok || rows >= 0 && n != rows {
			return 0, cbor.ErrMalformed
		}
		rows = n
	}
	if rows > maxTransaction {
		return 0, apierror.Validation("1 validation error detected: Value at 'transactItems' failed to satisfy constraint: " +
			"Member must have length less than or equal to 100")
	}
	return max(rows, 0), nil
}

// bytes reads bytes or null.
func (c *column) bytes() ([]byte, error) {
	if c.absent || c.Null() {
		return nil, nil
	}
	b, err := c.Bytes()
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// number reads a number, 0 if the column is absent.
func (c *column) number() (int64, error) {
	if c.absent {
		return 0, nil
	}
	return c.Int()
}

// actionKey reads the table and the encoded key of an action.
func (r *requestReader) actionKey(tables, keys *column) (table string, of schema.Key, key []byte, err error) {
	name, err := tables.bytes()
	if err != nil {
		return "", of, nil, err
	}
	if key, err = keys.bytes(); err != nil {
		return "", of, nil, err
	}
	if name == nil || key == nil {
		return "", of, nil, cbor.ErrMalformed
	}
	table = string(name)
	of, err = r.catalog.Key(table)
	return table, of, key, err
}

func (r *requestReader) transactGetItems() error {
	in := new(api.TransactGetItems)
	r.out.In = in
	var tables, keys, projections column
	n, err := r.columns(&tables, &keys, &projections)
	if err != nil {
		return err
	}
	if !tables.absent {
		in.TransactItems = []api.TransactGetItem{}
	}
	for range n {
		table, of, b, err := r.actionKey(&tables, &keys)
		if err != nil {
			return err
		}
		key, err := r.reader().key(b, of)
		if err != nil {
			return err
		}
		get := &api.Get{TableName: &table, Key: key}
		b, err = projections.bytes()
		if err != nil {
			return err
		}
		var paths []item.Path
		if b != nil {
			if paths, err = readProjection(b); err != nil {
				return err
			}
			get.Compiled = &api.Compiled{Projection: paths}
		}
		r.out.byItem = append(r.out.byItem, newProjection(paths))
		in.TransactItems = append(in.TransactItems, api.TransactGetItem{Get: get})
	}
	o, err := r.options(transactGetOptions)
	if err != nil {
		return err
	}
	in.ReturnConsumedCapacity = o.consumedCapacity
	return nil
}

// The kinds of actions in a TransactWriteItems.
const (
	actionPut    = 2
	actionDelete = 7
	actionUpdate = 9
	actionCheck  = 12
)

// returnOnFailure are the words for what a failed condition returns.
var returnOnFailure = []string{1: "NONE", "ALL_OLD"}

// actionColumns are the arrays of a TransactWriteItems.
type actionColumns struct {
	kinds, tables, keys, values, onFailure, conditions, updates column
}

func (r *requestReader) transactWriteItems() error {
	in := new(api.TransactWriteItems)
	r.out.In = in
	var c actionColumns
	var returnValues column // of a preview of the operation; always null
	n, err := r.columns(&c.kinds, &c.tables, &c.keys, &c.values, &returnValues, &c.onFailure, &c.conditions, &c.updates)
	if err != nil {
		return err
	}
	if !c.tables.absent {
		in.TransactItems = []api.TransactWriteItem{}
	}
	for i := range n {
		action, err := r.action(&c, i)
		if err != nil {
			return err
		}
		in.TransactItems = append(in.TransactItems, action)
	}
	o, err := r.options(transactWriteOptions)
	if err != nil {
		return err
	}
	in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics = o.consumedCapacity, o.collectionMetrics
	in.ClientRequestToken = o.token
	return nil
}

// action reads the i-th action of a TransactWriteItems.
func (r *requestReader) action(c *actionColumns, i int) (out api.TransactWriteItem, err error) {
	kind, err := c.kinds.number()
	if err != nil {
		return out, err
	}
	table, of, key, err := r.actionKey(&c.tables, &c.keys)
	if err != nil {
		return out, err
	}
	values, err := c.values.bytes()
	if err != nil {
		return out, err
	}
	onFailure, err := c.onFailure.number()
	if err != nil || onFailure < 0 || onFailure >= int64(len(returnOnFailure)) {
		return out, cbor.ErrMalformed
	}
	compiled, err := actionExpressions(c)
	if err != nil {
		return out, err
	}
	condition := api.ActionCondition{Compiled: compiled}
	if onFailure > 0 {
		condition.ReturnValuesOnConditionCheckFailure = new(returnOnFailure[onFailure])
	}
	if kind == actionPut {
		if values == nil {
			return out, missingMember(i, "put", "item")
		}
		it, err := r.reader().item(namesCounter{r.catalog, r}, key, values, of)
		out.Put = &api.Put{Item: it, TableName: &table, ActionCondition: condition}
		return out, err
	}
	at, err := r.reader().key(key, of)
	if err != nil {
		return out, err
	}
	switch kind {
	case actionDelete:
		out.Delete = &api.Delete{Key: at, TableName: &table, ActionCondition: condition}
	case actionUpdate:
		if compiled == nil || compiled.Update == nil {
			return out, missingMember(i, "update", "updateExpression")
		}
		out.Update = &api.Update{Key: at, TableName: &table, ActionCondition: condition}
	case actionCheck:
		if compiled == nil || compiled.Condition == nil {
			return out, missingMember(i, "conditionCheck", "conditionExpression")
		}
		out.ConditionCheck = &api.ConditionCheck{
			Key: at, TableName: &table, Compiled: compiled,
			ReturnValuesOnConditionCheckFailure: condition.ReturnValuesOnConditionCheckFailure,
		}
	default:
		return out, cbor.ErrMalformed
	}
	return out, nil
}

// actionExpressions reads the condition and the update of an action; nil if it has none.
func actionExpressions(c *actionColumns) (*api.Compiled, error) {
	var o options
	b, err := c.conditions.bytes()
	if err != nil {
		return nil, err
	}
	if b != nil {
		if o.expressions().Condition, err = conditionOf(b, expr.ConditionExpression); err != nil {
			return nil, err
		}
	}
	if b, err = c.updates.bytes(); err != nil {
		return nil, err
	}
	if b != nil {
		if o.expressions().Update, err = readUpdate(b); err != nil {
			return nil, err
		}
	}
	return o.compiled, nil
}

// missingMember is the fault of the i-th action without a member that it must have.
func missingMember(i int, action, member string) error {
	return apierror.Request("Value null at 'transactItems.%d.member.%s.%s' failed to satisfy constraint: Member must not be null", i+1, action, member)
}
