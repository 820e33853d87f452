package dax

import (
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// A key is encoded as bytes. That of a table without a sort key is the content of the S or B
// or the CBOR of the N. With a sort key, the CBOR of the partition key comes first; the rest is
// the content of the S or B, or a number that sorts (lexdecimal.go).

// key reads a key, of which b is the encoding.
func (r *cborReader) key(b []byte, key schema.Key) (api.Attributes, error) {
	if err := r.addKey(r.builder(), b, key); err != nil {
		return api.Attributes{}, err
	}
	return r.built(), nil
}

// addKey adds the attributes of a key. Bytes that are not a key of this table are a fault of
// the request.
func (r *cborReader) addKey(into *item.Builder, b []byte, key schema.Key) error {
	partition := key.Partition[0]
	row := into.Begin([]byte(partition.Name))
	var err error
	if len(key.Sort) == 0 {
		if row, err = r.alone(row, partition.Type, b); err == nil {
			into.End(row)
		}
		return keyFault(err)
	}
	r.Decoder = cbor.NewDecoder(b)
	if row, err = r.scalar(row, partition.Type); err != nil {
		return keyFault(err)
	}
	into.End(row)
	sort := key.Sort[0]
	row = into.Begin([]byte(sort.Name))
	if sort.Type == item.N {
		row, err = r.lexDecimal(row, r.Rest())
	} else {
		row, err = r.alone(row, sort.Type, r.Rest())
	}
	if err == nil {
		into.End(row)
	}
	return keyFault(err)
}

// alone appends a value of which b is the content, or the CBOR of a number.
func (r *cborReader) alone(dst []byte, t item.Type, b []byte) ([]byte, error) {
	switch {
	case t == item.N:
		r.Decoder = cbor.NewDecoder(b)
		dst, err := r.number(dst)
		if err == nil && len(r.Rest()) > 0 {
			err = cbor.ErrMalformed
		}
		return dst, err
	case t == item.S && !utf8.Valid(b):
		return nil, cbor.ErrMalformed
	}
	return item.AppendText(dst, t, b), nil
}

func keyFault(err error) error {
	if err != nil {
		return apierror.KeyMismatch()
	}
	return nil
}

// appendKey appends the key of an item as bytes.
func appendKey(dst []byte, it item.Item, key schema.Key) []byte {
	from := len(dst)
	partition, ok := it.Get(key.Partition[0].Name)
	if !ok {
		return cbor.AppendNull(dst)
	}
	if len(key.Sort) == 0 {
		if partition.Type() == item.N {
			dst = appendNumber(dst, partition)
		} else {
			dst = append(dst, partition.Bytes()...)
		}
		return cbor.WrapBytes(dst, from)
	}
	dst = appendValue(dst, partition)
	sort, ok := it.Get(key.Sort[0].Name)
	switch {
	case !ok:
		return cbor.AppendNull(dst[:from])
	case sort.Type() == item.N:
		dst = appendLexDecimal(dst, sort)
	default:
		dst = append(dst, sort.Bytes()...)
	}
	return cbor.WrapBytes(dst, from)
}

// namedKey reads the start key of a query or scan of an index: a map of names and values.
func (r *cborReader) namedKey(b []byte) (api.Attributes, error) {
	r.Decoder, r.maxSet = cbor.NewDecoder(b), item.MaxSize
	m, err := r.Map()
	if err != nil {
		return api.Attributes{}, err
	}
	builder := r.builder()
	for {
		more, err := r.Next(&m)
		if err != nil {
			return api.Attributes{}, err
		}
		if !more {
			break
		}
		if err := r.entry(builder, 0); err != nil {
			return api.Attributes{}, err
		}
	}
	if len(r.Rest()) > 0 {
		return api.Attributes{}, cbor.ErrMalformed
	}
	return r.built(), nil
}

// appendNamedKey appends a key of an index as bytes. The Go client accepts a map of indefinite
// length only.
func appendNamedKey(dst []byte, key item.Item) []byte {
	from := len(dst)
	dst = cbor.AppendOpenMap(dst)
	for name, v := range key.Names() {
		dst = appendValue(cbor.AppendText(dst, name), v)
	}
	return cbor.WrapBytes(cbor.AppendBreak(dst), from)
}
