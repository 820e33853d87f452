package trigger

import (
	"strings"
	"testing"
)

const filtered = `{"eventName": "MODIFY", "eventID": "Ab-1", "dynamodb": {
	"Keys": {"id": {"S": "order#17"}},
	"NewImage": {"id": {"S": "order#17"}, "total": {"N": "42.50"}, "tags": {"SS": ["red", "blue"]}, "open": {"BOOL": true}, "gone": {"NULL": true},
		"address": {"M": {"city": {"S": "Ulm"}}}, "lines": {"L": [{"S": "x"}, {"M": {"sku": {"S": "y"}}}]}, "empty": {"S": ""}},
	"SizeBytes": 59, "nothing": null}}`

// Patterns match as in Lambda's event filtering.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"an equal string", `{"eventName": ["MODIFY"]}`, true},
		{"another string", `{"eventName": ["INSERT"]}`, false},
		{"one of several", `{"eventName": ["INSERT", "MODIFY"]}`, true},
		{"all members", `{"eventName": ["MODIFY"], "eventID": ["no"]}`, false},
		{"a path", `{"dynamodb": {"Keys": {"id": {"S": ["order#17"]}}}}`, true},
		{"an equal number", `{"dynamodb": {"SizeBytes": [59.0]}}`, true},
		{"a number is not a string", `{"dynamodb": {"SizeBytes": ["59"]}}`, false},
		{"a string is not a number", `{"dynamodb": {"NewImage": {"total": {"N": [42.5]}}}}`, false},
		{"a Boolean", `{"dynamodb": {"NewImage": {"open": {"BOOL": [true]}}}}`, true},
		{"null", `{"dynamodb": {"nothing": [null]}}`, true},
		{"null is not absent", `{"dynamodb": {"nowhere": [null]}}`, false},
		{"the empty string", `{"dynamodb": {"NewImage": {"empty": {"S": [""]}}}}`, true},
		{"a prefix", `{"dynamodb": {"Keys": {"id": {"S": [{"prefix": "order#"}]}}}}`, true},
		{"another prefix", `{"dynamodb": {"Keys": {"id": {"S": [{"prefix": "user#"}]}}}}`, false},
		{"a suffix", `{"dynamodb": {"Keys": {"id": {"S": [{"suffix": "17"}]}}}}`, true},
		{"equal except for case", `{"eventID": [{"equals-ignore-case": "aB-1"}]}`, true},
		{"anything but one", `{"eventName": [{"anything-but": "MODIFY"}]}`, false},
		{"anything but other values", `{"eventName": [{"anything-but": ["INSERT", "REMOVE"]}]}`, true},
		{"anything but is not absent", `{"nowhere": [{"anything-but": ["x"]}]}`, false},
		{"anything but a prefix", `{"eventName": [{"anything-but": {"prefix": "MOD"}}]}`, false},
		{"anything but a suffix", `{"eventName": [{"anything-but": {"suffix": "x"}}]}`, true},
		{"a range of a number", `{"dynamodb": {"SizeBytes": [{"numeric": [">", 58, "<=", 59]}]}}`, true},
		{"outside of a range", `{"dynamodb": {"SizeBytes": [{"numeric": [">=", 1, "<", 59]}]}}`, false},
		{"a range of an N", `{"dynamodb": {"NewImage": {"total": {"N": [{"numeric": ["=", 42.5]}]}}}}`, true},
		{"a string has no range", `{"eventName": [{"numeric": [">", 0]}]}`, false},
		{"exists", `{"dynamodb": {"NewImage": {"total": {"N": [{"exists": true}]}}}}`, true},
		{"does not exist", `{"dynamodb": {"NewImage": {"total": {"S": [{"exists": false}]}}}}`, true},
		{"does not exist, nested", `{"dynamodb": {"OldImage": {"total": {"S": [{"exists": false}]}}}}`, true},
		{"exists, nested", `{"dynamodb": {"OldImage": {"total": {"S": [{"exists": true}]}}}}`, false},
		{"null exists", `{"dynamodb": {"nothing": [{"exists": true}]}}`, true},
		{"an object is not a leaf", `{"dynamodb": {"NewImage": [{"exists": true}]}}`, false},
		{"one of a set", `{"dynamodb": {"NewImage": {"tags": {"SS": ["blue"]}}}}`, true},
		{"none of a set", `{"dynamodb": {"NewImage": {"tags": {"SS": ["green"]}}}}`, false},
		{"one of a list", `{"dynamodb": {"NewImage": {"lines": {"L": {"S": ["x"]}}}}}`, true},
		{"deep in a list", `{"dynamodb": {"NewImage": {"lines": {"L": {"M": {"sku": {"S": ["y"]}}}}}}}`, true},
		{"in a map", `{"dynamodb": {"NewImage": {"address": {"M": {"city": {"S": ["Ulm"]}}}}}}`, true},
		{"one or the other", `{"$or": [{"eventName": ["INSERT"]}, {"dynamodb": {"SizeBytes": [59]}}]}`, true},
		{"neither", `{"$or": [{"eventName": ["INSERT"]}, {"eventName": ["REMOVE"]}]}`, false},
		{"or, and another", `{"eventID": ["x"], "$or": [{"eventName": ["INSERT"]}, {"eventName": ["MODIFY"]}]}`, false},
		{"or, nested", `{"dynamodb": {"$or": [{"SizeBytes": [1]}, {"Keys": {"id": {"S": [{"suffix": "7"}]}}}]}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			matches, err := parsePattern(c.pattern)
			if err != nil {
				t.Fatal(err)
			}
			tr := &trigger{patterns: []pattern{matches}}
			if got, err := tr.passes([]byte(filtered)); err != nil || got != c.want {
				t.Errorf("%s matches: %v, %v", c.pattern, got, err)
			}
		})
	}
}

// An invalid pattern is an error; it is not treated as one that never matches.
func TestPatternFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "is not JSON"},
		{`{"a": ["x"]} x`, "is not JSON"},
		{`["x"]`, "must be an object"},
		{`{}`, "must be an object"},
		{`{"a": "x"}`, "a: must be a list of rules"},
		{`{"a": []}`, "a: must not be empty"},
		{`{"a": [["x"]]}`, "a: must be a string, a number"},
		{`{"a": [{}]}`, "a: a rule must have one operator"},
		{`{"a": [{"prefix": "x", "suffix": "y"}]}`, "a: a rule must have one operator"},
		{`{"a": [{"wildcard": "x*"}]}`, "a: wildcard: is not a supported operator"},
		{`{"a": [{"cidr": "10.0.0.0/8"}]}`, "is not a supported operator"},
		{`{"a": [{"prefix": 5}]}`, "a: prefix: must be a string"},
		{`{"a": [{"exists": "yes"}]}`, "exists: must be true or false"},
		{`{"a": [{"numeric": [">"]}]}`, "numeric: must be a list"},
		{`{"a": [{"numeric": ["!", 5]}]}`, "numeric: must compare"},
		{`{"a": [{"numeric": [">", "5"]}]}`, "numeric: must compare"},
		{`{"a": [{"numeric": ["< <=", 5]}]}`, "numeric: must compare"},
		{`{"a": [{"anything-but": []}]}`, "anything-but: must not be empty"},
		{`{"a": [{"anything-but": {"numeric": [">", 5]}}]}`, "anything-but: must have one of"},
		{`{"$or": [{}]}`, "$or: must be a list of objects"},
		{`{"$or": []}`, "$or: must not be empty"},
		{`{"a": ["` + strings.Repeat("x", 5000) + `"]}`, "is longer than"},
	} {
		if _, err := parsePattern(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s gives %v, want %s", c.text, err, c.want)
		}
	}
}

// Parsing and matching do not panic, whatever the text.
func FuzzPattern(f *testing.F) {
	f.Add(`{"a": [{"numeric": [">", 0]}]}`)
	f.Add(`{"$or": [{"a": [{"anything-but": {"prefix": "x"}}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		matches, err := parsePattern(text)
		if err != nil {
			return
		}
		node, err := parseJSON([]byte(filtered))
		if err != nil {
			t.Fatal(err)
		}
		matches(node, true)
	})
}
