package expr

import (
	"fmt"
	"testing"
)

func TestProjectionFaults(t *testing.T) {
	names := map[string]string{"#a": "a", "#x": "a.b"}
	testFaults(t, ProjectionExpression, []faultCase{
		{"a reserved word, before an undefined name", "#nope, a.Comment", nil, "", "Attribute name is a reserved keyword; reserved keyword: Comment"},
		{"an undefined name, before an overlap", "a, a, #nope", nil, "", "An expression attribute name used in the document path is not defined; attribute name: #nope"},
		{"one path twice", "a, b, #a", names, "", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
		{"a path inside another", "a.b, a.b[1].c", nil, "", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a, b, [1], c]"},
		{"an overlap, before a conflict", "a[1], a.b, c, c", nil, "", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [c], path two: [c]"},
		{"a list that is a map", "a[1], a.b", nil, "", "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, [1]], path two: [a, b]"},
		{"a dot in a name does not make a path", "#x, a.b", names, "", ""},
		{"elements of one list are fine", "a[2], a[0].b, a[0].c", nil, "", ""},
	})
}

func TestProjectionPaths(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"names and steps", "a, b.c[2].#d", "[[a] [b, c, [2], x y]]"},
		{"blanks do not count", " a [ 0 ] . b\t,\nc ", "[[a, [0], b] [c]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := ParseProjection(c.text)
			if err != nil {
				t.Fatal(err)
			}
			p, err := parsed.Bind(&Bindings{Names: map[string]string{"#d": "x y"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(p.Paths()); got != c.want {
				t.Errorf("paths %s, want %s", got, c.want)
			}
		})
	}
}
