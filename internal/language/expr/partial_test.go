package expr

import (
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

func TestMayHold(t *testing.T) {
	it := item.Make(map[string]item.Value{"state": item.String("READY")})
	known := func(_ Op, p item.Path) bool { return p[0].Name == "state" || p[0].Name == "gone" }
	for text, want := range map[string]bool{
		"#state = :ready":                                         true,
		"#state = :done":                                          false,
		"NOT #state = :done":                                      true,
		"NOT #state = :ready":                                     false,
		"rest = :done":                                            true,
		"NOT rest = :done":                                        true,
		"#state = :ready AND rest = :done":                        true,
		"#state = :done AND rest = :done":                         false,
		"#state = :done OR rest = :done":                          true,
		"NOT (#state = :ready OR rest = :done)":                   false,
		"NOT (#state = :ready AND rest = :done)":                  true,
		"#state IN (:done, :ready)":                               true,
		"#state IN (:done, rest)":                                 true,
		"attribute_exists(gone)":                                  false,
		"attribute_not_exists(gone)":                              true,
		"attribute_exists(rest) AND attribute_not_exists(#state)": false,
		"#state BETWEEN :done AND :ready AND size(rest) > :n":     true,
	} {
		parsed, err := ParseCondition(ConditionExpression, text)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := item.ParseNumber("1")
		c, err := parsed.bind(&Bindings{
			Names:  map[string]string{"#state": "state"},
			Values: map[string]item.Value{":ready": item.String("READY"), ":done": item.String("DONE"), ":n": item.Num(n)},
		})
		if err != nil {
			t.Fatal(text, err)
		}
		if got := c.MayHold(it, known); got != want {
			t.Errorf("%s: may hold is %v, expected %v", text, got, want)
		}
	}
	if !new(Condition).MayHold(it, known) {
		t.Error("the empty condition does not hold")
	}
}
