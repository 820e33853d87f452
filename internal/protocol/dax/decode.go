package dax

import (
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

func (r *requestReader) endpoints() error {
	r.out.In = new(Endpoints)
	return nil
}

// maxAuthorization is how long the arguments of an authentication are at most. A session token
// has up to 4 KiB.
const maxAuthorization = 16 << 10

func (r *requestReader) authorizeConnection() error {
	if len(r.Rest()) > maxAuthorization {
		return apierror.Serialization("The arguments of an authentication have more than %d bytes", maxAuthorization)
	}
	in := new(Authorization)
	r.out.In = in
	for _, into := range []*string{&in.AccessKey, &in.Signature} {
		text, err := r.Text()
		if err != nil {
			return err
		}
		*into = string(text)
	}
	toSign, err := r.Bytes()
	if err != nil {
		return err
	}
	in.StringToSign = string(toSign)
	for _, into := range []*string{&in.SessionToken, &in.UserAgent} {
		if r.Null() {
			continue
		}
		text, err := r.Text()
		if err != nil {
			return err
		}
		*into = string(text)
	}
	return nil
}

func (r *requestReader) defineKeySchema() error {
	table, err := r.tableName()
	if err != nil {
		return err
	}
	r.out.In = &DefineKeySchema{Table: table}
	return nil
}

func (r *requestReader) defineAttributeList() error {
	id, err := r.Int()
	r.out.In = &DefineAttributeList{ID: id}
	return err
}

// nameBytes is about how much memory a name takes besides its bytes, while it is compared with the others.
const nameBytes = 64

// manyNames is how many names need no memory to be reserved for them.
const manyNames = 1024

// defineAttributeListID reads the names of an item's attributes, which are together smaller
// than an item.
func (r *requestReader) defineAttributeListID() error {
	if len(r.Rest()) > 2*item.MaxSize {
		return apierror.ItemTooLarge()
	}
	in := new(DefineAttributeListID)
	r.out.In = in
	m, err := r.Array()
	if err != nil {
		return err
	}
	seen := make(map[string]bool) // how many names are announced is not trusted
	for {
		if n := len(in.Names); n >= manyNames && n&(n-1) == 0 && r.reserve != nil {
			if err := r.reserve(r.sent + 2*n*nameBytes); err != nil {
				return err
			}
		}
		more, err := r.Next(&m)
		if err != nil || !more {
			return err
		}
		name, err := r.Text()
		if err != nil {
			return err
		}
		if err := item.CheckName(name); err != nil {
			return err
		}
		if seen[string(name)] {
			return apierror.Validation("An attribute list has the name %s twice", name)
		}
		seen[string(name)] = true
		in.Names = append(in.Names, string(name))
	}
}

// byteText reads a text that is encoded as bytes.
func (r *requestReader) byteText() (*string, error) {
	b, err := r.Bytes()
	if err == nil && !utf8.Valid(b) {
		err = cbor.ErrMalformed
	}
	return new(string(b)), err
}

// maxTableName is the longest name that a table can have, in bytes.
const maxTableName = 255

// tableName reads the name of a table, which is often that of a request before.
func (r *requestReader) tableName() (string, error) {
	b, err := r.Bytes()
	switch {
	case err != nil:
		return "", err
	case string(b) == r.last:
		return r.last, nil
	case !utf8.Valid(b):
		return "", cbor.ErrMalformed
	}
	name := string(b)
	if len(b) <= maxTableName {
		r.last = name
	}
	return name, nil
}

// table reads the name of a table, and looks up its key.
func (r *requestReader) table() (string, schema.Key, error) {
	name, err := r.tableName()
	if err != nil {
		return "", schema.Key{}, err
	}
	key, err := r.catalog.Key(name)
	return name, key, err
}

// tableAndKey reads the name of a table and the key of an item.
func (r *requestReader) tableAndKey() (string, api.Attributes, error) {
	table, schema, err := r.table()
	if err != nil {
		return "", api.Attributes{}, err
	}
	key, err := r.key(schema)
	return table, key, err
}

func (r *requestReader) key(of schema.Key) (api.Attributes, error) {
	b, err := r.Bytes()
	if err != nil {
		return api.Attributes{}, err
	}
	return r.reader().key(b, of)
}

// item reads the key and the other attributes of an item.
func (r *requestReader) item(of schema.Key) (api.Attributes, error) {
	key, err := r.Bytes()
	if err != nil {
		return api.Attributes{}, err
	}
	attrs, err := r.Bytes()
	if err != nil {
		return api.Attributes{}, err
	}
	return r.reader().item(namesCounter{r.catalog, r}, key, attrs, of)
}

var (
	getOptions    = optionsOf(optionProjection, optionConsistentRead, optionConsumedCapacity)
	writeOptions  = optionsOf(optionCondition, optionConsumedCapacity, optionCollectionMetrics, optionReturnValues)
	updateOptions = writeOptions | optionsOf(optionUpdate)
	pageOptions   = optionsOf(optionProjection, optionFilter, optionConsistentRead, optionConsumedCapacity,
		optionStartKey, optionIndexName, optionLimit, optionSelect)
	queryOptions         = pageOptions | optionsOf(optionForward)
	scanOptions          = pageOptions | optionsOf(optionSegment, optionTotalSegments)
	batchGetOptions      = optionsOf(optionConsumedCapacity)
	batchWriteOptions    = optionsOf(optionConsumedCapacity, optionCollectionMetrics)
	transactGetOptions   = optionsOf(optionConsumedCapacity)
	transactWriteOptions = optionsOf(optionConsumedCapacity, optionCollectionMetrics, optionToken)
)

func (r *requestReader) getItem() error {
	table, key, err := r.tableAndKey()
	if err != nil {
		return err
	}
	o, err := r.options(getOptions)
	if err != nil {
		return err
	}
	r.out.shown = newProjection(o.projection())
	r.out.In = &api.GetItem{
		TableName: table, Key: key, ConsistentRead: o.consistent,
		ReturnConsumedCapacity: o.consumedCapacity, Compiled: o.compiled,
	}
	return nil
}

func (r *requestReader) putItem() error {
	table, of, err := r.table()
	if err != nil {
		return err
	}
	it, err := r.item(of)
	if err != nil {
		return err
	}
	o, err := r.options(writeOptions)
	if err != nil {
		return err
	}
	r.out.In = &api.PutItem{
		TableName: table, Item: it, ReturnValues: o.returnValues, ReturnConsumedCapacity: o.consumedCapacity,
		ReturnItemCollectionMetrics: o.collectionMetrics, Conditional: api.Conditional{Compiled: o.compiled},
	}
	return nil
}

func (r *requestReader) deleteItem() error {
	table, key, err := r.tableAndKey()
	if err != nil {
		return err
	}
	o, err := r.options(writeOptions)
	if err != nil {
		return err
	}
	r.out.In = &api.DeleteItem{
		TableName: table, Key: key, ReturnValues: o.returnValues, ReturnConsumedCapacity: o.consumedCapacity,
		ReturnItemCollectionMetrics: o.collectionMetrics, Conditional: api.Conditional{Compiled: o.compiled},
	}
	return nil
}

func (r *requestReader) updateItem() error {
	table, key, err := r.tableAndKey()
	if err != nil {
		return err
	}
	o, err := r.options(updateOptions)
	if err != nil {
		return err
	}
	r.out.In = &api.UpdateItem{
		TableName: table, Key: key, ReturnValues: o.returnValues, ReturnConsumedCapacity: o.consumedCapacity,
		ReturnItemCollectionMetrics: o.collectionMetrics, Conditional: api.Conditional{Compiled: o.compiled},
	}
	return nil
}

func (r *requestReader) query() error {
	table, err := r.tableName()
	if err != nil {
		return err
	}
	var keys *expr.KeyCondition
	if !r.Null() {
		b, err := r.Bytes()
		if err != nil {
			return err
		}
		root, err := readCondition(b, expr.KeyConditionExpression)
		if err != nil {
			return err
		}
		keys = expr.NewKeyCondition(root)
	}
	o, err := r.options(queryOptions)
	if err != nil {
		return err
	}
	if keys != nil {
		o.expressions().KeyCondition = keys
	}
	in := &api.Query{TableName: table, Limit: o.limit, ScanIndexForward: o.forward}
	r.out.In = in
	return r.paged(o, table, &in.Paged)
}

func (r *requestReader) scan() error {
	table, err := r.tableName()
	if err != nil {
		return err
	}
	o, err := r.options(scanOptions)
	if err != nil {
		return err
	}
	in := &api.Scan{TableName: table, Limit: o.limit, Segment: o.segment, TotalSegments: o.totalSegments}
	r.out.In = in
	return r.paged(o, table, &in.Paged)
}

// paged sets what Query and Scan share. The key of the table is looked up only if it is needed, because
// the faults of a request are reported before that there is no table.
func (r *requestReader) paged(o *options, table string, in *api.Paged) (err error) {
	r.out.shown = newProjection(o.projection())
	in.IndexName, in.Select, in.ConsistentRead = o.indexName, o.selects, o.consistent
	in.ReturnConsumedCapacity, in.Compiled = o.consumedCapacity, o.compiled
	switch {
	case o.startKey == nil:
	case o.indexName == nil:
		of, err := r.catalog.Key(table)
		if err != nil {
			return err
		}
		if in.ExclusiveStartKey, err = r.reader().key(o.startKey, of); err != nil {
			return err
		}
	default:
		in.ExclusiveStartKey, err = r.reader().namedKey(o.startKey)
	}
	return err
}
