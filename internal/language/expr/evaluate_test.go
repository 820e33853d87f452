package expr

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

func condition(t testing.TB, text string, values map[string]item.Value) *Condition {
	t.Helper()
	parsed, err := ParseCondition(FilterExpression, text)
	if err != nil {
		t.Fatal(err)
	}
	b := new(Bindings)
	for name, v := range values {
		b.Give(name, v)
	}
	c, err := parsed.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// repeated is a condition that makes a test a hundred times.
func repeated(test string) string {
	return strings.Join(slices.Repeat([]string{test}, 100), " OR ")
}

// largeSet has the even numbers below 40,000.
func largeSet(t item.Type) item.Value {
	var members []item.Value
	for i := range 20_000 {
		m := small(2 * i)
		if t == item.SS {
			m = item.String(fmt.Sprint(2 * i))
		}
		members = append(members, m)
	}
	if t == item.L {
		return item.List(members...)
	}
	return item.Set(t, members...)
}

// Constants are searched without comparing all their members with each item:
// each of these filters took more than 100 million comparisons.
func TestLargeConstants(t *testing.T) {
	many := make(map[string]item.Value)
	var list []string
	for i := range 100 {
		name := fmt.Sprintf(":v%d", i)
		many[name], list = small(2*i), append(list, name)
	}
	const items = 60
	for _, c := range []struct {
		name, text string
		values     map[string]item.Value
		steps      int // for each operator and item
	}{
		{"a set of numbers", repeated("contains(:w, l)"), map[string]item.Value{":w": largeSet(item.NS)}, 4},
		{"a set of strings", repeated("contains(:w, s)"), map[string]item.Value{":w": largeSet(item.SS)}, 4},
		{"a list", repeated("contains(:w, l)"), map[string]item.Value{":w": largeSet(item.L)}, 4},
		{"the size of a constant", repeated("size(:w) = l"), map[string]item.Value{":w": item.String(strings.Repeat("x", 1<<20))}, 4},
		{"a list of operands", strings.Join(slices.Repeat([]string{"l IN (" + strings.Join(list, ",") + ")"}, 7), " OR "), many, 20},
	} {
		var f Filter
		f.Of(condition(t, c.text, c.values))
		operators := strings.Count(c.text, " OR ") + 1
		for i := range items {
			n := 100_001 + 2*i // odd: no set has it
			it := item.Make(map[string]item.Value{"l": small(n), "s": item.String(fmt.Sprint(n))})
			if holds, spent := f.Keep(it); holds || spent {
				t.Fatalf("%s: item %d: holds %v, spent %v", c.name, i, holds, spent)
			}
		}
		if most := c.steps * operators * items; f.steps > most {
			t.Errorf("%s: %d steps, at most %d expected", c.name, f.steps, most)
		}
	}
}

// A filter that is used again and again gives the same answers as a condition
// that is evaluated once.
func TestFilterAgreesWithCondition(t *testing.T) {
	operands, values := []string{}, map[string]item.Value{":ns": largeSet(item.NS), ":ss": largeSet(item.SS), ":l": largeSet(item.L)}
	for i := range 30 {
		name := fmt.Sprintf(":v%d", i)
		operands, values[name] = append(operands, name), small(3*i)
	}
	for _, text := range []string{
		"contains(:ns, l)", "contains(:ss, s)", "contains(:l, l)", "contains(:l, s)", "contains(:ns, s)",
		"NOT contains(:ns, l)", "contains(:ns, nothing)", "size(:ns) > l",
		"l IN (" + strings.Join(operands, ", ") + ")", "l IN (s, " + strings.Join(operands, ", ") + ")",
	} {
		used := make(map[string]item.Value)
		for name, v := range values {
			if slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("(), ", r) }), func(w string) bool { return w == name }) {
				used[name] = v
			}
		}
		c := condition(t, text, used)
		var f Filter
		f.Of(c)
		for i := range 200 {
			it := item.Make(map[string]item.Value{"l": small(i * 150), "s": item.String(fmt.Sprint(i * 150))})
			if got, _ := f.Keep(it); got != c.Holds(it) {
				t.Fatalf("%s is %v for item %d, want %v", text, got, i, c.Holds(it))
			}
		}
	}
}

// Work that no index can save uses up the budget of a page, however few items
// there are; ordinary filters do not, however many there are.
func TestBudgetOfAPage(t *testing.T) {
	text := item.String(strings.Repeat("x", 1<<20))
	needle := item.Make(map[string]item.Value{"s": item.String("needle"), "l": small(1)})
	for _, c := range []struct {
		name, text string
		values     map[string]item.Value
		items      int
		spent      bool
	}{
		{"a search in a long constant", repeated("contains(:w, s)"), map[string]item.Value{":w": text}, 10, true},
		{"a search in a constant", "contains(:w, s)", map[string]item.Value{":w": item.String(strings.Repeat("x", 1000))}, 60_000, false},
		{"as many operators as are allowed", strings.Join(slices.Repeat([]string{"l=:w"}, 150), " OR "), map[string]item.Value{":w": small(2)}, 60_000, false},
	} {
		var f Filter
		f.Of(condition(t, c.text, c.values))
		const sample = 600
		n, spent := 0, false
		for ; n < min(c.items, sample) && !spent; n++ {
			_, spent = f.Keep(needle)
		}
		spent = spent || f.steps*c.items/n >= MaxPageSteps // all items are alike
		if spent != c.spent {
			t.Errorf("%s: %d items take %d steps, and use up the budget: %v, want %v", c.name, n, f.steps, spent, c.spent)
		}
	}
}
