package dax

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// The attributes of an item that are not part of its key are encoded as bytes: the id of the
// list of their names, then the values.

// EmptyAttributeList is the id of the list without names, which no client asks for.
const EmptyAttributeList = 1

// maxItemBytes is the largest encoding of an item. Few values need more bytes than DynamoDB
// counts, and none ten times as many but integers with many zeros at the end.
const maxItemBytes = 10 * item.MaxSize

// item reads an item: the encodings of its key and of its other attributes.
func (r *cborReader) item(c Catalog, keyBytes, attrs []byte, key schema.Key) (api.Attributes, error) {
	if len(attrs) > maxItemBytes {
		return api.Attributes{}, apierror.ItemTooLarge()
	}
	var builder item.Builder
	if err := r.addKey(&builder, keyBytes, key); err != nil {
		return api.Attributes{}, err
	}
	r.Decoder, r.maxSet = cbor.NewDecoder(attrs), item.MaxSize
	id, err := r.Int()
	if err != nil {
		return api.Attributes{}, err
	}
	names, err := namesOf(c, id)
	if err != nil {
		return api.Attributes{}, err
	}
	if namesSize(names) > item.MaxSize {
		return api.Attributes{}, apierror.ItemTooLarge()
	}
	for _, name := range names {
		if key.Has(name) {
			return api.Attributes{}, apierror.KeyMismatch()
		}
		row, err := r.value(builder.Begin([]byte(name)), 0)
		if err != nil {
			return api.Attributes{}, err
		}
		builder.End(row)
	}
	if len(r.Rest()) > 0 {
		return api.Attributes{}, cbor.ErrMalformed
	}
	return api.Attributes{Item: builder.Item(), Fault: r.fault}, nil
}

// namesSize is the size of names in bytes.
func namesSize(names []string) (bytes int) {
	for _, name := range names {
		bytes += len(name)
	}
	return bytes
}

func namesOf(c Catalog, id int64) ([]string, error) {
	if id == EmptyAttributeList {
		return nil, nil
	}
	return c.AttributeNames(id)
}

// attributeWriter appends items. It remembers the last list of names, because the items of a
// page often have the same attributes.
type attributeWriter struct {
	catalog Catalog
	names   []string
	id      int64
	known   bool // names and id are set
}

// append appends the attributes of an item that are not part of the key.
func (w *attributeWriter) append(dst []byte, it item.Item, key schema.Key) ([]byte, error) {
	if err := w.list(it, key); err != nil {
		return nil, err
	}
	from := len(dst)
	dst = cbor.AppendInt(dst, w.id)
	for name, v := range it.Names() {
		if !isKey(key, name) {
			dst = appendValue(dst, v)
		}
	}
	return cbor.WrapBytes(dst, from), nil
}

// appendOrdinals appends the attributes that an update has changed: the id of the list of
// their names, and a map of places in the list and values.
func (w *attributeWriter) appendOrdinals(dst []byte, it item.Item) ([]byte, error) {
	if err := w.list(it, schema.Key{}); err != nil {
		return nil, err
	}
	from := len(dst)
	dst = cbor.AppendMap(cbor.AppendInt(dst, w.id), it.Len())
	ordinal := int64(0)
	for _, v := range it.Names() {
		dst = appendValue(cbor.AppendInt(dst, ordinal), v)
		ordinal++
	}
	return cbor.WrapBytes(dst, from), nil
}

// list finds the list of an item's attributes that are not part of the key.
func (w *attributeWriter) list(it item.Item, key schema.Key) (err error) {
	if w.known && w.same(it, key) {
		return nil
	}
	w.names = w.names[:0]
	for name := range it.Names() {
		if !isKey(key, name) {
			w.names = append(w.names, string(name))
		}
	}
	w.known = false
	w.id = EmptyAttributeList
	if len(w.names) > 0 {
		if w.id, err = w.catalog.AttributeList(w.names); err != nil {
			return err
		}
	}
	w.known = true
	return nil
}

func (w *attributeWriter) same(it item.Item, key schema.Key) bool {
	i := 0
	for name := range it.Names() {
		if isKey(key, name) {
			continue
		}
		if i == len(w.names) || w.names[i] != string(name) {
			return false
		}
		i++
	}
	return i == len(w.names)
}

func isKey(key schema.Key, name []byte) bool {
	for i := range key.Partition {
		if key.Partition[i].Name == string(name) {
			return true
		}
	}
	for i := range key.Sort {
		if key.Sort[i].Name == string(name) {
			return true
		}
	}
	return false
}
