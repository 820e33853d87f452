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
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// AppendReply appends a reply, a pointer to a struct of package api, as JSON.
func AppendReply(dst []byte, reply any) []byte {
	return appendStruct(dst, reflect.ValueOf(reply).Elem())
}

// AppendError appends a fault as JSON: its type, its message, and what stands
// beside them.
func AppendError(dst []byte, e *apierror.Error) []byte {
	dst = append(dst, `{"__type":`...)
	dst = appendString(dst, e.Type())
	if e.Message != "" {
		dst = append(append(dst, `,"`...), e.MessageMember()...)
		dst = append(dst, `":`...)
		dst = appendString(dst, e.Message)
	}
	if e.Detail != nil {
		dst = appendMembers(dst, reflect.ValueOf(e.Detail).Elem(), true)
	}
	return append(dst, '}')
}

func appendStruct(dst []byte, v reflect.Value) []byte {
	return append(appendMembers(append(dst, '{'), v, false), '}')
}

// appendMembers appends a struct's members. comma tells that others stand
// before them.
func appendMembers(dst []byte, v reflect.Value, comma bool) []byte {
	s := shapeOf(v.Type())
	for i := range s.members {
		m := &s.members[i]
		f := v.FieldByIndex(m.index)
		if !m.always && isEmpty(f) {
			continue
		}
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(append(append(dst, '"'), m.name...), `":`...)
		dst = appendValue(dst, f)
	}
	return dst
}

// isEmpty tells whether a member is left out. A list that is there but has no
// elements is not.
func isEmpty(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return f.IsNil()
	case reflect.Struct:
		a, ok := f.Interface().(api.Attributes)
		return ok && a.Item == nil
	}
	return f.IsZero()
}

func appendValue(dst []byte, v reflect.Value) []byte {
	switch x := v.Interface().(type) {
	case item.Item:
		return AppendItem(dst, x)
	case []item.Item:
		return appendItems(dst, x)
	case api.Attributes:
		return AppendItem(dst, x.Item)
	case api.Time:
		return strconv.AppendFloat(dst, float64(x.UnixMilli())/1000, 'f', 3, 64)
	}
	switch v.Kind() {
	case reflect.String:
		return appendString(dst, v.String())
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10)
	case reflect.Float64:
		return appendFloat(dst, v.Float())
	case reflect.Pointer:
		return appendValue(dst, v.Elem())
	case reflect.Struct:
		return appendStruct(dst, v)
	case reflect.Slice:
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, v.Index(i))
		}
		return append(dst, ']')
	case reflect.Map:
		return appendMap(dst, v)
	}
	panic(fmt.Sprintf("no JSON for %s", v.Type()))
}

func appendMap(dst []byte, v reflect.Value) []byte {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k.String()), ':')
		dst = appendValue(dst, v.MapIndex(k))
	}
	return append(dst, '}')
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
		dst = AppendItem(dst, it)
	}
	return append(dst, ']')
}

// AppendItem appends an item as JSON, straight from its stored form.
func AppendItem(dst []byte, it item.Item) []byte {
	dst = append(dst, '{')
	first := true
	for name, v := range it.Names() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendString(dst, name), ':')
		dst = AppendValue(dst, v)
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
		dst = v.Number().AppendText(append(dst, '"'))
		return append(dst, '"')
	case item.B:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes())
		return append(dst, '"')
	}
	return appendString(dst, v.Bytes())
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Text was found to be UTF-8 when it came in.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
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
	return append(append(dst, s[from:]...), '"')
}
