package docs

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// The bytes shown in docs/formats/item.md are those of the code.
func TestItemFormat(t *testing.T) {
	text := read(t, "formats/item.md")
	rows := regexp.MustCompile("(?m)^\\| `(\\{.*\\})` \\| `([0-9a-f ]+)` \\|$").FindAllStringSubmatch(text, -1)
	if len(rows) < 10 {
		t.Fatalf("only %d examples found", len(rows))
	}
	for _, row := range rows {
		v, _ := parse(t, `{"v":`+row[1]+`}`).Get("v")
		expect(t, row[1], v, row[2])
	}
	whole := regexp.MustCompile("The item `(.*)` is `(.*)`").FindStringSubmatch(text)
	if whole == nil {
		t.Fatal("the example of an item is missing")
	}
	expect(t, whole[1], parse(t, whole[1]), whole[2])
}

// The bytes shown in docs/formats/keys.md are those of the code.
func TestKeyFormat(t *testing.T) {
	text := read(t, "formats/keys.md")
	rows := regexp.MustCompile("(?m)^\\| (the item|the entry of) `(\\{.*\\})` \\| `([^|]+)` \\|$").FindAllStringSubmatch(text, -1)
	if len(rows) < 4 {
		t.Fatalf("only %d examples found", len(rows))
	}
	code := read(t, "../internal/data/keyspace/keyspace.go")
	for _, kind := range regexp.MustCompile(`\tkind\w+ += '(.)'`).FindAllStringSubmatch(code, -1) {
		if !strings.Contains(text, "\n| `"+kind[1]+"` | ") {
			t.Errorf("the keys that begin with %s are not on the page", kind[1])
		}
	}
	for _, row := range rows {
		it := parse(t, row[2])
		s, _ := it.Get("s")
		sort := []schema.Attribute{{Name: "s", Type: s.Type()}}
		table := &schema.Table{ID: 7, Key: schema.Key{Partition: []schema.Attribute{{Name: "p", Type: item.S}}, Sort: sort}}
		index := &schema.Index{ID: 1, Global: true, Key: schema.Key{Partition: []schema.Attribute{{Name: "g", Type: item.S}}, Sort: sort}}
		key := keyspace.Item(nil, table, it)
		if row[1] == "the entry of" {
			key = keyspace.Entry(nil, table, index, it)
		}
		expect(t, row[1]+" "+row[2], key, row[3])
	}
}

// The example in docs/formats/catalog.md is a table's description, and the page
// names all of its fields.
func TestCatalogFormat(t *testing.T) {
	text := read(t, "formats/catalog.md")
	_, example, _ := strings.Cut(text, "```json\n")
	example, _, _ = strings.Cut(example, "```")
	reader := json.NewDecoder(strings.NewReader(example))
	reader.DisallowUnknownFields()
	var table schema.Table
	if err := reader.Decode(&table); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&table)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, []byte(example)); err != nil {
		t.Fatal(err)
	}
	if string(again) != want.String() {
		t.Errorf("the example is encoded as %s", again)
	}
	for _, v := range []any{schema.Table{}, schema.Index{}, schema.Key{}, schema.Attribute{},
		schema.Throughput{}, schema.Encryption{}, schema.Tag{}, schema.Projection{}, schema.Stream{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the field %s of %T is not on the page", name, v)
			}
		}
	}
}

// parse decodes an item as a request does.
func parse(t *testing.T, text string) item.Item {
	t.Helper()
	var in api.PutItem
	if err := wire.Decode([]byte(`{"TableName":"Table","Item":`+text+`}`), &in); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if in.Item.Fault != nil {
		t.Fatalf("%s: %v", text, in.Item.Fault)
	}
	if err := item.Check(in.Item.Item); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return in.Item.Item
}

// expect compares bytes with an example in hexadecimal, which may have spaces.
func expect(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if g := hex.EncodeToString(got); g != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s is %s, not %s", what, spaced(got), want)
	}
}

func spaced(b []byte) string {
	parts := make([]string, len(b))
	for i, c := range b {
		parts[i] = hex.EncodeToString([]byte{c})
	}
	return strings.Join(parts, " ")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The bytes shown in docs/formats/change.md are those of the code.
func TestChangeFormat(t *testing.T) {
	text := read(t, "formats/change.md")
	put := change.Record{At: time.UnixMilli(1_700_000_000_123), After: parse(t, `{"p":{"S":"a"}}`)}
	for of, bytes := range map[string][]byte{"key": keyspace.Change(7, 2, 7, 2), "value": put.Encode()} {
		row := regexp.MustCompile("(?m)^\\| the " + of + " \\| `([0-9a-f ]+)` \\|$").FindStringSubmatch(text)
		if row == nil {
			t.Fatalf("the example of a %s is missing", of)
		}
		expect(t, "the "+of, bytes, row[1])
	}
}
