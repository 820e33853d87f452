package item

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMembers(t *testing.T) {
	number := func(text string) Value {
		n, err := ParseNumber(text)
		if err != nil {
			t.Fatal(err)
		}
		return Num(n)
	}
	for _, c := range []struct {
		name  string
		of    Value
		value Value
		want  bool
	}{
		{"numbers are equal by value", Set(NS, number("1"), number("2")), number("1.00"), true},
		{"a number is not text", Set(NS, number("1")), String("1"), false},
		{"text is not binary", Set(SS, String("a")), Binary([]byte("a")), false},
		{"a list has values of all types", List(Null(), Bool(true), List(String("a"))), List(String("a")), true},
		{"an empty list has none", List(), Null(), false},
		{"duplicates in a list", List(Null(), Null(), Null()), Null(), true},
	} {
		if got := MembersOf(c.of).Has(c.value); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if new(Members).Has(Null()) {
		t.Error("an empty table has a member")
	}
}

// A table has exactly the values that a walk finds, whatever they are.
func TestMembersAgreeWithAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Value { return randomValue(t, 2) }), 0, 200).Draw(t, "values")
		wanted := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Value { return randomValue(t, 2) }), 0, 20).Draw(t, "wanted")
		added := new(Members)
		for _, v := range values {
			added.Add(v)
		}
		listed := MembersOf(List(values...))
		for _, v := range append(wanted, values...) {
			want := slices.ContainsFunc(values, func(o Value) bool { return Equal(o, v) })
			if added.Has(v) != want || listed.Has(v) != want {
				t.Fatalf("%v is found %v and %v, want %v", v, added.Has(v), listed.Has(v), want)
			}
		}
	})
}
