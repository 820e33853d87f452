package oracletest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"
)

// value is a DynamoDB value as a plain Go tree: str, num, bin, boolean, null,
// list, object or valueSet.
type value any

type (
	str     string
	num     string // in canonical form, so that equal numbers are equal strings
	bin     string
	boolean bool
	null    struct{}
	list    []value
	object  map[string]value // a map, and a whole item
)

// valueSet is a set of strings, numbers or binaries; kind is SS, NS or BS.
type valueSet struct {
	kind    string
	members map[string]bool
}

func equal(a, b value) bool { return reflect.DeepEqual(a, b) }

func kindOf(v value) string {
	switch v := v.(type) {
	case str:
		return "S"
	case num:
		return "N"
	case bin:
		return "B"
	case boolean:
		return "BOOL"
	case null:
		return "NULL"
	case list:
		return "L"
	case object:
		return "M"
	case valueSet:
		return v.kind
	}
	panic(fmt.Sprintf("%T is not a value", v))
}

// text returns the content of a string or a binary.
func text(v value) (string, bool) {
	switch v := v.(type) {
	case str:
		return string(v), true
	case bin:
		return string(v), true
	}
	return "", false
}

// hasOrder reports whether values of a kind are ordered.
func hasOrder(kind string) bool { return kind == "S" || kind == "N" || kind == "B" }

// order compares two values of one kind that has an order.
func order(a, b value) int {
	if n, ok := a.(num); ok {
		return n.rat().Cmp(b.(num).rat())
	}
	x, _ := text(a)
	y, _ := text(b)
	return strings.Compare(x, y)
}

func (n num) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic(fmt.Sprintf("%q is not a number", string(n)))
	}
	return r
}

// canonical formats a number without an exponent and without insignificant
// zeros, like DynamoDB.
func canonical(r *big.Rat) num {
	digits, _ := r.FloatPrec()
	return num(r.FloatString(digits))
}

func number(text string) num { return canonical(num(text).rat()) }

// digits returns the significant digits of a number before and after its
// point, without zeros at either end.
func (n num) digits() (whole, fraction string) {
	whole, fraction, _ = strings.Cut(strings.TrimPrefix(string(n), "-"), ".")
	if fraction == "" {
		whole = strings.TrimRight(whole, "0")
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		fraction = strings.TrimLeft(fraction, "0")
	}
	return whole, fraction
}

// sizeOf is a value's size in DynamoDB's bytes.
func sizeOf(v value) int {
	switch v := v.(type) {
	case str:
		return len(v)
	case bin:
		return len(v)
	case num:
		whole, fraction := v.digits()
		size := 1 + (len(whole)+1)/2 + (len(fraction)+1)/2
		if strings.HasPrefix(string(v), "-") {
			size++
		}
		return size
	case list:
		size := 3
		for _, e := range v {
			size += 1 + sizeOf(e)
		}
		return size
	case object:
		return 3 + len(v) + v.size()
	case valueSet:
		size := 0
		for m := range v.members {
			size += sizeOf(v.member(m))
		}
		return size
	}
	return 1 // boolean, null
}

// size is the size of an item: its names and values.
func (o object) size() int {
	size := 0
	for name, v := range o {
		size += len(name) + sizeOf(v)
	}
	return size
}

// depth is how many lists and maps are nested in a value.
func depth(v value) int {
	deepest := 0
	switch v := v.(type) {
	case list:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	case object:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	default:
		return 0
	}
	return 1 + deepest
}

// count is the function size; not ok for types without a size.
func count(v value) (int, bool) {
	switch v := v.(type) {
	case str:
		return len(utf16.Encode([]rune(string(v)))), true
	case bin:
		return len(v), true
	case list:
		return len(v), true
	case object:
		return len(v), true
	case valueSet:
		return len(v.members), true
	}
	return 0, false
}

// member returns a member of a set as a value.
func (s valueSet) member(m string) value {
	switch s.kind {
	case "SS":
		return str(m)
	case "NS":
		return num(m)
	}
	return bin(m)
}

func (s valueSet) has(v value) bool {
	for m := range s.members {
		if equal(s.member(m), v) {
			return true
		}
	}
	return false
}

// clone returns a deep copy of a value.
func clone(v value) value {
	switch v := v.(type) {
	case list:
		copied := make(list, len(v))
		for i, e := range v {
			copied[i] = clone(e)
		}
		return copied
	case object:
		return v.clone()
	case valueSet:
		return valueSet{v.kind, maps.Clone(v.members)}
	}
	return v
}

func (o object) clone() object {
	copied := make(object, len(o))
	for name, v := range o {
		copied[name] = clone(v)
	}
	return copied
}

// only returns an object with some of its attributes.
func (o object) only(names ...string) object {
	some := make(object)
	for _, name := range names {
		if v, ok := o[name]; ok {
			some[name] = v
		}
	}
	return some
}

// MarshalJSON encodes attributes in DynamoDB's JSON.
func (o object) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(o))
	for name, v := range o {
		out[name] = wireForm(v)
	}
	return json.Marshal(out)
}

// wireForm returns a value in DynamoDB's JSON.
func wireForm(v value) any {
	var content any = v
	switch v := v.(type) {
	case bin:
		content = []byte(v)
	case null:
		content = true
	case list:
		elements := make([]any, len(v))
		for i, e := range v {
			elements[i] = wireForm(e)
		}
		content = elements
	case valueSet:
		members := slices.Sorted(maps.Keys(v.members))
		if v.kind == "BS" {
			for i, m := range members {
				members[i] = base64.StdEncoding.EncodeToString([]byte(m))
			}
		}
		content = members
	}
	return map[string]any{kindOf(v): content}
}

// UnmarshalJSON decodes attributes in DynamoDB's JSON.
func (o *object) UnmarshalJSON(b []byte) error {
	var raw map[string]any
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	read, err := fromWireAll(raw)
	*o = read
	return err
}

func fromWireAll(raw map[string]any) (object, error) {
	o := make(object)
	for name, r := range raw {
		v, err := fromWire(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		o[name] = v
	}
	return o, nil
}

// fromWire decodes a value in DynamoDB's JSON. Numbers keep their text, so
// that a notation other than DynamoDB's is noticed.
func fromWire(raw any) (value, error) {
	typed, ok := raw.(map[string]any)
	if !ok || len(typed) != 1 {
		return nil, fmt.Errorf("%v is not a value", raw)
	}
	for kind, content := range typed {
		switch content := content.(type) {
		case string:
			return fromWireScalar(kind, content)
		case bool:
			if kind == "NULL" && content {
				return null{}, nil
			}
			return boolean(content), nil
		case map[string]any:
			return fromWireAll(content)
		case []any:
			return fromWireMany(kind, content)
		}
	}
	return nil, fmt.Errorf("%v is not a value", raw)
}

func fromWireScalar(kind, content string) (value, error) {
	switch kind {
	case "S":
		return str(content), nil
	case "N":
		return num(content), nil
	case "B":
		b, err := base64.StdEncoding.DecodeString(content)
		return bin(b), err
	}
	return nil, fmt.Errorf("%q of kind %s", content, kind)
}

func fromWireMany(kind string, content []any) (value, error) {
	if kind == "L" {
		elements := make(list, len(content))
		for i, e := range content {
			v, err := fromWire(e)
			if err != nil {
				return nil, err
			}
			elements[i] = v
		}
		return elements, nil
	}
	members := make(map[string]bool)
	for _, m := range content {
		v, err := fromWireScalar(strings.TrimSuffix(kind, "S"), fmt.Sprint(m))
		if err != nil {
			return nil, err
		}
		text := fmt.Sprint(v)
		if members[text] {
			return nil, fmt.Errorf("%q is twice in a set", text)
		}
		members[text] = true
	}
	return valueSet{kind, members}, nil
}

// show formats anything for people.
func show(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("%#v", v)
	}
	return strings.TrimSpace(b.String())
}
