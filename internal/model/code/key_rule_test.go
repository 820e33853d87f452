package code

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// A value in a key must end before the text that follows it there, and before the text that
// follows it in keys of other entities with which it can be confused.
func TestKeyRules(t *testing.T) {
	for _, c := range []struct{ name, entities, want string }{
		{"a text that follows", `a: {keys: {PK: "A#{x}#{y}", SK: A}, attributes: {x: S, y: S}}`, `a.PK x+"#" a.PK y+""`},
		{"the whole key", `a: {keys: {PK: "{x}", SK: A}, attributes: {x: S}}`, ``},
		{"a constant between", `a: {keys: {PK: "A#{x}#B#{y}", SK: A}, attributes: {x: S, y: S}}`, `a.PK x+"#B#" a.PK y+""`},
		{"a longer key of another entity",
			`a: {keys: {PK: "P#{p}", SK: "O#{x}"}, attributes: {p: S, x: S}}
  b: {keys: {PK: "P#{q}", SK: "O#{y}#L#{z}"}, attributes: {q: S, y: S, z: S}}`,
			`a.PK p+"" a.SK x+"" "#L#" b.PK q+"" b.SK y+"#L#" b.SK z+""`},
		{"another end in another entity",
			`a: {keys: {PK: "P", SK: "O#{x}#END"}, attributes: {x: S}}
  b: {keys: {PK: "P", SK: "O#{y}#L#{z}"}, attributes: {y: S, z: S}}`,
			`a.SK x+"#END" "#L#" b.SK y+"#L#" "#END" b.SK z+""`},
		{"sort keys of other partitions",
			`a: {keys: {PK: "P#{p}", SK: "{x}"}, attributes: {p: S, x: S}}
  b: {keys: {PK: "Q#{q}", SK: "{y}#{z}"}, attributes: {q: S, y: S, z: S}}`,
			`a.PK p+"" b.PK q+"" b.SK y+"#" b.SK z+""`},
		{"partition keys whatever the sort key is",
			`a: {keys: {PK: "P#{p}", SK: A}, attributes: {p: S}}
  b: {keys: {PK: "P#{q}#S#{s}", SK: B}, attributes: {q: S, s: S}}`,
			`a.PK p+"" "#S#" b.PK q+"#S#" b.PK s+""`},
		{"texts that formats and listed values contain",
			`a: {keys: {PK: "{x}-{y}", SK: "{r}-{z}"}, attributes: {x: {format: uuid}, y: S, r: {values: [eu-west, us]}, z: S}}`,
			`a.PK x+"" a.PK y+"" a.SK r+"" a.SK z+""`},
		{"a shard number needs no test", `a: {keys: {PK: "{s}#{x}", SK: A}, attributes: {x: S, s: {shards: 4, of: x}}}`, `a.PK x+""`},
		{"an attribute that is no key", `a: {keys: {PK: "{x}", SK: A}, attributes: {x: S, y: S, t: {template: "{x}/{y}"}}}`, ``},
		{"an attribute that a value is read from", `a: {keys: {PK: "{x}", SK: A}, attributes: {x: S, y: {type: S, stored: false}, t: {template: "{y}/{x}"}}}`, `a.t y+"/" a.t x+""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := model.Parse("x", []byte("model: 1\ntables: {tab: {key: {partition: PK, sort: SK}}}\nentities:\n  "+c.entities+"\npatterns: [{name: put, put: a, replaces: true, rate: 1/s}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := newSpec(m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range s.entities {
				for _, a := range e.attributes {
					for _, r := range s.keyRules(e, a.Field) {
						text := fmt.Sprintf("%s.%s %s+%q", e.Name, a.Name, r.field.Name, r.next)
						for _, end := range r.others {
							text += fmt.Sprintf(" %q", end)
						}
						got = append(got, text)
					}
				}
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("the rules are\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// A number is tested only where it can contain the text that ends it.
func TestNumbersInKeys(t *testing.T) {
	for end, want := range map[string]bool{"#": false, "-": true, ".": true, "-v": false, "00": true} {
		if got := (&keyRule{next: end}).numeric(); got != want {
			t.Errorf("numeric with %q is %t", end, got)
		}
	}
}
