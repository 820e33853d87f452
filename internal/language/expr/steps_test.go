package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// joinedUpTo joins conditions, as many as an expression of 4 KB and 300 operators has,
// of which each condition has some, and returns how many these are.
func joinedUpTo(text func(i int) string, operators int) (joined string, n int) {
	const separator = " OR "
	var b strings.Builder
	i := 0
	for ; (i+1)*(operators+1) <= maxOperators+1; i++ {
		part := text(i)
		if b.Len()+len(separator)+len(part) > 4096 {
			break
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(part)
	}
	return b.String(), i
}

func always(text string) func(int) string { return func(int) string { return text } }

// The largest conditions of writes take no more steps than the filter of a page, which
// is why they have no budget. The control: without an index of the item some take more.
func TestStepsOfTheLargestConditions(t *testing.T) {
	wide := map[string]item.Value{"y": item.Bool(false), "z": item.Bool(true)}
	for a := 'a'; a <= 'y'; a++ {
		for b := range 2800 {
			wide[fmt.Sprintf("%c%d", a, b)] = item.Null()
		}
	}
	nulls := make([]item.Value, 190_000)
	for i := range nulls {
		nulls[i] = item.Null()
	}
	var members []item.Value
	for i := range 60_000 {
		members = append(members, item.String(fmt.Sprint(i)))
	}
	text := strings.Repeat("a", 400_000)
	constant := item.String(strings.Repeat("a", 2<<20-100))
	inList := "z IN (y" + strings.Repeat(",y", maxInList-1) + ")"
	for _, c := range []struct {
		name      string
		condition func(i int) string // one of those that are joined
		operators int
		it        map[string]item.Value
		values    map[string]item.Value
		many      bool // of steps without an index
	}{
		{"attributes of a wide item", always(inList), 1, wide, nil, true},
		{"elements of a list", func(i int) string { return fmt.Sprintf("l[18%04d]=:v", i) }, 1, map[string]item.Value{"l": item.List(nulls...)}, map[string]item.Value{":v": item.Bool(true)}, false},
		{"members of a set", always("contains(m,x)"), 1, map[string]item.Value{"m": item.Set(item.SS, members...), "x": item.String("x")}, nil, false},
		{"text of the item", always("contains(s,x)"), 1, map[string]item.Value{"s": item.String(text), "x": item.String("aaab")}, nil, false},
		{"text of a value", always("contains(:v,x)"), 1, map[string]item.Value{"x": item.String("aaab")}, map[string]item.Value{":v": constant}, false},
		{"sizes of text", always("size(s)=size(x)"), 3, map[string]item.Value{"s": item.String(text), "x": item.String("x")}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, n := joinedUpTo(c.condition, c.operators)
			it := item.Make(c.it)
			if size := it.Size(); size > item.MaxSize || len(text) > 4096 || n < 15 {
				t.Fatalf("the item has %d bytes, and the text %d of %d conditions", size, len(text), n)
			}
			e := evaluationOf(it)
			holds := e.condition(boundCondition(t, text, c.values), it)
			if e.steps > MaxPageSteps {
				t.Errorf("the condition takes %d steps, want %d at most", e.steps, MaxPageSteps)
			}
			var plain evaluation // of one of the conditions, which takes the same steps each time
			if got := plain.condition(boundCondition(t, c.condition(0), c.values), it); got != holds {
				t.Errorf("the condition is %v with an index, and %v without", holds, got)
			}
			if many := n*plain.steps > MaxPageSteps; many != c.many {
				t.Errorf("the control: without an index it takes %d steps", n*plain.steps)
			}
			t.Logf("%d steps, and %d without an index", e.steps, n*plain.steps)
		})
	}
}

func boundCondition(t *testing.T, text string, values map[string]item.Value) *Condition {
	t.Helper()
	parsed, err := ParseCondition(ConditionExpression, text)
	if err != nil {
		t.Fatal(err)
	}
	b := new(Bindings)
	for name, v := range values {
		b.Give(name, v)
	}
	condition, err := parsed.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	return condition
}
