package infer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// A sample is bounded in bytes, and items of all parts of the source stay in it.
func TestReservoirIsBoundedInBytes(t *testing.T) {
	s := NewReservoir(1)
	s.maxBytes = 100_000
	for i := range 1000 {
		s.Add(item.Make(map[string]item.Value{"n": item.String(fmt.Sprint(i)), "text": item.String(strings.Repeat("x", 1000))}))
	}
	bytes, early := 0, 0
	for _, it := range s.Items {
		bytes += len(it)
		if v, _ := it.Get("n"); len(v.Bytes()) < 3 {
			early++ // one of the first hundred
		}
	}
	if bytes > 100_000 || bytes < 90_000 || s.Seen != 1000 || bytes != s.bytes {
		t.Errorf("%d items with %d bytes are kept of %d, counted as %d", len(s.Items), bytes, s.Seen, s.bytes)
	}
	if early == 0 || early > 30 {
		t.Errorf("%d of %d items are from the first tenth", early, len(s.Items))
	}
}

// An item that is larger than the bound is kept if it is the only one.
func TestReservoirKeepsOneItem(t *testing.T) {
	s := NewReservoir(1)
	s.maxBytes = 10
	for range 3 {
		s.Add(item.Make(map[string]item.Value{"text": item.String(strings.Repeat("x", 1000))}))
	}
	if len(s.Items) != 1 {
		t.Errorf("%d items are kept, want 1", len(s.Items))
	}
}

// A document is bounded, a file of many documents is not.
func TestDocumentsAreBounded(t *testing.T) {
	s := NewReservoir(1)
	s.maxDocument = 3 << 20
	line := `{"Item": {"PK": {"S": "` + strings.Repeat("x", 1<<10) + `"}}}` + "\n"
	if err := s.ReadJSON("many.json", strings.NewReader(strings.Repeat(line, 10<<10))); err != nil || s.Seen != 10<<10 {
		t.Errorf("of a file of 10 MB %d items are read, %v", s.Seen, err)
	}
	one := `{"Items": [` + strings.Repeat(`{"PK": {"S": "`+strings.Repeat("x", 1<<10)+`"}},`, 10<<10) + `{}]}`
	if err := s.ReadJSON("one.json", strings.NewReader(one)); err == nil || !strings.Contains(err.Error(), "one.json: document 1: it is larger than 256 MB") {
		t.Errorf("a document of 10 MB: %v", err)
	}
}

// The error about a document of another form shows no Go type.
func TestDocumentOfAnotherForm(t *testing.T) {
	err := NewReservoir(1).ReadJSON("a.json", strings.NewReader(`[1, 2]`))
	if want := "a.json: document 1 is not DynamoDB JSON: it must be an object with an Item, a NewImage or Items"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
