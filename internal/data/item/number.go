package item

import (
	"bytes"
	"math/big"

	"github.com/stator-db/stator/internal/apierror"
)

// MaxDigits is how many significant digits a number may have.
const MaxDigits = 38

// The smallest and the largest exponent of a number 0.d1d2d3… × 10^exponent.
const (
	minExponent = -129
	maxExponent = 126
)

// Number is a decimal number of up to 38 significant digits. The zero Number
// is 0.
type Number struct {
	digits   [MaxDigits]byte // 0 to 9, the first and the last not zero
	count    int
	exponent int // the value is 0.digits × 10^exponent
	negative bool
}

// ParseNumber reads a number as customers write it: a sign, digits with at
// most one point, an exponent.
func ParseNumber[T string | []byte](text T) (Number, error) {
	var n Number
	if len(text) == 0 {
		return n, apierror.InvalidNumber("The parameter cannot be converted to a numeric value")
	}
	bad := func() (Number, error) {
		return Number{}, apierror.InvalidNumber("The parameter cannot be converted to a numeric value: %s", string(text))
	}
	i := 0
	if text[i] == '+' || text[i] == '-' {
		n.negative = text[i] == '-'
		i++
	}
	seen, point := 0, -1 // digits read; how many of them precede the point
	leading := 0         // zeros before the first significant digit
	significant, zeros := 0, 0
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' {
			if point >= 0 {
				return bad()
			}
			point = seen
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		seen++
		switch {
		case c != '0':
			significant += zeros // zeros in the middle count
			for ; zeros > 0; zeros-- {
				n.push(0, significant-zeros)
			}
			n.push(c-'0', significant)
			significant++
		case significant == 0:
			leading++
		default:
			zeros++
		}
	}
	if seen == 0 {
		return bad()
	}
	if point < 0 {
		point = seen
	}
	exp, ok := parseExponent(text[i:])
	if !ok {
		return bad()
	}
	if significant == 0 {
		// The service limits the exponent of a zero as well: that of its last digit.
		n.exponent = 1 + exp - (seen - point)
		return Number{}, n.inRange()
	}
	if significant > MaxDigits {
		return Number{}, apierror.InvalidNumber("Attempting to store more than 38 significant digits in a Number")
	}
	n.count = significant
	n.exponent = point - leading + exp
	return n, n.inRange()
}

// push stores the digit at a position, if it is within MaxDigits.
func (n *Number) push(digit byte, position int) {
	if position < MaxDigits {
		n.digits[position] = digit
	}
}

// parseExponent reads e+12 at the end of a number. It clamps exponents far
// out of range, so that a long one costs nothing.
func parseExponent[T string | []byte](text T) (int, bool) {
	if len(text) == 0 {
		return 0, true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	i, sign := 1, 1
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		if text[i] == '-' {
			sign = -1
		}
		i++
	}
	if i == len(text) {
		return 0, false
	}
	exp := 0
	for ; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		if exp < 1<<40 {
			exp = exp*10 + int(text[i]-'0')
		}
	}
	return sign * exp, true
}

func (n Number) inRange() error {
	if n.exponent > maxExponent {
		return apierror.InvalidNumber("Number overflow. Attempting to store a number with magnitude larger than supported range")
	}
	if n.exponent < minExponent {
		return apierror.InvalidNumber("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	}
	return nil
}

// Int64 returns the number without its fraction. It is not ok if the number
// has too many digits.
func (n Number) Int64() (value int64, ok bool) {
	if n.exponent > 18 {
		return 0, false
	}
	for i := range max(0, n.exponent) {
		value *= 10
		if i < n.count {
			value += int64(n.digits[i])
		}
	}
	if n.negative {
		value = -value
	}
	return value, true
}

// IsZero reports whether the number is 0.
func (n Number) IsZero() bool { return n.count == 0 }

// String is the number in plain digits, without an exponent.
func (n Number) String() string { return string(n.AppendText(nil)) }

// AppendText appends the number in plain digits.
func (n Number) AppendText(dst []byte) []byte {
	if n.count == 0 {
		return append(dst, '0')
	}
	if n.negative {
		dst = append(dst, '-')
	}
	if n.exponent <= 0 {
		dst = append(dst, '0', '.')
		for range -n.exponent {
			dst = append(dst, '0')
		}
	}
	for i := range max(n.count, n.exponent) {
		if i == n.exponent && i > 0 {
			dst = append(dst, '.')
		}
		if i < n.count {
			dst = append(dst, '0'+n.digits[i])
		} else {
			dst = append(dst, '0')
		}
	}
	return dst
}

// The sortable form of a number begins with its sign.
const (
	signNegative = 1
	signZero     = 2
	signPositive = 3
)

// appendSortable appends bytes that compare as the numbers do: the sign, the
// exponent, two digits to a byte, an end mark. A negative number's are
// complemented.
func (n Number) appendSortable(dst []byte) []byte {
	if n.count == 0 {
		return append(dst, signZero)
	}
	sign, flip := byte(signPositive), byte(0)
	if n.negative {
		sign, flip = signNegative, 0xff
	}
	dst = append(dst, sign, byte(n.exponent-minExponent)^flip)
	for i := 0; i < n.count; i += 2 {
		pair := n.digits[i] * 10
		if i+1 < n.count {
			pair += n.digits[i+1]
		}
		dst = append(dst, (pair+1)^flip) // 1 to 100: the end mark 0 sorts first
	}
	return append(dst, flip)
}

func decodeNumber(b []byte) Number {
	var n Number
	if b[0] == signZero {
		return n
	}
	flip := byte(0)
	if b[0] == signNegative {
		n.negative, flip = true, 0xff
	}
	n.exponent = int(b[1]^flip) + minExponent
	for _, c := range b[2 : len(b)-1] {
		pair := (c ^ flip) - 1
		n.digits[n.count], n.digits[n.count+1] = pair/10, pair%10
		n.count += 2
	}
	if n.digits[n.count-1] == 0 {
		n.count--
	}
	return n
}

// sizeOfNumber is the size of a number, given in its sortable form: one byte,
// half of the significant digits before the point and half of those after it,
// each rounded up, and one for a minus sign.
func sizeOfNumber(b []byte) int {
	if b[0] == signZero {
		return 1
	}
	flip, size := byte(0), 1
	if b[0] == signNegative {
		flip, size = 0xff, 2
	}
	count := 2 * (len(b) - 3)
	if last := (b[len(b)-2] ^ flip) - 1; last%10 == 0 {
		count--
	}
	whole := min(max(int(b[1]^flip)+minExponent, 0), count)
	return size + (whole+1)/2 + (count-whole+1)/2
}

// AppendNumberText appends the content of an N in plain digits, as
// Number().AppendText does.
func (v Value) AppendNumberText(dst []byte) []byte {
	b := v[2:]
	if b[0] == signZero {
		return append(dst, '0')
	}
	flip := byte(0)
	if b[0] == signNegative {
		flip = 0xff
		dst = append(dst, '-')
	}
	exponent := int(b[1]^flip) + minExponent // how many digits precede the point
	if exponent <= 0 {
		dst = append(dst, '0', '.')
		for ; exponent < 0; exponent++ {
			dst = append(dst, '0')
		}
		exponent = -1 // the point is written
	}
	pairs := b[2 : len(b)-1]
	for i, c := range pairs {
		pair := (c ^ flip) - 1
		if exponent == 0 {
			dst = append(dst, '.')
		}
		dst = append(dst, '0'+pair/10)
		exponent--
		if i == len(pairs)-1 && pair%10 == 0 {
			break // a number ends with a digit that is not zero
		}
		if exponent == 0 {
			dst = append(dst, '.')
		}
		dst = append(dst, '0'+pair%10)
		exponent--
	}
	for ; exponent > 0; exponent-- {
		dst = append(dst, '0')
	}
	return dst
}

// Cmp returns -1, 0 or 1 if n is less than, equal to or greater than b.
func (n Number) Cmp(b Number) int {
	var x, y [2 + MaxDigits/2 + 1]byte
	return bytes.Compare(n.appendSortable(x[:0]), b.appendSortable(y[:0]))
}

// Neg returns the number with the opposite sign.
func (n Number) Neg() Number {
	n.negative = !n.negative && n.count > 0
	return n
}

// Add returns the sum of two numbers. It fails if the sum needs more than 38
// digits or is out of range.
func (n Number) Add(b Number) (Number, error) {
	low := min(n.exponent-n.count, b.exponent-b.count)
	if x, ok := n.small(low); ok {
		if y, ok := b.small(low); ok {
			sum := fromSmall(x+y, low)
			return sum, sum.inRange()
		}
	}
	sum := n.scaled(low)
	sum.Add(sum, b.scaled(low))
	return fromScaled(sum, low)
}

// Sub returns the difference of two numbers, with the errors of Add.
func (n Number) Sub(b Number) (Number, error) { return n.Add(b.Neg()) }

// small is the number as an integer times 10^low, if that has no more than 18
// digits: two of them can be added without overflow.
func (n Number) small(low int) (v int64, ok bool) {
	if n.count == 0 {
		return 0, true
	}
	digits := n.exponent - low
	if digits > 18 {
		return 0, false
	}
	for i := range digits {
		v *= 10
		if i < n.count {
			v += int64(n.digits[i])
		}
	}
	if n.negative {
		v = -v
	}
	return v, true
}

// fromSmall is v times 10^low, which may be out of range.
func fromSmall(v int64, low int) Number {
	var n Number
	if v == 0 {
		return n
	}
	if v < 0 {
		n.negative, v = true, -v
	}
	for v%10 == 0 {
		v /= 10
		low++
	}
	for rest := v; rest > 0; rest /= 10 {
		n.count++
	}
	n.exponent = n.count + low
	for i := n.count - 1; i >= 0; i-- {
		n.digits[i] = byte(v % 10)
		v /= 10
	}
	return n
}

// scaled is the number as an integer times 10^low.
func (n Number) scaled(low int) *big.Int {
	if n.count == 0 {
		return new(big.Int)
	}
	var text [MaxDigits]byte
	for i := range n.count {
		text[i] = '0' + n.digits[i]
	}
	v, _ := new(big.Int).SetString(string(text[:n.count]), 10)
	if shift := n.exponent - n.count - low; shift > 0 {
		v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(shift)), nil))
	}
	if n.negative {
		v.Neg(v)
	}
	return v
}

func fromScaled(v *big.Int, low int) (Number, error) {
	var n Number
	if v.Sign() == 0 {
		return n, nil
	}
	n.negative = v.Sign() < 0
	text := new(big.Int).Abs(v).Append(nil, 10)
	n.exponent = len(text) + low
	text = bytes.TrimRight(text, "0")
	if len(text) > MaxDigits {
		return Number{}, apierror.InvalidNumber("Attempting to store more than 38 significant digits in a Number")
	}
	n.count = len(text)
	for i, c := range text {
		n.digits[i] = c - '0'
	}
	return n, n.inRange()
}
