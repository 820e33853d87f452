package item

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// randomNumber draws a number in any notation.
func randomNumber(t *rapid.T) Number {
	n, err := ParseNumber(randomNumeral(t))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// randomNumeral draws a text that is a number within the range.
func randomNumeral(t *rapid.T) string {
	digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, "digits")
	point := rapid.IntRange(0, len(digits)).Draw(t, "point")
	exponent := rapid.OneOf(rapid.IntRange(-5, 5), rapid.IntRange(-91, 87)).Draw(t, "exponent")
	sign := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "sign")
	return fmt.Sprintf("%s%s.%se%d", sign, digits[:point], digits[point:], exponent)
}

func randomName(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "c", "ab", "é"}), rapid.StringN(0, 200, 300)).Draw(t, "name")
}

// randomScalar draws an S, an N or a B.
func randomScalar(t *rapid.T, of Type) Value {
	switch of {
	case S:
		return String(randomName(t))
	case N:
		return Num(randomNumber(t))
	}
	return Binary(rapid.SliceOfN(rapid.Byte(), 0, 150).Draw(t, "bytes"))
}

// randomValue draws a value of any type with up to depth levels below it.
func randomValue(t *rapid.T, depth int) Value {
	last := L - 1
	if depth > 0 {
		last = M
	}
	of := Type(rapid.IntRange(int(S), int(last)).Draw(t, "type"))
	switch of {
	case BOOL:
		return Bool(rapid.Bool().Draw(t, "bool"))
	case NULL:
		return Null()
	case SS, NS, BS:
		members := make([]Value, rapid.IntRange(1, 4).Draw(t, "members"))
		for i := range members {
			members[i] = randomScalar(t, of.Member())
		}
		return Set(of, members...)
	case L:
		elements := make([]Value, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range elements {
			elements[i] = randomValue(t, depth-1)
		}
		return List(elements...)
	case M:
		return Map(Make(randomAttributes(t, depth-1)))
	}
	return randomScalar(t, of)
}

func randomAttributes(t *rapid.T, depth int) map[string]Value {
	attrs := make(map[string]Value)
	for range rapid.IntRange(0, 5).Draw(t, "attributes") {
		attrs[randomName(t)] = randomValue(t, depth)
	}
	return attrs
}

// rebuilt takes a value apart and makes it again from its parts.
func rebuilt(v Value) Value {
	switch v.Type() {
	case S:
		return String(string(v.Bytes()))
	case N:
		return Num(v.Number())
	case B:
		return Binary(v.Bytes())
	case BOOL:
		return Bool(v.Bool())
	case NULL:
		return Null()
	case M:
		return Map(rebuiltItem(v.Item()))
	}
	elements := slices.Collect(v.Elements())
	for i, e := range elements {
		elements[i] = rebuilt(e)
	}
	if v.Type() == L {
		return List(elements...)
	}
	return Set(v.Type(), elements...)
}

func rebuiltItem(it Item) Item {
	attrs := maps.Collect(it.All())
	for name, v := range attrs {
		attrs[name] = rebuilt(v)
	}
	return Make(attrs)
}

func mustParse(t testing.TB, text string) Number {
	t.Helper()
	n, err := ParseNumber(text)
	if err != nil {
		t.Fatalf("ParseNumber(%q): %v", text, err)
	}
	return n
}
