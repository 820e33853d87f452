package dax

import (
	"errors"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// method is one of the methods of the service.
type method struct {
	operation string
	args      int // how many values follow the method's id
	decode    func(*requestReader) error
}

// methods are those that clients call, by their ids. Other ids are known to exist, of tables
// and of the service itself, but DAX does not implement them.
var methods = map[int64]method{
	1489122155:  {AuthorizeConnection, 5, (*requestReader).authorizeConnection},
	455855874:   {ListEndpoints, 0, (*requestReader).endpoints},
	-742646399:  {KeySchemaOf, 1, (*requestReader).defineKeySchema},
	670678385:   {AttributeListNames, 1, (*requestReader).defineAttributeList},
	-1230579644: {AttributeListIDOf, 1, (*requestReader).defineAttributeListID},

	263244906:   {"GetItem", 3, (*requestReader).getItem},
	-2106490455: {"PutItem", 4, (*requestReader).putItem},
	1013539361:  {"DeleteItem", 3, (*requestReader).deleteItem},
	1425579023:  {"UpdateItem", 3, (*requestReader).updateItem},
	-931250863:  {"Query", 3, (*requestReader).query},
	-1875390620: {"Scan", 2, (*requestReader).scan},
	-697851100:  {"BatchGetItem", 2, (*requestReader).batchGetItem},
	116217951:   {"BatchWriteItem", 2, (*requestReader).batchWriteItem},
	1866287579:  {"TransactGetItems", 4, (*requestReader).transactGetItems},
	-1160037738: {"TransactWriteItems", 9, (*requestReader).transactWriteItems},
}

// requestReader interprets the arguments of one request.
type requestReader struct {
	cbor.Decoder
	catalog Catalog
	lenient bool
	out     Request

	values cborReader // for one key or item after another
	given  options
	named  int    // bytes of the names that its items refer to
	last   string // the name of a table that a request had before

	sent    int             // size of the request
	reserve func(int) error // see Reader.Reserve; may be nil
}

// namesCounter counts the names of attribute lists that a request refers to: a few bytes
// stand for many, each time that they occur.
type namesCounter struct {
	Catalog
	r *requestReader
}

// freeNames is how many bytes of names need no memory to be reserved for them.
const freeNames = 64 << 10

func (c namesCounter) AttributeNames(id int64) ([]string, error) {
	names, err := c.Catalog.AttributeNames(id)
	if err != nil {
		return nil, err
	}
	r := c.r
	r.named += namesSize(names)
	switch {
	case r.sent+r.named > MaxRequest:
		return nil, errTooLarge
	case r.named > freeNames && r.reserve != nil:
		err = r.reserve(r.sent + r.named)
	}
	return names, err
}

// reader returns a reader of values, whose fault is not set.
func (r *requestReader) reader() *cborReader {
	r.values.fault = nil
	return &r.values
}

// Decode interprets the arguments. An *apierror.Error is answered, and the connection goes
// on; any other error comes from the Catalog.
func (r Raw) Decode(c Catalog) (Request, error) {
	in := requestReaders.Get().(*requestReader)
	in.Decoder, in.catalog, in.lenient, in.sent, in.reserve = cbor.NewDecoder(r.args), c, r.lenient, r.buffer, r.reserve
	in.out.Operation = r.method.operation
	err := r.method.decode(in)
	out := in.out
	in.end() // not after a panic
	if err != nil {
		if isEncoding(err) {
			err = apierror.Serialization("The arguments of %s are malformed", r.method.operation)
		}
		return Request{Operation: r.method.operation}, err
	}
	return out, nil
}

// requestReaders keeps the memory of requests that were decoded.
var requestReaders = sync.Pool{New: func() any { return new(requestReader) }}

// end keeps the memory that most requests need, and drops the rest.
func (r *requestReader) end() {
	r.values.trim()
	*r = requestReader{values: cborReader{top: r.values.top, digits: r.values.digits}, last: r.last}
	requestReaders.Put(r)
}

// isEncoding reports whether an error is one of the encoding: the request does not have the
// form that clients give it.
func isEncoding(err error) bool {
	return errors.Is(err, cbor.ErrMalformed) || errors.Is(err, cbor.ErrKind) || errors.Is(err, cbor.ErrRange)
}
