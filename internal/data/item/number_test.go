package item

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	tooManyDigits = "Attempting to store more than 38 significant digits in a Number"
	overflow      = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	underflow     = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
	notANumber    = "The parameter cannot be converted to a numeric value"
)

func TestParseNumber(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for _, c := range []struct{ name, in, want string }{
		{"a digit is a number", "5", "5"},
		{"a plus is dropped", "+5", "5"},
		{"a minus is kept", "-7", "-7"},
		{"the part before the point may be missing", ".5", "0.5"},
		{"the part after the point may be missing", "5.", "5"},
		{"both signs of an exponent are read", "1E+2", "100"},
		{"a negative exponent moves the point to the left", "12e-3", "0.012"},
		{"an exponent may move the point into the digits", "123.45e1", "1234.5"},
		{"an exponent may begin with zeros", "1e002", "100"},
		{"trailing zeros are dropped", "1.500", "1.5"},
		{"leading zeros are dropped", "007", "7"},
		{"zeros at both ends of a fraction are dropped", "000.0500", "0.05"},
		{"zeros in the middle are kept", "1002.003", "1002.003"},
		{"the zeros of an integer are kept", "1200", "1200"},
		{"zero has one form", "0000.000", "0"},
		{"zero has no sign", "-0", "0"},
		{"zero has no sign with a fraction", "-0.0e5", "0"},
		{"zero may have the largest exponent", "0e125", "0"},
		{"a fraction lowers the exponent of zero", "0.00e127", "0"},
		{"zero may have the smallest exponent", "-0e-130", "0"},
		{"a point with a zero is zero", ".0", "0"},
		{"38 digits fit", nines, nines},
		{"38 digits fit around a point", nines[:19] + "." + nines[19:], nines[:19] + "." + nines[19:]},
		{"zeros at the end are not significant", nines + "000", nines + "000"},
		{"zeros at the beginning are not significant", "000." + "000" + nines, "0.000" + nines},
		{"the largest fits", "9." + nines[:37] + "E125", nines + strings.Repeat("0", 88)},
		{"the smallest fits", "1E-130", "0." + strings.Repeat("0", 129) + "1"},
		{"the smallest with many digits fits", "1." + nines[:37] + "E-130", "0." + strings.Repeat("0", 129) + "1" + nines[:37]},
		{"the lowest fits", "-9.9E125", "-99" + strings.Repeat("0", 124)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseNumber(c.in)
			if err != nil || got.String() != c.want {
				t.Errorf("ParseNumber(%q) = %v, %v, want %s", c.in, got, err, c.want)
			}
			if again := mustParse(t, got.String()); again != got {
				t.Errorf("%q is read back as %v", got.String(), again)
			}
		})
	}
}

func TestParseNumberRejects(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", notANumber},
		{"a point alone", ".", notANumber + ": ."},
		{"a sign alone", "-", notANumber + ": -"},
		{"an exponent alone", "+e2", notANumber + ": +e2"},
		{"two points", "1.2.3", notANumber + ": 1.2.3"},
		{"two signs", "--1", notANumber + ": --1"},
		{"a space before", " 5", notANumber + ":  5"},
		{"a space after", "5 ", notANumber + ": 5 "},
		{"a word", "NaN", notANumber + ": NaN"},
		{"infinity", "Infinity", notANumber + ": Infinity"},
		{"an exponent without digits", "1e", notANumber + ": 1e"},
		{"an exponent with a sign but no digits", "1e+", notANumber + ": 1e+"},
		{"an exponent with a point", "1e2.0", notANumber + ": 1e2.0"},
		{"two exponents", "1e2e3", notANumber + ": 1e2e3"},
		{"other letters", "0x10", notANumber + ": 0x10"},
		{"a separator", "1_000", notANumber + ": 1_000"},
		{"a zero byte", "1\x00", notANumber + ": 1\x00"},
		{"digits of another script", "１", notANumber + ": １"},
		{"39 digits", strings.Repeat("1", 39), tooManyDigits},
		{"39 digits around a point", "1." + strings.Repeat("0", 37) + "1", tooManyDigits},
		{"more than the largest", "1E126", overflow},
		{"less than the lowest", "-1E126", overflow},
		{"less than the smallest", "9.9E-131", underflow},
		{"more than the largest negative", "-1E-131", underflow},
		{"zero with a larger exponent", "0e126", overflow},
		{"zero with a smaller exponent", "0e-131", underflow},
		{"zero with a fraction and a smaller exponent", "0.0e-130", underflow},
		{"zero with an endless exponent", "0e" + strings.Repeat("9", 1000), overflow},
		{"an endless exponent", "1E" + strings.Repeat("9", 1000), overflow},
		{"an endless negative exponent", "1E-" + strings.Repeat("9", 1000), underflow},
		{"a word with a percent sign", "%d%s", notANumber + ": %d%s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseNumber([]byte(c.in))
			if err == nil || err.Error() != "ValidationException: "+c.want {
				t.Errorf("ParseNumber(%q) gives the error %v, want %s", c.in, err, c.want)
			}
		})
	}
}

// A number costs what its text costs, however large it would be.
func TestParseNumberIsCheap(t *testing.T) {
	for _, text := range []string{"1E999999999", "-1e-999999999999999999", strings.Repeat("0", 1<<16), "1" + strings.Repeat("0", 1<<16) + "1", "0." + strings.Repeat("0", 1<<16) + "1"} {
		start := time.Now()
		_, _ = ParseNumber(text)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("a text of %d bytes took %v", len(text), took)
		}
	}
}

// Whatever is read as a number is the number that its text means.
func FuzzParseNumber(f *testing.F) {
	for _, text := range []string{"0", "-1.5e3", ".5", "5.", "1E-130", "9.9E125", "1e", "", "1002.003", "-0", "+e2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseNumber(text)
		if err != nil {
			return
		}
		if want := rational(t, text); rational(t, n.String()).Cmp(want) != 0 {
			t.Fatalf("ParseNumber(%q) = %v", text, n)
		}
		if again := mustParse(t, n.String()); again != n {
			t.Errorf("%q is read back as %v", n.String(), again)
		}
		if stored := Num(n); stored.Number() != n || !checkNumber(stored[2:]) {
			t.Errorf("%v is stored as %x, and read back as %v", n, []byte(stored), stored.Number())
		}
		if n.IsZero() != (n.String() == "0") {
			t.Errorf("%v.IsZero() = %v", n, n.IsZero())
		}
	})
}

// rational parses a number with math/big.
func rational(t interface{ Fatalf(string, ...any) }, text string) *big.Rat {
	if mantissa, _, _ := strings.Cut(strings.ToLower(text), "e"); strings.Trim(mantissa, "+-0.") == "" {
		return new(big.Rat)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("math/big does not parse %q", text)
	}
	return r
}

// Numbers sort by their bytes as they do by their value, and have one form.
func TestNumberOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := randomNumeral(t), randomNumeral(t)
		a, b := Num(mustNumber(t, x)), Num(mustNumber(t, y))
		want := rational(t, x).Cmp(rational(t, y))
		if got := bytes.Compare(a.Sortable(), b.Sortable()); got != want {
			t.Errorf("%s and %s compare as %d, want %d", x, y, got, want)
		}
		if got := a.Number().Cmp(b.Number()); got != want {
			t.Errorf("Cmp of %s and %s is %d, want %d", x, y, got, want)
		}
		if Equal(a, b) != (want == 0) {
			t.Errorf("%s and %s: Equal is %v", x, y, Equal(a, b))
		}
		if bytes.HasPrefix(a.Sortable(), b.Sortable()) && want != 0 {
			t.Errorf("the form of %s begins with that of %s", x, y)
		}
	})
}

func mustNumber(t *rapid.T, text string) Number {
	n, err := ParseNumber(text)
	if err != nil {
		t.Fatalf("ParseNumber(%q): %v", text, err)
	}
	return n
}

// Neighbours at the edges of the form, where random numbers seldom fall.
func TestNumberOrderAtTheEdges(t *testing.T) {
	nines := strings.Repeat("9", 38)
	texts := []string{
		"-" + nines + "e88", "-1e125", "-100.01", "-100", "-99.9", "-10", "-9.99", "-9.9", "-9", "-1.01", "-1", "-0.1", "-0.09", "-1.01e-130", "-1e-130",
		"0",
		"1e-130", "1.01e-130", "0.09", "0.1", "1", "1.01", "9", "9.9", "9.99", "10", "99.9", "100", "100.01", "1e125", nines + "e88",
	}
	for i, x := range texts {
		for j, y := range texts {
			a, b := mustParse(t, x), mustParse(t, y)
			if got := a.Cmp(b); got != cmp.Compare(i, j) {
				t.Errorf("Cmp of %s and %s is %d", x, y, got)
			}
		}
	}
}

// A sum or a difference is exact, or an error that names the reason.
func TestNumberArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := randomNumeral(t), randomNumeral(t)
		if rapid.Bool().Draw(t, "close") {
			// Mostly the same digits, so that many of them cancel out.
			y = x + rapid.StringMatching(`[0-2]`).Draw(t, "more")
			if _, err := ParseNumber(y); err != nil {
				y = x
			}
		}
		a, b := mustNumber(t, x), mustNumber(t, y)
		sum, err := a.Add(b)
		checkResult(t, x+" + "+y, sum, err, new(big.Rat).Add(rational(t, x), rational(t, y)))
		difference, err := a.Sub(b)
		checkResult(t, x+" - "+y, difference, err, new(big.Rat).Sub(rational(t, x), rational(t, y)))
		if back := a.Neg().Neg(); back != a {
			t.Errorf("the negative of the negative of %s is %v", x, back)
		}
	})
}

func checkResult(t *rapid.T, what string, got Number, err error, want *big.Rat) {
	if err == nil {
		if rational(t, got.String()).Cmp(want) != 0 {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
		if again := mustNumber(t, got.String()); again != got {
			t.Errorf("%s = %#v, which is not in its only form %#v", what, got, again)
		}
		return
	}
	// No sum here has more than 130 digits after the point.
	_, wrong := ParseNumber(want.FloatString(200))
	if wrong == nil || wrong.Error() != err.Error() {
		t.Errorf("%s is rejected with %v, want %v", what, err, wrong)
	}
}

func TestAddAtTheLimits(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for _, c := range []struct{ name, a, b, want, fault string }{
		{"a carry makes the number shorter", nines, "1", "1" + strings.Repeat("0", 38), ""},
		{"a 39th digit is an error", "1" + strings.Repeat("0", 37), "0.1", "", tooManyDigits},
		{"numbers far apart are an error", "1e125", "1e-130", "", tooManyDigits},
		{"a carry out of the range is an error", "9e125", "1e125", "", overflow},
		{"opposites are zero", "-1.5", "1.50", "0", ""},
		{"the difference of close numbers may be too small", "1.1e-130", "-1e-130", "", underflow},
		{"zero adds nothing", "0", "-7", "-7", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mustParse(t, c.a).Add(mustParse(t, c.b))
			switch {
			case c.fault == "" && (err != nil || got.String() != c.want):
				t.Errorf("%s + %s = %v, %v, want %s", c.a, c.b, got, err, c.want)
			case c.fault != "" && (err == nil || err.Error() != "ValidationException: "+c.fault):
				t.Errorf("%s + %s gives the error %v, want %s", c.a, c.b, err, c.fault)
			}
		})
	}
}

// A stored number is written as the number that it is decoded to.
func TestStoredNumberText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := randomNumber(t)
		if got, want := string(Num(n).AppendNumberText([]byte("x"))), "x"+n.String(); got != want {
			t.Errorf("the text is %s, want %s", got, want)
		}
	})
	for _, text := range []string{"0", "1", "10", "100", "12", "120", "123", "1.5", "12.3", "12.34", "0.1", "0.01", "0.12", "-0.123", "-7", "-1000"} {
		n, err := ParseNumber(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(Num(n).AppendNumberText(nil)); got != text {
			t.Errorf("the text is %s, want %s", got, text)
		}
	}
}

// Sums of few digits, which are computed in another way, agree with those of
// many.
func TestSmallSums(t *testing.T) {
	small := rapid.Custom(func(t *rapid.T) Number {
		n, err := ParseNumber(fmt.Sprintf("%de%d", rapid.Int64Range(-1e12, 1e12).Draw(t, "digits"),
			rapid.OneOf(rapid.IntRange(-6, 6), rapid.IntRange(-130, -118), rapid.IntRange(113, 120)).Draw(t, "exponent")))
		if err != nil {
			return Number{}
		}
		return n
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := small.Draw(t, "a"), small.Draw(t, "b")
		low := min(a.exponent-a.count, b.exponent-b.count)
		want, wantErr := fromScaled(new(big.Int).Add(a.scaled(low), b.scaled(low)), low)
		got, err := a.Add(b)
		if got != want && err == nil || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("%v + %v = %v, %v, want %v, %v", a, b, got, err, want, wantErr)
		}
	})
}
