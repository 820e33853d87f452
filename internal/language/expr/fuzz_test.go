package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// fuzzed are placeholders of every type under short names.
func fuzzed(t testing.TB) *Bindings {
	return &Bindings{
		Names: map[string]string{"#a": "a", "#b": "b", "#c": "[3]"},
		Values: values(t, `{":a": {"S": "a"}, ":b": {"N": "1"}, ":c": {"SS": ["a"]}, ":d": {"L": [{"N": "1"}]},
			":e": {"B": "AQ=="}, ":f": {"M": {}}, ":g": {"BOOL": true}, ":h": {"NULL": true}}`),
	}
}

func fuzzedItem(t testing.TB) item.Item {
	return doc(t, `{"a": {"M": {"b": {"N": "1"}, "l": {"L": [{"S": "x"}]}}}, "b": {"L": [{"N": "1"}, {"L": [{"SS": ["a", "b"]}]}]}, "c": {"N": "3"}, "d": {"SS": ["a"]}}`)
}

// isFault fails the test unless an error is a fault that a customer may see.
func isFault(t *testing.T, err error) {
	t.Helper()
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		t.Fatalf("not a fault: %v", err)
	}
}

// Every text parses or yields a fault, and a condition that binds can be
// evaluated for any item.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		"a = :a", "((a) = (:a) OR NOT b[1] <> #c)", "size(a.b[0]) between :b and :b", "a in (:a, :b, c)",
		"contains(a, :c) and begins_with(#a, :a) or attribute_type(b, :a)", "((a))", "a[99999999999] = b", "(((", "a = \xff", "#= :", "not not a.b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := fuzzed(t)
		p, err := ParseCondition(FilterExpression, text)
		if err != nil {
			isFault(t, err)
			return
		}
		c, err := p.Bind(b)
		if err != nil {
			isFault(t, err)
			return
		}
		c.Holds(fuzzedItem(t))
		c.Holds(nil)
		k := KeyCondition{*c}
		if _, err := k.Keys([]schema.Attribute{{Name: "a", Type: item.S}}, []schema.Attribute{{Name: "b", Type: item.S}}); err != nil {
			isFault(t, err)
		}
		// Its negation holds exactly when it does not.
		if negated, err := ParseCondition(FilterExpression, "NOT ("+text+")"); err == nil {
			if n, err := negated.Bind(b); err == nil && n.Holds(fuzzedItem(t)) == c.Holds(fuzzedItem(t)) {
				t.Errorf("%q and its negation agree", text)
			}
		}
	})
}

// Every text parses or yields a fault, and an update that binds either
// applies or is rejected.
func FuzzUpdate(f *testing.F) {
	for _, text := range []string{
		"SET a = :a", "set a.b = if_not_exists(c, :b) + (d - :b), b[5] = :a remove c add d :c delete e :c", "SET a = list_append(#b, :d)",
		"SET b[0] = :a REMOVE b[1], b[9]", "SET a = ((b))", "REMOVE b[1][0][0] DELETE d :c", "SET", "set a = set", "ADD :a", "SET a = (((",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseUpdate(text)
		if err != nil {
			isFault(t, err)
			return
		}
		u, err := p.Bind(fuzzed(t))
		if err != nil {
			isFault(t, err)
			return
		}
		before := fuzzedItem(t)
		after, err := u.Apply(before)
		if err != nil {
			isFault(t, err)
			return
		}
		if !before.Equal(fuzzedItem(t)) {
			t.Fatalf("%q changed the item before", text)
		}
		again, err := u.Apply(before)
		if err != nil || !again.Equal(after) {
			t.Fatalf("%q has two outcomes: %s and %s, %v", text, item.Map(after), item.Map(again), err)
		}
		if _, err := u.UpdatedNew(before); err != nil {
			t.Fatalf("%q applies, but has nothing new: %v", text, err)
		}
		u.UpdatedOld(before)
	})
}

// A projection's paths, formatted as text, parse to the same projection.
func FuzzProjection(f *testing.F) {
	for _, text := range []string{"a", "a, b.c[0]", "#a.#b, c[1]", "a[01]", "a,", "!", "a..b", " a [ 1 ] "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseProjection(text)
		if err != nil {
			isFault(t, err)
			return
		}
		b := fuzzed(t)
		p, err := parsed.Bind(b)
		if err != nil {
			isFault(t, err)
			return
		}
		fuzzedItem(t).Project(p.Paths())

		var written []string
		for _, n := range parsed.paths {
			written = append(written, asText(n.path))
		}
		again, err := ParseProjection(strings.Join(written, ","))
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		q, err := again.Bind(b)
		if err != nil || fmt.Sprint(p.Paths()) != fmt.Sprint(q.Paths()) {
			t.Fatalf("%q was written as %q, which is %v, %v", text, written, q, err)
		}
	})
}

// asText formats a path as in an expression.
func asText(p item.Path) string {
	var out strings.Builder
	for i, s := range p {
		switch {
		case s.IsIndex:
			fmt.Fprintf(&out, "[%d]", s.Index)
		case i > 0:
			out.WriteString("." + s.Name)
		default:
			out.WriteString(s.Name)
		}
	}
	return out.String()
}
