package dax

import (
	"bytes"
	"math"
	"math/big"
	"strconv"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// The tags of numbers.
const (
	tagBig         = 2
	tagBigNegative = 3
	tagDecimal     = 4
)

// number reads an N: an integer, a big integer, a decimal fraction, or the floating-point
// number that JavaScript writes the same way.
func (r *cborReader) number(dst []byte) ([]byte, error) {
	if err := r.numberText(); err != nil {
		return nil, err
	}
	n, err := item.ParseNumber(r.digits)
	if err != nil {
		r.noteFault(err)
		n = item.Number{}
	}
	return item.AppendNumber(dst, n), nil
}

// numberText reads a number into digits, as a text that item.ParseNumber accepts or has the
// right fault for.
func (r *cborReader) numberText() error {
	r.digits = r.digits[:0]
	if r.Kind() == cbor.Float {
		v, bits, err := r.Float()
		if err != nil {
			return err
		}
		r.digits = strconv.AppendFloat(r.digits, v, 'e', -1, bits) // the shortest that means v; NaN is no number
		return nil
	}
	if r.Kind() != cbor.Tag {
		return r.integer()
	}
	ahead := r.Decoder
	if tag, err := ahead.Tag(); err != nil || tag != tagDecimal {
		return r.integer()
	}
	r.Decoder = ahead
	m, err := r.Array()
	if err != nil {
		return err
	}
	if n, ok := m.Count(); !ok || n != 2 {
		return cbor.ErrMalformed
	}
	exponent, err := r.Int()
	if err != nil {
		return err
	}
	if err := r.integer(); err != nil {
		return err
	}
	r.digits = strconv.AppendInt(append(r.digits, 'e'), exponent, 10)
	return nil
}

// maxBigBytes is how many bytes of a big integer are converted: it may have zeros that are
// not significant, but not so many.
const maxBigBytes = 128

// tooManyDigits is a number that item.ParseNumber rejects for its digits.
var tooManyDigits = bytes.Repeat([]byte{'1'}, item.MaxDigits+1)

// integer reads an integer of any size.
func (r *cborReader) integer() error {
	if r.Kind() != cbor.Tag {
		negative, v, err := r.Integer()
		if err != nil {
			return err
		}
		r.appendInteger(negative, v)
		return nil
	}
	tag, err := r.Tag()
	if err != nil {
		return err
	}
	if tag != tagBig && tag != tagBigNegative {
		return cbor.ErrMalformed
	}
	b, err := r.Bytes()
	if err != nil {
		return err
	}
	b = bytes.TrimLeft(b, "\x00")
	if len(b) > maxBigBytes {
		r.digits = append(r.digits, tooManyDigits...)
		return nil
	}
	v := new(big.Int).SetBytes(b)
	if tag == tagBigNegative {
		v.Not(v)
	}
	r.digits = v.Append(r.digits, 10)
	return nil
}

// appendInteger appends v, or -1-v.
func (r *cborReader) appendInteger(negative bool, v uint64) {
	switch {
	case !negative:
		r.digits = strconv.AppendUint(r.digits, v, 10)
	case v == math.MaxUint64:
		r.digits = append(r.digits, "-18446744073709551616"...)
	default:
		r.digits = strconv.AppendUint(append(r.digits, '-'), v+1, 10)
	}
}

// appendNumber appends an N. Integers of up to 64 bits are CBOR integers. All others are
// decimal fractions, an integer with the exponent 0: of these the clients show all digits, as
// DynamoDB does, but of a big integer the JavaScript client shows an exponent.
func appendNumber(dst []byte, v item.Value) []byte {
	var text [192]byte
	n := splitNumber(v.AppendNumberText(text[:0]))
	if n.fraction > 0 {
		dst = cbor.AppendInt(cbor.AppendArray(cbor.AppendTag(dst, tagDecimal), 2), -int64(n.fraction))
		return n.appendInteger(dst)
	}
	if len(n.digits) > 20 || len(n.digits) == 20 && string(n.digits) > "18446744073709551615" {
		dst = cbor.AppendInt(cbor.AppendArray(cbor.AppendTag(dst, tagDecimal), 2), 0)
	}
	return n.appendInteger(dst)
}

// plainNumber is a number as its digits: their last fraction digits follow the point, and
// there may be more of these than digits.
type plainNumber struct {
	digits   []byte // without leading zeros; none for 0
	fraction int
	negative bool
}

// splitNumber takes a number in plain digits apart, and changes the text.
func splitNumber(text []byte) plainNumber {
	var n plainNumber
	if text[0] == '-' {
		n.negative, text = true, text[1:]
	}
	if point := bytes.IndexByte(text, '.'); point >= 0 {
		n.fraction = len(text) - point - 1
		text = append(text[:point], text[point+1:]...)
	}
	n.digits = bytes.TrimLeft(text, "0")
	return n
}

// appendInteger appends the digits as an integer.
func (n plainNumber) appendInteger(dst []byte) []byte {
	if len(n.digits) < 20 || len(n.digits) == 20 && string(n.digits) <= "18446744073709551615" {
		var v uint64
		for _, c := range n.digits {
			v = v*10 + uint64(c-'0')
		}
		if n.negative {
			return cbor.AppendNegative(dst, v-1)
		}
		return cbor.AppendUint(dst, v)
	}
	v, ok := new(big.Int).SetString(string(n.digits), 10)
	if !ok {
		panic("a number has other characters than digits: " + string(n.digits))
	}
	tag := uint64(tagBig)
	if n.negative {
		tag = tagBigNegative
		v.Sub(v, big.NewInt(1))
	}
	return cbor.AppendBytes(cbor.AppendTag(dst, tag), v.Bytes())
}
