package wire

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// AppendReply appends a reply, a pointer to a struct of package api, as JSON.
func AppendReply(dst []byte, reply any) []byte {
	if _, ok := reply.(*api.Nothing); ok {
		return dst
	}
	return appendStruct(dst, reflect.ValueOf(reply).Elem())
}

// AppendError appends a fault as JSON: its type, its message and its detail.
func AppendError(dst []byte, e *apierror.Error) []byte {
	dst = append(dst, `{"__type":`...)
	dst = appendString(dst, e.Type())
	if e.Message != "" {
		dst = append(append(dst, `,"`...), e.MessageMember()...)
		dst = append(dst, `":`...)
		dst = appendString(dst, e.Message)
	}
	if e.Detail != nil {
		v := reflect.ValueOf(e.Detail).Elem()
		dst = appendMembers(dst, structInfoOf(v.Type()).members, v, true)
	}
	return append(dst, '}')
}

func appendStruct(dst []byte, v reflect.Value) []byte {
	return append(appendMembers(append(dst, '{'), structInfoOf(v.Type()).members, v, false), '}')
}

// appendMembers appends some members of a struct. comma says that they follow
// others.
func appendMembers(dst []byte, members []structMember, v reflect.Value, comma bool) []byte {
	for i := range members {
		m := &members[i]
		f := m.of(v)
		if !m.always && m.empty(f) {
			continue
		}
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = m.write(append(dst, m.head...), f)
	}
	return dst
}

// emptyOf returns the function that reports whether a member is left out. An
// empty list or map that is not nil is kept.
func emptyOf(t reflect.Type) func(reflect.Value) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return reflect.Value.IsNil
	case reflect.Struct:
		if t == attributesType {
			return isNull
		}
		return func(reflect.Value) bool { return false }
	}
	return reflect.Value.IsZero
}

// valueWriter appends one value of a reply.
type valueWriter func(dst []byte, v reflect.Value) []byte

// writerOf returns the writer for a Go type. It is called once for each
// member of each reply, when the struct is first used.
func writerOf(t reflect.Type) valueWriter {
	switch t {
	case reflect.TypeFor[item.Item]():
		return func(dst []byte, v reflect.Value) []byte { return AppendItem(dst, v.Bytes()) }
	case reflect.TypeFor[[]item.Item]():
		return func(dst []byte, v reflect.Value) []byte {
			if v.CanAddr() { // avoids a copy of the slice header
				return appendItems(dst, *v.Addr().Interface().(*[]item.Item))
			}
			return appendItems(dst, v.Interface().([]item.Item))
		}
	case attributesType:
		return func(dst []byte, v reflect.Value) []byte { return AppendItem(dst, v.Field(0).Bytes()) }
	case valueType:
		return func([]byte, reflect.Value) []byte { panic("no reply has a value outside of an item") }
	case timeType:
		return func(dst []byte, v reflect.Value) []byte {
			return strconv.AppendFloat(dst, float64(v.Interface().(api.Time).UnixMilli())/1000, 'f', 3, 64)
		}
	}
	switch t.Kind() {
	case reflect.String:
		return func(dst []byte, v reflect.Value) []byte { return appendString(dst, v.String()) }
	case reflect.Bool:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendBool(dst, v.Bool()) }
	case reflect.Int, reflect.Int32, reflect.Int64:
		return func(dst []byte, v reflect.Value) []byte { return strconv.AppendInt(dst, v.Int(), 10) }
	case reflect.Float64:
		return func(dst []byte, v reflect.Value) []byte { return appendFloat(dst, v.Float()) }
	case reflect.Struct:
		return appendStruct
	case reflect.Pointer:
		write := writerOf(t.Elem())
		return func(dst []byte, v reflect.Value) []byte { return write(dst, v.Elem()) }
	case reflect.Slice:
		return sliceWriter(writerOf(t.Elem()))
	case reflect.Map:
		return mapWriter(writerOf(t.Elem()))
	}
	panic(fmt.Sprintf("no JSON for %s", t))
}

func sliceWriter(write valueWriter) valueWriter {
	return func(dst []byte, v reflect.Value) []byte {
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = write(dst, v.Index(i))
		}
		return append(dst, ']')
	}
}

func mapWriter(write valueWriter) valueWriter {
	return func(dst []byte, v reflect.Value) []byte {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		dst = append(dst, '{')
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, k.String()), ':')
			dst = write(dst, v.MapIndex(k))
		}
		return append(dst, '}')
	}
}

// appendFloat writes a number of units as DynamoDB does, 1.0 for one.
func appendFloat(dst []byte, f float64) []byte {
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if f == math.Trunc(f) {
		dst = append(dst, '.', '0')
	}
	return dst
}

func appendItems(dst []byte, items []item.Item) []byte {
	dst = append(dst, '[')
	for i, it := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		from := len(dst)
		dst = AppendItem(dst, it)
		if i == 0 {
			dst = growFor(dst, items, len(dst)-from)
		}
	}
	return append(dst, ']')
}

// growFor grows dst for the items after the first, which took first bytes. A
// page has a megabyte: growing by doubling would copy as much again, and cost
// more than encoding it.
func growFor(dst []byte, items []item.Item, first int) []byte {
	stored := 0
	for _, it := range items[1:] {
		stored += len(it)
	}
	likely := stored * first / max(1, len(items[0]))
	size := len(dst) + min(likely, 4*stored)*17/16 + 2*len(items)
	if size <= cap(dst) {
		return dst
	}
	return append(buffer.Get(buffer.Size(size)), dst...)
}

// AppendItem appends an item as JSON, straight from its stored form.
func AppendItem(dst []byte, it item.Item) []byte {
	dst = append(dst, '{')
	begin := `"`
	for name, v := range it.Names() {
		dst = appendText(append(dst, begin...), name)
		begin = `,"`
		// Most values are of these types; the text around them is written in
		// one append.
		switch v.Type() {
		case item.S:
			dst = appendText(append(dst, `":{"S":"`...), v.Bytes())
			dst = append(dst, `"}`...)
		case item.N:
			dst = v.AppendNumberText(append(dst, `":{"N":"`...))
			dst = append(dst, `"}`...)
		default:
			dst = AppendValue(append(dst, `":`...), v)
		}
	}
	return append(dst, '}')
}

// AppendValue appends one attribute value as JSON.
func AppendValue(dst []byte, v item.Value) []byte {
	dst = append(append(append(dst, `{"`...), v.Type().String()...), `":`...)
	switch v.Type() {
	case item.S, item.N, item.B:
		dst = appendScalar(dst, v)
	case item.BOOL:
		dst = strconv.AppendBool(dst, v.Bool())
	case item.NULL:
		dst = append(dst, "true"...)
	case item.M:
		dst = AppendItem(dst, v.Item())
	default:
		dst = append(dst, '[')
		first := true
		for e := range v.Elements() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if v.Type() == item.L {
				dst = AppendValue(dst, e)
			} else {
				dst = appendScalar(dst, e)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendScalar(dst []byte, v item.Value) []byte {
	switch v.Type() {
	case item.N:
		return append(v.AppendNumberText(append(dst, '"')), '"')
	case item.B:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes())
		return append(dst, '"')
	}
	return appendString(dst, v.Bytes())
}

// appendString appends a JSON string.
func appendString[T string | []byte](dst []byte, s T) []byte {
	return append(appendText(append(dst, '"'), s), '"')
}

// appendText appends the text between the quotes of a string. It is known to
// be UTF-8 since it was decoded. Most of it needs no escapes, so it is copied
// first and scanned then.
func appendText[T string | []byte](dst []byte, s T) []byte {
	from := len(dst)
	dst = append(dst, s...)
	if n, _ := clean(dst[from:]); n < len(s) {
		dst = appendEscaped(dst[:from+n], s[n:])
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends text with characters to escape.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, s[from:]...)
}
