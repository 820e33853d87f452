package item

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSizeOfNumber(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     int
	}{
		{"zero is one byte", "0", 1},
		{"one digit is one byte more", "7", 2},
		{"two digits share a byte", "42", 2},
		{"three digits need two", "123", 3},
		{"a minus is one byte", "-123", 4},
		{"trailing zeros are free", "12000", 2},
		{"zeros in the middle are not", "10001", 4},
		{"leading zeros of a fraction are free", "0.0005", 2},
		{"both sides of the point round up", "1.5", 3},
		{"both sides of the point round up, with three digits each", "123.456", 5},
		{"zeros after the point count before a digit", "1.005", 4},
		{"38 digits before the point are 19 bytes", strings.Repeat("9", 38), 20},
		{"38 digits, 19 on each side, are 20 bytes", strings.Repeat("9", 19) + "." + strings.Repeat("9", 19), 21},
		{"the largest a number can be", "-" + strings.Repeat("9", 19) + "." + strings.Repeat("9", 19), 22},
		{"an exponent is free", "1e125", 2},
		{"a negative exponent is free", "-1e-130", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Num(mustParse(t, c.in)).Size(); got != c.want {
				t.Errorf("%s has %d bytes, want %d", c.in, got, c.want)
			}
		})
	}
}

func TestSizeOfValue(t *testing.T) {
	num := func(text string) Value { return Num(mustParse(t, text)) }
	for _, c := range []struct {
		name string
		in   Value
		want int
	}{
		{"an empty string is nothing", String(""), 0},
		{"a string is its bytes, not its characters", String("aé"), 3},
		{"a binary is its bytes", Binary([]byte{0, 1, 2}), 3},
		{"a boolean is one byte", Bool(false), 1},
		{"a null is one byte", Null(), 1},
		{"a string set is its members", Set(SS, String("ab"), String("c")), 3},
		{"a number set is its members", Set(NS, num("1"), num("-2")), 2 + 3},
		{"a binary set is its members", Set(BS, Binary([]byte("ab")), Binary(nil)), 2},
		{"an empty list is three bytes", List(), 3},
		{"a list has one byte for each element", List(Null(), Null()), 3 + 2 + 2},
		{"an empty map is three bytes", Map(nil), 3},
		{"a map has one byte for each entry in addition to its name", Map(Make(map[string]Value{"ab": String("cde")})), 3 + 1 + 2 + 3},
		{"containers add up", List(List(List())), 3 + 1 + 3 + 1 + 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.in.Size(); got != c.want {
				t.Errorf("%v has %d bytes, want %d", c.in, got, c.want)
			}
		})
	}
}

func TestSizeOfItem(t *testing.T) {
	if got := Item(nil).Size(); got != 0 {
		t.Errorf("an absent item has %d bytes", got)
	}
	it := Make(map[string]Value{"id": String("1"), "größe": Num(mustParse(t, "-12.5")), "l": List(Bool(true))})
	if got, want := it.Size(), (2+1)+(7+4)+(1+3+1+1); got != want {
		t.Errorf("the item has %d bytes, want %d", got, want)
	}
}

// The size of a number is that of its digits as they are written.
func TestSizeOfAnyNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := randomNumber(t)
		text := n.String()
		want := 1
		if rest, minus := strings.CutPrefix(text, "-"); minus {
			text = rest
			want++
		}
		whole, fraction, _ := strings.Cut(text, ".")
		if fraction == "" {
			whole = strings.TrimRight(whole, "0")
		}
		if whole = strings.TrimLeft(whole, "0"); whole == "" {
			fraction = strings.TrimLeft(fraction, "0")
		}
		want += (len(whole)+1)/2 + (len(fraction)+1)/2
		if got := Num(n).Size(); got != want {
			t.Errorf("%v has %d bytes, want %d", n, got, want)
		}
	})
}

func TestSizeBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := Make(randomAttributes(t, 4))
		if size, bound := it.Size(), it.SizeBound(); size > bound {
			t.Errorf("an item of size %d has the bound %d: %v", size, bound, it)
		}
	})
}
