package item

import (
	"fmt"
	"testing"
)

// An index returns what Item.At returns, at the first use and later.
func TestIndexOfAnItem(t *testing.T) {
	inner := make(map[string]Value)
	var elements []Value
	for i := range 3000 {
		inner[fmt.Sprint("n", i)] = String(fmt.Sprint(i))
		elements = append(elements, String(fmt.Sprint(i)))
	}
	inner["list"] = List(elements...)
	it := Make(map[string]Value{"a": Map(Make(inner)), "b": List(Map(Make(inner)), Null()), "c": String("c")})
	x, none := IndexOf(it), IndexOf(nil)
	name := func(n string) Step { return Step{Name: n} }
	at := func(i int) Step { return Step{Index: i, IsIndex: true} }
	for range 3 {
		for _, p := range []Path{
			{name("c")}, {name("d")}, {name("a")}, {name("a"), name("n0")}, {name("a"), name("n2999")}, {name("a"), name("n")}, {name("a"), name("z")},
			{name("a"), name("list"), at(0)}, {name("a"), name("list"), at(2999)}, {name("a"), name("list"), at(3000)}, {name("a"), at(1)},
			{name("b"), at(0), name("n17")}, {name("b"), at(1)}, {name("b"), at(2)}, {name("b"), name("n")}, {name("c"), name("n")}, {name("d"), name("n")},
		} {
			want, wantOK := it.At(p)
			if got, _, ok := x.At(p); ok != wantOK || ok && !Equal(got, want) {
				t.Errorf("%v is %v (%v), want %v (%v)", p, got, ok, want, wantOK)
			}
			if _, _, ok := none.At(p); ok {
				t.Errorf("%v exists in no item", p)
			}
		}
	}
	if _, passed, ok := x.At(Path{name("a"), name("n2999")}); !ok || passed != 0 {
		t.Errorf("%d bytes are passed over", passed)
	}
}
