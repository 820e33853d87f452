package expr

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

func constant(v item.Value) Operand { return Operand{Value: v} }
func attribute(name string) Operand { return Operand{Path: item.Path{{Name: name}}} }
func numberOf(t testing.TB, text string) item.Value {
	t.Helper()
	n, err := item.ParseNumber([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return item.Num(n)
}

// A condition of nodes has the faults of its text, with the same messages.
func TestNodesHaveTheFaultsOfTexts(t *testing.T) {
	values := map[string]item.Value{
		":s": item.String("x"), ":n": numberOf(t, "1"), ":m": numberOf(t, "0"), ":type": item.String("ZZ"), ":bool": item.Bool(true),
	}
	long := item.Path{{Name: "a"}}
	for range 32 {
		long = append(long, item.Step{Name: "b"})
	}
	many := Test{Op: And}
	for range 151 {
		many.Tests = append(many.Tests, Test{Op: Equal, Operands: []Operand{attribute("a"), constant(values[":s"])}})
	}
	for _, c := range []struct {
		text string
		root Test
	}{
		{"a = :s", Test{Op: Equal, Operands: []Operand{attribute("a"), constant(values[":s"])}}},
		{"a = a", Test{Op: Equal, Operands: []Operand{attribute("a"), attribute("a")}}},
		{"a < :bool", Test{Op: Less, Operands: []Operand{attribute("a"), constant(values[":bool"])}}},
		{"a BETWEEN :n AND :m", Test{Op: Between, Operands: []Operand{attribute("a"), constant(values[":n"]), constant(values[":m"])}}},
		{"attribute_type(a, :type)", Test{Op: HasType, Operands: []Operand{attribute("a"), constant(values[":type"])}}},
		{"attribute_exists(:s)", Test{Op: Exists, Operands: []Operand{constant(values[":s"])}}},
		{"begins_with(a, :n)", Test{Op: BeginsWith, Operands: []Operand{attribute("a"), constant(values[":n"])}}},
		{"begins_with(a)", Test{Op: BeginsWith, Operands: []Operand{attribute("a")}}},
		{"size(:n) = :n", Test{Op: Equal, Operands: []Operand{{Value: values[":n"], Size: true}, constant(values[":n"])}}},
		{"NOT a = :s AND b < :bool", Test{Op: And, Tests: []Test{
			{Op: Not, Tests: []Test{{Op: Equal, Operands: []Operand{attribute("a"), constant(values[":s"])}}}},
			{Op: Less, Operands: []Operand{attribute("b"), constant(values[":bool"])}},
		}}},
		{"attribute_exists(a" + strings.Repeat(".b", 32) + ")", Test{Op: Exists, Operands: []Operand{{Path: long}}}},
		{strings.Repeat("a = :s AND ", 150) + "a = :s", many},
	} {
		parsed, err := ParseCondition(FilterExpression, c.text)
		if err == nil {
			b := new(Bindings)
			for ref, v := range values {
				b.Give(ref, v)
			}
			_, err = parsed.Bind(b)
		}
		want, got := "", ""
		if err != nil {
			want = err.Error()
		}
		if err := NewCondition(c.root).CheckAs(FilterExpression); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60s\n got %s\nwant %s", c.text, got, want)
		}
	}
}

func TestUpdatesOfNodesHaveTheFaultsOfTexts(t *testing.T) {
	s, n := item.String("x"), numberOf(t, "1")
	path := func(name string) item.Path { return item.Path{{Name: name}} }
	for _, c := range []struct {
		text    string
		actions []Action
	}{
		{"SET a = :n + b", []Action{{Set, path("a"), Term{Op: Plus, Args: []Term{{Value: n}, {Path: path("b")}}}}}},
		{"SET a = :n, a = :s", []Action{{Set, path("a"), Term{Value: n}}, {Set, path("a"), Term{Value: s}}}},
		{"SET a = :s + :n", []Action{{Set, path("a"), Term{Op: Plus, Args: []Term{{Value: s}, {Value: n}}}}}},
		{"SET a = if_not_exists(a, a)", []Action{{Set, path("a"), Term{Op: IfNotExists, Path: path("a"), Args: []Term{{Path: path("a")}}}}}},
		{"SET a = list_append(:s, b)", []Action{{Set, path("a"), Term{Op: ListAppend, Args: []Term{{Value: s}, {Path: path("b")}}}}}},
		{"ADD a :s", []Action{{Add, path("a"), Term{Value: s}}}},
		{"DELETE a :n", []Action{{Delete, path("a"), Term{Value: n}}}},
		{"REMOVE a, b", []Action{{Verb: Remove, Path: path("a")}, {Verb: Remove, Path: path("b")}}},
	} {
		parsed, err := ParseUpdate(c.text)
		if err == nil {
			b := new(Bindings)
			b.Give(":s", s)
			b.Give(":n", n)
			_, err = parsed.Bind(b)
		}
		want, got := "", ""
		if err != nil {
			want = err.Error()
		}
		if err := (&Update{Actions: c.actions}).CheckExpression(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, want)
		}
	}
}

// Nodes that no text can have are rejected: evaluating what is accepted does not panic.
func TestNodesOfAnyForm(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	values := []item.Value{nil, item.String("x"), numberOf(t, "1"), item.Bool(true), item.Set(item.SS, item.String("x"))}
	paths := []item.Path{nil, {}, {{Name: "a"}}, {{Name: "a"}, {Index: 1, IsIndex: true}}, {{IsIndex: true}}, {{Name: "b"}, {Name: "c"}}}
	var test func(depth int) Test
	test = func(depth int) Test {
		out := Test{Op: Op(r.IntN(int(opCall) + 2))}
		if depth > 0 {
			for range r.IntN(3) {
				out.Tests = append(out.Tests, test(depth-1))
			}
		}
		if len(out.Tests) == 0 || r.IntN(4) == 0 {
			for range r.IntN(4) {
				out.Operands = append(out.Operands, Operand{Path: paths[r.IntN(len(paths))], Value: values[r.IntN(len(values))], Size: r.IntN(4) == 0})
			}
		}
		return out
	}
	var term func(depth int) Term
	term = func(depth int) Term {
		out := Term{Path: paths[r.IntN(len(paths))], Value: values[r.IntN(len(values))]}
		if depth > 0 && r.IntN(2) == 0 {
			out.Op = []Op{Plus, Minus, ListAppend, IfNotExists, And}[r.IntN(5)]
			for range r.IntN(4) {
				out.Args = append(out.Args, term(depth-1))
			}
		}
		return out
	}
	it := item.Make(map[string]item.Value{"a": item.String("x"), "b": numberOf(t, "2")})
	accepted := 0
	for range 20_000 {
		c := NewCondition(test(2))
		if c.CheckAs(ConditionExpression) == nil {
			accepted++
			c.Holds(it)
			c.Paths()
		}
		u := &Update{Actions: []Action{{Verb: Verb(r.IntN(6)), Path: paths[r.IntN(len(paths))], Term: term(2)}}}
		if u.CheckExpression() == nil {
			accepted++
			_, _ = u.Apply(it)
			_, _ = u.UpdatedNew(it)
		}
		k := NewKeyCondition(test(1))
		if k.CheckAs(KeyConditionExpression) == nil {
			_ = k.Check()
		}
	}
	if accepted == 0 {
		t.Error("nothing was accepted")
	}
}

func TestBytesOfNodesDiffer(t *testing.T) {
	eq := func(name, value string) *Condition {
		return NewCondition(Test{Op: Equal, Operands: []Operand{attribute(name), constant(item.String(value))}})
	}
	if !bytes.Equal(eq("a", "b").AppendTo(nil), eq("a", "b").AppendTo(nil)) {
		t.Error("the same nodes have other bytes")
	}
	set := func(name string) *Update {
		return &Update{Actions: []Action{{Set, item.Path{{Name: name}}, Term{Value: item.String("v")}}}}
	}
	var none *Condition
	all := [][]byte{eq("a", "b").AppendTo(nil), eq("ab", "").AppendTo(nil), eq("a", "c").AppendTo(nil), none.AppendTo(nil), set("a").AppendTo(nil), set("b").AppendTo(nil)}
	for i := range all {
		for j := range i {
			if bytes.Equal(all[i], all[j]) {
				t.Errorf("%d and %d have the same bytes", i, j)
			}
		}
	}
}

// A sum has two operands that are not sums, as in a text.
func TestCompiledSumsAreNotNested(t *testing.T) {
	one := Term{Value: item.AppendNumber(nil, item.Number{})}
	sum := Term{Op: Plus, Args: []Term{one, one}}
	update := func(t Term) *Update {
		return &Update{Actions: []Action{{Verb: Set, Path: item.Path{{Name: "a"}}, Term: t}}}
	}
	if err := update(sum).CheckExpression(); err != nil {
		t.Error(err)
	}
	for _, nested := range []Term{
		{Op: Plus, Args: []Term{sum, one}},
		{Op: Minus, Args: []Term{one, sum}},
		{Op: IfNotExists, Path: item.Path{{Name: "b"}}, Args: []Term{sum}},
	} {
		if err := update(nested).CheckExpression(); err == nil {
			t.Errorf("%s of a sum is accepted", nested.Op)
		}
	}
}
