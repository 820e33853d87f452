package expr

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

func TestPlaceholders(t *testing.T) {
	long := strings.Repeat("a", 254)
	for _, c := range []struct {
		name  string
		names map[string]string
		want  string
	}{
		{"none", nil, ""},
		{"good ones", map[string]string{"#a": "a", "#_": "any thing", "#4g": "#x", "#" + long: "a"}, ""},
		{"an empty map", map[string]string{}, "ExpressionAttributeNames must not be empty"},
		{"no number sign", map[string]string{"a": "a"}, `ExpressionAttributeNames contains invalid key: Syntax error; key: "a"`},
		{"a number sign alone", map[string]string{"#": "a"}, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#"`},
		{"a path (observed)", map[string]string{"#environment.item": "a"}, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#environment.item"`},
		{"an empty key", map[string]string{"": "a"}, `ExpressionAttributeNames contains invalid key: The expression attribute map contains an empty key;`},
		{"a long key", map[string]string{"##" + long: "a"}, "ExpressionAttributeNames contains invalid key: The expression attribute map contains a key that is too long; size of key: 256"},
		{"a name of 65,535 bytes", map[string]string{"#a": strings.Repeat("a", 65535)}, ""},
		{"a name of 65,536 bytes", map[string]string{"#a": strings.Repeat("a", 65536)}, "ExpressionAttributeNames contains invalid value: Attribute name is too large, must be less than 65536 bytes for key #a"},
		{"an empty name (observed)", map[string]string{"#DE": ""}, "ExpressionAttributeNames contains invalid value: Empty attribute name for key #DE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := message(t, CheckNames(c.names)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	for _, c := range []struct {
		name   string
		values map[string]int
		want   string
	}{
		{"no values", nil, ""},
		{"good values", map[string]int{":a": 1, ":0": 2}, ""},
		{"an empty map of values", map[string]int{}, "ExpressionAttributeValues must not be empty"},
		{"no colon", map[string]int{":b": 1, "b": 2}, `ExpressionAttributeValues contains invalid key: Syntax error; key: "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := message(t, CheckValues(c.values)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSizesOfPlaceholders(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name   string
		names  map[string]string
		values map[string]string
		want   string
	}{
		{"none", nil, nil, ""},
		{"as large as allowed", map[string]string{"#a": text(1<<20 - 2)}, map[string]string{":a": text(1<<20 - 2)}, ""},
		{"large names", map[string]string{"#a": text(2<<20 - 1)}, map[string]string{":a": text(2 << 20)}, "ExpressionAttributeNames exceeds max size"},
		{"large values", map[string]string{"#a": "a"}, map[string]string{":a": text(2<<20 - 1)}, "ExpressionAttributeValues exceeds max size"},
		{"many values", nil, map[string]string{":a": text(1 << 20), ":b": text(1<<20 - 3)}, "ExpressionAttributeValues exceeds max size"},
		{"both together", map[string]string{"#a": text(1<<20 - 2)}, map[string]string{":a": text(1<<20 - 1)}, "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size"},
	} {
		if got := message(t, CheckSizes(c.names, c.values, func(s string) item.Value { return item.String(s) })); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestUnusedPlaceholders(t *testing.T) {
	b := &Bindings{
		Names:  map[string]string{"#a": "a", "#b": "b", "#c": "c"},
		Values: values(t, `{":a": {"S": "a"}, ":b": {"S": "b"}, ":c": {"S": "c"}}`),
	}
	bind := func(kind Kind, text, want string) {
		t.Helper()
		if err := bindAny(kind, text, b); err != nil {
			t.Fatal(err)
		}
		if got := message(t, b.Unused()); got != want {
			t.Errorf("after %s: %s, want %s", text, got, want)
		}
	}
	bind(FilterExpression, "attribute_exists(x)", "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #b, #c}")
	bind(ProjectionExpression, "#a.#b, #c", "Value provided in ExpressionAttributeValues unused in expressions: keys: {:a, :b, :c}")
	bind(KeyConditionExpression, "#a = :a", "Value provided in ExpressionAttributeValues unused in expressions: keys: {:b, :c}")
	bind(UpdateExpression, "set q = if_not_exists(#a, :b), r = :c", "")
}

func TestManyPlaceholders(t *testing.T) {
	b := &Bindings{Values: values(t, `{":unused": {"S": ""}}`)}
	text := "x in ("
	for i := range 40 {
		name := ":v" + strings.Repeat("x", i)
		b.Values[name] = b.Values[":unused"]
		text += name + ", "
	}
	if err := bindAny(FilterExpression, text+":v)", b); err != nil {
		t.Fatal(err)
	}
	if got, want := message(t, b.Unused()), "Value provided in ExpressionAttributeValues unused in expressions: keys: {:unused}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
