package expr

import (
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// Conditions that differ only in values, placeholders, spelling and order have one
// text, which contains no value.
func TestConditionText(t *testing.T) {
	for _, c := range []struct {
		want  string
		texts []string
	}{
		{"attribute_not_exists(PK)", []string{"attribute_not_exists(PK)", "(attribute_not_exists( #p ))"}},
		{"attribute_exists(PK) AND state = ?", []string{"attribute_exists(PK) AND #s = :a", "(:b = #s) and attribute_exists(#p)"}},
		{"a > ?", []string{"a > :a", ":a < a"}},
		{"a = ? AND b = ? AND c = ?", []string{"a = :a AND (b = :b AND c = :a)", "(c = :b AND b = :a) AND a = :a"}},
		{"(a = ? OR b = ?) AND c = ?", []string{"c = :a AND (b = :a OR a = :b)"}},
		{"NOT (a = ? AND b = ?)", []string{"NOT (b = :a AND a = :b)"}},
		{"NOT contains(a, ?)", []string{"NOT contains(a, :a)"}},
		{"a IN (?)", []string{"a IN (:a, :b)", "a IN (:a)"}},
		{"a BETWEEN ? AND ?", []string{"a BETWEEN :a AND :b"}},
		{"size(a) >= ?", []string{"size(a) >= :n", ":n <= size(a)"}},
		{"a.? = ?", []string{"a.b.c = :a", "a[3] = :a"}},
		{"a < b", []string{"a < b"}},
	} {
		for _, text := range c.texts {
			parsed, err := ParseCondition(ConditionExpression, text)
			if err != nil {
				t.Fatal(err)
			}
			bound, err := parsed.Bind(&Bindings{Names: map[string]string{"#p": "PK", "#s": "state"},
				Values: map[string]item.Value{":a": item.String("a"), ":b": item.String("b"), ":n": number1(t)}})
			if err != nil {
				t.Fatal(err)
			}
			if got := bound.Text(func(name string) string { return name }); got != c.want {
				t.Errorf("%s has the text %q, want %q", text, got, c.want)
			}
		}
	}
	if got := new(Condition).Text(nil); got != "" {
		t.Errorf("an empty condition has the text %q", got)
	}
}

func number1(t *testing.T) item.Value {
	n, err := item.ParseNumber([]byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	return item.Num(n)
}
