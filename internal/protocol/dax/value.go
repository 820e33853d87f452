package dax

import (
	"encoding/base64"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// The tags of sets, and of a list index in a document path.
const (
	tagStringSet = 3321
	tagNumberSet = 3322
	tagBinarySet = 3323
	tagListIndex = 3324
)

// cborReader reads attribute values into the stored form. A value that is well formed and
// invalid all the same (an empty set, a number with too many digits) is recorded as the fault
// and replaced by a null, as in package wire. Errors are those of the encoding.
type cborReader struct {
	cbor.Decoder
	fault  *apierror.Error // the first
	maxSet int             // size from which no more members of a set are kept

	digits  []byte        // of the number being read
	members []item.Value  // of the set being read
	top     item.Builder  // of the item or key being read
	nested  *nestedMemory // nil until a list, a set or a map is read
}

// nestedMemory is the memory of the containers of an item. It is large, and few requests need it.
type nestedMemory struct {
	rows     [item.MaxDepth + 1][]byte   // of the list or set being read at each depth
	builders [item.MaxDepth]item.Builder // of the map being read at each depth
}

func (r *cborReader) memory() *nestedMemory {
	if r.nested == nil {
		r.nested = new(nestedMemory)
	}
	return r.nested
}

// builder returns the empty builder of an item or a key.
func (r *cborReader) builder() *item.Builder {
	r.top.Reset()
	return &r.top
}

// built returns what was built, and frees the memory of the builder if it is large.
func (r *cborReader) built() api.Attributes {
	out := api.Attributes{Item: r.top.Item(), Fault: r.fault}
	r.trim()
	return out
}

func (r *cborReader) trim() {
	if r.top.Cap() > keptRow {
		r.top = item.Builder{}
	}
}

func (r *cborReader) noteFault(err error) {
	var e *apierror.Error
	if r.fault == nil && errors.As(err, &e) {
		r.fault = e
	}
}

// value reads one value and appends it.
func (r *cborReader) value(dst []byte, depth int) ([]byte, error) {
	if depth >= item.MaxDepth {
		r.noteFault(wire.ErrTooDeep)
		_, err := r.Skip()
		return item.AppendNull(dst), err
	}
	switch r.Kind() {
	case cbor.Text:
		text, err := r.Text()
		return item.AppendText(dst, item.S, text), err
	case cbor.Bytes:
		b, err := r.Bytes()
		return item.AppendText(dst, item.B, b), err
	case cbor.Uint, cbor.Negative, cbor.Float:
		return r.number(dst)
	case cbor.False, cbor.True:
		b, err := r.Bool()
		return item.AppendBool(dst, b), err
	case cbor.Null:
		r.Null()
		return item.AppendNull(dst), nil
	case cbor.Array:
		return r.list(dst, depth)
	case cbor.Map:
		return r.entries(dst, depth)
	case cbor.Tag:
		return r.tagged(dst, depth)
	}
	return nil, cbor.ErrMalformed
}

// tagged reads a set or a number.
func (r *cborReader) tagged(dst []byte, depth int) ([]byte, error) {
	ahead := r.Decoder
	tag, err := ahead.Tag()
	if err != nil {
		return nil, err
	}
	t := item.Type(0)
	switch tag {
	case tagStringSet:
		t = item.SS
	case tagNumberSet:
		t = item.NS
	case tagBinarySet:
		t = item.BS
	default:
		return r.number(dst)
	}
	r.Decoder = ahead
	return r.set(dst, t, depth)
}

func (r *cborReader) list(dst []byte, depth int) ([]byte, error) {
	m, err := r.Array()
	if err != nil {
		return nil, err
	}
	row, count := r.memory().rows[depth][:0], 0
	for {
		more, err := r.Next(&m)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if row, err = r.value(row, depth+1); err != nil {
			return nil, err
		}
		count++
	}
	r.keep(depth, row)
	return item.AppendContainer(dst, item.L, count, row), nil
}

// keptRow is how large the memory at one depth may be to be used again. Otherwise a value
// within many lists would have a copy at each depth.
const keptRow = 64 << 10

func (r *cborReader) keep(depth int, row []byte) {
	if cap(row) > keptRow {
		row = nil
	}
	r.nested.rows[depth] = row
}

func (r *cborReader) entries(dst []byte, depth int) ([]byte, error) {
	m, err := r.Map()
	if err != nil {
		return nil, err
	}
	b := &r.memory().builders[depth]
	b.Reset()
	for {
		more, err := r.Next(&m)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := r.entry(b, depth+1); err != nil {
			return nil, err
		}
	}
	dst = b.AppendMap(dst)
	if b.Cap() > keptRow {
		*b = item.Builder{}
	}
	return dst, nil
}

// entry reads a name and a value.
func (r *cborReader) entry(b *item.Builder, depth int) error {
	name, err := r.Text()
	if err != nil {
		return err
	}
	row, err := r.value(b.Begin(name), depth)
	if err != nil {
		return err
	}
	b.End(row)
	r.noteFault(item.CheckName(name))
	return nil
}

// set reads a set. Of one that is too large, only so much is kept that it is rejected for its
// size.
func (r *cborReader) set(dst []byte, t item.Type, depth int) ([]byte, error) {
	m, err := r.Array()
	if err != nil {
		return nil, err
	}
	row, count, full := r.memory().rows[depth][:0], 0, wire.NewRowLimit(r.maxSet)
	for {
		more, err := r.Next(&m)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if full.Reached(row) {
			if _, err := r.Skip(); err != nil {
				return nil, err
			}
			continue
		}
		if row, err = r.scalar(row, t.Member()); err != nil {
			return nil, err
		}
		count++
	}
	r.keep(depth, row)
	if count == 0 {
		r.noteFault(wire.EmptySet(t))
		return item.AppendNull(dst), nil
	}
	var double bool
	if count >= item.ManyMembers {
		dst, double = item.AppendLargeSet(dst, t, count, row)
	} else {
		r.members = item.AppendRow(r.members[:0], row)
		dst, double = item.AppendSet(dst, t, r.members)
	}
	if double {
		r.noteFault(duplicateMembers(t, row))
	}
	return dst, nil
}

// duplicateMembers is the fault of a set whose members, in a row, are not all different.
func duplicateMembers(t item.Type, row []byte) error {
	var texts [][]byte
	for _, m := range item.AppendRow(nil, row) {
		switch t {
		case item.SS:
			texts = append(texts, m.Bytes())
		case item.BS:
			texts = append(texts, base64.StdEncoding.AppendEncode(nil, m.Bytes()))
		}
	}
	return wire.Duplicates(t, texts)
}

// scalar reads a value of type S, N or B.
func (r *cborReader) scalar(dst []byte, t item.Type) ([]byte, error) {
	switch t {
	case item.S:
		text, err := r.Text()
		return item.AppendText(dst, t, text), err
	case item.B:
		b, err := r.Bytes()
		return item.AppendText(dst, t, b), err
	}
	return r.number(dst)
}

// appendValue appends a value as CBOR.
func appendValue(dst []byte, v item.Value) []byte {
	switch t := v.Type(); t {
	case item.S:
		return cbor.AppendText(dst, v.Bytes())
	case item.B:
		return cbor.AppendBytes(dst, v.Bytes())
	case item.N:
		return appendNumber(dst, v)
	case item.BOOL:
		return cbor.AppendBool(dst, v.Bool())
	case item.NULL:
		return cbor.AppendNull(dst)
	case item.M:
		dst = cbor.AppendMap(dst, v.Len())
		for name, e := range v.Item().Names() {
			dst = appendValue(cbor.AppendText(dst, name), e)
		}
		return dst
	case item.SS:
		dst = cbor.AppendTag(dst, tagStringSet)
	case item.NS:
		dst = cbor.AppendTag(dst, tagNumberSet)
	case item.BS:
		dst = cbor.AppendTag(dst, tagBinarySet)
	}
	dst = cbor.AppendArray(dst, v.Len())
	for e := range v.Elements() {
		dst = appendValue(dst, e)
	}
	return dst
}
