package wire

import (
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// decodeValue reads one attribute value, as a member of an item and as a
// placeholder; both must be the same.
func decodeValue(t *testing.T, value string) (item.Value, *apierror.Error) {
	t.Helper()
	request, fault := decode(t, "PutItem", `{"TableName": "abc", "Item": {"a": `+value+`}, "ExpressionAttributeValues": {":a": `+value+`}}`)
	if fault != "" {
		t.Fatalf("%s: %s", value, fault)
	}
	put := request.(*api.PutItem)
	v, _ := put.Item.Item.Get("a")
	if other := put.ExpressionAttributeValues[":a"]; !item.Equal(v, other.Value) || text(put.Item.Fault) != text(other.Fault) {
		t.Errorf("%s is %v in an item and %v as a placeholder, with the faults %v and %v", value, v, other.Value, put.Item.Fault, other.Fault)
	}
	return v, put.Item.Fault
}

func text(e *apierror.Error) string {
	if e == nil {
		return ""
	}
	return e.Message
}

func TestValues(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"a string", `{"S": "a"}`, "{S:a}"},
		{"an empty string", `{"S": ""}`, "{S:}"},
		{"a number in any form", `{"N": "+01.50e1"}`, "{N:15}"},
		{"a binary", `{"B": "YWI="}`, "{B:ab}"},
		{"an empty binary", `{"B": ""}`, "{B:}"},
		{"a padded binary", `{"B": "YQ=="}`, "{B:a}"},
		{"an escaped binary", `{"B": "\u0059Q\u003d="}`, "{B:a}"},
		{"a boolean", `{"BOOL": false}`, "{BOOL:false}"},
		{"a null", `{"NULL": true}`, "{NULL:true}"},
		{"a set in any order", `{"SS": ["b", "", "a"]}`, "{SS:[, a, b]}"},
		{"a number set in any order", `{"NS": ["10", "9", "-1"]}`, "{NS:[-1, 9, 10]}"},
		{"a binary set", `{"BS": ["Yg==", "YQ=="]}`, "{BS:[a, b]}"},
		{"a list", `{"L": [{"S": "b"}, {"L": []}, {"L": [{"N": "1"}]}, {"S": "a"}]}`, "{L:[{S:b}, {L:[]}, {L:[{N:1}]}, {S:a}]}"},
		{"a map in any order", `{"M": {"b": {"M": {"c": {"N": "1"}}}, "a": {"M": {}}, " ": {"S": "x"}}}`, "{M:{ ={S:x}, a={M:{}}, b={M:{c={N:1}}}}}"},
		{"a list of maps of lists", `{"L": [{"M": {"a": {"L": [{"S": "1"}]}}}, {"M": {"a": {"L": [{"S": "2"}, {"S": "3"}]}}}]}`, "{L:[{M:{a={L:[{S:1}]}}}, {M:{a={L:[{S:2}, {S:3}]}}}]}"},
		{"an unknown type is skipped", `{"X": [{"a": 1}], "S": "a"}`, "{S:a}"},
		{"a null type is skipped", `{"N": null, "S": "a", "M": null}`, "{S:a}"},
		{"the last of two entries wins", `{"M": {"a": {"S": "1"}, "a": {"S": "2"}}}`, "{M:{a={S:2}}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, fault := decodeValue(t, c.in)
			if fault != nil || got.String() != c.want {
				t.Errorf("it is %v with the fault %v, want %s", got, fault, c.want)
			}
		})
	}
}

// An invalid value with the right JSON types is reported later, and is a
// value in the request all the same.
func TestValueFaults(t *testing.T) {
	const invalid = "One or more parameter values were invalid: "
	for _, c := range []struct {
		name, in, want string
		request        bool
	}{
		{"a value without a type", `{}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes", false},
		{"a value of an unknown type", `{"X": "a"}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes", false},
		{"a value of a type in lower case", `{"s": "a"}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes", false},
		{"a value of two types", `{"S": "a", "N": "1"}`, "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes", false},
		{"an invalid number", `{"N": "a"}`, "The parameter cannot be converted to a numeric value: a", false},
		{"an empty number", `{"N": ""}`, "The parameter cannot be converted to a numeric value", false},
		{"a number beyond the range", `{"N": "1E999999999"}`, "Number overflow. Attempting to store a number with magnitude larger than supported range", false},
		{"a number of 39 digits", `{"N": "` + strings.Repeat("1", 39) + `"}`, "Attempting to store more than 38 significant digits in a Number", false},
		{"a null that is false", `{"NULL": false}`, invalid + "Null attribute value types must have the value of true", true},
		{"an empty string set", `{"SS": []}`, invalid + "An string set  may not be empty", true},
		{"an empty number set", `{"NS": []}`, invalid + "An number set  may not be empty", true},
		{"an empty binary set", `{"BS": []}`, invalid + "Binary sets should not be empty", true},
		{"a string twice in a set", `{"SS": ["b", "a", "b"]}`, invalid + "Input collection [b, a, b] contains duplicates.", true},
		{"a number twice in a set", `{"NS": ["1", "1.0"]}`, "Input collection contains duplicates", true},
		{"a binary twice in a set", `{"BS": ["YQ==", "YQ=="]}`, invalid + "Input collection [YQ==, YQ==]of type BS contains duplicates.", true},
		{"a number twice in a large set", `{"NS": ["7"` + strings.Repeat(`, "8", "9"`, item.ManyMembers) + `]}`, "Input collection contains duplicates", true},
		{"a string twice in a large set", `{"SS": ["b"` + strings.Repeat(`, "a"`, item.ManyMembers) + `]}`, invalid + "Input collection [b" + strings.Repeat(", a", item.ManyMembers) + "] contains duplicates.", true},
		{"an invalid number in a set", `{"NS": ["1", "x"]}`, "The parameter cannot be converted to a numeric value: x", false},
		{"a fault within a list", `{"L": [{"S": "a"}, {"N": "x"}]}`, "The parameter cannot be converted to a numeric value: x", false},
		{"a fault within a map", `{"M": {"a": {}}}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes", false},
		{"a null within a map", `{"M": {"a": null}}`, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes", false},
		{"an empty name within a map", `{"M": {"": {"S": "a"}}}`, "Empty attribute name", false},
		{"a name of 64 KB within a map", `{"M": {"` + strings.Repeat("a", item.MaxName+1) + `": {"S": "a"}}}`, "Attribute name is too large, must be less than 65536 bytes", false},
		{"a value's fault before its name's", `{"M": {"": {"N": "x"}}}`, "The parameter cannot be converted to a numeric value: x", false},
		{"a name's fault before the next value's", `{"M": {"": {"N": "1"}, "a": {"N": "x"}}}`, "Empty attribute name", false},
		{"the first of two faults", `{"L": [{"N": "x"}, {"N": "y"}]}`, "The parameter cannot be converted to a numeric value: x", false},
		{"an inner fault before the outer one", `{"L": [{"N": "x"}], "S": "a"}`, "The parameter cannot be converted to a numeric value: x", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, fault := decodeValue(t, c.in)
			if fault == nil || fault.Message != c.want || fault.Request != c.request || fault.Code != "ValidationException" {
				t.Errorf("the fault is %+v, want %s", fault, c.want)
			}
			if len(v) == 0 {
				t.Error("there is no value")
			}
		})
	}
}

// A fault belongs to its item, not to the next one.
func TestFaultsAreApart(t *testing.T) {
	request, fault := decode(t, "BatchGetItem", `{"RequestItems": {"abc": {"Keys": [{"a": {"N": "x"}}, {"a": {"N": "1"}}, {"a": {}}]}}}`)
	keys := request.(*api.BatchGetItem).RequestItems["abc"].Keys
	if fault != "" || keys[0].Fault == nil || keys[1].Fault != nil || keys[2].Fault == nil || keys[0].Fault.Message == keys[2].Fault.Message {
		t.Errorf("the faults are %q, %+v", fault, keys)
	}
}

// randomValue draws a value of any type.
func randomValue(t *rapid.T, depth int) item.Value {
	last := item.BS
	if depth > 0 {
		last = item.M
	}
	of := item.Type(rapid.IntRange(int(item.S), int(last)).Draw(t, "type"))
	switch of {
	case item.BOOL:
		return item.Bool(rapid.Bool().Draw(t, "bool"))
	case item.NULL:
		return item.Null()
	case item.SS, item.NS, item.BS:
		members := make([]item.Value, rapid.IntRange(1, 4).Draw(t, "members"))
		for i := range members {
			members[i] = randomScalar(t, of.Member())
		}
		return item.Set(of, members...)
	case item.L:
		elements := make([]item.Value, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range elements {
			elements[i] = randomValue(t, depth-1)
		}
		return item.List(elements...)
	case item.M:
		return item.Map(randomItem(t, depth-1))
	}
	return randomScalar(t, of)
}

func randomScalar(t *rapid.T, of item.Type) item.Value {
	switch of {
	case item.S:
		return item.String(rapid.String().Draw(t, "text"))
	case item.N:
		n, err := item.ParseNumber(rapid.StringMatching(`-?[0-9]{1,10}\.[0-9]{1,10}e-?[0-9]{1,2}`).Draw(t, "number"))
		if err != nil {
			t.Fatal(err)
		}
		return item.Num(n)
	}
	return item.Binary(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
}

func randomItem(t *rapid.T, depth int) item.Item {
	attrs := make(map[string]item.Value)
	for range rapid.IntRange(0, 4).Draw(t, "attributes") {
		attrs[rapid.StringN(1, -1, -1).Draw(t, "name")] = randomValue(t, depth)
	}
	return item.Make(attrs)
}

// Every text decodes to a value in stored form or not at all, and the encoded
// value decodes to the same.
func FuzzValue(f *testing.F) {
	for _, v := range []string{
		`{"S": "a\u0000"}`, `{"N": "1.5"}`, `{"B": "YQ=="}`, `{"BOOL": true}`, `{"NULL": true}`, `{"SS": ["a"]}`, `{"NS": ["1", "-1e5"]}`,
		`{"BS": ["YQ==", ""]}`, `{"L": [{"M": {"a": {"L": []}}}]}`, `{"M": {"": {"S": "\ud83d\ude00"}}}`, `{"N": "x"}`, `{"S": null, "X": 1}`,
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		request, fault := decode(t, "PutItem", `{"TableName": "abc", "Item": {"a": `+value+`}}`)
		if fault != "" {
			return
		}
		got := request.(*api.PutItem).Item
		if got.Fault != nil {
			return
		}
		if err := item.Check(got.Item); err != nil {
			t.Fatalf("%s is stored as %x: %v", value, []byte(got.Item), err)
		}
		written := AppendItem(nil, got.Item)
		request, fault = decode(t, "PutItem", `{"TableName": "abc", "Item": `+string(written)+`}`)
		if again := request.(*api.PutItem).Item; fault != "" || again.Fault != nil || !again.Item.Equal(got.Item) {
			t.Errorf("%s is written as %s and read back as %v; the faults %q, %v", value, written, item.Map(again.Item), fault, again.Fault)
		}
	})
}

// Accepted base64 is what the standard library would encode.
func FuzzBase64(f *testing.F) {
	for _, text := range []string{"", "YQ==", "YR==", "YWI=", "YQ==YQ==", "a", "ab\ncd==", "====", "YQ=a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := appendBase64(nil, []byte(text))
		if err == nil && (base64.StdEncoding.EncodeToString(item.Value(b).Bytes()) != text || item.Check(item.Make(map[string]item.Value{"b": b})) != nil) {
			t.Errorf("%q is read as %x", text, b)
		}
		if want, wrong := base64.StdEncoding.DecodeString(text); err != nil && wrong == nil && base64.StdEncoding.EncodeToString(want) == text {
			t.Errorf("%q is rejected: %v", text, err)
		}
	})
}
