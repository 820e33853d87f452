package dax

import (
	"bytes"

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
	builder := r.builder()
	if err := r.addKey(builder, keyBytes, key); err != nil {
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
	return r.built(), nil
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
	names   [][]byte // parts of an item of the reply
	id      int64
	known   bool // id is that of names
}

// append appends the attributes of an item that are not part of the key.
func (w *attributeWriter) append(dst []byte, it item.Item, key schema.Key) ([]byte, error) {
	from, next := len(dst), 0
	for name, v := range it.Names() {
		if isKey(key, name) {
			continue
		}
		w.name(next, name)
		next++
		dst = appendValue(dst, v)
	}
	if err := w.list(next); err != nil {
		return nil, err
	}
	var head [9]byte
	return cbor.WrapBytes(dst, from, cbor.AppendInt(head[:0], w.id)...), nil
}

// appendOrdinals appends the attributes that an update has changed: the id of the list of
// their names, and a map of places in the list and values.
func (w *attributeWriter) appendOrdinals(dst []byte, it item.Item) ([]byte, error) {
	from, next := len(dst), 0
	for name, v := range it.Names() {
		w.name(next, name)
		dst = appendValue(cbor.AppendInt(dst, int64(next)), v)
		next++
	}
	if err := w.list(next); err != nil {
		return nil, err
	}
	var head [18]byte
	return cbor.WrapBytes(dst, from, cbor.AppendMap(cbor.AppendInt(head[:0], w.id), next)...), nil
}

// name notes the name of the attribute at a place in the list.
func (w *attributeWriter) name(place int, name []byte) {
	if w.known && place < len(w.names) && bytes.Equal(w.names[place], name) {
		return
	}
	w.known = false
	w.names = append(w.names[:place], name)
}

// list finds the list of the first n names.
func (w *attributeWriter) list(n int) (err error) {
	if w.known && n == len(w.names) {
		return nil
	}
	w.names, w.known = w.names[:n], false
	w.id = EmptyAttributeList
	if n > 0 {
		if w.id, err = w.catalog.AttributeList(w.names); err != nil {
			return err
		}
	}
	w.known = true
	return nil
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
