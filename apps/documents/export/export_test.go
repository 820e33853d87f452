package export

import (
	"encoding/csv"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
)

func TestFormats(t *testing.T) {
	id := keys.NewID[keys.DocumentID]()
	entries := []Entry{
		{ID: id, Name: "a,\"b\".txt", Status: "SUCCEEDED", Confidence: 0.97, Fields: []extract.Field{{Name: "total", Value: "-1.50"}, {Name: "customer", Value: "=HYPERLINK(1)"}}},
		{ID: id, Name: "t.csv", Status: "SUCCEEDED", Fields: []extract.Field{{Name: "total", Values: []string{"1", "2"}}, {Name: "customer", Value: "x"}}},
		{ID: id, Name: "c", Status: "FAILED", Reason: "line\nbreak", Fields: nil},
	}
	var text strings.Builder
	w, err := CSV(&text, []string{"total", "customer"})
	if err != nil {
		t.Fatal(err)
	}
	var array strings.Builder
	j := JSON(&array)
	for _, e := range entries {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
		if err := j.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	j.Close()
	got, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	want := [][]string{
		{"documentId", "document", "status", "confidence", "reason", "total", "customer"},
		{id.String(), "a,\"b\".txt", "SUCCEEDED", "0.97", "", "-1.50", "'=HYPERLINK(1)"},
		{id.String(), "t.csv", "SUCCEEDED", "0", "", "1", "x"},
		{id.String(), "t.csv", "SUCCEEDED", "0", "", "2", "x"},
		{id.String(), "c", "FAILED", "0", "line\nbreak", "", ""},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	var back []Entry
	if err := json.Unmarshal([]byte(array.String()), &back); err != nil || !reflect.DeepEqual(back, entries) {
		t.Errorf("%+v, %v", back, err)
	}
	var none strings.Builder
	if JSON(&none).Close(); none.String() != "[]\n" {
		t.Errorf("%q", none.String())
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{"": "", "1": "1", "-1,50": "-1,50", "+49 30 123": "+49 30 123", "=1+1": "'=1+1", "@x": "'@x", "-cmd|x": "'-cmd|x", "+1+cmd": "'+1+cmd", "\tx": "'\tx", "x;=1+1": "x;'=1+1", "a; b;c": "a; b;c", "=1;@x": "'=1;'@x"} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}
