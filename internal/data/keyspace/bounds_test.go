package keyspace

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// holds evaluates a bound value by value.
func (b Bound) holds(sorts []item.Value) bool {
	for i, v := range b.Equals {
		if !item.Equal(sorts[i], v) {
			return false
		}
	}
	if len(b.Values) == 0 {
		return true
	}
	v, by := sorts[len(b.Equals)], item.Compare(sorts[len(b.Equals)], b.Values[0])
	switch b.Op {
	case Equal:
		return by == 0
	case Less:
		return by < 0
	case LessOrEqual:
		return by <= 0
	case Greater:
		return by > 0
	case GreaterOrEqual:
		return by >= 0
	case Between:
		above := by > 0 || by == 0 && !b.OpenLow
		by = item.Compare(v, b.Values[1])
		return above && (by < 0 || by == 0 && !b.OpenHigh)
	}
	return bytes.HasPrefix(v.Bytes(), b.Values[0].Bytes())
}

// A bound's span holds exactly the keys that it should, in a table and in an
// index whose sort key has several attributes.
func TestSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// An index x over a table without a sort key: the item's own key
		// follows the sort key.
		base := table(0)
		x := &schema.Index{ID: 1, Key: schema.Key{Partition: []schema.Attribute{attribute("x", item.S)}}}
		of := make([]item.Type, rapid.IntRange(1, 4).Draw(t, "attributes"))
		for i := range of {
			of[i] = rapid.SampledFrom([]item.Type{item.S, item.N, item.B}).Draw(t, "type")
			x.Key.Sort = append(x.Key.Sort, attribute(fmt.Sprint("s", i), of[i]))
		}
		draw := func(n int) []item.Value {
			values := make([]item.Value, n)
			for i := range values {
				values[i] = randomSort(t, of[i])
			}
			return values
		}

		b := Bound{Equals: draw(rapid.IntRange(0, len(of)-1).Draw(t, "equals"))}
		next := of[len(b.Equals)]
		if rapid.IntRange(0, 9).Draw(t, "compared") > 0 {
			last := BeginsWith
			if next == item.N {
				last = Between
			}
			b.Op = Op(rapid.IntRange(int(Equal), int(last)).Draw(t, "op"))
			b.Values = append(b.Values, randomSort(t, next))
			if b.Op == Between {
				b.Values = append(b.Values, randomSort(t, next))
				b.OpenLow = rapid.Bool().Draw(t, "open low")
				b.OpenHigh = rapid.Bool().Draw(t, "open high")
			}
		}

		partition := item.String("in")
		start, end := b.Span(Partition(nil, base.ID, x.ID, []item.Value{partition}))
		for range 20 {
			sorts := draw(len(of))
			copy(sorts, b.Equals[:rapid.IntRange(0, len(b.Equals)).Draw(t, "alike")])
			if len(b.Values) > 0 && rapid.Bool().Draw(t, "same") {
				sorts[len(b.Equals)] = rapid.SampledFrom(b.Values).Draw(t, "value")
			}
			where := rapid.SampledFrom([]item.Value{partition, partition, partition, item.String("out")}).Draw(t, "partition")
			it := item.Make(map[string]item.Value{"p": randomSort(t, item.S), "x": where})
			for i, v := range sorts {
				it = it.With(fmt.Sprint("s", i), v)
			}
			want := item.Equal(where, partition) && b.holds(sorts)
			if got := within(Entry(nil, base, x, it), start, end); got != want {
				t.Fatalf("%v in bound %+v: %v, want %v", sorts, b, got, want)
			}
			if len(of) == 1 {
				table := table(of[0])
				first, last := b.Span(Partition(nil, table.ID, 0, []item.Value{partition}))
				if got := within(Item(nil, table, keyed(where, sorts[0])), first, last); got != want {
					t.Fatalf("%v in bound %+v of a table: %v, want %v", sorts, b, got, want)
				}
			}
		}
	})
}

// Span does not change the prefix.
func TestSpanCopies(t *testing.T) {
	prefix := make([]byte, 0, 100)
	prefix = append(prefix, "prefix"...)
	for op := Equal; op <= BeginsWith; op++ {
		b := Bound{Equals: []item.Value{item.String("e")}, Op: op, Values: []item.Value{item.String("a"), item.String("b")}}
		start, end := b.Span(prefix)
		start[0], end[0] = 'x', 'x'
		if rest := prefix[:cap(prefix)]; string(prefix) != "prefix" || rest[len(prefix)] != 0 {
			t.Errorf("operation %d changed the prefix to %q", op, rest)
		}
	}
}

// An unknown comparison is a bug of ours.
func TestUnknownOpPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a span was made")
		}
	}()
	Bound{Op: 99, Values: []item.Value{item.String("a")}}.Span([]byte("p"))
}
