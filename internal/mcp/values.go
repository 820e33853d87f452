package mcp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/past"
)

// The members of objects that stand for values which JSON does not have. A map of an item with
// one member that begins with $ is in plainMap.
const (
	plainBinary  = "$b"
	plainStrings = "$ss"
	plainNumbers = "$ns"
	plainBytes   = "$bs"
	plainNumber  = "$n"
	plainMap     = "$m"
)

const (
	maxString      = 2000 // bytes of a string in an answer
	maxPlainDigits = 15   // of numbers that all clients read without loss
	maxDepth       = 40
)

// plainer makes plain JSON of the API's, and counts the strings that it cuts.
type plainer struct{ cut int }

// item returns an item in plain JSON.
func (p *plainer) item(in past.Item) map[string]any {
	if in == nil {
		return nil
	}
	out := make(map[string]any, len(in))
	for name, v := range in {
		out[name] = p.value(v)
	}
	return out
}

func (p *plainer) value(text json.RawMessage) any {
	var v struct {
		S    *string
		N    *string
		B    *string
		BOOL *bool
		NULL *bool
		M    past.Item
		L    []json.RawMessage
		SS   []string
		NS   []string
		BS   []string
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return nil
	}
	switch {
	case v.S != nil:
		return p.short(*v.S)
	case v.N != nil:
		return plainNumeral(*v.N)
	case v.B != nil:
		return map[string]any{plainBinary: p.short(*v.B)}
	case v.BOOL != nil:
		return *v.BOOL
	case v.M != nil:
		m := p.item(v.M)
		if len(m) == 1 && strings.HasPrefix(slices.Collect(maps.Keys(m))[0], "$") {
			return map[string]any{plainMap: m}
		}
		return m
	case v.L != nil:
		list := make([]any, len(v.L))
		for i := range v.L {
			list[i] = p.value(v.L[i])
		}
		return list
	case v.SS != nil:
		return map[string]any{plainStrings: p.shortAll(v.SS)}
	case v.NS != nil:
		return map[string]any{plainNumbers: v.NS}
	case v.BS != nil:
		return map[string]any{plainBytes: p.shortAll(v.BS)}
	}
	return nil
}

// short cuts a long string.
func (p *plainer) short(text string) string {
	if len(text) <= maxString {
		return text
	}
	p.cut++
	return fmt.Sprintf("%s… (cut: %d bytes)", strings.ToValidUTF8(text[:maxString], ""), len(text))
}

func (p *plainer) shortAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = p.short(text)
	}
	return out
}

// plainNumeral returns a number as JSON, or as an object if clients could round it.
func plainNumeral(n string) any {
	digits := 0
	for _, c := range n {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == 'e' || c == 'E':
			digits = maxPlainDigits + 1
		}
	}
	if digits > maxPlainDigits || !json.Valid([]byte(n)) {
		return map[string]any{plainNumber: n}
	}
	return json.Number(n)
}

// typed returns a plain value as the API has it.
func typed(v any) (json.RawMessage, error) {
	t, err := typedValue(v, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

func typedValue(v any, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("a value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{"NULL": true}, nil
	case bool:
		return map[string]any{"BOOL": v}, nil
	case string:
		return map[string]any{"S": v}, nil
	case json.Number:
		return map[string]any{"N": v.String()}, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = typedValue(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return map[string]any{"L": list}, nil
	case map[string]any:
		if t, ok, err := typedObject(v, depth); ok || err != nil {
			return t, err
		}
		m := make(map[string]any, len(v))
		for name := range v {
			var err error
			if m[name], err = typedValue(v[name], depth+1); err != nil {
				return nil, err
			}
		}
		return map[string]any{"M": m}, nil
	}
	return nil, fmt.Errorf("%T is no value of an item", v)
}

// typedObject returns the value that an object with one member stands for; not ok if it is a
// map of an item.
func typedObject(v map[string]any, depth int) (t map[string]any, ok bool, err error) {
	if len(v) != 1 {
		return nil, false, nil
	}
	for name, inner := range v {
		switch name {
		case plainBinary:
			text, isText := inner.(string)
			if _, err := base64.StdEncoding.DecodeString(text); !isText || err != nil {
				return nil, false, fmt.Errorf("%s must be base64", name)
			}
			return map[string]any{"B": text}, true, nil
		case plainNumber:
			return map[string]any{"N": fmt.Sprint(inner)}, true, nil
		case plainStrings, plainNumbers, plainBytes:
			list, isList := inner.([]any)
			if !isList {
				return nil, false, fmt.Errorf("%s must be a list", name)
			}
			members := make([]string, len(list))
			for i := range list {
				switch m := list[i].(type) {
				case string:
					members[i] = m
				case json.Number:
					members[i] = m.String()
				default:
					return nil, false, fmt.Errorf("%s must be a list of strings or numbers", name)
				}
			}
			return map[string]any{strings.ToUpper(name[1:]): members}, true, nil
		case plainMap:
			m, isMap := inner.(map[string]any)
			if !isMap {
				return nil, false, fmt.Errorf("%s must be an object", name)
			}
			out := make(map[string]any, len(m))
			for member := range m {
				if out[member], err = typedValue(m[member], depth+1); err != nil {
					return nil, false, err
				}
			}
			return map[string]any{"M": out}, true, nil
		}
	}
	return nil, false, nil
}

// typedItem returns a plain item as the API has it. Key attributes take the type that the table
// declares.
func typedItem(t *past.Table, in map[string]any) (past.Item, error) {
	out := make(past.Item, len(in))
	for name, v := range in {
		var err error
		if out[name], err = typedAttribute(t, name, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// typedAttribute returns a plain value of an attribute. A string is a number if the attribute
// is in a key, and numbers are its type.
func typedAttribute(t *past.Table, name string, v any) (json.RawMessage, error) {
	kind := t.Types[name]
	text, isText := v.(string)
	switch {
	case kind == "N" && isText:
		return json.Marshal(map[string]string{"N": text})
	case kind == "B" && isText:
		return json.Marshal(map[string]string{"B": text})
	}
	b, err := typed(v)
	if err != nil {
		return nil, fmt.Errorf("attribute %s: %w", name, err)
	}
	var is map[string]json.RawMessage
	if err := json.Unmarshal(b, &is); err != nil {
		return nil, err
	}
	if _, ok := is[kind]; kind != "" && !ok {
		return nil, fmt.Errorf("attribute %s is in a key of table %s, and its values have type %s", name, t.Name, kind)
	}
	return b, nil
}

// keyOf returns the key of an item: all attributes of the key of its table, no others.
func keyOf(t *past.Table, key map[string]any) (past.Item, error) {
	names := t.Key.All()
	for name := range key {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s is not in the key of table %s, which is %s", name, t.Name, strings.Join(names, " and "))
		}
	}
	if len(key) != len(names) {
		return nil, fmt.Errorf("the key of table %s is %s; to read the items of a partition, use query", t.Name, strings.Join(names, " and "))
	}
	return typedItem(t, key)
}

var errNoTable = errors.New("the argument table is missing")
