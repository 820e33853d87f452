package partiql

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// A WHERE clause agrees with the same condition as an expression.
func TestWhereMeansWhatExpressionsMean(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(20_000) {
		g := &statementGenerator{rand.New(rand.NewPCG(seed, i)), nil}
		c := g.condition(3)
		name := fmt.Sprintf("seed %d, %d: %s | %s", seed, i, c.statement, c.expression)

		st, err := bind("SELECT * FROM t WHERE "+c.statement, g.values...)
		want, wantErr := bindExpression(c.expression, g.values)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, but %v", name, err, wantErr)
		}
		if err != nil {
			if got := "Invalid FilterExpression: " + message(err); got != message(wantErr) {
				t.Fatalf("%s:\n got %s\nwant %s", name, got, message(wantErr))
			}
			continue
		}
		it := g.item()
		if got := expr.NewCondition(st.(*Select).Where).Holds(it); got != want.Holds(it) {
			t.Fatalf("%s is %v for %s", name, got, item.Map(it))
		}
	}
}

func bindExpression(text string, values []item.Value) (*expr.Condition, error) {
	parsed, err := expr.ParseCondition(expr.FilterExpression, text)
	if err != nil {
		return nil, err
	}
	b := &expr.Bindings{Values: make(map[string]item.Value)}
	for i, v := range values {
		b.Values[fmt.Sprintf(":v%d", i)] = v
	}
	return parsed.Bind(b)
}

// text is the same text in two languages.
type text struct{ statement, expression string }

type statementGenerator struct {
	*rand.Rand
	values []item.Value // the parameters so far
}

func (g *statementGenerator) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *statementGenerator) condition(depth int) text {
	if depth > 0 && g.IntN(3) > 0 {
		a := g.condition(depth - 1)
		if g.IntN(3) == 0 {
			return text{"NOT (" + a.statement + ")", "NOT (" + a.expression + ")"}
		}
		b := g.condition(depth - 1)
		op := g.one(" AND ", " OR ")
		return text{"(" + a.statement + ")" + op + "(" + b.statement + ")", "(" + a.expression + ")" + op + "(" + b.expression + ")"}
	}
	path := g.one("a", "b", "c.d", "c.e[1]", "f[0]")
	switch g.IntN(7) {
	case 0:
		low, high := g.value(), g.value()
		return text{
			path + " BETWEEN " + low.statement + " AND " + high.statement,
			path + " BETWEEN " + low.expression + " AND " + high.expression,
		}
	case 1:
		one, two := g.value(), g.value()
		return text{
			path + " IN " + g.one("(%s, %s)", "[%s, %s]"),
			path + " IN (" + one.expression + ", " + two.expression + ")",
		}.with(one.statement, two.statement)
	case 2:
		v := g.value()
		f := g.one("begins_with", "contains")
		return text{f + "(" + path + ", " + v.statement + ")", f + "(" + path + ", " + v.expression + ")"}
	case 3:
		if g.IntN(2) == 0 {
			return text{path + " IS MISSING", "attribute_not_exists(" + path + ")"}
		}
		return text{path + " IS NOT MISSING", "attribute_exists(" + path + ")"}
	case 4:
		v := g.value()
		op := g.one("=", "<>", "<", ">=")
		return text{"size(" + path + ") " + op + " " + v.statement, "size(" + path + ") " + op + " " + v.expression}
	}
	v := g.value()
	op := g.one("=", "<>", "<", "<=", ">", ">=")
	if g.IntN(4) == 0 {
		return text{v.statement + " " + op + " " + path, v.expression + " " + op + " " + path}
	}
	return text{path + " " + op + " " + v.statement, path + " " + op + " " + v.expression}
}

func (t text) with(args ...any) text {
	t.statement = fmt.Sprintf(t.statement, args...)
	return t
}

// value is a constant: a parameter of the statement, a :value of the
// expression.
func (g *statementGenerator) value() text {
	v, _ := g.any()
	g.values = append(g.values, v)
	return text{"?", fmt.Sprintf(":v%d", len(g.values)-1)}
}

func (g *statementGenerator) any() (item.Value, string) {
	switch g.IntN(6) {
	case 0:
		s := g.one("", "a", "ab", "it's", "é😀")
		return item.String(s), "'" + strings.ReplaceAll(s, "'", "''") + "'"
	case 1:
		return item.Bool(true), "true"
	case 2:
		return item.Null(), "null"
	case 3:
		return item.Set(item.SS, item.String("a"), item.String("b")), "<<'a', 'b'>>"
	case 4:
		return item.List(item.String("a"), number("1")), "['a', 1]"
	}
	n := g.one("0", "1", "-2", "1.5", "3")
	return number(n), n
}

func number(text string) item.Value {
	n, err := item.ParseNumber(text)
	if err != nil {
		panic(err)
	}
	return item.Num(n)
}

func (g *statementGenerator) item() item.Item {
	attrs := make(map[string]item.Value)
	for _, name := range []string{"a", "b", "f"} {
		if g.IntN(4) > 0 {
			attrs[name], _ = g.any()
		}
	}
	d, _ := g.any()
	e, _ := g.any()
	attrs["c"] = item.Map(item.Make(map[string]item.Value{"d": d, "e": item.List(e, d)}))
	return item.Make(attrs)
}

// A literal has the value that it was formatted from.
func TestLiterals(t *testing.T) {
	g := &statementGenerator{rand.New(rand.NewPCG(1, 1)), nil}
	for range 200 {
		want, literal := g.any()
		st, err := bind("INSERT INTO t VALUE {'a': " + literal + "}")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := st.(*Insert).Item.Get("a"); !item.Equal(got, want) {
			t.Errorf("%s is %s", literal, got)
		}
	}
}
