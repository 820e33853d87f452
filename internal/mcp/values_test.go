package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/past"
)

// A value becomes plain JSON and back without loss.
func TestValues(t *testing.T) {
	for _, c := range []struct{ name, typed, plain string }{
		{"a string", `{"S":"x"}`, `"x"`},
		{"a number", `{"N":"1.5"}`, `1.5`},
		{"a number that clients would round", `{"N":"12345678901234567890"}`, `{"$n":"12345678901234567890"}`},
		{"a number with an exponent", `{"N":"1E+20"}`, `{"$n":"1E+20"}`},
		{"binary", `{"B":"AQI="}`, `{"$b":"AQI="}`},
		{"null", `{"NULL":true}`, `null`},
		{"false", `{"BOOL":false}`, `false`},
		{"an empty string", `{"S":""}`, `""`},
		{"an empty list", `{"L":[]}`, `[]`},
		{"an empty map", `{"M":{}}`, `{}`},
		{"sets", `{"L":[{"SS":["a"]},{"NS":["1","2"]},{"BS":["AQI="]}]}`, `[{"$ss":["a"]},{"$ns":["1","2"]},{"$bs":["AQI="]}]`},
		{"a map that looks like a set", `{"M":{"$ss":{"L":[{"S":"a"}]}}}`, `{"$m":{"$ss":["a"]}}`},
		{"a map that looks like such a map", `{"M":{"$m":{"M":{"a":{"S":"b"}}}}}`, `{"$m":{"$m":{"a":"b"}}}`},
		{"a map", `{"M":{"a":{"M":{"b":{"N":"1"}}}}}`, `{"a":{"b":1}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p plainer
			var got bytes.Buffer
			if err := json.NewEncoder(&got).Encode(p.value(json.RawMessage(c.typed))); err != nil || strings.TrimSpace(got.String()) != c.plain {
				t.Errorf("%s becomes %s, %v, want %s", c.typed, got.String(), err, c.plain)
			}
			d := json.NewDecoder(strings.NewReader(c.plain))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			if back, err := typed(v); err != nil || string(back) != c.typed {
				t.Errorf("%s becomes %s, %v, want %s", c.plain, back, err, c.typed)
			}
		})
	}
}

// A query is served by the key with the most conditions, and says why others do not serve it.
func TestChoose(t *testing.T) {
	table := &past.Table{Name: "T", Key: past.Key{Partition: []string{"id"}, Sort: []string{"n"}}, Indexes: []past.Index{
		{Name: "byDay", Key: past.Key{Partition: []string{"id"}, Sort: []string{"day"}}, Projection: "ALL"},
		{Name: "byKind", Global: true, Key: past.Key{Partition: []string{"kind"}, Sort: []string{"day"}}, Projection: "INCLUDE", Includes: []string{"total"}},
		{Name: "byShop", Global: true, Key: past.Key{Partition: []string{"shop", "kind"}, Sort: []string{"year", "day"}}, Projection: "ALL"},
		{Name: "building", Global: true, Key: past.Key{Partition: []string{"note"}}, Projection: "ALL", Status: "CREATING"},
	}}
	for _, c := range []struct {
		name, where string
		index       string
		consistent  bool
		want        string
	}{
		{"the table", `{"id":1}`, "", false, "table T: id"},
		{"a local index", `{"id":1,"day":{"<":2}}`, "", false, "index byDay of table T: id day"},
		{"a filter", `{"id":1,"x":2}`, "", false, "table T: id; x"},
		{"a global index", `{"kind":1}`, "", false, "index byKind of table T: kind"},
		{"a filter on what is projected", `{"kind":1,"total":2}`, "", false, "index byKind of table T: kind; total"},
		{"a filter on what is not", `{"kind":1,"x":2}`, "", false, "it does not project x"},
		{"a key of several attributes", `{"shop":1,"kind":2,"year":3,"day":{"between":[1,2]}}`, "", false, "index byShop of table T: shop kind year day"},
		{"a gap in the sort key", `{"shop":1,"kind":2,"day":3}`, "", false, "a query cannot have the condition = on its key attribute day there"},
		{"an index that is named", `{"id":1}`, "byDay", false, "index byDay of table T: id"},
		{"an index that does not serve it", `{"id":1}`, "byKind", false, "there is no value for kind"},
		{"a range of a partition key", `{"id":{"<":1}}`, "", false, "there is no value for id"},
		{"an operator that keys do not have", `{"id":1,"n":{"<>":2}}`, "", false, "index byDay of table T: id; n"},
		{"a consistent read", `{"kind":1}`, "", true, "a global index cannot be read consistently"},
		{"an index that is not ready", `{"note":1}`, "", false, "it is CREATING"},
		{"nothing", `{}`, "", false, "there is no value for id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var where map[string]any
			if err := json.Unmarshal([]byte(c.where), &where); err != nil {
				t.Fatal(err)
			}
			in, err := conditions(where)
			if err != nil {
				t.Fatal(err)
			}
			p, why := choose(table, c.index, in, c.consistent)
			got := strings.Join(why, "; ")
			if p != nil {
				got = p.text(table) + ":"
				for _, k := range p.keyed {
					got += " " + k.name
				}
				for _, f := range p.filter {
					got += "; " + f.name
				}
				if got != c.want {
					t.Errorf("it is served by %s, want %s", got, c.want)
				}
			} else if !strings.Contains(got, c.want) {
				t.Errorf("it is not served: %s, want %s", got, c.want)
			}
		})
	}
}

// An answer is bounded, whatever is in it.
func TestLargeAnswers(t *testing.T) {
	for _, v := range []any{strings.Repeat("\x01", maxAnswerSize), strings.Repeat(`"`, 2*maxAnswerSize), []string{strings.Repeat("é", maxAnswerSize)}} {
		text, err := encode(map[string]any{"v": v})
		if err != nil || len(text) > maxAnswerSize || !json.Valid(text) || !strings.Contains(string(text), `"truncated":true`) {
			t.Errorf("the answer has %d bytes, %v", len(text), err)
		}
	}
}

// Pages that are cut by their size continue where they ended.
func TestPages(t *testing.T) {
	r := newRig(t, nil)
	for i := range 60 {
		n, _ := json.Marshal(i)
		r.send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"big"},"n":{"N":"`+string(n)+`"},"customer":{"S":"eve"},"placed":{"S":"2026"},"text":{"S":"`+strings.Repeat("x", 1500)+`"}}}`)
	}
	for _, where := range []string{`{"id":"big"}`, `{"customer":"eve"}`, `{"customer":"eve","n":{">=":0}}`, `{"text":{"begins_with":"x"}}`} {
		seen, next := make(map[string]bool), "null"
		for range 20 {
			text := r.want("query", `{"table":"Orders","where":`+where+`,"allow_scan":true,"next":`+next+`}`, `"items"`)
			for _, it := range member[[]map[string]any](t, text, "items") {
				key, _ := json.Marshal(it["n"])
				if seen[string(key)] {
					t.Fatalf("%s returns item %s twice", where, key)
				}
				seen[string(key)] = true
			}
			var out struct{ Next json.RawMessage }
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				t.Fatal(err)
			}
			if next = string(out.Next); next == "" {
				break
			}
		}
		if len(seen) != 60 {
			t.Errorf("%s returns %d items, want 60", where, len(seen))
		}
	}
}
