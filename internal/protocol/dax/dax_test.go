package dax

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// testCatalog has three tables, and attribute lists from id 2 on.
type testCatalog struct {
	mu    sync.Mutex
	lists [][]string
	full  bool // no list can be added
}

// newTestCatalog has the lists that the recorded requests refer to.
func newTestCatalog() *testCatalog {
	return &testCatalog{lists: [][]string{
		{"b", "c"}, {"d"}, {"b", "l", "m", "n", "s", "ss"}, {"v"}, {"old"},
	}}
}

func attribute(name string, t item.Type) []schema.Attribute {
	return []schema.Attribute{{Name: name, Type: t}}
}

var testKeys = map[string]schema.Key{
	"Users":    {Partition: attribute("id", item.S)},
	"Orders":   {Partition: attribute("id", item.S), Sort: attribute("at", item.N)},
	"Counters": {Partition: attribute("n", item.N)},
}

func (c *testCatalog) Key(table string) (schema.Key, error) {
	key, ok := testKeys[table]
	if !ok {
		return key, apierror.NoTable()
	}
	return key, nil
}

func (c *testCatalog) AttributeNames(id int64) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id < 2 || id >= int64(len(c.lists))+2 {
		return nil, apierror.Validation("there is no attribute list %d", id)
	}
	return c.lists[id-2], nil
}

func (c *testCatalog) AttributeList(list [][]byte) (int64, error) {
	var names []string
	for _, name := range list {
		names = append(names, string(name))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.lists, func(l []string) bool { return slices.Equal(l, names) })
	if i < 0 {
		if c.full {
			return 0, apierror.LimitExceeded("there are too many attribute lists")
		}
		i = len(c.lists)
		c.lists = append(c.lists, names)
	}
	return int64(i) + 2, nil
}

// readLines reads the lines of a file in testdata that are not comments.
func readLines(t testing.TB, name string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// fields splits a line.
func fields(t testing.TB, line string, n int) []string {
	t.Helper()
	f := strings.Split(line, "\t")
	if len(f) != n {
		t.Fatalf("%q has %d fields, want %d", line, len(f), n)
	}
	return f
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// itemOf reads an item in DynamoDB's JSON.
func itemOf(t testing.TB, text string) item.Item {
	t.Helper()
	var r wire.ItemReader
	it, err := r.Member([]byte(`{"Item":`+text+`}`), "Item")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return bytes.Clone(it)
}

func valueOf(t testing.TB, text string) item.Value {
	t.Helper()
	v, _ := itemOf(t, `{"v":`+text+`}`).Get("v")
	return v
}

// valuesOf reads a map of values in DynamoDB's JSON.
func valuesOf(t testing.TB, text string) map[string]item.Value {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]item.Value)
	for name, v := range raw {
		values[name] = valueOf(t, string(v))
	}
	return values
}

func num(t testing.TB, text string) item.Value {
	t.Helper()
	n, err := item.ParseNumber(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return item.Num(n)
}

// show is a request or a part of one as text: members that are not empty, items, values and
// paths as in messages.
func show(v any) string {
	var out strings.Builder
	showTo(&out, reflect.ValueOf(v))
	return out.String()
}

var (
	itemType  = reflect.TypeFor[item.Item]()
	valueType = reflect.TypeFor[item.Value]()
	pathType  = reflect.TypeFor[item.Path]()
	opType    = reflect.TypeFor[expr.Op]()
)

// showText writes a text, whose bytes may be any.
func showText(out *strings.Builder, text string) {
	quoted := strconv.QuoteToGraphic(text)
	out.WriteString(quoted[1 : len(quoted)-1])
}

func showTo(out *strings.Builder, v reflect.Value) {
	if v.IsValid() {
		switch v.Type() {
		case itemType:
			showText(out, item.Map(item.Item(v.Bytes())).String())
			return
		case valueType:
			showText(out, item.Value(v.Bytes()).String())
			return
		case opType:
			out.WriteString(expr.Op(v.Uint()).String())
			return
		case pathType:
			showPath(out, v)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		showTo(out, v.Elem())
	case reflect.Struct:
		showStruct(out, v)
	case reflect.Slice:
		out.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				out.WriteString(", ")
			}
			showTo(out, v.Index(i))
		}
		out.WriteByte(']')
	case reflect.Map:
		out.WriteByte('{')
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for i, k := range keys {
			if i > 0 {
				out.WriteString(", ")
			}
			fmt.Fprintf(out, "%s: ", k)
			showTo(out, v.MapIndex(k))
		}
		out.WriteByte('}')
	case reflect.String:
		fmt.Fprintf(out, "%q", v.String())
	default:
		fmt.Fprint(out, v)
	}
}

func showStruct(out *strings.Builder, v reflect.Value) {
	out.WriteByte('{')
	first := true
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		if !first {
			out.WriteString(", ")
		}
		first = false
		fmt.Fprintf(out, "%s: ", v.Type().Field(i).Name)
		showTo(out, v.Field(i))
	}
	out.WriteByte('}')
}

func showPath(out *strings.Builder, v reflect.Value) {
	p := make(item.Path, v.Len())
	for i := range p {
		s := v.Index(i)
		p[i] = item.Step{Name: s.Field(0).String(), Index: int(s.Field(1).Int()), IsIndex: s.Field(2).Bool()}
	}
	out.WriteString(p.String())
}
